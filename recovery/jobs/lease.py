"""Whether a job runs on a checkpoint now, by its lease (`state/checkpoint/owner.py`)."""

from __future__ import annotations

from collections.abc import Callable

from recovery.errors import SavepointRefused
from state.checkpoint.clock import now_us
from state.checkpoint.folder import CheckpointFolder
from state.checkpoint.owner import LeaseOwner, read_owner


def running_on(folder: CheckpointFolder, *, now: Callable[[], int] = now_us) -> LeaseOwner | None:
    """Return the owner of a checkpoint's lease, on this host or another one; None if no job runs.

    Args:
        folder: the checkpoint.
        now: returns the time, us since the epoch.
    """
    owner = read_owner(folder)
    return owner if owner is not None and owner.is_alive(now()) else None


def require_stopped(folder: CheckpointFolder, *, now: Callable[[], int] = now_us) -> None:
    """Refuse a checkpoint on which a job runs.

    Args:
        folder: the checkpoint.
        now: returns the time, us since the epoch.

    Raises:
        SavepointRefused: a job runs there.
    """
    owner = running_on(folder, now=now)
    if owner is not None:
        raise SavepointRefused(
            f"{folder.root} is in use: {owner} runs on it; drain it first: panekeeper drain {folder.root}"
        )
