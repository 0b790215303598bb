"""Does a job run on this checkpoint right now? It says so itself, by its lease (`state/checkpoint/owner.py`)."""

from __future__ import annotations

from collections.abc import Callable

from recovery.errors import SavepointRefused
from state.checkpoint.folder import CheckpointFolder
from state.checkpoint.owner import Holder, read_holder, wall_us


def running_on(folder: CheckpointFolder, *, now: Callable[[], int] = wall_us) -> Holder | None:
    """Return who runs a job on this checkpoint, here or on another machine; None if nobody does."""
    holder = read_holder(folder)
    return holder if holder is not None and holder.is_alive(now()) else None


def require_stopped(folder: CheckpointFolder, *, now: Callable[[], int] = wall_us) -> None:
    """Raise `SavepointRefused` while a job runs on this checkpoint."""
    holder = running_on(folder, now=now)
    if holder is not None:
        raise SavepointRefused(
            f"{folder.root} is in use: {holder} runs on it; drain it first: panekeeper drain {folder.root}"
        )
