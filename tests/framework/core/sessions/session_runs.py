"""Runs of a session window in memory: steps cut into micro-batches, with a restart between any two."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import pyarrow as pa

from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.sessions.folding import SessionFolding
from panekeeper.framework.core.steps import Flush, PartialRows, Rows, Step, Tick, Watermark
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.events import Event, EventType
from panekeeper.framework.declarations.operator import Emit, Operator
from panekeeper.framework.declarations.windows import EventTimeWindow, Session
from panekeeper.state.records import NO_WATERMARK
from panekeeper.state.store import MemoryStore

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64()), ("f", pa.float64()), ("g", pa.int64())])
SECOND = 1_000_000
Item = tuple[Any, ...]
"""("row", key, time, value, gap), ("watermark", time), ("tick", wall clock) or ("flush",); times in seconds."""


def aggregate_spec(window: EventTimeWindow, **aggregates: Aggregate) -> JobSpec:
    """Return a job of aggregates over rows of `COLUMNS`, partitioned by k."""
    return JobSpec(
        window=window,
        keys=pa.schema([COLUMNS.field("k")]),
        columns=COLUMNS,
        aggregates=aggregates,
        output=pa.schema([(name, bind(one, COLUMNS).output) for name, one in aggregates.items()]),
    )


class SessionRecorder(Operator):
    """Emits every event, with the session and the values of its rows."""

    events: ClassVar[frozenset[EventType]] = frozenset(EventType)

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit the event as one row."""
        values = event.table.column("v").to_pylist()
        seen: list[Any] = [event.type.value, event.key]
        if event.type is not EventType.DROP:
            seen += [event.pane.start_us // SECOND, event.pane.end_us // SECOND]
        if event.type is EventType.MERGE:
            seen.append([(one.start_us // SECOND, one.end_us // SECOND) for one in event.merged])
        seen.append(values[0] if event.type is EventType.INSERTION else values)
        if event.type is EventType.TRIGGER:
            seen.append(event.refinement)
        emit(event=repr(tuple(seen)))


def recorder_spec(window: Session, operator: Operator) -> JobSpec:
    """Return a job of an operator over rows of `COLUMNS`, partitioned by k."""
    keys, output = pa.schema([COLUMNS.field("k")]), pa.schema([("event", pa.string())])
    return JobSpec(window=window, keys=keys, columns=COLUMNS, operator=operator, output=output)


@dataclass
class SessionRun:
    """A job over several key groups; each batch is of new runners, on what is stored."""

    spec: JobSpec
    groups: int = 1
    folds: bool = False
    results: list[dict[str, Any]] = field(default_factory=list)
    view: list[dict[str, Any]] = field(default_factory=list)
    """The rows of the view, where they are others."""
    rejected: list[tuple[str, str, int]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stores = [MemoryStore() for _ in range(self.groups)]
        self.watermark, self.now = NO_WATERMARK, 0

    def batch(self, items: Sequence[Item]) -> None:
        """Run one micro-batch."""
        self.spec = pickle.loads(pickle.dumps(self.spec))  # noqa: S301 -- as workers get it
        for group in range(self.groups):
            self.stores[group] = self.stores[group].copy()
            steps = list(self._steps(items, group))
            outcome = KeyGroupRunner(self.spec, self.stores[group]).run(steps)
            self.results += [] if outcome.results is None else outcome.results.to_pylist()
            self.view += [] if outcome.view is None else outcome.view.to_pylist()
            if outcome.rejected is not None:
                times = outcome.rejected.column("event_time").cast(pa.int64()).to_pylist()
                reasons, rows = (outcome.rejected.column(name).to_pylist() for name in ("reason", "row"))
                self.rejected += zip(reasons, rows, (us // SECOND for us in times), strict=True)
            for name, number in outcome.counts.items():
                self.counts[name] = self.counts.get(name, 0) + number
            assert outcome.counts["rows_in"] == sum(outcome.counts.values()) // 2
        self.now = max([self.now, *(one[1] for one in items if one[0] == "tick")])
        self.watermark = max([self.watermark, *(one[1] * SECOND for one in items if one[0] == "watermark")])

    def run(self, items: Sequence[Item], cuts: Sequence[int] = ()) -> list[dict[str, Any]]:
        """Run items as micro-batches that end at these positions, and return all results."""
        bounds = [0, *sorted(cuts), len(items)]
        for begin, end in pairwise(bounds):
            self.batch(items[begin:end])
        return self.results

    def _steps(self, items: Sequence[Item], group: int) -> list[Step]:
        steps: list[Step] = []
        rows: list[Item] = []
        watermark, now = self.watermark, self.now

        def end_rows() -> None:
            if rows:
                steps.extend(self._rows_steps(rows, watermark, now))
                rows.clear()

        for item in items:
            if item[0] == "row":
                if self._group(item[1]) == group:
                    rows.append(item)
                continue
            end_rows()
            if item[0] == "watermark":
                watermark = max(watermark, item[1] * SECOND)
                steps.append(Watermark(item[1] * SECOND))
            elif item[0] == "tick":
                now = max(now, item[1])
                steps.append(Tick(item[1] * SECOND))
            else:
                steps.append(Flush())
        end_rows()
        return steps

    def _group(self, key: str | None) -> int:
        return 0 if key is None else sum(key.encode()) % self.groups

    def _rows_steps(self, rows: list[Item], watermark: int, now: int) -> list[Step]:
        columns = {
            "k": [row[1] for row in rows],
            "v": [row[3] for row in rows],
            "f": [row[3] / 3 for row in rows],
            "g": [row[4] for row in rows],
        }
        table = pa.table({name: pa.array(columns[name], COLUMNS.field(name).type) for name in columns})
        table = table.append_column(EVENT_TIME, pa.array([row[2] * SECOND for row in rows], pa.int64()))
        if self.spec.fires_by_clock:
            table = table.append_column(ARRIVAL_TIME, pa.array([now * SECOND] * len(rows), pa.int64()))
        folding = SessionFolding.of(self.spec) if self.folds else None
        folded = None if folding is None else folding.fold(table, watermark)
        if folded is None:
            return [Rows(table)]
        rest = table.take(pa.array(folded.rest))
        return [PartialRows(folded.table), *([Rows(rest)] if rest.num_rows else [])]


def seconds(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return results with their times as whole seconds since the epoch."""
    names = ("session_start", "session_end", "last_row")
    changed = [{name: None if row[name] is None else int(row[name].timestamp()) for name in names} for row in results]
    return [
        row | own | {"replaces": [int(one.timestamp()) for one in row["replaces"]]}
        for row, own in zip(results, changed, strict=True)
    ]
