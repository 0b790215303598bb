"""Fault points: places where a restart drill may end the process as hard as a power cut does.

Off unless the environment says `PANEKEEPER_FAULT=point:batch`; then the Java virtual machine and this process
get SIGKILL when batch `batch` reaches that point. The points, in the order of the commit protocol (`sink.py`):

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
from typing import NoReturn

POINTS = ("before-plan", "mid-batch", "before-delta", "between-delta", "after-delta-commit")

_ARMED = os.environ.get("PANEKEEPER_FAULT", "")


def armed() -> bool:
    """Say whether a drill is on: what may otherwise run side by side then keeps its order."""
    return bool(_ARMED)


def reach(point: str, batch: int) -> None:
    """Say that `batch` is at `point`; does not return if that is where the process shall end."""
    if _ARMED and f"{point}:{batch}" == _ARMED:
        die()


def reach_soon(point: str, batch: int) -> None:
    """As `reach`, but the end comes from another thread, once Spark runs tasks for this batch."""
    if _ARMED and f"{point}:{batch}" == _ARMED:
        threading.Thread(target=_die_when_busy, name="fault", daemon=True).start()


def _die_when_busy() -> NoReturn:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 -- there is no public way to ask without making one
    assert context is not None
    tracker = context.statusTracker()
    while not any(
        (info := tracker.getStageInfo(stage)) and info.numActiveTasks for stage in tracker.getActiveStageIds()
    ):
        time.sleep(0.002)  # a drill only: waits for the tasks of the batch, not for a moment
    die()


def die() -> NoReturn:
    """End the Java virtual machine and this process at once, without a chance to tidy up."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 -- the only handle on the JVM's process
    if gateway is not None:
        os.kill(gateway.proc.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit  # not reached
