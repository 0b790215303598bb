"""The status of a job, read from its checkpoint by another process: how far and how healthy it is, can it resume?

Only the lease and what the job reported with it (`state/checkpoint/runs.py`), Spark's offset and commit logs, and the
record of the last job that ended are read, and whether its tables are there. For a checkpoint in a local folder or on
S3, Spark is not started.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from panekeeper.framework.declarations.display import Result, format_age, format_number
from panekeeper.recovery.jobs.checkpoint import current_folder, no_checkpoint
from panekeeper.recovery.jobs.gone_tables import why_gone
from panekeeper.state.checkpoint.clock import LAST_US, format_time, now_us
from panekeeper.state.checkpoint.epochs import read_begin
from panekeeper.state.checkpoint.folder import JOB_FILE, CheckpointFolder, damaged, read_object
from panekeeper.state.checkpoint.job_record import is_flushed, last_batches, read_last_savepoint
from panekeeper.state.checkpoint.lease_owner import HEARTBEAT_TIMEOUT_US, read_owner
from panekeeper.state.checkpoint.runs import read_end, read_report
from panekeeper.state.duration_text import duration_text


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
    """The newest savepoint that was made of a checkpoint, its age in seconds, and the last batch that is in it."""

    name: str
    location: str
    made_at: str
    age: float
    batch: int


@dataclass(frozen=True, kw_only=True)
class JobStatus(Result):
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
        error: all of the error by which it failed; None if it did not.
        last_offset: number of the last batch begun.
        last_commit: number of the last batch committed.
        reported_batch: number of the batch after which it reported last: all that follows is as of then. It may come
            before the last one committed, or be the one after it: tables are written before a batch is committed.
        last_batch_at: when that batch ended.
        last_batch_age: the time since then.
        watermark: event time before which no row is expected any more.
        watermark_lag: how far it is behind the present.
        rows_per_second: rows read in the last minute of a job that runs.
        rows_behind: rows that its source held and it had not read; Kafka counts them.
        counted_since: when the run began whose rows are counted below.
        rows: how many rows were read since then.
        late: of these, how many refined a pane that had fired.
        dropped: how many came too late for all of their panes; they are in the quarantine.
        missed_panes: how often a row that was kept came too late for one of its panes, which lacks it.
        quarantined: how many were bad, and so refused before the windows; they are in the quarantine.
        errors: how many rows, results and firings could not be computed since then, by reason.
        open_panes: panes that still take rows, one of several partitions once; None if that is not known, as before the
            first batch of a run.
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
    error: str | None = None
    last_offset: int | None = None
    last_commit: int | None = None
    reported_batch: int | None = None
    last_batch_at: str | None = None
    last_batch_age: float | None = None
    watermark: str | None = None
    watermark_lag: float | None = None
    rows_per_second: float | None = None
    rows_behind: int | None = None
    counted_since: str | None = None
    rows: int | None = None
    late: int | None = None
    dropped: int | None = None
    missed_panes: int | None = None
    quarantined: int | None = None
    errors: Mapping[str, int] | None = None
    open_panes: int | None = None
    state_bytes: int | None = None
    no_tick_since: str | None = None
    tick_error: str | None = None
    last_savepoint: NewestSavepoint | None = None

    def _described(self) -> Iterator[str]:
        yield f"job {self.job!r} in {self.checkpoint}: {self._running_text}"
        yield f"health: {self.health}, {self.why}"
        yield last_batches_text(self.last_offset, self.last_commit)
        if self.is_interrupted:
            yield f"batch {format_number(self.last_offset)} had begun: the next start completes it"
        if self.reported_batch is not None:
            yield f"as reported after batch {format_number(self.reported_batch)}:"
        if self.watermark is not None:
            yield f"watermark: {self.watermark}, {format_age(self.watermark_lag)} behind the present"
        yield from _counts_lines(
            {"rows/s": self.rows_per_second, "rows behind": self.rows_behind, "open panes": self.open_panes}
        )
        since = f"since its start at {self.counted_since}: " if self.counted_since else ""
        counts = {"rows": self.rows, "late": self.late, "too late": self.dropped, "bad": self.quarantined}
        yield from (f"{since}{line}" for line in _counts_lines(counts | {"missed panes": self.missed_panes or None}))
        if self.errors:
            errors = ", ".join(f"{reason} {count:,}" for reason, count in self.errors.items())
            yield f"{since}could not be computed: {errors}"
        if (saved := self.last_savepoint) is not None:
            yield f"last savepoint: {saved.name} of batch {saved.batch}, {saved.made_at}, {saved.location}"
        yield "resumable: " + ("yes" if self.resumable else f"no, {self.why_not}")

    @property
    def is_interrupted(self) -> bool:
        """Whether the last run ended amid a batch, and the next start goes on with it."""
        return self.resumable and not self.running and self.last_offset != self.last_commit

    @property
    def _running_text(self) -> str:
        process = f"process {self.pid} on {self.host}"
        if self.running:
            return f"running since {self.since}, {process}"
        if self.state == "lost":
            return f"not running; {process} crashed, last heartbeat {self.seen}"
        return f"not running; {self.state} {self.stopped or ''}".rstrip()


def last_batches_text(begun: int | None, committed: int | None) -> str:
    """Return the last batches in words."""
    return f"last batch begun: {format_number(begun)}, committed: {format_number(committed)}"


def _counts_lines(counts: Mapping[str, float | None]) -> Iterator[str]:
    """Yield those of some numbers that are known, in a line; nothing if none is."""
    known = [f"{name}: {format_number(number)}" for name, number in counts.items() if number is not None]
    if known:
        yield ", ".join(known)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Beyond what a running job is behind; None: no limit.

    Limits of the watermark's `lag` behind the present and of the last batch's `age`, in seconds (a job whose source has
    no rows runs no batch); of the `rows` that its source holds and it has not read; of `errors` since its start.
    """

    lag: float | None = None
    age: float | None = None
    rows: int | None = None
    errors: int | None = None


