"""What the status of a job consists of. Its fields are those that `panekeeper status --json` prints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Health(Enum):
    """How a job is, from good to bad.

    Attributes:
        HEALTHY: it runs within its limits; or it was flushed, so that it is finished.
        STOPPED: it does not run; it ended as it should, or was never started.
        BEHIND: it runs, and is behind a limit, or its process sends no heartbeat.
        DOWN: it failed or crashed, and its next start resumes it.
        UNUSABLE: its checkpoint is damaged, or a start would not resume from it.
    """

    HEALTHY = "healthy"
    STOPPED = "stopped"
    BEHIND = "behind"
    DOWN = "down"
    UNUSABLE = "unusable"


@dataclass(frozen=True, kw_only=True)
class NewestSavepoint:
    """The newest savepoint that was made of a checkpoint.

    Attributes:
        name: of the savepoint.
        location: where it is.
        made_at: when it was made.
        age: since then, in seconds.
        batch: the last batch that is in it.
    """

    name: str
    location: str
    made_at: str
    age: float
    batch: int


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """The status of the job of a checkpoint. Times are ISO 8601, ages and lags are seconds; None: not known.

    Attributes:
        checkpoint: its folder or URL.
        state: "running", "ended", "failed", "flushed", "lost" (crashed), "new" (never ran), or "damaged" (cannot be
            read).
        health: the value of a `Health`.
        why: the reason for it.
        resumable: whether a start would resume it from its last batch.
        why_not: why it would not.
        running: whether it runs.
        job: its name.
        host: where it runs, or has crashed.
        pid: its process there.
        since: when that run began.
        run_age: the time since then.
        seen: its last heartbeat.
        heartbeat_age: the time since then.
        stopped: when the last run ended, if it did not crash.
        last_offset: number of the last batch begun.
        last_commit: number of the last batch committed.
        last_batch_at: when its last batch ended, as all that follows as it reported last.
        last_batch_age: the time since then.
        watermark: event time before which no row is expected any more.
        watermark_lag: how far it is behind the present.
        rows_per_second: rows read in the last minute of a job that runs.
        rows_behind: rows that its source held and it had not read; Kafka counts them.
        open_panes: panes that still take rows; None if that is not known, as before the first batch of a run.
        state_bytes: size of its state on disk.
        no_tick_since: since when no tick of the wall clock can be written, as on a full disk; null if all is well.
        tick_error: why.
        last_savepoint: the newest savepoint.
    """

    checkpoint: str
    state: str
    health: str = Health.UNUSABLE.value
    why: str = ""
    resumable: bool
    why_not: str | None
    running: bool = False
    job: str | None = None
    host: str | None = None
    pid: int | None = None
    since: str | None = None
    run_age: float | None = None
    seen: str | None = None
    heartbeat_age: float | None = None
    stopped: str | None = None
    last_offset: int | None = None
    last_commit: int | None = None
    last_batch_at: str | None = None
    last_batch_age: float | None = None
    watermark: str | None = None
    watermark_lag: float | None = None
    rows_per_second: float | None = None
    rows_behind: int | None = None
    open_panes: int | None = None
    state_bytes: int | None = None
    no_tick_since: str | None = None
    tick_error: str | None = None
    last_savepoint: NewestSavepoint | None = None
