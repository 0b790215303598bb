"""Jobs of one key group to test with what goes to the quarantine, and what they gave."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import BatchOutcome, Rows, Step, Watermark
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.store import MemoryStore

COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64())])
KEYS = pa.schema([("key", pa.string())])
S = 1_000_000
END = Watermark(100 * S)


def rows(*pairs: tuple[str, int], at: int = S) -> Rows:
    """Rows of (key, v) that happened, and arrived, at one instant."""
    names = pa.array([key for key, _ in pairs], pa.string())
    values = pa.array([value for _, value in pairs], pa.int64())
    times = pa.array([at] * len(pairs), pa.int64())
    return Rows(pa.table({"key": names, "v": values, EVENT_TIME: times, ARRIVAL_TIME: times}))


def job(window: Window, on_error: Any = None, **aggregates: Aggregate) -> JobSpec:
    """A job with these aggregates, whose results are integers."""
    output = pa.schema(
        [(name, pa.list_(pa.int64()) if one.kind == "collect" else pa.int64()) for name, one in aggregates.items()]
    )
    return JobSpec(window=window, keys=KEYS, columns=COLUMNS, aggregates=aggregates, output=output, on_error=on_error)


def run(spec: JobSpec, store: MemoryStore, *steps: Step) -> BatchOutcome:
    """One batch of the one key group; its rows have the time of this kind of window only."""
    drop = ARRIVAL_TIME if spec.has_panes else EVENT_TIME
    own = [Rows(step.table.drop_columns([drop])) if isinstance(step, Rows) else step for step in steps]
    done = KeyGroupRunner(spec, store).run(own)
    counts = done.counts
    assert counts["rows_in"] == sum(counts[n] for n in ("admitted", "refined_late", "dropped_late", "outside"))
    return done


def values(done: BatchOutcome, name: str) -> dict[str, list[Any]]:
    """The values of a result column by key."""
    assert done.results is not None
    found: dict[str, list[Any]] = {}
    for row in done.results.sort_by("key").to_pylist():
        found.setdefault(row["key"], []).append(row[name])
    return found


def bad(done: BatchOutcome) -> list[dict[str, Any]]:
    """The rows of the quarantine."""
    return [] if done.rejected is None else done.rejected.to_pylist()
