"""How a job stands, and what it left open when it was drained."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class JobState(Enum):
    """The state of a job. It changes from RUNNING to one of the others; an ended or failed job may be started again."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    FLUSHED = "flushed"


@dataclass(frozen=True, kw_only=True)
class Status:
    """What a job has done since its `start()`, and how it stands.

    Attributes:
        name: the job's name.
        state: running, ended (resumable), failed (resumable once the cause is gone) or flushed (finished).
        batch: number of the last batch whose tables are written, None before the first.
        batches: batches done since the start.
        rows: rows read.
        watermark: event time before which no row is expected any more; None before the first.
        open_panes: panes that still take rows; None until each key group has reported since the start.
        late: rows that came after their pane had fired and refined it.
        dropped: rows that came after all their panes had closed; they are in the quarantine.
        outside: rows that lie in no pane (a window with gaps).
        quarantined: rows set aside before the windows, with their reason.
        firings: rows added to the log.
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
    firings: int
    tick_error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Drained:
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

    def __str__(self) -> str:
        kept = "" if self.tuples is None else f" with {self.tuples} tuples"
        due = f", next due at {self.next_due.isoformat()}" if self.next_due else ""
        mark = f", next due at watermark {self.next_watermark.isoformat()}" if self.next_watermark else ""
        return f"job {self.name!r} drained after batch {self.batch}: {self.open_panes} open{kept}{due}{mark}"
