"""Whether a process still runs. Its number alone does not say so: the system gives it to another process later."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

PROCESS_ID = uuid.uuid4().hex
"""Random, of this process: hosts and containers may have the same name, and their processes the same number."""


def boot_id() -> str | None:
    """Return what Linux calls this boot of the machine; None where the system has no name for it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def started_at(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the host did; None where the system does not report it."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def pid_namespace() -> str | None:
    """Return the PID namespace of this process, as Linux names it; None where the system has none.

    Containers on one host, or of one pod, may share the host's name and not see each other's processes.
    """
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def is_alive(pid: int, started: int | None) -> bool:
    """Return whether process `pid` of this host runs, and is the one that started at `started` (None: any)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's, but there
    fields = _stat(pid)
    if not fields:
        return True
    ended = fields[0] in "ZX"  # a zombie has ended; only its exit status remains
    return not ended and (started is None or int(fields[19]) == started)


def _stat(pid: int) -> list[str]:
    """Return the fields of Linux's process status from the third on, after the name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
