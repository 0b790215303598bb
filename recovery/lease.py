"""Does a job run on this checkpoint right now? It says so itself, by its lease (`framework/engine/holder.py`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from framework.engine.folder import LocalFolder
from framework.engine.holder import read_holder, wall_us
from recovery.errors import SavepointRefused


def require_stopped(folder: Path, *, now: Callable[[], int] = wall_us) -> None:
    """Raise `SavepointRefused` while a job runs on this checkpoint, here or on another machine."""
    holder = read_holder(LocalFolder(folder))
    if holder is not None and holder.is_alive(now()):
        raise SavepointRefused(f"{folder} is in use: {holder} runs on it; drain it first: panekeeper drain {folder}")
