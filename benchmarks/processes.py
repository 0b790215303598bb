"""The processes of a run: its driver, and all that it started. Linux only; elsewhere there are none."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
KINDS = ("driver", "java", "workers")
"""Kinds of processes: the driver, the Java machines below it, and everything else below it."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """A process at one instant.

    Attributes:
        folder: where the system describes it.
        kind: one of `KINDS`.
        seconds: the processor time that it has taken.
        reaped_seconds: that of its children that have ended, and of theirs.
    """

    folder: Path
    kind: str
    seconds: float
    reaped_seconds: float


def processes_of(driver: int, proc: Path = PROC) -> list[Process]:
    """Return a driver and all that it started and that has not ended, in no order; none if the driver has ended.

    Args:
        driver: its process id.
        proc: where the system describes processes.
    """
    found = {int(path.name): stat for path in _folders(proc) if (stat := _stat(path)) is not None}
    ours = {driver} & found.keys()
    while more := {pid for pid, stat in found.items() if stat.parent in ours} - ours:
        ours |= more
    return [found[pid].process(proc / str(pid), is_driver=pid == driver) for pid in ours]


@dataclass(frozen=True)
class _Stat:
    """What is used of a file `stat`; times in ticks of the clock (`man 5 proc_pid_stat`)."""

    name: str
    parent: int
    ticks: int
    reaped_ticks: int

    def process(self, folder: Path, *, is_driver: bool) -> Process:
        a_second = os.sysconf("SC_CLK_TCK")
        kind = "driver" if is_driver else "java" if self.name == "java" else "workers"
        return Process(
            folder=folder, kind=kind, seconds=self.ticks / a_second, reaped_seconds=self.reaped_ticks / a_second
        )


def _folders(proc: Path) -> list[Path]:
    return [path for path in proc.iterdir() if path.name.isdigit()] if proc.is_dir() else []


def _stat(folder: Path) -> _Stat | None:
    try:
        before, _, after = (folder / "stat").read_text().rpartition(")")  # a name may have spaces and brackets
        fields = after.split()
        user, system, reaped_user, reaped_system = map(int, fields[11:15])
    except (OSError, ValueError):  # it has ended
        return None
    return _Stat(before.partition("(")[2], int(fields[1]), user + system, reaped_user + reaped_system)
