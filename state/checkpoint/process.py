"""Is that process still there? A number alone does not say: the system gives it to another one later."""

from __future__ import annotations

import os
from pathlib import Path


def started_at(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the machine did; None where the system does not tell."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def space() -> str | None:
    """Return in which space of process numbers this process lives; None where the system does not tell.

    Containers on one machine, or of one pod, may share its name and still not see each other's processes.
    """
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def is_alive(pid: int, started: int | None) -> bool:
    """Say whether process `pid` of this machine runs, and is the one that started at `started` (None: any)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, but there
    fields = _stat(pid)
    if not fields:
        return True
    ended = fields[0] in "ZX"  # a zombie only waits for its parent to ask how it ended
    return not ended and (started is None or int(fields[19]) == started)


def _stat(pid: int) -> list[str]:
    """Return the fields of Linux's process status from the third on, after the name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
