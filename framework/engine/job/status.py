"""What a job reports of itself: each batch, their sums, how it stands, and what a drain left open.

Nothing here lasts: the metrics table has the same numbers, one row a batch. But with each heartbeat of the lease and at
the end `RunTotals.report` is written to the checkpoint (`lease.py`), so that `panekeeper status` and `panekeeper jobs`
show it without Spark. Its fields are stored, and each is optional when read.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from panekeeper.framework.core.panes.open_runs import count_open
from panekeeper.framework.declarations.display import Displayed
from panekeeper.framework.declarations.durations import to_datetime, to_datetime_if_any
from panekeeper.state.checkpoint.clock import monotonic_seconds, now_us
from panekeeper.state.duration_text import duration_text

if TYPE_CHECKING:
    from panekeeper.framework.engine.clock.tick_scheduler import TickFailure
    from panekeeper.framework.engine.flow.group_report import GroupReport
    from panekeeper.framework.engine.sink.batch_output import BatchOutput

_RATE_US = 60_000_000  # rows in a second are those of the last minute


class JobState(Enum):
    """The state of a job. It changes from RUNNING to one of the others; an ended or failed job may be started again."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    FLUSHED = "flushed"


@dataclass(frozen=True, kw_only=True)
class Status(Displayed):
    """What a job has done since its `start()`, and how it stands.

    Attributes:
        name: the job's name.
        state: running, ended (resumable), failed (resumable once the cause is gone) or flushed (finished).
        batch: number of the last batch whose tables are written, None before the first.
        batches: batches done since the start.
        rows: rows read.
        watermark: event time before which no row is expected any more; None before the first.
        open_panes: panes that still take rows, a pane of several partitions once; sessions and live partitions by each,
            of windows by row the rows that are kept; None until each key group has reported since the start.
        late: rows that came after their pane had fired and refined it.
        dropped: rows that came too late, after all their panes had closed; they are in the quarantine.
        missed_panes: how often a row that was kept came too late for one of its panes, once for each pane: it is in its
            other panes, and that one lacks it.
        outside: rows that lie in no pane (a window with gaps).
        quarantined: bad rows, refused before the windows; they are in the quarantine, too, with their reason.
        repeated: rows that repeat the id of one before them (`dedupe=`).
        firings: rows added to the log.
        errors: how many rows, results and firings could not be computed, by the reason that the quarantine gives; in
            its column `detail` is what was raised, and the first of each kind is in the log.
        tick_error: why no tick of the wall clock can be written now, and since when: a full disk, a store that is away;
            what falls due waits for it. None if all is well.
    """

    name: str
    state: JobState
    batch: int | None
    batches: int
    rows: int
    watermark: datetime | None
    open_panes: int | None
    late: int
    dropped: int
    outside: int
    quarantined: int
    repeated: int = 0
    missed_panes: int = 0
    firings: int
    errors: Mapping[str, int] = field(default_factory=dict)
    tick_error: str | None = None

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        shown = {
            figure.name: getattr(self, figure.name) for figure in fields(self) if figure.name not in ("name", "state")
        }
        return f"job {self.name}: {self.state.value}", {
            name: value for name, value in shown.items() if value not in ({}, None)
        }


@dataclass(frozen=True, kw_only=True)
class Drained(Displayed):
    """What a job left open when it ended by a drain; all of it is in its checkpoint.

    Attributes:
        name: the job's name.
        batch: the last committed batch.
        open_panes: panes that still take rows; live partitions, for windows in arrival order.
        tuples: tuples kept in them, where windows keep tuples; None where they keep partial results.
        next_due: the wall-clock instant at which something falls due, running or not; None if nothing will.
        next_watermark: the watermark at which a pane fires or closes; None if none will.
    """

    name: str
    batch: int | None
    open_panes: int
    tuples: int | None
    next_due: datetime | None
    next_watermark: datetime | None

    def _described(self) -> tuple[str, Mapping[str, Any]]:
        left = {"open panes": self.open_panes, "tuples": self.tuples}
        due = {"next due": self.next_due, "next due at watermark": self.next_watermark}
        return f"job {self.name} drained after batch {self.batch}", left | due


