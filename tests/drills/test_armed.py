"""Armed faults: a fault stops a batch between two tables, and disarmed ones leave no hook in the engine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from integration_tests.drills.faults.armed import arm, disarm, release_commits
from panekeeper.framework.engine.sink import fault_points
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.library_table import LibraryTable

TABLES = ("log", "log_quarantine", "view")


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


def write(batch: int) -> tuple[list[str], list[str]]:
    """Go through the steps of a batch as the sink does; return the committed tables and the errors of the commits."""
    committed: list[str] = []

    def commit(table: str) -> None:
        fault_point("before-commit", batch, f"/tables/{table}")
        committed.append(table)
        fault_point("after-commit", batch, f"/tables/{table}")

    fault_point("before-delta", batch, f"/tables/{TABLES[0]}")
    with ThreadPoolExecutor(len(TABLES)) as pool:
        running: list[Future[None]] = [pool.submit(commit, table) for table in reversed(TABLES)]
    return committed, [str(error) for one in running if (error := one.exception()) is not None]


def test_a_process_can_be_paused_once_no_commit_checks_its_lease_any_more() -> None:
    """No commit has begun when the fault is triggered, once, and all are made after it."""
    with armed(Passes("lease-checked", 2)) as fault:
        write(1)
        assert fault.triggered == 0
        committed, errors = write(2)
    assert (fault.triggered, sorted(committed), errors) == (1, sorted(TABLES), [])


def test_a_fault_is_triggered_where_it_matches_while_it_is_armed() -> None:
    """At its point of its batch; once it is disarmed, the engine has no hook any more."""
    with armed(Fails("before-plan", 2)) as fault:
        fault_point("before-plan", 1)
        fault_point("before-delta", 2)
        with pytest.raises(ConnectionError):
            fault_point("before-plan", 2)
    assert fault_points.hook is None
    fault_point("before-plan", 2)
    assert fault.triggered == 1
    with pytest.raises(ValueError, match="not in list"):
        disarm(fault)


def test_a_fault_between_two_tables_leaves_exactly_the_first_one_committed() -> None:
    """The other commits run in parallel, are held until the fault is over, and fail with its error."""
    for _ in range(20):
        with armed(Fails("between-delta", 2)) as fault:
            committed, errors = write(2)
        assert committed == ["log"]
        assert errors == ["the fault"] * 3
        assert fault.triggered == 1


def test_commits_continue_after_a_fault_that_lets_them() -> None:
    """The fault comes once, after the first commit."""
    with armed(Passes("between-delta", 2)) as fault:
        committed, errors = write(2)
    assert (committed[0], sorted(committed), errors) == ("log", sorted(TABLES), [])
    assert fault.triggered == 1


def test_a_kill_between_a_file_and_its_commit_leaves_the_one_and_not_the_other(tmp_path: Path) -> None:
    """The name of the next commit is taken until it is released; then the next process commits the batch, once."""
    table = tmp_path / "log"
    rows = pa.table({"sensor": ["a"]})
    DeltaTable.create(table, schema=rows.schema)
    program = """
import os, signal, sys
import pyarrow as pa
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.library_table import LibraryTable
from integration_tests.drills.faults.armed import arm
class Kill:
    def matches(self, point, batch):
        return (point, batch) == ("between-file-and-commit", 2)
    def trigger(self):
        os.kill(os.getpid(), signal.SIGKILL)
arm(Kill())
table = sys.argv[1]
commits = LibraryTable(table)
for batch in (1, 2, 3):
    fault_point("before-commit", batch, "file://" + table)
    commits.append(pa.table({"sensor": ["a"]}), "readings", batch)
"""
    ran = subprocess.run([sys.executable, "-c", program, str(table)], check=False)
    assert ran.returncode == -signal.SIGKILL
    assert DeltaTable(table).transaction_version("readings") == 1
    committed = len(DeltaTable(table).file_uris())
    assert len([*table.glob("*.parquet")]) > committed == 1

    release_commits(table)
    assert LibraryTable(str(table)).append(rows, "readings", 2)
    assert DeltaTable(table).to_pyarrow_table().column("sensor").to_pylist() == ["a", "a"]
