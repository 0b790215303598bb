"""Runs a few rows, watermarks and clocks through panes in memory, and shows the log: for tests of when panes fire.

Each micro-batch is a key group of its own, built from a pickled spec and stored bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from panekeeper import agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Flush, Rows, Step, Tick, Watermark
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.operator import Operator
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.store import MemoryStore

KEYS = pa.schema([pa.field("k", pa.string())])
COLUMNS = pa.schema([*KEYS, pa.field("v", pa.int64())])
Row = tuple[str, int, int]
"""Key, event time in seconds, value."""


def spec_of(
    window: Window, operator: Operator | None = None, output: pa.Schema | None = None, **aggregates: Aggregate
) -> JobSpec:
    """Return the spec of a job over these panes; count and sum of the values unless something else is given."""
    found = aggregates or {"n": agg.count(), "sum": agg.sum("v")}
    output = output or pa.schema([(name, bind(one, COLUMNS).output) for name, one in found.items()])
    condition = getattr(window, "condition", None)
    condition = None if condition is None else condition.over(found)
    computed = {"aggregates": found, "fires_when": condition} if operator is None else {"operator": operator}
    return JobSpec(window=window, keys=KEYS, columns=COLUMNS, output=output, **computed)


def rows(*values: Row, at: float | None = None) -> Step:
    """Return rows as a step, with the time of their batch if they bring it."""
    keys, times, numbers = zip(*values, strict=True)
    table = pa.table([pa.array(keys), pa.array(numbers, pa.int64())], schema=COLUMNS)
    if at is not None:
        table = table.append_column(ARRIVAL_TIME, pa.array([round(at * 1_000_000)] * len(values), pa.int64()))
    return Rows(table.append_column(EVENT_TIME, pa.array([one * 1_000_000 for one in times], pa.int64())))


def watermark(seconds: float) -> Step:
    """Return a watermark as a step."""
    return Watermark(round(seconds * 1_000_000))


def clock(seconds: float) -> Step:
    """Return a time of the wall clock as a step."""
    return Tick(round(seconds * 1_000_000))


FLUSH: Step = Flush()


def run(spec: JobSpec, batches: Iterable[Sequence[Step]], store: MemoryStore | None = None) -> pa.Table:
    """Return the log of these micro-batches, with a restart before each."""
    store = MemoryStore() if store is None else store
    logs = []
    for batch in batches:
        loaded = pickle.loads(pickle.dumps(spec))  # noqa: S301 -- our own bytes
        outcome = KeyGroupRunner(loaded, store).run(batch)
        if outcome.results is not None:
            logs.append(outcome.results)
    return pa.concat_tables(logs) if logs else spec.results_schema.empty_table()


def shown(log: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a log: key, start of the pane in seconds, then these columns."""
    starts = [at.timestamp() for at in log.column("pane_start").to_pylist()]
    return [*zip(log.column("k").to_pylist(), starts, *(log.column(one).to_pylist() for one in columns), strict=True)]