@dataclass(frozen=True, kw_only=True)
class BatchReport(Displayed):
    """What one batch did; handed to the callbacks of `Job.on_batch` once its tables are written.

    Attributes:
        batch: Spark's number of the batch.
        rows: rows read.
        counts: where they went: admitted, refined_late, dropped_late, outside, quarantined, repeated; their sum is
            `rows`.
        watermark: event time before which no row is expected any more; None before the first.
        open_panes: panes that still take rows; None in a batch that is run again after a crash: key groups without rows
            in it report in the next one.
        firings: rows added to the log.
        seconds: how long the batch took, from its plan to its last commit.
        stages: how long each stage of it took, in seconds: "plan" (windows and state), "tables" (commits).
        late_seconds: how long after its instant the most overdue wall-clock work was done; None if none was.
        at: when its tables were written.
        errors: how many rows, results and firings could not be computed, by the reason that the quarantine gives.
        missed_panes: how often a row that was kept came too late for one of its panes, once for each pane.
    """

    batch: int
    rows: int
    counts: Mapping[str, int]
    watermark: datetime | None
    open_panes: int | None
    firings: int
    seconds: float
    stages: Mapping[str, float]
    late_seconds: float | None
    at: datetime
    errors: Mapping[str, int] = field(default_factory=dict)
    missed_panes: int = 0

    def _described(self) -> tuple[str, dict[str, Any]]:
        times = {name: duration_text(round(seconds, 3)) for name, seconds in self.stages.items()}
        late = None if self.late_seconds is None else duration_text(self.late_seconds)
        shown = {"at": self.at, "rows": self.rows, **{name: count or None for name, count in self.counts.items()}}
        shown |= {
            "missed panes": self.missed_panes or None,
            "results": self.firings,
            "watermark": self.watermark,
            "open panes": self.open_panes,
        }
        took = {"took": duration_text(round(self.seconds, 3)), **times, "overdue": late}
        return f"batch {self.batch:,}", {**shown, **took, "errors": self.errors or None}


class StageClock:
    """Measures the stages of one batch, by a clock that returns seconds from any fixed time."""

    def __init__(self, clock: Callable[[], float] = monotonic_seconds) -> None:
        self._clock = clock
        self._began = self._last = clock()
        self.stages: dict[str, float] = {}

    def end(self, stage: str) -> None:
        """Note that a stage has ended, and the next one begins."""
        now = self._clock()
        self.stages[stage], self._last = now - self._last, now

    @property
    def seconds(self) -> float:
        """How long all has taken until now."""
        return self._clock() - self._began


