"""The processor time of a run: of its driver, its Java machine and its Python workers, each by itself.

Other programs on the machine make a run take longer; they hardly change the processor time that it needs. The counters
are those of the system. Linux only; elsewhere there are no figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.processes import KINDS, Process, processes_of


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
    taken, before = ProcessorTime(), processes_of(driver)
    yield taken
    taken.seconds = seconds_since(before, processes_of(driver))


def seconds_since(before: list[Process], after: list[Process]) -> dict[str, float]:
    """Return the processor time that processes have taken since, seconds by kind; nothing where there are none.

    What a process has reaped is part of its time, and was a worker. Spark's daemon reaps none of its workers, so of one
    that has ended no counter tells. It ends after a minute without work, and the run that used it has counted it.
    """
    begun = {process.folder: process for process in before}
    seconds = dict.fromkeys(KINDS if after else (), 0.0)
    for process in after:
        known = begun.get(process.folder)
        seconds[process.kind] += process.seconds - (known.seconds if known else 0)
        seconds["workers"] += process.reaped_seconds - (known.reaped_seconds if known else 0)
    return seconds