_AS_REPORTED = ("rows_behind", "rows", "late", "dropped", "missed_panes", "quarantined", "errors", "state_bytes")
"""Fields of a status that are as the job reports them (`RunTotals.progress`)."""


def status(root: CheckpointFolder, *, limits: Limits | None = None, now: Callable[[], int] = now_us) -> JobStatus:
    """Return the status of the job of a checkpoint. Raises `PanekeeperError` if its own files are damaged."""
    folder = current_folder(root)
    name = job_name(folder)
    at = now()
    owner = read_owner(folder)
    running = owner is not None and owner.is_alive(at)
    end = read_end(folder)
    if owner is not None and end.get("token") == owner.token and not running:
        owner = None  # it crashed after it had recorded its end, and before it removed its lease
    flushed = is_flushed(folder)
    if running:
        state = "running"
    elif flushed:
        state = "flushed"
    else:
        state = "lost" if owner is not None else str(end.get("state", "new"))
    begun, committed = last_batches(folder)
    why_not = _not_resumable_reason(folder, begun, committed, flushed=flushed)
    report = read_report(folder)
    progress, still_open = (
        part if isinstance(part := report.get(field), dict) else {} for field in ("progress", "open")
    )
    reported: dict[str, Any] = {name: progress.get(name) for name in _AS_REPORTED}
    job_status = JobStatus(
        checkpoint=folder.root,
        job=name,
        state=state,
        running=running,
        host=owner.host if owner else None,
        pid=owner.pid if owner else None,
        since=format_time(owner.since) if owner else None,
        run_age=_age(at, owner.since) if owner else None,
        seen=format_time(owner.seen) if owner else None,
        heartbeat_age=_age(at, owner.seen) if owner else None,
        stopped=None if owner else _time(end.get("at")),
        error=str(end["error"]) if state == "failed" and "error" in end else None,
        last_offset=begun,
        last_commit=committed,
        reported_batch=_number(report.get("batch")),
        last_batch_at=_time(progress.get("at")),
        last_batch_age=_age(at, progress.get("at")),
        watermark=_time(progress.get("watermark")),
        watermark_lag=_age(at, progress.get("watermark")),
        rows_per_second=progress.get("rows_per_second") if running else None,
        counted_since=_time(progress.get("since")),
        open_panes=still_open.get("panes"),
        **reported,
        no_tick_since=_time(progress.get("no_tick_since")) if running else None,
        tick_error=progress.get("tick_error") if running else None,
        last_savepoint=_newest_savepoint(folder, at),
        resumable=why_not is None,
        why_not=why_not,
    )
    return with_health(job_status, limits or Limits())


def damaged_status(checkpoint: str, why: str) -> JobStatus:
    """Return the status of a checkpoint that cannot be read, for the reason `why`."""
    return JobStatus(checkpoint=checkpoint, state="damaged", why=why, resumable=False, why_not=why)


