"""A user's own job is compared with a run without a fault. If that run adds no result, no drill passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.drill.drill_setup import DrillSetup
from panekeeper.recovery.drill.faults.faulty_s3 import FaultyStore
from panekeeper.recovery.drill.process.launcher import Launcher
from panekeeper.recovery.drill.process.messages import USER_JOB
from panekeeper.recovery.drill.reference import NOTHING_NEW, ReferenceTables, run_reference
from panekeeper.recovery.drill.runner import Drills
from panekeeper.recovery.drill.scenario import Scenario
from panekeeper.recovery.drill.scenario_run import ScenarioRun

OLD, NEW = ("a", 1), ("a", 2)
Lines = list[dict[str, Any]]


def commit(table: Path, row: tuple[str, int]) -> None:
    """Add one row to a Delta table."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    number = len([*log.glob("*.json")])
    pq.write_table(pa.table([[row[0]], [row[1]]], names=["sensor", "n"]), table / f"{number}.parquet")
    (log / f"{number:020d}.json").write_text(json.dumps({"add": {"path": f"{number}.parquet"}}))


class FakeLauncher(Launcher):
    """A launcher whose clone has an old row, and whose run adds a new one."""

    adds: ClassVar[tuple[tuple[str, int], ...]] = (NEW,)
    error: ClassVar[Lines] = []

    def _program(self, *, own_store: bool = False, **request: Any) -> tuple[int, float, Lines]:
        rows = {"clone": (OLD,), "run": self.adds}[request["do"]]
        for row in rows:
            commit(Path(self._common["folder"]) / USER_JOB / "log", row)
        return 0, 0.0, self.error


class Idle(FakeLauncher):
    adds = ()


class Failing(Idle):
    error: ClassVar = [{"job": USER_JOB, "what": "error", "kind": "JobFailed", "text": "it never ran"}]


def no_store() -> FaultyStore:
    """Fail: the store is not used."""
    raise AssertionError("this setup has no store")


def drill_setup(
    folder: Path, launcher: type[Launcher], savepoint: tuple[str, str] | None = ("there", "newest")
) -> DrillSetup:
    """Return the setup for a user's own job."""
    return DrillSetup(
        folder=folder,
        job_names=(USER_JOB,),
        seed=1,
        job=Path("job.py"),
        savepoint=savepoint,
        store=no_store,
        launcher=launcher,
    )


def test_the_tables_of_a_run_that_adds_results_to_those_of_the_savepoint_are_the_reference(tmp_path: Path) -> None:
    """They include the rows of the clone."""
    found = run_reference(drill_setup(tmp_path, FakeLauncher))
    assert found == ReferenceTables(tables={"log": [OLD, NEW]}, initial_tables={"log": [OLD]})
    assert found.nothing_new_reason is None


def test_a_run_that_adds_nothing_shows_nothing(tmp_path: Path) -> None:
    """The tables would be as expected whatever a fault did."""
    assert run_reference(drill_setup(tmp_path, Idle)).nothing_new_reason == NOTHING_NEW


def test_a_repeated_or_replaced_row_counts_as_new() -> None:
    """Tables are bags of rows, and a view replaces its rows."""
    assert ReferenceTables(tables={"log": [OLD, OLD]}, initial_tables={"log": [OLD]}).nothing_new_reason is None
    same = {"log": [OLD, NEW]}
    assert (
        ReferenceTables(tables=same | {"view": [NEW]}, initial_tables=same | {"view": [OLD]}).nothing_new_reason is None
    )
    assert ReferenceTables(tables={"log": [NEW, OLD]}, initial_tables=same).nothing_new_reason == NOTHING_NEW


def test_without_a_savepoint_there_are_no_initial_tables(tmp_path: Path) -> None:
    """A job without any result is unknown by the comparison."""
    found = run_reference(drill_setup(tmp_path, FakeLauncher, savepoint=None))
    assert (found.initial_tables, found.nothing_new_reason) == ({}, None)


def test_a_job_that_fails_without_a_fault_is_refused(tmp_path: Path) -> None:
    """The error has the job's own message, whether or not there is a table."""
    with pytest.raises(DeclarationError, match="fails without any fault: clone: JobFailed: it never ran"):
        run_reference(drill_setup(tmp_path, Failing))


def test_no_scenario_is_run_if_the_reference_adds_no_result() -> None:
    """Every outcome is unknown, with the reason."""

    class Known(Drills):
        def _reference(self, top: Path, store_provider: object) -> ReferenceTables:
            return ReferenceTables(tables={"log": [OLD]}, initial_tables={"log": [OLD]})

    results = Known(job=Path("job.py"), savepoint=("there", "newest")).run()
    assert {(one.outcome, one.why) for one in results} == {("unknown", NOTHING_NEW)}


def test_good_tables_do_not_pass_a_job_that_was_not_hit(tmp_path: Path) -> None:
    """The outcome is unknown, with the reason."""
    run = ScenarioRun(drill_setup(tmp_path, FakeLauncher), Scenario(name="fake", actions=()))
    run.run()
    reference = ReferenceTables(tables={"log": [OLD]}, initial_tables={})
    assert Drills()._result(USER_JOB, run, reference).outcome == "passed"
    run.not_hit[USER_JOB] = "it not_hit"
    result = Drills()._result(USER_JOB, run, reference)
    assert (result.outcome, result.why) == ("unknown", "it not_hit")
