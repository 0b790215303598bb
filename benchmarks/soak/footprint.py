"""How much memory the job's processes take and how much disk its state, sampled beside the run. Linux only."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.memory import memory_of

KINDS = ("driver", "java", "workers")
_PERIOD = 1.0
_DISK_PERIOD = 10.0
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The memory of one process of the job at one time.

    Attributes:
        at: seconds since the epoch.
        pid: of the driver.
        memory: bytes, by kind of process.
    """

    at: float
    pid: int
    memory: dict[str, int]


@dataclass
class Footprint:
    """What was sampled.

    Attributes:
        memory: samples of the memory, in order.
        state: samples of the state: time, and bytes on disk.
    """

    memory: list[Sample] = field(default_factory=list)
    state: list[tuple[float, int]] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Return the figures of a report, MB.

        Growth is the median of the last third less that of the first third: of all samples, and of those of the
        process that ran longest. A process that was killed begins with little memory again.
        """
        lives: dict[int, list[Sample]] = {}
        for sample in self.memory:
            lives.setdefault(sample.pid, []).append(sample)
        longest = max(lives.values(), key=lambda life: life[-1].at - life[0].at, default=[])
        sizes = [size for _, size in self.state]
        return {
            "memory_mb": {
                kind: {
                    "max": _megabytes(max((one.memory[kind] for one in self.memory), default=0)),
                    "growth": growth([one.memory[kind] for one in self.memory]),
                    "growth_of_longest_process": growth([one.memory[kind] for one in longest]),
                }
                for kind in KINDS
            },
            "longest_process_seconds": round(longest[-1].at - longest[0].at) if longest else 0,
            "state_mb": {
                "max": _megabytes(max(sizes, default=0)),
                "end": _megabytes(sizes[-1] if sizes else 0),
                "growth": growth(sizes),
            },
        }


def growth(sizes: Sequence[int]) -> int | None:
    """Return the median of the last third less that of the first third, MB; None of fewer than three samples."""
    third = len(sizes) // 3
    return round((median(sizes[-third:]) - median(sizes[:third])) / _MEGABYTE) if third else None


def bytes_below(folder: Path) -> int:
    """Return how many bytes the files below a folder have; files that come and go meanwhile count or not."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size  # noqa: PTH116, PTH118 -- thousands of files
            except FileNotFoundError:
                continue
    return total


@contextmanager
def sampled(pid: Callable[[], int | None], state: Path) -> Iterator[Footprint]:
    """Sample until the end of the block.

    Args:
        pid: returns the process id of the job's driver; None while there is none.
        state: the folder of the job's state.
    """
    found, ended = Footprint(), threading.Event()

    def watch() -> None:
        looked = 0.0
        while not ended.wait(_PERIOD):
            now, driver = time.time(), pid()
            if driver is not None and (memory := memory_of(driver))["driver"]:
                found.memory.append(Sample(now, driver, memory))
            if now - looked >= _DISK_PERIOD:
                found.state.append((now, bytes_below(state)))
                looked = now

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()
        found.state.append((time.time(), bytes_below(state)))


def _megabytes(size: int) -> float:
    return round(size / _MEGABYTE, 1)
