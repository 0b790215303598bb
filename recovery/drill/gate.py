"""Where the jobs of a program wait for each other, so that one kill meets all of them at the same point."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from framework.engine import fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from recovery.drill.errand import Telling


class Gate:
    """A fault that strikes once every job that has not ended is at its point. Used by the threads of the queries."""

    def __init__(self, point: str, batch: int, jobs: int, then: Callable[[], object]) -> None:
        self._point, self._batch, self._then = point, batch, then
        self._jobs = jobs
        self._changed = threading.Condition()
        self._here = 0

    def wants(self, point: str, batch: int) -> bool:
        """Say whether a job waits here: at the point, in the batch or one after it."""
        return point == self._point and batch >= self._batch

    def strike(self) -> None:
        """Wait for the others; nobody leaves."""
        with self._changed:
            self._here += 1
            self._look()
        threading.Event().wait()

    def ended(self) -> None:
        """Say that a job has ended without coming here, so nobody need wait for it."""
        with self._changed:
            self._jobs -= 1
            self._look()

    def _look(self) -> None:
        if self._here and self._here >= self._jobs:
            self._then()


class Ambush(Gate):
    """As a gate, but the first job that comes is enough: in the midst of a batch nobody can be made to wait."""

    def strike(self) -> None:
        """Do it."""
        self._then()

    def ended(self) -> None:
        """Nothing: nobody waits."""


class Once(Ambush):
    """As an ambush, but the program lives on, so it must not be done again."""

    def __init__(self, point: str, batch: int, jobs: int, then: Callable[[], object]) -> None:
        super().__init__(point, batch, jobs, then)
        self._struck = threading.Lock()

    def strike(self) -> None:
        """Do it, the first time."""
        if self._struck.acquire(blocking=False):
            super().strike()


def kill_workers(telling: Telling) -> None:
    """Kill Python workers of this process's Java machine until a task has failed by it."""
    from pyspark import SparkContext

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001 -- no public handles
    assert context is not None
    assert gateway is not None
    tracker = context.statusTracker()
    killed = 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if killed and (not stages or any(stage and stage.numFailedTasks for stage in stages)):
            break
        for pid in _workers(gateway.proc.pid):
            os.kill(pid, signal.SIGKILL)
            killed += 1
        time.sleep(0.01)  # a drill only: until Spark has noticed
    telling.tell("", "killed", number=killed)


def kill_executors(telling: Telling) -> None:
    """Kill the executors of this program."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 -- as above
    assert context is not None
    own = [b"CoarseGrainedExecutorBackend", (context.applicationId or "?").encode()]
    pids = [pid for pid, _, command in _processes() if all(word in command for word in own)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    telling.tell("", "killed", number=len(pids))


def _processes() -> Iterator[tuple[int, int, bytes]]:
    """All processes of this machine: number, parent, command."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            yield int(entry.name), int(fields[1]), command


def _workers(java: int) -> list[int]:
    """The workers: children of the daemons, which are children of the Java machine."""
    parents = {pid: parent for pid, parent, command in _processes() if b"pyspark" in command}
    return [pid for pid, parent in parents.items() if parents.get(parent) == java]


def die_together(jobs: int) -> Callable[[], None]:
    """Return what each of so many threads calls: none comes back, and with the last of them the process dies."""
    gate = Gate("", 0, jobs, fault.die)
    return gate.strike