class RunTotals:
    """Adds up the batches of a run, of a job with so many key groups. Written by the query's thread, read by any."""

    def __init__(self, groups: int, now: Callable[[], int] = now_us) -> None:
        self._of_groups, self._now = groups, now
        self._started = now()
        self._recent: deque[tuple[int, int]] = deque()  # when a batch ended (us), and its rows: of the last minute
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._groups: dict[int, GroupReport] = {}  # the last report of each; what it says holds while a group sleeps
        self._watermark: int | None = None
        self._batch: int | None = None
        self._batches = 0
        self._firings = 0
        self._missed_panes = 0
        self._errors: dict[str, int] = {}
        self._ended = 0  # when the last batch did, us

    def open_panes_after(self, batch: BatchOutput) -> int | None:
        """Return how many panes are open once `batch` is done; None until each key group has reported in this run."""
        return self._panes(self._groups | _by_group(batch))

    def next_due(self) -> int | None:
        """Return the next wall-clock instant (us) at which any key group does something without a row, or None."""
        with self._lock:
            return _min(report.due_us for report in self._groups.values())

    @property
    def batch(self) -> int | None:
        """The last batch whose tables are written."""
        return self._batch

    def add(self, batch: BatchOutput, clock: StageClock) -> BatchReport:
        """Add a batch whose tables are written and return the report of it."""
        with self._lock:
            for name, count in batch.counts.items():
                self._counts[name] = self._counts.get(name, 0) + count
            self._groups |= _by_group(batch)
            if batch.watermark is not None:
                self._watermark = max(batch.watermark, self._watermark or batch.watermark)
            self._batch, self._batches = batch.number, self._batches + 1
            self._firings += batch.firings
            self._missed_panes += batch.missed_panes
            for reason, count in batch.errors_by_reason.items():
                self._errors[reason] = self._errors.get(reason, 0) + count
            self._ended = self._now()
            self._recent.append((self._ended, batch.counts["rows_in"]))
            return BatchReport(
                batch=batch.number,
                rows=batch.counts["rows_in"],
                counts={name: count for name, count in batch.counts.items() if name != "rows_in"},
                watermark=to_datetime_if_any(self._watermark),
                open_panes=self._panes(self._groups),
                firings=batch.firings,
                seconds=clock.seconds,
                stages=clock.stages,
                late_seconds=None if batch.late_us is None else batch.late_us / 1e6,
                at=to_datetime(self._ended),
                errors=batch.errors_by_reason,
                missed_panes=batch.missed_panes,
            )

    def status(self, name: str, state: JobState, tick_failure: TickFailure | None = None) -> Status:
        """Return how the job of this name and state stands."""
        with self._lock:
            counts = self._counts
            return Status(
                name=name,
                state=state,
                batch=self._batch,
                batches=self._batches,
                rows=counts.get("rows_in", 0),
                watermark=to_datetime_if_any(self._watermark),
                open_panes=self._panes(self._groups),
                late=counts.get("refined_late", 0),
                dropped=counts.get("dropped_late", 0),
                outside=counts.get("outside", 0),
                quarantined=counts.get("quarantined", 0),
                repeated=counts.get("repeated", 0),
                missed_panes=self._missed_panes,
                firings=self._firings,
                errors=dict(self._errors),
                tick_error=None if tick_failure is None else str(tick_failure),
            )

    def open_work(self) -> dict[str, Any]:
        """Return what the job would leave open if it ended now, as JSON-able fields; times in us."""
        with self._lock:
            groups = self._groups.values()
            kept_rows = [report.kept_rows for report in groups if report.kept_rows is not None]
            panes = self._panes(self._groups)
            return {
                "batch": self._batch,
                "open": {
                    "panes": panes,
                    "tuples": sum(kept_rows) if kept_rows and panes is not None else None,
                    "next_due": _min(report.due_us for report in groups),
                    "next_watermark": _min(report.due_watermark_us for report in groups),
                },
            }

    def progress(self) -> dict[str, Any]:
        """Return what the run has done, as JSON-able fields: for other processes. Times in us."""
        with self._lock:
            now = self._now()
            age = max(1_000_000, now - self._started)
            while self._recent and self._recent[0][0] <= now - _RATE_US:
                self._recent.popleft()
            return {
                "since": self._started,
                "at": self._ended if self._batches else None,
                "watermark": self._watermark,
                "rows": self._counts.get("rows_in", 0),
                "rows_per_second": round(sum(rows for _, rows in self._recent) * 1e6 / min(_RATE_US, age), 3),
                "late": self._counts.get("refined_late", 0),
                "dropped": self._counts.get("dropped_late", 0),
                "quarantined": self._counts.get("quarantined", 0),
                "missed_panes": self._missed_panes,
                "errors": dict(self._errors),
            }

    def report(self, spark: Mapping[str, Any] | None = None, tick_failure: TickFailure | None = None) -> dict[str, Any]:
        """Return what the job reports of itself as fields of JSON: `open_work`, and `progress` with what Spark says."""
        ticks = {"no_tick_since": tick_failure.since_us, "tick_error": tick_failure.error} if tick_failure else {}
        return self.open_work() | {"progress": self.progress() | dict(spark or {}) | ticks}

    def drained(self, name: str) -> Drained:
        """Return what the drained job left open, and when something is due next."""
        open_work = self.open_work()
        still = open_work["open"]
        return Drained(
            name=name,
            batch=open_work["batch"],
            open_panes=still["panes"],
            tuples=still["tuples"],
            next_due=to_datetime_if_any(still["next_due"]),
            next_watermark=to_datetime_if_any(still["next_watermark"]),
        )

    def _panes(self, groups: Mapping[int, GroupReport]) -> int | None:
        if len(groups) < self._of_groups:
            return None
        reports = groups.values()
        return count_open((report.open_panes for report in reports), (report.open_runs for report in reports))


def _by_group(batch: BatchOutput) -> dict[int, GroupReport]:
    return {report.group: report for report in batch.groups}


def _min(due: Iterable[int | None]) -> int | None:
    return min((at for at in due if at is not None), default=None)
