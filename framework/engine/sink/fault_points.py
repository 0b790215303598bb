"""Fault points: places in the driver where a drill or a test triggers a fault.

A fault point does nothing unless the program itself has passed a `Fault` to `arm`. No setting and no environment
variable arms one, so an installed job cannot be stopped from outside. No executor has a fault point.

The points of a batch, in the order of the commit protocol (`framework/engine/sink/delta_sink.py`):

    before-plan              Spark has logged the offsets, nothing has run
    mid-batch                tasks of the stateful plan are running
    before-prepare           the plan has run and its state is stored, nothing is recorded of what it writes
    before-delta             the batch is prepared, no table is written
    between-file-and-commit  a file is in the folder of the log, its commit is not made
    between-delta            one table is committed, the others are not
    after-delta-commit       all tables are committed, Spark's commit log is not

Three more are not drilled by a kill. At `lease-checked` all commits of a batch have checked the lease and none has
begun: a process is paused there, while a kill would be one at `before-delta`. The other two are no part of a batch, and
their number is a step: `during-reset`, of `framework/engine/job/reset.py`; `during-upgrade`, 1 before a changed
declaration is recorded, 2 after it, 3 when a table has got its new columns.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from panekeeper.framework.engine.sink.small_commit_storage import local_folder

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

Commit = Callable[[], None]


class Fault(Protocol):
    """What happens at a fault point. Its methods are called in the threads of the queries."""

    def matches(self, point: str, batch: int) -> bool:
        """Return whether the fault is triggered at `point` of `batch`."""
        ...

    def trigger(self) -> None:
        """Cause the fault: raise an error, block, or kill the process."""
        ...


_armed_faults: list[Fault] = []


def arm(fault: Fault) -> None:
    """Trigger `fault` in this process from now on, wherever it matches.

    Args:
        fault: called at every fault point, until `disarm`.
    """
    _armed_faults.append(fault)


def disarm(fault: Fault) -> None:
    """Stop triggering `fault`.

    Args:
        fault: one that was passed to `arm`.

    Raises:
        ValueError: it is not armed.
    """
    _armed_faults.remove(fault)


def fault_point(point: str, batch: int) -> None:
    """Trigger the armed faults that match.

    Args:
        point: one of `POINTS`, or one of the three that are not.
        batch: the number of the micro-batch, or the step of a reset or an upgrade.
    """
    for fault in _matching(point, batch):
        fault.trigger()


def fault_point_in_tasks(point: str, batch: int) -> None:
    """As `fault_point`, but trigger the faults from another thread, once Spark runs tasks of this batch."""
    for fault in _matching(point, batch):
        threading.Thread(target=_wait_for_tasks, args=(fault.trigger,), name="fault", daemon=True).start()


def fault_point_before_commit(point: str, batch: int, table: str) -> None:
    """As `fault_point`, but trigger the faults from another thread, once a new file is in a table and not committed.

    The commit is held up: the name of the table's next commit is taken, as by another writer, until `release_commits`.

    Args:
        point: `between-file-and-commit`.
        batch: the number of the micro-batch.
        table: the table's folder, on a local disk.
    """
    for fault in _matching(point, batch):
        folder = Path(local_folder(table) or "")
        log = folder / "_delta_log"
        newest = max(int(path.stem) for path in log.glob("*.json"))
        before = {*folder.glob("*.parquet")}
        (log / f"{newest + 1:020d}.json").mkdir()
        threading.Thread(target=_wait_for_file, args=(folder, before, fault.trigger), name="fault", daemon=True).start()


def release_commits(table: Path) -> None:
    """Release what `fault_point_before_commit` has held up, after the process was killed.

    Args:
        table: the table's folder.
    """
    for path in (table / "_delta_log").glob("*.json"):
        if path.is_dir():
            path.rmdir()


def hold_between_tables(commits: Sequence[Commit], batch: int) -> Sequence[Commit]:
    """Return the commits of a batch with the point `between-delta` after the first of them.

    The caller runs them in parallel. Without a matching fault they are returned unchanged. With one, the fault itself
    keeps the order: the first commit is followed by the fault, and the others do not begin before it has returned. If
    it raises an error, they raise the same error and commit nothing.

    Args:
        commits: one for each table that gets rows; each must have a thread of its own.
        batch: the number of the micro-batch.
    """
    faults = _matching("between-delta", batch)
    return _HeldCommits(faults).wrap(commits) if faults else commits


def gather_before_commits(commits: Sequence[Commit], batch: int) -> Sequence[Commit]:
    """Return the commits of a batch with the point `lease-checked` before them.

    Without a matching fault they are returned unchanged. With one, they wait for each other, and the last one triggers
    it before any of them begins: so a process can be paused when no check is left that could stop a commit.

    Args:
        commits: one for each table that gets rows; each must have a thread of its own.
        batch: the number of the micro-batch.
    """
    if not commits or not _matching("lease-checked", batch):
        return commits
    gathered = threading.Barrier(len(commits), action=lambda: fault_point("lease-checked", batch))

    def after_fault(commit: Commit) -> Commit:
        def run() -> None:
            gathered.wait()
            commit()

        return run

    return [after_fault(commit) for commit in commits]


class _HeldCommits:
    """Commits of which all but the first wait for the faults."""

    def __init__(self, faults: list[Fault]) -> None:
        self._armed_faults = faults
        self._over = threading.Event()
        self._error: Exception | None = None

    def wrap(self, commits: Sequence[Commit]) -> Sequence[Commit]:
        return [self._first(commit) if number == 0 else self._held(commit) for number, commit in enumerate(commits)]

    def _first(self, commit: Commit) -> Commit:
        def run() -> None:
            try:
                commit()
                self._trigger()
            finally:
                self._over.set()

        return run

    def _trigger(self) -> None:
        try:
            for fault in self._armed_faults:
                fault.trigger()
        except Exception as error:
            self._error = error
            raise

    def _held(self, commit: Commit) -> Commit:
        def run() -> None:
            self._over.wait()
            if self._error is not None:
                raise self._error
            commit()

        return run


def _matching(point: str, batch: int) -> list[Fault]:
    return [fault for fault in _armed_faults if fault.matches(point, batch)]


def _wait_for_tasks(trigger: Callable[[], None]) -> None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 -- the public way to get it creates one
    assert context is not None
    tracker = context.statusTracker()
    while not any(
        (info := tracker.getStageInfo(stage)) and info.numActiveTasks for stage in tracker.getActiveStageIds()
    ):
        time.sleep(0.002)  # polls: Spark has no callback for the start of a task
    trigger()


def _wait_for_file(folder: Path, before: set[Path], trigger: Callable[[], None]) -> None:
    while not {*folder.glob("*.parquet")} - before:
        time.sleep(0.002)  # polls: the library announces no file
    trigger()


def kill_process() -> NoReturn:
    """Kill the Java virtual machine and this process with SIGKILL. No handler or `finally` block runs."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 -- the only handle on the JVM's process
    if gateway is not None:
        os.kill(gateway.proc.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit  # not reached
