"""Reads the status of a job from another process: state, progress, newest savepoint, and whether it can resume.

Reads only what is in the checkpoint: the lease and what the job reported with it (`state/checkpoint/lease.py`), Spark's
offset and commit logs, and the record of the last job that ended. For a checkpoint in a local folder or on S3, Spark is
not started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from panekeeper.framework.declarations.errors import CheckpointError, ForeignCheckpoint
from panekeeper.recovery.jobs.health import Limits, with_health
from panekeeper.recovery.jobs.job_status import JobStatus, NewestSavepoint
from panekeeper.state.checkpoint.clock import LAST_US, format_time, now_us
from panekeeper.state.checkpoint.epochs import Root, current_epoch, read_begin
from panekeeper.state.checkpoint.folder import JOB_FILE, CheckpointFolder
from panekeeper.state.checkpoint.job_record import is_flushed, last_batches, read_last_savepoint
from panekeeper.state.checkpoint.lease import LeaseOwner, read_end, read_owner, read_report


def status(root: CheckpointFolder, *, limits: Limits | None = None, now: Callable[[], int] = now_us) -> JobStatus:
    """Return the status of the job of a checkpoint.

    Args:
        root: the checkpoint.
        limits: beyond what a running job is behind; none if not given.
        now: returns the time, us since the epoch.

    Raises:
        ForeignCheckpoint: the folder holds no checkpoint of Panekeeper.
        CheckpointError: the job record or the lease is damaged.
    """
    folder = job_folder(root)
    name = job_name(folder)
    at = now()
    owner = read_owner(folder)
    running = owner is not None and owner.is_alive(at)
    end = read_end(folder)
    if owner is not None and end.get("token") == owner.token and not running:
        owner = None  # it crashed after it had recorded its end, and before it removed its lease
    offset, commit = last_batches(folder)
    flushed = is_flushed(folder)
    why_not = _not_resumable_reason(folder, offset, commit, flushed=flushed)
    found = JobStatus(
        checkpoint=folder.root,
        job=name,
        state=_state(owner, end, running=running, flushed=flushed),
        running=running,
        host=owner.host if owner else None,
        pid=owner.pid if owner else None,
        since=format_time(owner.since) if owner else None,
        run_age=_age(at, owner.since) if owner else None,
        seen=format_time(owner.seen) if owner else None,
        heartbeat_age=_age(at, owner.seen) if owner else None,
        stopped=None if owner else _time(end.get("at")),
        last_offset=offset,
        last_commit=commit,
        last_savepoint=_newest_savepoint(folder, at),
        resumable=why_not is None,
        why_not=why_not,
        **_progress(read_report(folder), at, running=running),
    )
    return with_health(found, limits or Limits())


def damaged_status(checkpoint: str, why: str) -> JobStatus:
    """Return the status of a checkpoint that cannot be read, for the reason `why`."""
    return JobStatus(checkpoint=checkpoint, state="damaged", why=why, resumable=False, why_not=why)


def job_name(folder: CheckpointFolder) -> str:
    """Return the name of a checkpoint's job.

    Raises:
        ForeignCheckpoint: the folder holds no checkpoint of Panekeeper.
        CheckpointError: the job record is damaged.
    """
    try:
        record = folder.read_json(JOB_FILE)
        name = None if record is None else str(record["name"])
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{JOB_FILE} in {folder.root} is damaged; restore it from a savepoint") from error
    if name is None:
        raise ForeignCheckpoint(
            f"{folder.root} holds no checkpoint of Panekeeper; give the folder that start(checkpoint=...) got"
        )
    return name


def job_folder(root: Root) -> Root:
    """Return the folder of the current epoch of a checkpoint.

    Raises:
        ForeignCheckpoint: the folder holds no checkpoint of Panekeeper.
        CheckpointError: it has an older layout.
        CorruptState: which epoch is current cannot be read, or that epoch is gone.
    """
    folder = current_epoch(root)
    if folder is None:
        raise ForeignCheckpoint(
            f"{root.root} holds no checkpoint of Panekeeper; give the folder that start(checkpoint=...) got"
        )
    return folder


def _state(owner: LeaseOwner | None, end: Mapping[str, Any], *, running: bool, flushed: bool) -> str:
    if running:
        return "running"
    if flushed:
        return "flushed"
    if owner is not None:
        return "lost"
    return str(end.get("state", "new"))


def _progress(report: Mapping[str, Any], now: int, *, running: bool) -> dict[str, Any]:
    progress, still_open = _object(report.get("progress")), _object(report.get("open"))
    ended, watermark = progress.get("at"), progress.get("watermark")
    return {
        "last_batch_at": _time(ended),
        "last_batch_age": _age(now, ended),
        "watermark": _time(watermark),
        "watermark_lag": _age(now, watermark),
        "rows_per_second": progress.get("rows_per_second") if running else None,
        "rows_behind": progress.get("rows_behind"),
        "open_panes": still_open.get("panes"),
        "state_bytes": progress.get("state_bytes"),
        "no_tick_since": _time(progress.get("no_tick_since")) if running else None,
        "tick_error": progress.get("tick_error") if running else None,
    }


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _newest_savepoint(folder: CheckpointFolder, now: int) -> NewestSavepoint | None:
    found = read_last_savepoint(folder)
    if found is None:
        return None
    age = round((now - found.at) / 1e6, 1)
    return NewestSavepoint(
        name=found.name, location=found.location, made_at=format_time(found.at), age=age, batch=found.batch
    )


def _not_resumable_reason(
    folder: CheckpointFolder, offset: int | None, commit: int | None, *, flushed: bool
) -> str | None:
    """Return why a start would not resume from the last batch; None if it would."""
    if flushed:
        return "it was flushed: its windows are closed for good"
    if (begin := read_begin(folder)) is not None and begin.kind == "reset" and not begin.is_done:
        return "a reset of it to the initial state is not complete: the next start completes it, and begins from there"
    begun, committed = -1 if offset is None else offset, -1 if commit is None else commit
    if not 0 <= begun - committed <= 1:  # a batch that was begun and not committed is run again
        return "its offsets and commits do not belong together: restore it from a savepoint"
    return None


def _age(now: int, us: Any) -> float | None:
    return round((now - us) / 1e6, 1) if _is_time(us) else None


def _time(us: Any) -> str | None:
    return format_time(us) if _is_time(us) else None


def _is_time(us: Any) -> bool:
    """Return whether a field of a report, which may have been altered, is a time in us since the epoch."""
    return isinstance(us, int) and 0 <= us <= LAST_US
