"""How Python workers are killed until a task has failed by it: the looks at Spark's stages, one after the other."""

from __future__ import annotations

import threading
import time

from pyspark import StatusTracker
from pyspark.core.status import SparkStageInfo

from recovery.drill.faults.barrier import Once, kill_until_noticed


class Stages(StatusTracker):
    """Stages as they are from look to look: which are active, and which have failed tasks."""

    def __init__(self, *looks: tuple[list[int], set[int]]) -> None:
        self.looks = [*looks]
        self.failed: set[int] = set()

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 -- Spark's name
        if len(self.looks) > 1:
            active, self.failed = self.looks.pop(0)
        else:
            active, self.failed = self.looks[0]
        return active

    def getStageInfo(self, stageId: int) -> SparkStageInfo | None:  # noqa: N802, N803 -- Spark's names
        return SparkStageInfo(stageId, 0, "", 2, 1, 0, int(stageId in self.failed)) if stageId < 50 else None


def looks_until_noticed(*looks: tuple[list[int], set[int]], killed: int = 1) -> tuple[int, bool]:
    """Kill so many workers after each look."""
    return kill_until_noticed(Stages(*looks), lambda: killed, seconds=0.3)


def test_it_ends_once_a_task_has_failed_wherever_that_is_told() -> None:
    """In a stage that is active, in one that was, and in one that came and went between two looks."""
    assert looks_until_noticed(([7], set()), ([7], {7})) == (1, True)
    assert looks_until_noticed(([7], set()), ([], {7})) == (1, True)
    assert looks_until_noticed(([7], set()), ([], {9})) == (1, True)


def test_it_goes_on_while_no_task_has_failed() -> None:
    """Stages that end well, failures from before it began and workers that are not there show nothing."""
    assert looks_until_noticed(([7], set()), ([], set()), ([8], set()), ([8], {8})) == (3, True)
    assert looks_until_noticed(([7], {3}), ([], {3}))[1] is False
    assert looks_until_noticed(([7], {7}), killed=0) == (0, False)
    assert looks_until_noticed(([], set()))[1] is False


def test_a_program_waits_for_what_has_begun_and_for_nothing_else() -> None:
    """What shows the hit is told after the jobs have failed by it."""
    begun, told = threading.Event(), []

    def kill() -> None:
        begun.set()
        time.sleep(0.05)  # longer than it takes to come to `settle`
        told.append("killed")

    once = Once("mid-batch", 2, 1, kill)
    once.settle()
    threading.Thread(target=once.trigger).start()
    begun.wait()
    once.settle()
    assert told == ["killed"]
