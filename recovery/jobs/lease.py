"""Does a job run on this checkpoint right now? It says so itself, by its lease (`state/checkpoint/owner.py`)."""

from __future__ import annotations

from collections.abc import Callable

from recovery.errors import SavepointRefused
from state.checkpoint.clock import now_us
from state.checkpoint.folder import CheckpointFolder
from state.checkpoint.owner import LeaseOwner, read_owner


def running_on(folder: CheckpointFolder, *, now: Callable[[], int] = now_us) -> LeaseOwner | None:
    """Return who runs a job on this checkpoint, here or on another machine; None if nobody does."""
    holder = read_owner(folder)
    return holder if holder is not None and holder.is_alive(now()) else None


def require_stopped(folder: CheckpointFolder, *, now: Callable[[], int] = now_us) -> None:
    """Raise `SavepointRefused` while a job runs on this checkpoint."""
    holder = running_on(folder, now=now)
    if holder is not None:
        raise SavepointRefused(
            f"{folder.root} is in use: {holder} runs on it; drain it first: panekeeper drain {folder.root}"
        )
