"""A job seen from another process: how it stands, and asking it to drain.

Both read only what a checkpoint says: the lease (`state/checkpoint/owner.py`), Spark's offset and commit logs, and
what the job left when it ended. On a local folder and on S3 neither starts Spark.

Draining, seen from here: 1 a "drain" is written to the pulse, like any other command. 2 The job hears it with its next
batch, ends after it and gives its lease back. 3 Spark's offsets and commits agree then: nothing is half done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from framework.declarations.durations import Duration, to_seconds
from framework.declarations.errors import CheckpointError, DrainTimeout, ForeignCheckpoint, JobFailed, JobNotRunning
from recovery.storage.locations import files_at
from state.checkpoint.clock import format_time, now_us
from state.checkpoint.control_files import ControlCommand
from state.checkpoint.folder import CheckpointFolder
from state.checkpoint.job_record import is_flushed
from state.checkpoint.layout import JOB_FILE
from state.checkpoint.owner import LeaseOwner, read_end, read_owner
from state.checkpoint.run_record import last_batches

_POLL_SECONDS = 0.2


def checkpoint_folder(checkpoint: str) -> CheckpointFolder:
    """Return the folder that a path or URL names. One neither on this machine nor on S3 is reached through Spark."""
    files = files_at(checkpoint)
    if files is not None:
        return files
    from framework.engine.session.checkpoint_files import CheckpointFiles
    from framework.engine.session.session import session

    return CheckpointFiles(session("panekeeper", cores=1), checkpoint.rstrip("/"))


def status(folder: CheckpointFolder, *, now: Callable[[], int] = now_us) -> dict[str, Any]:
    """Return how the job of a checkpoint stands; times in us since the epoch.

    The fields: checkpoint, job, state ("running", "ended", "failed", "flushed"; "lost" if its process vanished; "new"
    if none ever ran), running, host, pid, since_us, seen_us (of the job that runs or was lost), stopped_us, last_offset
    (batch last begun) and last_commit (last finished), None before the first; resumable, and if not, why_not.

    Raises `ForeignCheckpoint` if the folder holds no checkpoint of Panekeeper.
    """
    name = _job_name(folder)
    holder = read_owner(folder)
    running = holder is not None and holder.is_alive(now())
    stopped = read_end(folder)
    if holder is not None and stopped.get("token") == holder.token and not running:
        holder = None  # it died between its last two words
    offset, commit = last_batches(folder)
    finished = is_flushed(folder)
    why_not = _not_resumable_reason(offset, commit, finished=finished)
    return {
        "checkpoint": folder.root,
        "job": name,
        "state": _state(holder, stopped, running=running, finished=finished),
        "running": running,
        "host": holder.host if holder else None,
        "pid": holder.pid if holder else None,
        "since_us": holder.since if holder else None,
        "seen_us": holder.seen if holder else None,
        "stopped_us": None if holder else stopped.get("at"),
        "last_offset": offset,
        "last_commit": commit,
        "resumable": why_not is None,
        "why_not": why_not,
    }


def drain(
    folder: CheckpointFolder,
    *,
    timeout: Duration = 300.0,
    now: Callable[[], int] = now_us,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Ask the job that runs on a checkpoint to drain, and return once it has ended with nothing half done.

    Args:
        folder: the checkpoint.
        timeout: how long to wait for it: `"5 minutes"`, a `timedelta`, or seconds.
        now: tells the time, us since the epoch.
        sleep: waits so many seconds.

    Returns:
        checkpoint, job, state, last_offset, last_commit, resumable, seconds (that it took), and what the job left,
        if it said: batch and open.

    Raises:
        JobNotRunning: no job runs there, or it vanished meanwhile.
        JobFailed: it failed before it had drained.
        DrainTimeout: it is still at it.
        ForeignCheckpoint: the folder holds no checkpoint of Panekeeper.
    """
    _job_name(folder)
    began = now()
    holder = read_owner(folder)
    if holder is None or not holder.is_alive(began):
        raise JobNotRunning(_no_job_message(folder, holder))
    seconds = to_seconds(timeout, "timeout")
    deadline = began + int(seconds * 1e6)
    command = ControlCommand(folder, "drain")
    while _still_runs(folder, holder, now()):
        command.rewrite_if_lost()
        _wait(folder, holder, seconds, left=deadline - now(), sleep=sleep)
    stopped = read_end(folder)
    if stopped.get("token") == holder.token and stopped.get("state") == "failed":
        raise JobFailed(
            f"{holder} failed before it had drained: its own log says why. Its checkpoint {folder.root} is resumable "
            "once the cause is gone"
        )
    while (numbers := last_batches(folder))[0] != numbers[1]:
        _wait(folder, holder, seconds, left=deadline - now(), sleep=sleep)
    return _drain_result(folder, holder, numbers, seconds=(now() - began) / 1e6)


