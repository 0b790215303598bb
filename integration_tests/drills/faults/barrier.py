"""When a fault is triggered: once all jobs of a process are at its point, or at the first job."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from integration_tests.drills.faults.armed import kill_process

if TYPE_CHECKING:
    from collections.abc import Callable


class BarrierFault:
    """A fault that is triggered once every job of the process is at its point or has ended.

    Its methods are called in the threads of the queries.
    """

    def __init__(self, point: str, batch: int, jobs: int, action: Callable[[], object]) -> None:
        self._point, self._batch, self._action = point, batch, action
        self._jobs = jobs
        self._changed = threading.Condition()
        self._waiting = 0

    def matches(self, point: str, batch: int) -> bool:
        """Return whether a job waits here: at the point, in the batch or a later one."""
        return point == self._point and batch >= self._batch

    def trigger(self) -> None:
        """Wait for the other jobs. Does not return: the action of the last one ends the process."""
        with self._changed:
            self._waiting += 1
            self._trigger_if_complete()
        threading.Event().wait()

    def job_ended(self) -> None:
        """Count out a job that has ended before it reached the point. Called by the program."""
        with self._changed:
            self._jobs -= 1
            self._trigger_if_complete()

    def _trigger_if_complete(self) -> None:
        if self._waiting and self._waiting >= self._jobs:
            self._action()

    def wait_until_done(self) -> None:
        """Wait until a triggered action has returned. Called by the program before it ends; does nothing here."""


class ImmediateFault(BarrierFault):
    """As `BarrierFault`, but the first job triggers it: tasks that run cannot wait for those of other jobs."""

    def trigger(self) -> None:
        """Call the action."""
        self._action()

    def job_ended(self) -> None:
        """Do nothing: no job waits."""


class OneTimeFault(ImmediateFault):
    """As `ImmediateFault`, but the action is called once only, for it does not end the process."""

    def __init__(self, point: str, batch: int, jobs: int, action: Callable[[], object]) -> None:
        super().__init__(point, batch, jobs, action)
        self._triggered = threading.Lock()
        self._done = threading.Event()

    def trigger(self) -> None:
        """Call the action, unless another job has done so."""
        if self._triggered.acquire(blocking=False):
            try:
                super().trigger()
            finally:
                self._done.set()

    def wait_until_done(self) -> None:
        """Wait for the action, if it was called: it logs its effect after the jobs have failed by it."""
        if self._triggered.locked():
            self._done.wait()


class HoldingFault(BarrierFault):
    """As `BarrierFault`, but the jobs go on once the action has returned. It is called once only."""

    def __init__(self, point: str, batch: int, jobs: int, action: Callable[[], object]) -> None:
        super().__init__(point, batch, jobs, action)
        self._over = threading.Event()

    def matches(self, point: str, batch: int) -> bool:
        """Return whether a job waits here: as before, until the action was called."""
        return not self._over.is_set() and super().matches(point, batch)

    def trigger(self) -> None:
        """Wait for the other jobs; the last one calls the action, and all go on."""
        with self._changed:
            self._waiting += 1
            self._trigger_if_complete()
        self._over.wait()

    def _trigger_if_complete(self) -> None:
        if self._waiting and self._waiting >= self._jobs and not self._over.is_set():
            try:
                self._action()
            finally:
                self._over.set()


def kill_when_all_arrive(threads: int) -> Callable[[], None]:
    """Return a function that blocks, and kills the process when `threads` threads have called it."""
    return BarrierFault("", 0, threads, kill_process).trigger
