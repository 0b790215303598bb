"""Runs rows through a window in memory, for tests of one's own policies and aggregates.

As in a job, the key group is built for every micro-batch from pickled declarations and stored bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.arrival.policies.registry import require_implementations
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.windows import TimeInterval, Window
from panekeeper.state.store import MemoryStore


def batch_results(
    window: Window,
    *batches: Sequence[Mapping[str, Any]],
    partition_by: Sequence[str] = (),
    **aggregates: Aggregate,
) -> list[dict[str, Any]]:
    """Return the result rows of a window in arrival order, with a restart before every micro-batch.

    Args:
        window: `Tumbling`, `Sliding` or `Batched`.
        *batches: the micro-batches, each a list of rows; a row is a value for each column. The rows of the n-th batch
            arrive n seconds after the epoch.
        partition_by: the columns of the partition key; none for a window without partitions.
        **aggregates: result column -> aggregate.

    Raises:
        DeclarationError: a time interval, for which `play` is; no row or no aggregate; a policy or an aggregate that
            does not fit.
        InputError: a policy or an aggregate raised.

    >>> from panekeeper import Count, Tumbling, agg
    >>> batch_results(Tumbling(Count(2)), [{"v": 1}], [{"v": 2}, {"v": 3}], total=agg.sum("v"))[0]["total"]
    3
    """
    if isinstance(window, TimeInterval) or not aggregates or not any(batches):
        raise DeclarationError(
            "batch_results() takes a window in arrival order, rows, and an aggregate such as n=agg.count()"
        )
    require_implementations(window)
    columns = pa.Table.from_pylist([row for batch in batches for row in batch]).schema
    spec = JobSpec(
        window=window,
        keys=pa.schema([columns.field(name) for name in partition_by]),
        columns=columns,
        aggregates=aggregates,
        output=pa.schema([(name, bind(aggregate, columns).output) for name, aggregate in aggregates.items()]),
        on_error="fail",
    )
    store, results = MemoryStore(), list[dict[str, Any]]()
    for second, batch in enumerate(batches, 1):
        spec, store = pickle.loads(pickle.dumps(spec)), store.copy()  # noqa: S301 -- our own bytes
        table = pa.Table.from_pylist(list(batch), schema=columns)
        arrived = pa.array([second * 1_000_000] * table.num_rows, pa.int64())
        outcome = KeyGroupRunner(spec, store).run([Rows(table.append_column(ARRIVAL_TIME, arrived))])
        results += [] if outcome.results is None else outcome.results.to_pylist()
    return results
