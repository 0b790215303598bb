"""The processor time of a run: of its driver, its Java machine and its Python workers, each by itself.

Other programs on the machine make a run take longer; they hardly change the processor time that it needs. The counters
are those of the system. Linux only; elsewhere there are no figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import KINDS, PROC, processes_of


class ProcessorTime:
    """Seconds of processor time by kind of process, of a block that has ended; empty where there are no figures."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def leave_out(self, kind: str, seconds: float) -> None:
        """Take away what was not the run's, such as the measurement itself."""
        if kind in self.seconds:
            self.seconds[kind] = max(0.0, self.seconds[kind] - seconds)


@contextmanager
def processor_time(driver: int) -> Iterator[ProcessorTime]:
    """Count the processor time that a driver and all that it starts take until the end of the block.

    Args:
        driver: its process id.
    """
    taken, before = ProcessorTime(), processor_seconds(driver)
    yield taken
    after = processor_seconds(driver)
    taken.seconds = {kind: after[kind] - seconds for kind, seconds in before.items() if kind in after}


def processor_seconds(driver: int, proc: Path = PROC) -> dict[str, float]:
    """Return the processor time that a driver and all that it started have taken so far, seconds by kind of process.

    What has ended is part of the time of the process that started it, and was a worker.
    """
    processes = processes_of(driver, proc)
    seconds = dict.fromkeys(KINDS if processes else (), 0.0)
    for process in processes:
        seconds[process.kind] += process.seconds
        seconds["workers"] += process.reaped_seconds
    return seconds
