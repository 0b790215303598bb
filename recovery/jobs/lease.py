"""Whether a job runs on a checkpoint now, by its lease (`state/checkpoint/lease.py`), and how none can start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from panekeeper.framework.declarations.errors import CheckpointError, CheckpointInUse
from panekeeper.framework.engine.job.lease import Lease, acquire, if_it_crashed, runs
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.folder import CheckpointFolder
from panekeeper.state.checkpoint.lease import LeaseOwner, read_owner


def running_on(folder: CheckpointFolder, *, now: Callable[[], int] = now_us) -> LeaseOwner | None:
    """Return the owner of a checkpoint's lease, on this host or another one; None if no job runs.

    Args:
        folder: the checkpoint.
        now: returns the time, us since the epoch.
    """
    owner = read_owner(folder)
    return owner if owner is not None and runs(owner, now()) else None


def require_stopped(folder: CheckpointFolder, *, now: Callable[[], int] = now_us) -> None:
    """Refuse a checkpoint on which a job runs.

    Args:
        folder: the checkpoint.
        now: returns the time, us since the epoch.

    Raises:
        SavepointRefused: a job runs there.
    """
    owner = running_on(folder, now=now)
    if owner is None:
        return
    what = "wait until it has ended" if owner.what != "job" else f"drain it first: panekeeper drain {folder.root}"
    raise SavepointRefused(f"{folder.root} is in use: {owner} runs on it; {what}{if_it_crashed(folder, owner, now())}")


@contextmanager
def holding(folder: CheckpointFolder, job: str, what: str) -> Iterator[Lease]:
    """Hold the lease of a checkpoint while the block lasts, with heartbeats: no job runs there or starts.

    A process that was paused until its lease could be taken over has lost it for good; its files are put back.

    Args:
        folder: the checkpoint.
        job: the name of its job.
        what: what the block does, as in "the restore of job".

    Raises:
        SavepointRefused: a job runs there, or something else holds the lease.
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