def _still_runs(folder: CheckpointFolder, holder: LeaseOwner, now: int) -> bool:
    """Say whether this very job still holds the lease. Raises `JobNotRunning` if its process vanished."""
    present = read_owner(folder)
    if present is None or present.token != holder.token:
        return False
    if not present.is_alive(now):
        if read_end(folder).get("token") == holder.token:
            return False
        raise JobNotRunning(_no_job_message(folder, present))
    return True


def _wait(
    folder: CheckpointFolder, holder: LeaseOwner, timeout: float, *, left: int, sleep: Callable[[float], None]
) -> None:
    if left <= 0:
        raise DrainTimeout(
            f"{holder} has not drained {folder.root} within {timeout:g} s. It goes on draining and stays resumable: "
            "wait with a longer --timeout, or look with `panekeeper status` what it is at"
        )
    sleep(min(_POLL_SECONDS, left / 1e6))


def _drain_result(
    folder: CheckpointFolder, holder: LeaseOwner, numbers: tuple[int | None, int | None], *, seconds: float
) -> dict[str, Any]:
    stopped = read_end(folder)
    if stopped.get("token") != holder.token:
        stopped = {}  # taken over by the next job already
    finished = is_flushed(folder)
    result = {
        "checkpoint": folder.root,
        "job": holder.name,
        "state": "flushed" if finished else stopped.get("state", "ended"),
        "last_offset": numbers[0],
        "last_commit": numbers[1],
        "resumable": not finished,
        "seconds": round(seconds, 1),
    }
    return result | {name: stopped[name] for name in ("batch", "open") if name in stopped}


def _job_name(folder: CheckpointFolder) -> str:
    try:
        record = folder.read_json(JOB_FILE)
        name = None if record is None else str(record["name"])
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{JOB_FILE} in {folder.root} is damaged; restore it from a savepoint") from error
    if name is None:
        raise ForeignCheckpoint(
            f"{folder.root} holds no checkpoint of Panekeeper: give the folder that start(checkpoint=...) was given"
        )
    return name


def _state(holder: LeaseOwner | None, stopped: dict[str, Any], *, running: bool, finished: bool) -> str:
    if running:
        return "running"
    if finished:
        return "flushed"
    if holder is not None:
        return "lost"
    return str(stopped.get("state", "new"))


def _not_resumable_reason(offset: int | None, commit: int | None, *, finished: bool) -> str | None:
    """Return why a start would not go on where the job is now; None if it would."""
    if finished:
        return "it was flushed: its windows are closed for good"
    begun, done = -1 if offset is None else offset, -1 if commit is None else commit
    if not 0 <= begun - done <= 1:  # a batch that was begun and not finished is run again
        return "its offsets and commits do not belong together: restore it from a savepoint"
    return None


def _no_job_message(folder: CheckpointFolder, holder: LeaseOwner | None) -> str:
    if holder is not None:
        end = f"{holder} is gone without a word, last seen {format_time(holder.seen)}"
    elif (at := read_end(folder).get("at")) is not None:
        end = f"the last one ended {format_time(at)}"
    else:
        end = "none ever ended there either"
    return (
        f"no job runs on {folder.root}: {end}. There is nothing to drain; "
        "start the job again if you want it to go on, or see `panekeeper status`"
    )
