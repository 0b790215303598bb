"""The memory of a run: the greatest that its driver, its Java machine and its Python workers had together.

The Java machine is the same for all contenders and gives little back, so only the least figure of several runs says
something about one of them. Workers start with each query. Linux only; elsewhere there are no figures.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.processes import KINDS, PROC, Process, processes_of

_PERIOD = 0.25


class MemoryPeak:
    """The greatest memory so far, MB, by kind of process."""

    def __init__(self) -> None:
        self.megabytes: dict[str, int] = {}
        self.processor_seconds = 0.0
        """What looking has taken, in this process; known in the end."""

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
        peak.processor_seconds = time.thread_time()

    thread = threading.Thread(target=watch, daemon=True)
    if PROC.is_dir():
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
    sizes = dict.fromkeys(KINDS, 0)
    for process in processes_of(driver):
        try:
            sizes[process.kind] += _size(process)
        except OSError:  # it has ended
            continue
    return sizes


def _size(process: Process) -> int:
    """Return bytes in memory; of workers, which share pages with what they were forked from, their part of them."""
    if process.kind == "workers":
        for line in (process.folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return int((process.folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
