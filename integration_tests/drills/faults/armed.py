"""Faults that are armed in this process, at points made of the steps of the engine's one hook.

    before-plan              Spark has logged the offsets, nothing has run
    mid-batch                tasks of the stateful plan are running
    before-prepare           the plan has run and its state is stored, nothing is recorded of what it writes
    before-delta             the batch is recorded, no table is written
    lease-checked            a commit of the batch has checked the lease, none has begun
    between-file-and-commit  a file is in the folder of the log, its commit is not made
    between-delta            one table is committed, the others are not
    after-delta-commit       all tables are committed, Spark's commit log is not

A process is paused at `lease-checked`; a kill there would be one at `before-delta`, so `POINTS` is without it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Protocol

from panekeeper.framework.engine.sink import fault_points
from panekeeper.framework.engine.sink.library_rules import local_folder

POINTS = (
    "before-plan",
    "mid-batch",
    "before-prepare",
    "before-delta",
    "between-file-and-commit",
    "between-delta",
    "after-delta-commit",
)
IN_OTHER_THREADS = frozenset({"mid-batch", "between-file-and-commit"})
"""Points whose faults are triggered in a thread of their own: they can kill the process, and raise no error."""

_FIRST_COMMIT_SECONDS = 120.0


class Fault(Protocol):
    """What happens at a point. Its methods are called in the threads of the queries."""

    def matches(self, point: str, batch: int) -> bool:
        """Return whether the fault is triggered at `point` of `batch`."""
        ...

    def trigger(self) -> None:
        """Cause the fault: raise an error, block, or kill the process."""
        ...


@dataclass
class _Commits:
    """The commits of one batch of one job: the first of them goes ahead, the others wait for its faults."""

    first: str
    lease_checked: list[Fault]
    between: list[Fault]
    may_begin: threading.Event = field(default_factory=threading.Event)
    first_is_over: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def before(self, table: str) -> None:
        """Trigger the faults before the first commit; let another one wait for those of the first."""
        if table == self.first:
            for fault in self.lease_checked:
                fault.trigger()
            self.may_begin.set()
            return
        if self.lease_checked:
            self._wait(self.may_begin)
        if self.between:
            self._wait(self.first_is_over)
            if self.error is not None:
                raise self.error

    def after(self, table: str) -> None:
        """Trigger the faults after the first commit."""
        if table != self.first:
            return
        try:
            for fault in self.between:
                fault.trigger()
        except Exception as error:
            self.error = error
            raise
        finally:
            self.first_is_over.set()

    def _wait(self, event: threading.Event) -> None:
        if not event.wait(_FIRST_COMMIT_SECONDS):
            raise TimeoutError(f"the first commit, to {self.first}, has not ended")


class _ArmedFaults:
    """All armed faults, and the commits that wait for one of them."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._commits: dict[tuple[str, int], _Commits] = {}

    def on_step(self, step: str, number: int, table: str) -> None:
        """Trigger the faults whose points are at this step. This is the engine's hook."""
        job = (str(Path(table).parent), number)
        commits = self._commits.get(job)
        if step == "before-commit":
            if commits is not None:
                commits.before(table)
            for fault in self._matching("between-file-and-commit", number) if table.endswith("/log") else ():
                _hold_next_commit(Path(local_folder(table) or ""), fault.trigger)
        elif step == "after-commit":
            if commits is not None:
                commits.after(table)
        else:
            self._on_step_of_all_tables(step, number)
        if step == "before-delta":
            self._commits[job] = _Commits(
                table, self._matching("lease-checked", number), self._matching("between-delta", number)
            )

    def _on_step_of_all_tables(self, step: str, number: int) -> None:
        for fault in self._matching(step, number):
            fault.trigger()
        for fault in self._matching("mid-batch", number) if step == "before-plan" else ():
            _in_thread(_wait_for_tasks, fault.trigger)

    def _matching(self, point: str, batch: int) -> list[Fault]:
        return [fault for fault in self.faults if fault.matches(point, batch)]


_armed = _ArmedFaults()


def arm(fault: Fault) -> None:
    """Trigger `fault` in this process from now on, wherever it matches.

    Args:
        fault: called at every point, until `disarm`.
    """
    _armed.faults.append(fault)
    fault_points.hook = _armed.on_step


def disarm(fault: Fault) -> None:
    """Stop triggering `fault`.

    Args:
        fault: one that was passed to `arm`.

    Raises:
        ValueError: it is not armed.
    """
    _armed.faults.remove(fault)
    if not _armed.faults:
        fault_points.hook = None


def release_commits(table: Path) -> None:
    """Release the commit that `between-file-and-commit` has held up, after the process was killed.

    Args:
        table: the table's folder.
    """
    for path in (table / "_delta_log").glob("*.json"):
        if path.is_dir():
            path.rmdir()


def kill_process() -> NoReturn:
    """Kill the Java virtual machine and this process with SIGKILL. No handler or `finally` block runs."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        os.kill(gateway.proc.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit  # not reached


def _in_thread(wait: Callable[..., None], *arguments: object) -> None:
    threading.Thread(target=wait, args=arguments, name="fault", daemon=True).start()


def _wait_for_tasks(trigger: Callable[[], None]) -> None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    tracker = context.statusTracker()
    while not any(
        (info := tracker.getStageInfo(stage)) and info.numActiveTasks for stage in tracker.getActiveStageIds()
    ):
        time.sleep(0.002)  # polls: Spark has no callback for the start of a task
    trigger()


def _hold_next_commit(table: Path, trigger: Callable[[], None]) -> None:
    """Take the name of the table's next commit, as another writer would, and trigger once a new file is there."""
    log = table / "_delta_log"
    newest = max(int(path.stem) for path in log.glob("*.json"))
    before = {*table.glob("*.parquet")}
    (log / f"{newest + 1:020d}.json").mkdir()
    _in_thread(_wait_for_file, table, before, trigger)


def _wait_for_file(folder: Path, before: set[Path], trigger: Callable[[], None]) -> None:
    while not {*folder.glob("*.parquet")} - before:
        time.sleep(0.002)  # polls: the library announces no file
    trigger()
