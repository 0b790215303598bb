"""The memory of a run: the greatest that its driver, its Java machine and its Python workers had together.

The Java machine is the same for all contenders and gives little back, so only the least figure of several runs says
something about one of them. Workers start with each query. Linux only; elsewhere there are no figures.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PERIOD = 0.25
_PROC = Path("/proc")


class MemoryPeak:
    """The greatest memory so far, MB, by kind of process."""

    def __init__(self) -> None:
        self.megabytes: dict[str, int] = {}

    def sample(self) -> None:
        """Look at the processes now."""
        for kind, size in memory_of(os.getpid()).items():
            self.megabytes[kind] = max(size >> 20, self.megabytes.get(kind, 0))


@contextmanager
def peak_memory() -> Iterator[MemoryPeak]:
    """Sample the memory of this process and of all that it started, until the end of the block."""
    peak, ended = MemoryPeak(), threading.Event()

    def watch() -> None:
        while not ended.wait(_PERIOD):
            peak.sample()

    thread = threading.Thread(target=watch, daemon=True)
    if _PROC.is_dir():
        thread.start()
    try:
        yield peak
    finally:
        ended.set()
        if thread.ident is not None:
            thread.join()


def memory_of(driver: int) -> dict[str, int]:
    """Return the bytes in memory of a driver and all that it started, by kind of process; 0 of what has ended.

    Args:
        driver: its process id.
    """
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    ours = {driver}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    sizes = {"driver": 0, "java": 0, "workers": 0}
    for pid in ours:
        try:
            name = (_PROC / str(pid) / "comm").read_text().strip()
            kind = "driver" if pid == driver else "java" if name == "java" else "workers"
            sizes[kind] += _size(pid, shared=kind == "workers")
        except OSError:  # it has ended
            continue
    return sizes


def _size(pid: int, *, shared: bool) -> int:
    """Return bytes in memory; of workers, which share pages with what they were forked from, their part of them."""
    if shared:
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _pids() -> list[int]:
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()] if _PROC.is_dir() else []


def _parent(pid: int) -> int | None:
    try:
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None
