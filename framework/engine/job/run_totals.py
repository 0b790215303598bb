"""The sums of a run: what its batches did, added up in the driver for status and progress.

Nothing here lasts: the metrics table has the same numbers, one row a batch.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.durations import to_datetime, to_datetime_if_any
from panekeeper.framework.engine.job.status import Drained, JobState, Status
from panekeeper.state.checkpoint.clock import monotonic_seconds, now_us

if TYPE_CHECKING:
    from panekeeper.framework.engine.clock.tick_scheduler import TickFailure
    from panekeeper.framework.engine.sink.batch_output import BatchOutput

_RATE_US = 60_000_000  # rows in a second are those of the last minute


@dataclass(frozen=True, kw_only=True)
class BatchReport:
    """What one batch did; handed to the callbacks of `Job.on_batch` once its tables are written.

    Attributes:
        batch: Spark's number of the batch.
        rows: rows read.
        counts: where they went: admitted, refined_late, dropped_late, outside, quarantined; their sum is `rows`.
        watermark: event time before which no row is expected any more; None before the first.
        open_panes: panes that still take rows; None in a batch that is run again after a crash: key groups without rows
            in it report in the next one.
        firings: rows added to the log.
        seconds: how long the batch took, from its plan to its last commit.
        stages: how long each stage of it took, in seconds: "plan" (windows and state), "tables" (commits).
        late_seconds: how long after its instant the most overdue wall-clock work was done; None if none was.
        at: when its tables were written.
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


class StageClock:
    """Measures the stages of one batch.

    Args:
        clock: returns seconds from any fixed time.
    """

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
    """Adds up batches. Written by the query's thread, read by any.

    Args:
        groups: how many key groups the job has.
        now: returns the time, us since the epoch.
    """

    def __init__(self, groups: int, now: Callable[[], int] = now_us) -> None:
        self._groups, self._now = groups, now
        self._started = now()
        self._recent: deque[tuple[int, int]] = deque()  # when a batch ended (us), and its rows: of the last minute
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._open: dict[int, int] = {}  # key group -> open panes; a group that slept still has them
        self._due: dict[int, int | None] = {}
        self._due_watermarks: dict[int, int | None] = {}
        self._tuples: dict[int, int | None] = {}
        self._watermark: int | None = None
        self._batch: int | None = None
        self._batches = 0
        self._firings = 0
        self._ended = 0  # when the last batch did, us

    def open_panes_after(self, batch: BatchOutput) -> int | None:
        """Return how many panes are open once `batch` is done; None until each key group has reported in this run."""
        return self._panes({**self._open, **batch.open_panes})

    def next_due(self) -> int | None:
        """Return the next wall-clock instant (us) at which any key group does something without a row, or None."""
        with self._lock:
            return _min(self._due)

    @property
    def batch(self) -> int | None:
        """The last batch whose tables are written."""
        return self._batch

    def add(self, batch: BatchOutput, clock: StageClock) -> BatchReport:
        """Add a batch whose tables are written and return the report of it."""
        with self._lock:
            for name, count in batch.counts.items():
                self._counts[name] = self._counts.get(name, 0) + count
            self._open |= batch.open_panes
            self._due |= batch.due_us
            self._due_watermarks |= batch.due_watermarks_us
            self._tuples |= batch.tuples
            if batch.watermark is not None:
                self._watermark = max(batch.watermark, self._watermark or batch.watermark)
            self._batch, self._batches = batch.number, self._batches + 1
            self._firings += batch.rows["results"]
            self._ended = self._now()
            self._recent.append((self._ended, batch.counts["rows_in"]))
            return BatchReport(
                batch=batch.number,
                rows=batch.counts["rows_in"],
                counts={name: count for name, count in batch.counts.items() if name != "rows_in"},
                watermark=to_datetime_if_any(self._watermark),
                open_panes=self._panes(self._open),
                firings=batch.rows["results"],
                seconds=clock.seconds,
                stages=clock.stages,
                late_seconds=None if batch.late_us is None else batch.late_us / 1e6,
                at=to_datetime(self._ended),
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
                open_panes=self._panes(self._open),
                late=counts.get("refined_late", 0),
                dropped=counts.get("dropped_late", 0),
                outside=counts.get("outside", 0),
                quarantined=counts.get("quarantined", 0),
                firings=self._firings,
                tick_error=None if tick_failure is None else str(tick_failure),
            )

    def open_work(self) -> dict[str, Any]:
        """Return what the job would leave open if it ended now, as JSON-able fields; times in us."""
        with self._lock:
            tuples, panes = [held for held in self._tuples.values() if held is not None], self._panes(self._open)
            return {
                "batch": self._batch,
                "open": {
                    "panes": panes,
                    "tuples": sum(tuples) if tuples and panes is not None else None,
                    "next_due": _min(self._due),
                    "next_watermark": _min(self._due_watermarks),
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
                "at": self._ended if self._batches else None,
                "watermark": self._watermark,
                "rows": self._counts.get("rows_in", 0),
                "rows_per_second": round(sum(rows for _, rows in self._recent) * 1e6 / min(_RATE_US, age), 3),
            }

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

    def _panes(self, of_groups: Mapping[int, int]) -> int | None:
        return sum(of_groups.values()) if len(of_groups) >= self._groups else None


def _min(due: Mapping[int, int | None]) -> int | None:
    return min((at for at in due.values() if at is not None), default=None)
