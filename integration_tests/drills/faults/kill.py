"""How the Python workers and the executors of this program are found and killed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from panekeeper.state.checkpoint.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext, StatusTracker

_TIMEOUT_SECONDS = 60.0
_STAGES_BETWEEN_POLLS = 20
"""At most this many stages begin between two polls of the status tracker."""


class Killed(NamedTuple):
    """What a kill did.

    Attributes:
        number: of the processes that were killed.
        task_failed: whether Spark reported a failed task meanwhile; None if that is not checked.
    """

    number: int
    task_failed: bool | None


def kill_workers() -> Killed:
    """Kill the Python workers of this program until a task has failed because of it, for 60 s at most."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    java = gateway.proc.pid
    return kill_until_task_fails(_spark_context().statusTracker(), lambda: _kill(_workers(java)))


def kill_until_task_fails(
    tracker: StatusTracker, kill: Callable[[], int], *, seconds: float = _TIMEOUT_SECONDS
) -> Killed:
    """Call `kill` again and again until Spark reports a failed task.

    An idle worker can be killed without any effect, so the number of killed workers alone shows nothing. A stage that
    has failed is no longer active, but the tracker still has it; a stage may also begin and end between two polls.

    Args:
        tracker: of the Spark context.
        kill: kills workers and returns how many.
        seconds: after which to give up.
    """
    killed = 0
    seen: set[int] = set()
    deadline = Deadline(seconds)
    while not deadline.has_passed():
        active = tracker.getActiveStageIds()
        seen.update(active)
        stages = active or (range(min(seen), max(seen) + _STAGES_BETWEEN_POLLS) if seen else ())
        if killed and any((info := tracker.getStageInfo(stage)) and info.numFailedTasks for stage in stages):
            return Killed(killed, task_failed=True)
        killed += kill()
        time.sleep(0.01)  # polls: the status tracker has no callback
    return Killed(killed, task_failed=False)


def kill_executors() -> Killed:
    """Kill the executors of this program."""
    own = [b"CoarseGrainedExecutorBackend", (_spark_context().applicationId or "?").encode()]
    pids = [pid for pid, _, command in _processes() if all(word in command for word in own)]
    return Killed(_kill(pids), task_failed=None)


def _spark_context() -> SparkContext:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    return context


def _kill(pids: list[int]) -> int:
    killed = 0
    for pid in pids:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def _processes() -> Iterator[tuple[int, int, bytes]]:
    """Yield all processes of this host: process id, parent's process id, command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            yield int(entry.name), int(fields[1]), command


def _workers(java: int) -> list[int]:
    """Return the Python workers: children of the daemons, which are children of the Java virtual machine."""
    parents = {pid: parent for pid, parent, command in _processes() if b"pyspark" in command}
    return [pid for pid, parent in parents.items() if parents.get(parent) == java]
