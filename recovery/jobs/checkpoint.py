"""Which job a checkpoint belongs to, whether it runs there now, and how none can start.

Whether it runs is known by its lease (`state/checkpoint/lease_owner.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from panekeeper.framework.declarations.errors import CheckpointError, CheckpointInUse, ForeignCheckpoint
from panekeeper.framework.engine.job.lease import Lease, acquire, if_it_crashed, runs
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.epochs import (
    POINTER_FILE,
    Root,
    current_epoch,
    epoch_folder,
    is_begun,
    read_begin,
    read_pointer,
)
from panekeeper.state.checkpoint.folder import JOB_FILE, CheckpointFolder
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.checkpoint.lease_owner import LeaseOwner, read_owner


def current_folder(root: Root) -> Root:
    """Return the folder of the current epoch of a checkpoint. Raises `ForeignCheckpoint` if there is none."""
    folder = current_epoch(root)
    if folder is None:
        raise no_checkpoint(root, POINTER_FILE)
    return folder


def no_checkpoint(folder: CheckpointFolder, missing: str) -> ForeignCheckpoint:
    """Return the error for a folder without one of the files that every checkpoint has."""
    return ForeignCheckpoint(
        f"{folder.root} holds no checkpoint of Panekeeper ({missing} is not there); give the folder that "
        "start(checkpoint=...) got; if that is this one, and what was in it is lost, bring it back from a savepoint: "
        "`panekeeper restore LOCATION NAME`"
    )


def require_current_record(folder: CheckpointFolder) -> JobRecord:
    """Return the record of a job whose tables fit its checkpoint, as what began its epoch is complete."""
    record = read_record(folder)
    if record is None:
        raise no_checkpoint(folder, JOB_FILE)
    if not is_begun(folder):
        begin = read_begin(folder)
        what = "reset" if begin is None else begin.kind
        raise SavepointRefused(
            f"a {what} of the job of {folder.root} is not complete: its tables do not fit the checkpoint yet. Start "
            "the job once, which completes it"
        )
    return record


def require_still_current(root: Files, record: JobRecord) -> None:
    """Raise `SavepointRefused` if a restore or reset has begun another epoch meanwhile."""
    pointer = read_pointer(root)
    if pointer is None or pointer.epoch != record.epoch:
        raise SavepointRefused(f"{root.root} was restored or reset meanwhile; run the same command again")


def running_on(folder: CheckpointFolder, *, now: Callable[[], int] = now_us) -> LeaseOwner | None:
    """Return the owner of a checkpoint's lease, on this host or another one; None if no job runs."""
    owner = read_owner(folder)
    return owner if owner is not None and runs(owner, now()) else None


def require_stopped(folder: CheckpointFolder, *, now: Callable[[], int] = now_us) -> None:
    """Raise `SavepointRefused` if a job runs on a checkpoint."""
    owner = running_on(folder, now=now)
    if owner is None:
        return
    what = (
        "wait until it has ended"
        if owner.what != "job"
        else f"drain it first: `panekeeper drain {shlex.quote(folder.root)}`"
    )
    raise SavepointRefused(f"{folder.root} is in use: {owner} runs on it; {what}{if_it_crashed(folder, owner, now())}")


@contextmanager
def holding(folder: CheckpointFolder, job: str, what: str) -> Iterator[Lease]:
    """Hold the lease of a checkpoint while the block lasts, with heartbeats: no job runs there or starts.

    `what` is what the block does, as in "the restore of job".
    """
    require_stopped(folder)
    try:
        lease = acquire(folder, job, what=what)
    except CheckpointInUse as error:
        raise SavepointRefused(str(error)) from error
    except CheckpointError as error:
        raise SavepointError(f"{error}, and run the same command again") from error
    with lease.held():
        yield lease


@contextmanager
def holding_current(root: Files, record: JobRecord, what: str) -> Iterator[Lease]:
    """Hold the lease of the epoch of a record, as `holding`. Refuse one that is not current any more.

    Between the look at the pointer and the lease, a restore or reset may have come to its end.
    """
    with holding(epoch_folder(root, record.epoch), record.name, what) as lease:
        require_still_current(root, record)
        yield lease
