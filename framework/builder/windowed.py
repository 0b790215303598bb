"""`windowed(...)`: from a streaming DataFrame to a running job, one declaration after the other.

    windowed(df, name=..., ...)      where rows come from, which are valid, their time and order
      .window(TimeInterval(...))     which rows are computed on together, and when
      .aggregate(n=agg.count())      what is computed from them; or .operator(MyOperator(), output="...")
      .to_delta(path, view=...)      where results go; or .transform(checkpoint=...) for any other sink
      .start(checkpoint=...)         run it

One operator over the windows of several streams: `ports(...)` in `framework/builder/ports.py`.

Each step checks what it was given and returns a new object; nothing runs before `start()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from panekeeper.framework.builder.inputs import (
    Input,
    build_aggregate_pipeline,
    build_operator_pipeline,
    shares_state_between_partitions,
)
from panekeeper.framework.builder.outputs import Computation
from panekeeper.framework.core.arrival.policies.evaluate import tumbles_at_marks
from panekeeper.framework.core.arrival.policies.registry import require_implementations
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.durations import Duration, days, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.operator import Listener, Operator
from panekeeper.framework.declarations.windows import ArrivalWindow, TimeInterval, Window, columns_of_policies
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.state.handler import StateHandler

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def windowed(  # noqa: PLR0913 -- the declaration of a stream, all by keyword
    df: DataFrame,
    *,
    name: str,
    partition_by: str | Sequence[str] | None = None,
    event_time: str | None = None,
    watermark: Duration = 0,
    arrival_time: str | None = None,
    order_by: str | Sequence[str] | None = None,
    max_ahead: Duration | None = days(1),  # noqa: B008 -- a timedelta does not change
    reject: Mapping[str, str] | None = None,
    on_error: Literal["quarantine", "fail"] | None = None,
    punctuation: str | None = None,
    marks: str | None = None,
    key_groups: int | None = None,
    _marks: bool = False,
) -> WindowedStream:
    """Declare where rows come from: the first step of a job.

    Durations are text such as `"10 minutes"`, a `timedelta`, `minutes(10)`, or seconds as a number.

    Args:
        df: any streaming DataFrame.
        name: names the job, for ever: it is part of its checkpoint and of its transactions.
        partition_by: each value of these columns has windows of its own.
        event_time: the timestamp column with the time at which a row happened. `TimeInterval` needs it.
        watermark: how far event time may lag behind the latest seen before a pane is complete: a duration >= 0.
        arrival_time: the timestamp column with the time at which a row arrived; the time of its micro-batch if not
            given. The clock of `Tumbling`, `Sliding` and `Batched`.
        order_by: columns that declare the order of arrival within a micro-batch; without them it is the order of the
            input files. For windows in arrival order with an `arrival_time=` it begins with that column.
        max_ahead: a row whose event time is further than this duration after its arrival is quarantined, because it
            would close every pane; so is one whose arrival time is so far after its micro-batch, because it would
            move the clock for ever. None for no limit.
        reject: reason -> SQL condition; rows for which it holds are quarantined with that reason.
        on_error: what is done about a bad row, and about a firing that cannot be computed (a function of yours raises,
            a sum is beyond 64 bits). `"quarantine"`: it goes to the quarantine table with the reason, and the job goes
            on. `"fail"`: the first one fails the job. None: quarantine, except that what an operator raises fails a
            job with state handlers (docs/semantics.md section 12).
        punctuation: a SQL condition: a window mark follows each row for which it holds; or `"end_of_file"`: one
            follows each input file, oldest file first. For `Tumbling(Punctuation())`.
        marks: a SQL condition: rows for which it holds are window marks themselves, and join no window.
        key_groups: number of buckets that share out the partitions; the most tasks that can run at once. Fixed
            for the life of a checkpoint. None: as many as the checkpoint has; for a new one, as many as the cluster has
            cores, and at least 8.

    Returns:
        The stream, which takes a window.

    Raises:
        DeclarationError: a column that is not there or has an unfit type, a bad name, rule or duration.
    """
    return WindowedStream(
        Intake(
            df=df,
            name=name,
            partition_by=_as_tuple(partition_by),
            event_time=event_time,
            watermark_us=to_us(watermark, "watermark"),
            arrival_time=arrival_time,
            order_by=_as_tuple(order_by),
            max_ahead_us=None if max_ahead is None else to_us(max_ahead, "max_ahead"),
            reject=dict(reject or {}),
            on_error=on_error,
            punctuation=punctuation,
            marks=marks,
            key_groups=key_groups if partition_by else 1,
            has_mark_column=_marks,
        )
    )


@dataclass(frozen=True)
class WindowedStream:
    """A checked stream without its window. Made by `windowed`."""

    _intake: Intake

    def window(self, window: Window) -> StreamWithWindow:
        """Declare the window: which rows are computed on together, and when.

        Args:
            window: `TimeInterval` for event time; `Tumbling`, `Sliding` or `Batched` for arrival order.

        Returns:
            The stream with its window, which takes a computation.

        Raises:
            DeclarationError: no window, or one that does not fit the stream: it needs an event time, a column that a
                policy reads, partitions that can be evicted, or a `Delta` has a size that its column does not take.
        """
        if not isinstance(window, Window):
            raise DeclarationError(f"window() takes a window such as TimeInterval(hours(1)), not {window!r}")
        if isinstance(window, TimeInterval):
            if self._intake.event_time is None:
                raise DeclarationError("a TimeInterval is a range of event time: give windowed() an event_time column")
            return StreamWithWindow(Input(self._intake, window))
        return StreamWithWindow(Input(self._in_arrival_order(window), window))

    def _in_arrival_order(self, window: ArrivalWindow) -> Intake:
        intake, limit = self._intake, window.partition_eviction
        if limit is not None and not intake.partition_by:
            raise DeclarationError(
                f"partition_eviction is {limit!r}, but the window has no partitions: use partition_by"
            )
        marked = bool(intake.punctuation or intake.marks or intake.has_mark_column)
        require_implementations(window)
        if tumbles_at_marks(window) and not marked:
            raise DeclarationError(
                "Tumbling(Punctuation()) needs marks: give windowed() punctuation='a SQL condition' or 'end_of_file', "
                "or marks='a SQL condition'"
            )
        read = columns_of_policies(window)
        for policy, column in read:
            intake.require(f"the attribute of {policy!r}", [column])
            intake.require_fits(policy, column)
        groups = 1 if shares_state_between_partitions(window) else intake.key_groups
        if intake.arrival_time and intake.order_by and intake.order_by[0] != intake.arrival_time and groups != 1:
            raise DeclarationError(
                f"order_by is {list(intake.order_by)}, but arrival_time={intake.arrival_time!r} is the clock: in "
                "another order the arrival of a row would depend on which keys share a key group. Let order_by begin "
                f"with {intake.arrival_time!r}, or use key_groups=1"
            )
        return replace(intake, numeric_columns=tuple(dict.fromkeys(column for _, column in read)), key_groups=groups)


@dataclass(frozen=True)
class StreamWithWindow:
    """A stream with its window, without its computation. Made by `WindowedStream.window`."""

    _input: Input

    def aggregate(self, **aggregates: Aggregate) -> Computation:
        """Declare the result columns: one aggregate each.

        Args:
            aggregates: result column -> aggregate, as in `worst=agg.max("delay")`.

        Returns:
            The computation, which takes a place for its results.

        Raises:
            DeclarationError: no aggregate, or a column that is missing or has a type that its aggregate does not take.
        """
        if not aggregates:
            raise DeclarationError("aggregate() needs at least one result column, such as n=agg.count()")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise DeclarationError(f"aggregate {name} is {aggregate!r}; use an aggregate such as agg.max('column')")
            self._input.intake.require(f"aggregate {name}={aggregate}", aggregate.columns)
        return build_aggregate_pipeline(self._input, aggregates)

    def operator(
        self,
        operator: Operator,
        *,
        output: pa.Schema | str,
        listeners: Sequence[Listener] = (),
        handlers: Sequence[StateHandler] = (),
    ) -> Computation:
        """Declare the operator that handles the events of the window, and the columns it emits.

        Args:
            operator: an instance; it is sent to the workers, and its events have all columns of the stream.
            output: the emitted columns, as an Arrow schema or as SQL: `"spread double, n bigint"`.
            listeners: receive each event before the operator does, in this order.
            handlers: take part in every checkpoint, in this order; an operator that is a `StateHandler` itself comes
                before them, and the window before all.

        Returns:
            The computation, which takes a place for its results.

        Raises:
            DeclarationError: not instances of the right classes, an operator or listener whose `events` can never
                happen in this window (docs/semantics.md section 5.1), or an output that is no schema.
        """
        return build_operator_pipeline([self._input], operator, output, listeners, handlers)


def _as_tuple(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)
