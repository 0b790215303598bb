"""Where the jobs of a program wait for each other, so that one kill meets all of them at the same point."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from framework.engine.sink import fault_points as fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import StatusTracker

    from recovery.drill.process.messages import Telling

_PATIENCE_SECONDS = 60.0
_BETWEEN_TWO_LOOKS = 20
"""So many stages may have begun since those that were seen, at most."""


class Gate:
    """A fault that strikes once every job that has not ended is at its point. Used by the threads of the queries."""

    def __init__(self, point: str, batch: int, jobs: int, then: Callable[[], object]) -> None:
        self._point, self._batch, self._then = point, batch, then
        self._jobs = jobs
        self._changed = threading.Condition()
        self._here = 0

    def matches(self, point: str, batch: int) -> bool:
        """Say whether a job waits here: at the point, in the batch or one after it."""
        return point == self._point and batch >= self._batch

    def trigger(self) -> None:
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

    def settle(self) -> None:
        """Wait until what was begun here is over, before the program ends. Of most gates nothing is left."""


class Ambush(Gate):
    """As a gate, but the first job that comes is enough: in the midst of a batch nobody can be made to wait."""

    def trigger(self) -> None:
        """Do it."""
        self._then()

    def ended(self) -> None:
        """Nothing: nobody waits."""


class Once(Ambush):
    """As an ambush, but the program lives on, so it must not be done again."""

    def __init__(self, point: str, batch: int, jobs: int, then: Callable[[], object]) -> None:
        super().__init__(point, batch, jobs, then)
        self._struck = threading.Lock()
        self._over = threading.Event()

    def trigger(self) -> None:
        """Do it, the first time."""
        if self._struck.acquire(blocking=False):
            try:
                super().trigger()
            finally:
                self._over.set()

    def settle(self) -> None:
        """Wait for it, if it has begun: what it has to tell comes after the failure of the jobs that it hit."""
        if self._struck.locked():
            self._over.wait()


def kill_workers(telling: Telling) -> None:
    """Kill Python workers of this process's Java machine until a task has failed by it, and tell if one has."""
    from pyspark import SparkContext

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001 -- no public handles
    assert context is not None
    assert gateway is not None
    java = gateway.proc.pid
    killed, noticed = kill_until_noticed(context.statusTracker(), lambda: _kill(_workers(java)))
    telling.tell("", "killed", number=killed, noticed=noticed)


def kill_until_noticed(
    tracker: StatusTracker, kill: Callable[[], int], *, seconds: float = _PATIENCE_SECONDS
) -> tuple[int, bool]:
    """Kill again and again, and return how many were killed, and whether Spark says that a task failed meanwhile.

    A worker that is killed while it is idle is missed by nobody, so that alone shows nothing. A stage that has failed
    is not active any more, but the tracker still tells of it; one may have come and gone between two looks.
    """
    killed = 0
    seen: set[int] = set()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        active = tracker.getActiveStageIds()
        seen.update(active)
        looked_at = active or (range(min(seen), max(seen) + _BETWEEN_TWO_LOOKS) if seen else ())
        if killed and any((stage := tracker.getStageInfo(one)) and stage.numFailedTasks for one in looked_at):
            return killed, True
        killed += kill()
        time.sleep(0.01)  # a drill only: until Spark has noticed
    return killed, False


def _kill(pids: list[int]) -> int:
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def kill_executors(telling: Telling) -> None:
    """Kill the executors of this program."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 -- as above
    assert context is not None
    own = [b"CoarseGrainedExecutorBackend", (context.applicationId or "?").encode()]
    pids = [pid for pid, _, command in _processes() if all(word in command for word in own)]
    telling.tell("", "killed", number=_kill(pids))


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
    gate = Gate("", 0, jobs, fault.kill_process)
    return gate.trigger