def job_name(folder: CheckpointFolder) -> str:
    """Return the name of a checkpoint's job, also where a newer version has written the rest of its record."""
    record = read_object(folder, JOB_FILE)
    if record is None:
        raise no_checkpoint(folder, JOB_FILE)
    if "name" not in record:
        raise damaged(folder, JOB_FILE, "it has no name")
    return str(record["name"])


def _newest_savepoint(folder: CheckpointFolder, now: int) -> NewestSavepoint | None:
    savepoint = read_last_savepoint(folder)
    if savepoint is None:
        return None
    age = round((now - savepoint.at) / 1e6, 1)
    return NewestSavepoint(
        name=savepoint.name,
        location=savepoint.location,
        made_at=format_time(savepoint.at),
        age=age,
        batch=savepoint.batch,
    )


def _not_resumable_reason(
    folder: CheckpointFolder, offset: int | None, commit: int | None, *, flushed: bool
) -> str | None:
    """Return why a start would not resume from the last batch; None if it would."""
    if flushed:
        return "it was flushed: its windows are closed for good"
    if (begin := read_begin(folder)) is not None and begin.kind == "reset" and not begin.is_done:
        why = "a reset of it to the initial state is not complete: the next start completes it, and begins from there"
        return why_gone(folder, begin.tables) or why
    begun, committed = -1 if offset is None else offset, -1 if commit is None else commit
    if not 0 <= begun - committed <= 1:  # a batch that was begun and not committed is run again
        return "its offsets and commits do not belong together: restore it from a savepoint"
    return why_gone(folder)


def _age(now: int, us: Any) -> float | None:
    return round((now - us) / 1e6, 1) if _is_time(us) else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _time(us: Any) -> str | None:
    return format_time(us) if _is_time(us) else None


def _is_time(us: Any) -> bool:
    """Return whether a field of a report, which may have been altered, is a time in us since the epoch."""
    return isinstance(us, int) and 0 <= us <= LAST_US


def with_health(status: JobStatus, limits: Limits) -> JobStatus:
    """Return a status with its health, the one word that alarms and exit codes go by, and the reason."""
    health, why = _health(status, limits)
    return replace(status, health=health.value, why=why)


def _health(status: JobStatus, limits: Limits) -> tuple[Health, str]:
    if status.state == "flushed":
        return Health.HEALTHY, "it was flushed, and is finished"
    if not status.resumable:
        return Health.UNUSABLE, status.why_not or "it cannot be resumed"
    if status.state == "failed":
        why = "its own log has the cause" if status.error is None else status.error.partition("\n")[0]
        return Health.DOWN, f"it failed: {why}; remove the cause, and start the job again"
    if status.state == "lost":
        return Health.DOWN, "its process exited without releasing its lease: start the job again"
    if not status.running:
        return Health.STOPPED, "it was never started" if status.state == "new" else "it ended as it should"
    reasons = [*_behind(status, limits)]
    return (Health.BEHIND, "; ".join(reasons)) if reasons else (Health.HEALTHY, "it runs")


def _behind(status: JobStatus, limits: Limits) -> Iterator[str]:
    silent, lag, rows = status.heartbeat_age or 0, status.watermark_lag, status.rows_behind
    if silent < -HEARTBEAT_TIMEOUT_US / 1e6:
        yield "its last heartbeat is in the future, so whether it runs is not known: a clock is wrong"
    if silent > HEARTBEAT_TIMEOUT_US / 1e6:
        yield f"its process has sent no heartbeat for {duration_text(silent)}"
    if status.tick_error is not None:
        yield f"no tick of the wall clock can be written since {status.no_tick_since}: {status.tick_error}"
    if limits.lag is not None and lag is not None and lag > limits.lag:
        yield f"its watermark is {duration_text(lag)} behind the present, and {duration_text(limits.lag)} are allowed"
    age = min(known_age for known_age in (status.run_age, status.last_batch_age, math.inf) if known_age is not None)
    if limits.age is not None and limits.age < age < math.inf:
        yield f"no batch has ended for {duration_text(age)}, and {duration_text(limits.age)} are allowed"
    errors = sum((status.errors or {}).values())
    if limits.errors is not None and errors > limits.errors:
        yield f"{errors} rows, results and firings could not be computed, and {limits.errors} are allowed"
    if limits.rows is not None and rows is not None and rows > limits.rows:
        yield f"its source holds {rows} rows that it has not read, and {limits.rows} are allowed"
