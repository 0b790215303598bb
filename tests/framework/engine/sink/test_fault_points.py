"""Fault points: they do nothing in an ordinary job, and an armed fault stops a batch between two tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from panekeeper.framework.engine.sink import fault_points
from panekeeper.framework.engine.sink.fault_points import (
    POINTS,
    arm,
    disarm,
    fault_point,
    gather_before_commits,
    hold_between_tables,
    release_commits,
)
from panekeeper.framework.engine.sink.small_commits import SmallCommits

TABLES = ("log", "quarantine", "view")


class Fails:
    """A fault that raises an error at one place and counts how often."""

    def __init__(self, point: str, batch: int) -> None:
        self.place = (point, batch)
        self.triggered = 0

    def matches(self, point: str, batch: int) -> bool:
        return (point, batch) == self.place

    def trigger(self) -> None:
        self.triggered += 1
        raise ConnectionError("the fault")


class Passes(Fails):
    """A fault that lets the batch continue."""

    def trigger(self) -> None:
        self.triggered += 1


@contextmanager
def armed(fault: Fails) -> Iterator[Fails]:
    """Arm a fault for a while."""
    arm(fault)
    try:
        yield fault
    finally:
        disarm(fault)


def commits_of(batch: int) -> tuple[list[str], list[Exception | None]]:
    """Run the commits of a batch as the sink does, and return the committed tables and the error of each commit."""
    committed: list[str] = []

    def commit(table: str) -> Callable[[], None]:
        return lambda: committed.append(table)

    with ThreadPoolExecutor(len(TABLES)) as pool:
        running: list[Future[None]] = [
            pool.submit(one) for one in hold_between_tables([commit(table) for table in TABLES], batch)
        ]
    errors = [one.exception() for one in running]
    return committed, [error if isinstance(error, Exception) else None for error in errors]


def test_a_process_can_be_paused_once_no_commit_checks_its_lease_any_more() -> None:
    """No commit has begun when the fault is triggered, once, and all are made after it. Other batches do not wait."""
    committed: list[str] = []
    begun: list[int] = []

    class Pauses(Passes):
        def trigger(self) -> None:
            super().trigger()
            begun.append(len(committed))

    commits: list[Callable[[], None]] = [partial(committed.append, table) for table in TABLES]
    with armed(Pauses("lease-checked", 2)) as fault, ThreadPoolExecutor(len(TABLES)) as pool:
        assert gather_before_commits(commits, 1) is commits
        assert gather_before_commits([], 2) == []
        for running in [pool.submit(one) for one in gather_before_commits(commits, 2)]:
            running.result()
    assert (fault.triggered, begun, sorted(committed)) == (1, [0], sorted(TABLES))


def test_an_environment_variable_alone_does_nothing() -> None:
    """A process that has the variable in its environment passes every fault point."""
    program = """
from panekeeper.framework.engine.sink import fault_points
from panekeeper.framework.engine.sink.fault_points import POINTS, fault_point, fault_point_in_tasks, hold_between_tables
for point in POINTS:
    fault_point(point, 2)
    fault_point_in_tasks(point, 2)
    fault_points.fault_point_before_commit(point, 2, "/no/table")
commits = [lambda: None, lambda: None]
assert hold_between_tables(commits, 2) is commits
print("alive")
"""
    for point in POINTS:
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PANEKEEPER_FAULT": f"{point}:2"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (0, "alive\n"), ran.stderr


def test_a_fault_is_triggered_where_it_matches_while_it_is_armed() -> None:
    """At its point of its batch, and nowhere after it was disarmed."""
    with armed(Fails("before-plan", 2)) as fault:
        fault_point("before-plan", 1)
        fault_point("before-delta", 2)
        with pytest.raises(ConnectionError):
            fault_point("before-plan", 2)
    fault_point("before-plan", 2)
    assert fault.triggered == 1
    with pytest.raises(ValueError, match="not in list"):
        disarm(fault)


def test_without_a_fault_for_this_batch_the_commits_are_returned_unchanged() -> None:
    """The sink then runs its own functions, without a wrapper, though a drill has armed another batch."""
    commits = [lambda: None]
    with armed(Fails("between-delta", 3)):
        assert hold_between_tables(commits, 2) is commits


def test_a_fault_between_two_tables_leaves_exactly_the_first_one_committed() -> None:
    """The other commits run in parallel, are held until the fault is over, and fail with its error."""
    for _ in range(20):
        with armed(Fails("between-delta", 2)) as fault:
            committed, errors = commits_of(2)
        assert committed == ["log"]
        assert [str(error) for error in errors] == ["the fault"] * 3
        assert fault.triggered == 1


def test_commits_continue_after_a_fault_that_lets_them() -> None:
    """The fault comes once, after the first commit."""
    with armed(Passes("between-delta", 2)) as fault:
        committed, errors = commits_of(2)
    assert (committed[0], sorted(committed), errors) == ("log", sorted(TABLES), [None] * 3)
    assert fault.triggered == 1


def test_a_first_commit_that_fails_does_not_hold_the_others() -> None:
    """As without a fault: each of the others is committed, and the fault is not triggered."""
    committed: list[str] = []

    def broken() -> None:
        raise OSError("no space")

    with armed(Fails("between-delta", 2)) as fault:
        first, second = hold_between_tables([broken, lambda: committed.append("view")], 2)
        with pytest.raises(OSError, match="no space"):
            first()
        second()
    assert (committed, fault.triggered) == (["view"], 0)


def test_a_kill_between_a_file_and_its_commit_leaves_the_one_and_not_the_other(tmp_path: Path) -> None:
    """The name of the next commit is taken until it is released; then the next process commits the batch, once."""
    table = tmp_path / "log"
    rows = pa.table({"sensor": ["a"]})
    DeltaTable.create(table, schema=rows.schema)
    program = """
import os, signal, sys
import pyarrow as pa
from panekeeper.framework.engine.sink.fault_points import arm, fault_point_before_commit
from panekeeper.framework.engine.sink.small_commits import SmallCommits
class Kill:
    def matches(self, point, batch):
        return (point, batch) == ("between-file-and-commit", 2)
    def trigger(self):
        os.kill(os.getpid(), signal.SIGKILL)
arm(Kill())
table = sys.argv[1]
commits = SmallCommits(table)
for batch in (1, 2, 3):
    fault_point_before_commit("between-file-and-commit", batch, "file://" + table)
    commits.append(pa.table({"sensor": ["a"]}), "readings", batch)
"""
    ran = subprocess.run([sys.executable, "-c", program, str(table)], check=False)
    assert ran.returncode == -signal.SIGKILL
    assert DeltaTable(table).transaction_version("readings") == 1
    committed = len(DeltaTable(table).file_uris())
    assert len([*table.glob("*.parquet")]) > committed == 1

    release_commits(table)
    assert SmallCommits(str(table)).append(rows, "readings", 2)
    assert DeltaTable(table).to_pyarrow_table().column("sensor").to_pylist() == ["a", "a"]


def test_no_fault_is_armed_by_an_import() -> None:
    """Only a call of `arm` arms one."""
    assert fault_points._armed_faults == []
