"""A fault happens once, and Python workers are killed until Spark reports a failed task."""

from __future__ import annotations

import threading

import pytest
from pyspark import StatusTracker
from pyspark.core.status import SparkStageInfo

from integration_tests.drills.faults.barrier import BarrierFault, HoldingFault, OneTimeFault
from integration_tests.drills.faults.kill import kill_until_task_fails


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


class ReleasingEvent(threading.Event):
    """An event that releases another thread once a thread waits for it."""

    def __init__(self, released: threading.Event) -> None:
        super().__init__()
        self.released = released

    def wait(self, timeout: float | None = None) -> bool:
        self.released.set()
        return super().wait(timeout)


def test_a_program_waits_for_a_triggered_action_and_for_no_other() -> None:
    """The action logs its effect after the jobs have failed by it."""
    begun, released = threading.Event(), threading.Event()
    written = []

    def kill() -> None:
        begun.set()
        written.append("killed" if released.wait(timeout=60) else "the program did not wait")

    fault = OneTimeFault("mid-batch", 2, 1, kill)
    fault._done = ReleasingEvent(released)
    fault.wait_until_done()
    assert not released.is_set()
    threading.Thread(target=fault.trigger).start()
    begun.wait()
    fault.wait_until_done()
    assert written == ["killed"]


def test_a_one_time_fault_is_triggered_once() -> None:
    """Further jobs that reach the point continue."""
    calls: list[int] = []
    fault = OneTimeFault("mid-batch", 2, 1, lambda: calls.append(1))
    fault.trigger()
    fault.trigger()
    assert calls == [1]


class ProcessKilled(Exception):
    """Stands for the end of the process."""


def kill_process() -> None:
    """Raise, in the thread of the last job."""
    raise ProcessKilled


def test_a_barrier_counts_jobs_that_arrive_and_jobs_that_have_ended() -> None:
    """The action is called once the last of three jobs has ended and the others wait; a later batch matches, too."""
    fault = BarrierFault("before-delta", 2, 3, kill_process)
    assert fault.matches("before-delta", 2)
    assert fault.matches("before-delta", 3)
    assert not fault.matches("before-delta", 1)
    assert not fault.matches("before-plan", 2)

    fault.job_ended()
    threading.Thread(target=fault.trigger, daemon=True).start()  # it never returns
    while not fault._waiting:
        pass
    with pytest.raises(ProcessKilled):
        fault.trigger()


def test_jobs_go_on_once_an_action_beside_them_is_done() -> None:
    """It waits for all that have not ended, is called once, and holds up no later batch."""
    calls: list[int] = []
    fault = HoldingFault("before-delta", 2, 3, lambda: calls.append(1))
    first = threading.Thread(target=fault.trigger)
    first.start()
    while not fault._waiting:
        pass
    fault.job_ended()
    assert calls == []
    fault.trigger()
    first.join()
    fault.job_ended()
    assert calls == [1]
    assert not fault.matches("before-delta", 3)


def test_a_barrier_at_which_no_job_waits_is_not_triggered_by_jobs_that_end() -> None:
    """The process then ends by itself, and the drill reports that it was not killed."""
    fault = BarrierFault("before-delta", 2, 1, kill_process)
    fault.job_ended()
