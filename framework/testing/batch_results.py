"""Runs rows through a window in memory, for tests of one's own operators, handlers, policies and aggregates.

As in a job, the key group is built for every micro-batch from pickled declarations and stored bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.arrival.policies.registry import require_implementations
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import Rows, Step, Watermark
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.durations import Duration, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.operator import Operator, require_possible_event
from panekeeper.framework.declarations.windows import TimeInterval, Window
from panekeeper.framework.testing.sql import with_conditions
from panekeeper.state.handler import StateHandler
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def batch_results(
    window: Window,
    *batches: Sequence[Mapping[str, Any]],
    partition_by: Sequence[str] = (),
    event_time: str | None = None,
    watermark: Duration = 0,
    operator: Operator | None = None,
    output: pa.Schema | StructType | Mapping[str, Any] | str | None = None,
    handlers: Sequence[StateHandler] = (),
    **aggregates: Aggregate,
) -> list[dict[str, Any]]:
    """Return the result rows of a window, with a restart before every micro-batch: nothing but stored state remains.

    Args:
        window: any window.
        *batches: the micro-batches, each a list of rows; a row is a value for each column. The rows of the n-th batch
            arrive n seconds after the epoch. The watermark moves between two batches: an empty one at the end fires
            what is complete.
        partition_by: the columns of the partition key; none for a window without partitions.
        event_time: the column of times with a zone, for a `TimeInterval`.
        watermark: as of `windowed()`.
        operator: handles the events, in place of aggregates. One that is a `StateHandler` keeps its state.
        output: the columns that it emits, as `.operator(output=)` takes them.
        handlers: further state handlers.
        **aggregates: result column -> aggregate.

    Raises:
        DeclarationError: no row; neither aggregates nor an operator, or both; a time interval without `event_time`; a
            policy or an aggregate that does not fit.
        InputError: a policy or an aggregate raised.
        SetupError: an aggregate has a `where=`, and the extra `panekeeper[testing]` is not installed.
        Exception: what the operator or a handler raised.

    >>> from panekeeper import Count, Tumbling, agg
    >>> batch_results(Tumbling(Count(2)), [{"v": 1}], [{"v": 2}, {"v": 3}], total=agg.sum("v"))[0]["total"]
    3
    """
    if (operator is None) == (not aggregates) or not any(batches):
        raise DeclarationError(
            "batch_results() takes rows, and aggregates, such as n=agg.count(), or an operator with its output"
        )
    if (event_time is None) == isinstance(window, TimeInterval):
        raise DeclarationError(
            f"event_time is {event_time!r}; a TimeInterval needs the column of it, and no other window has one"
        )
    columns = pa.Table.from_pylist([row for batch in batches for row in batch]).schema
    carried = with_conditions(columns.empty_table(), aggregates.values()).schema
    if operator is None:
        emitted = pa.schema([(name, bind(aggregate, carried).output) for name, aggregate in aggregates.items()])
    else:
        require_possible_event(operator, [window], has_handlers=isinstance(operator, StateHandler) or bool(handlers))
        from panekeeper.framework.builder.windowed import output_schema  # imports pyspark, as only this needs

        emitted = output_schema(output)
    spec = JobSpec(
        window=window,
        keys=pa.schema([columns.field(name) for name in partition_by]),
        columns=carried,
        aggregates=aggregates or None,
        operator=operator,
        output=emitted,
        handlers=tuple(one for one in (operator, *handlers) if isinstance(one, StateHandler)),
        on_error="fail",
    )
    if isinstance(window, TimeInterval):
        time, kind = EVENT_TIME, columns.field(str(event_time)).type
        if not pa.types.is_timestamp(kind):
            raise DeclarationError(f"event_time: {event_time!r} is {kind}, not a time, such as a datetime")
    else:
        require_implementations(window)
        time = ARRIVAL_TIME
    from pyspark import cloudpickle  # as the workers get it; not loaded before, so that the other parts need no pyspark

    store, results, latest = MemoryStore(), list[dict[str, Any]](), None
    for number, batch in enumerate(batches):
        spec, store = cloudpickle.loads(cloudpickle.dumps(spec)), store.copy()  # type: ignore[no-untyped-call]
        table = with_conditions(pa.Table.from_pylist(list(batch), schema=columns), aggregates.values())
        times = [(number + 1) * 1_000_000] * table.num_rows
        if event_time is not None:
            times = table.column(event_time).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
        steps: list[Step] = [] if latest is None else [Watermark(latest - to_us(watermark, "watermark"))]
        steps.append(Rows(table.append_column(time, pa.array(times, pa.int64()))))
        checkpoint = BatchCheckpoint(checkpoint=number, group=0, run=number + 1, no_batch_committed=number == 0)
        outcome = KeyGroupRunner(spec, store, checkpoint if spec.handlers else None).run(steps)
        results += [] if outcome.results is None else outcome.results.to_pylist()
        if event_time is not None:
            latest = max([*times, *([] if latest is None else [latest])], default=None)
    return results
