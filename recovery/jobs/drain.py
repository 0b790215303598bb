"""How a job is drained from another process.

It needs only what is in the checkpoint. For one in a local folder or on S3, Spark is not started.

A drain has three steps: 1 The command is written to the control stream as a control file. 2 The next batch of the job
reads it, the job ends after that batch and releases its lease. 3 Spark's logs then agree: no batch is uncommitted.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from panekeeper.framework.declarations.display import Result
from panekeeper.framework.declarations.durations import Duration, to_seconds
from panekeeper.framework.declarations.errors import DrainTimeout, JobFailed, JobNotRunning
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.jobs.status import job_name, last_batches_text
from panekeeper.recovery.storage.locations import files_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.clock import LAST_US, Deadline, format_time, now_us
from panekeeper.state.checkpoint.control_files import write_control_file
from panekeeper.state.checkpoint.folder import CheckpointFolder
from panekeeper.state.checkpoint.job_record import is_flushed, last_batches
from panekeeper.state.checkpoint.lease_owner import LeaseOwner, read_owner
from panekeeper.state.checkpoint.runs import read_end
from panekeeper.state.duration_text import duration_text

_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class OpenWork:
    """What a drained job has left open, as it recorded it: panes, kept rows, what is due next; None: not known."""

    panes: int | None
    rows: int | None
    next_due: str | None
    next_watermark: str | None


@dataclass(frozen=True, kw_only=True)
class DrainedJob(Result):
    """A job of another process that was drained.

    Attributes:
        checkpoint: its folder or URL.
        job: its name.
        state: how it ended: "ended", or "flushed".
        last_offset: number of the last batch begun.
        last_commit: number of the last batch committed.
        resumable: whether its next start resumes it.
        seconds: how long the drain took.
        batch: the last batch that it has recorded.
        open: what it left open; None, and `batch` too, if the job has not recorded it.
    """

    checkpoint: str
    job: str
    state: str
    last_offset: int | None
    last_commit: int | None
    resumable: bool
    seconds: float
    batch: int | None = None
    open: OpenWork | None = None

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields, without what the job has not recorded."""
        return {name: value for name, value in super().fields().items() if self.open or name not in ("batch", "open")}

    def _described(self) -> Iterator[str]:
        yield f"job {self.job!r} in {self.checkpoint}: {self.state} after {duration_text(self.seconds)}"
        next_start = "the next start resumes there" if self.resumable else "its windows are closed for good"
        yield f"{last_batches_text(self.last_offset, self.last_commit)}; {next_start}"
        if self.open is not None:
            known = {"panes": self.open.panes, "rows": self.open.rows}
            listed = ", ".join(f"{name} {number}" for name, number in known.items() if number is not None)
            yield f"still open: {listed or 'not known'}"
            if self.open.next_due is not None:
                yield f"next due: {self.open.next_due}"


def checkpoint_folder(checkpoint: str, s3: S3Options | None = None) -> CheckpointFolder:
    """Return the folder of a path or URL; one neither local nor on S3 is reached through Spark, which is started."""
    files = files_at(checkpoint, s3)
    if files is not None:
        return files
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.session.session import session

    return CheckpointFiles(session("panekeeper", cores=1), checkpoint.rstrip("/"))


def drain(
    root: CheckpointFolder,
    *,
    timeout: Duration = 300.0,
    now: Callable[[], int] = now_us,
    sleep: Callable[[float], None] = time.sleep,
) -> DrainedJob:
    """Drain the job that runs on a checkpoint, and return once it has ended and no batch is uncommitted.

    Raises `JobNotRunning` if no job runs there, or it crashed meanwhile; `JobFailed` if it failed before it had
    drained; `DrainTimeout`.
    """
    folder = current_folder(root)
    job_name(folder)
    began = now()
    owner = read_owner(folder)
    if owner is None or not owner.is_alive(began):
        raise JobNotRunning(_no_job_message(folder, owner))
    deadline = Deadline(to_seconds(timeout, "timeout"), clock=lambda: now() / 1e6)
    write_control_file(folder, "drain")  # 1
    while _still_runs(folder, owner, now()):  # 2
        _wait(folder, owner, deadline, sleep)
    end = read_end(folder)
    if end.get("token") == owner.token and end.get("state") == "failed":
        raise JobFailed(
            f"{owner} failed before it had drained. Remove the cause and start the job again: its checkpoint "
            f"{folder.root} is resumable\n{end.get('error', 'its own log has the cause')}"
        )
    while (batches := last_batches(folder))[0] != batches[1]:  # 3
        _wait(folder, owner, deadline, sleep)
    return _drained(folder, owner, batches, seconds=(now() - began) / 1e6)


def _still_runs(folder: CheckpointFolder, owner: LeaseOwner, now: int) -> bool:
    """Return whether this job still has the lease; raises `JobNotRunning` if it has crashed."""
    present = read_owner(folder)
    if present is None or present.token != owner.token:
        return False
    if not present.is_alive(now):
        if read_end(folder).get("token") == owner.token:
            return False
        raise JobNotRunning(_no_job_message(folder, present))
    return True


def _wait(folder: CheckpointFolder, owner: LeaseOwner, deadline: Deadline, sleep: Callable[[float], None]) -> None:
    left = deadline.seconds_left()
    if left <= 0:
        raise DrainTimeout(
            f"{owner} has not drained {folder.root} within {duration_text(deadline.seconds)}. It continues to drain "
            "and stays resumable: wait with a longer timeout (--timeout), or see "
            f"`panekeeper status {shlex.quote(folder.root)}`"
        )
    sleep(min(_POLL_SECONDS, left))


def _drained(
    folder: CheckpointFolder, owner: LeaseOwner, batches: tuple[int | None, int | None], *, seconds: float
) -> DrainedJob:
    end = read_end(folder)
    if end.get("token") != owner.token:
        end = {}  # of another job, which has the lease now
    flushed = is_flushed(folder)
    left = {"batch": end["batch"], "open": _open_work(end["open"])} if {"batch", "open"} <= end.keys() else {}
    return DrainedJob(
        checkpoint=folder.root,
        job=owner.name,
        state="flushed" if flushed else end.get("state", "ended"),
        last_offset=batches[0],
        last_commit=batches[1],
        resumable=not flushed,
        seconds=round(seconds, 1),
        **left,
    )


def _open_work(left: Mapping[str, Any]) -> OpenWork:
    """Return the open work as a job has recorded it, its times as text; what is after the year 9999 is never due."""
    due = {name: at for name in ("next_due", "next_watermark") if (at := left.get(name)) is not None and at <= LAST_US}
    times = {name: format_time(due[name]) if name in due else None for name in ("next_due", "next_watermark")}
    return OpenWork(panes=left.get("panes"), rows=left.get("tuples"), **times)


def _no_job_message(folder: CheckpointFolder, owner: LeaseOwner | None) -> str:
    if owner is not None:
        end = f"{owner} exited without releasing its lease, last heartbeat {format_time(owner.seen)}"
    elif (at := read_end(folder).get("at")) is not None:
        end = f"the last one ended {format_time(at)}"
    else:
        end = "none has ended there before"
    return (
        f"no job runs on {folder.root}: {end}. There is nothing to drain; start the job again to resume it, or see "
        f"`panekeeper status {shlex.quote(folder.root)}`"
    )
