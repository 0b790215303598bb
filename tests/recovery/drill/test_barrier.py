"""A fault happens once, and Python workers are killed until Spark reports a failed task."""

from __future__ import annotations

import threading
import time

from pyspark import StatusTracker
from pyspark.core.status import SparkStageInfo

from recovery.drill.faults.barrier import OneTimeFault
from recovery.drill.faults.kill import kill_until_task_fails


class Stages(StatusTracker):
    """A status tracker that returns, from poll to poll, which stages are active and which have failed tasks."""

    def __init__(self, *polls: tuple[list[int], set[int]]) -> None:
        self.polls = [*polls]
        self.failed: set[int] = set()

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 -- Spark's name
        if len(self.polls) > 1:
            active, self.failed = self.polls.pop(0)
        else:
            active, self.failed = self.polls[0]
        return active

    def getStageInfo(self, stageId: int) -> SparkStageInfo | None:  # noqa: N802, N803 -- Spark's names
        return SparkStageInfo(stageId, 0, "", 2, 1, 0, int(stageId in self.failed)) if stageId < 50 else None


def kill_until(*polls: tuple[list[int], set[int]], killed: int = 1) -> tuple[int, bool | None]:
    """Kill `killed` workers after each poll."""
    return kill_until_task_fails(Stages(*polls), lambda: killed, seconds=0.3)


def test_killing_ends_once_any_stage_has_a_failed_task() -> None:
    """A stage that is active, one that was, and one that began and ended between two polls."""
    assert kill_until(([7], set()), ([7], {7})) == (1, True)
    assert kill_until(([7], set()), ([], {7})) == (1, True)
    assert kill_until(([7], set()), ([], {9})) == (1, True)


def test_killing_continues_while_no_task_has_failed() -> None:
    """Stages that succeed, failures from before it began and a poll without workers are no evidence."""
    assert kill_until(([7], set()), ([], set()), ([8], set()), ([8], {8})) == (3, True)
    assert kill_until(([7], {3}), ([], {3}))[1] is False
    assert kill_until(([7], {7}), killed=0) == (0, False)
    assert kill_until(([], set()))[1] is False


def test_a_program_waits_for_a_triggered_action_and_for_no_other() -> None:
    """The action logs its effect after the jobs have failed by it."""
    begun, written = threading.Event(), []

    def kill() -> None:
        begun.set()
        time.sleep(0.05)  # longer than it takes to come to `wait_until_done`
        written.append("killed")

    once = OneTimeFault("mid-batch", 2, 1, kill)
    once.wait_until_done()
    threading.Thread(target=once.trigger).start()
    begun.wait()
    once.wait_until_done()
    assert written == ["killed"]
