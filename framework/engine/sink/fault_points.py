"""Fault points: places where a restart drill may end the process as hard as a power cut does.

Off unless somebody arms a `Fault`, or the environment says `PANEKEEPER_FAULT=point:batch`; then the Java virtual
machine and this process get SIGKILL when batch `batch` reaches that point. The points, in the order of the commit
protocol (`sink.py`):

    before-plan         Spark has logged the offsets, nothing has run
    mid-batch           the stateful plan is running
    before-delta        the plan ran, no table is written
    between-delta       the first of several tables is committed
    after-delta-commit  all tables are committed, Spark's commit log is not

and `during-reset`, whose number is a step of `initial.py`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import NoReturn, Protocol

POINTS = ("before-plan", "mid-batch", "before-delta", "between-delta", "after-delta-commit")


class Fault(Protocol):
    """What a drill wants to happen at a point. Called from the threads of the queries."""

    def wants(self, point: str, batch: int) -> bool:
        """Say whether it happens here."""
        ...

    def strike(self) -> None:
        """Make it happen; need not return."""
        ...


class Death:
    """The fault that the environment asks for: the process ends."""

    def __init__(self, place: str) -> None:
        self._place = place

    def wants(self, point: str, batch: int) -> bool:
        """Say whether this is the place."""
        return f"{point}:{batch}" == self._place

    def strike(self) -> None:
        """End the process."""
        die()


_faults: list[Fault] = [Death(place)] if (place := os.environ.get("PANEKEEPER_FAULT")) else []


def arm(fault: Fault) -> None:
    """Let `fault` happen in this process, too."""
    _faults.append(fault)


def armed() -> bool:
    """Say whether a drill is on: what may otherwise run side by side then keeps its order."""
    return bool(_faults)


def reach(point: str, batch: int) -> None:
    """Say that `batch` is at `point`; does not return if that is where the process shall end."""
    for fault in _faults:
        if fault.wants(point, batch):
            fault.strike()


def reach_soon(point: str, batch: int) -> None:
    """As `reach`, but the fault strikes from another thread, once Spark runs tasks for this batch."""
    for fault in _faults:
        if fault.wants(point, batch):
            threading.Thread(target=_when_busy, args=(fault.strike,), name="fault", daemon=True).start()


def _when_busy(strike: Callable[[], None]) -> None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 -- there is no public way to ask without making one
    assert context is not None
    tracker = context.statusTracker()
    while not any(
        (info := tracker.getStageInfo(stage)) and info.numActiveTasks for stage in tracker.getActiveStageIds()
    ):
        time.sleep(0.002)  # a drill only: waits for the tasks of the batch, not for a moment
    strike()


def die() -> NoReturn:
    """End the Java virtual machine and this process at once, without a chance to tidy up."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 -- the only handle on the JVM's process
    if gateway is not None:
        os.kill(gateway.proc.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit  # not reached
