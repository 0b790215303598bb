"""A user's own job is judged by a run without a fault; one that adds nothing passes nothing. No program is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from framework.declarations.errors import DeclarationError
from recovery.drill.faults.faulty_s3 import FaultyStore
from recovery.drill.process.launcher import Launcher
from recovery.drill.process.messages import OWN
from recovery.drill.reference import NOTHING_NEW, Reference, run_reference
from recovery.drill.runner import Drills
from recovery.drill.scenario_run import Attempt, Bench
from recovery.drill.scenarios import Scenario

OLD, NEW = ("a", 1), ("a", 2)
Lines = list[dict[str, Any]]


def commit(table: Path, row: tuple[str, int]) -> None:
    """Add one row to a Delta table."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    number = len([*log.glob("*.json")])
    pq.write_table(pa.table([[row[0]], [row[1]]], names=["sensor", "n"]), table / f"{number}.parquet")
    (log / f"{number:020d}.json").write_text(json.dumps({"add": {"path": f"{number}.parquet"}}))


class Played(Launcher):
    """A clone brings an old row, a run a new one."""

    adds: ClassVar[tuple[tuple[str, int], ...]] = (NEW,)
    error: ClassVar[Lines] = []

    def _program(self, *, own_store: bool = False, **errand: Any) -> tuple[int, float, Lines]:
        rows = {"clone": (OLD,), "run": self.adds}[errand["do"]]
        for row in rows:
            commit(Path(self._common["folder"]) / OWN / "log", row)
        return 0, 0.0, self.error


class Idle(Played):
    adds = ()


class Failing(Idle):
    error: ClassVar = [{"check": OWN, "what": "error", "kind": "JobFailed", "text": "it never ran"}]


def nobody() -> FaultyStore:
    """No store."""
    raise AssertionError("nobody asks for a store")


def bench(folder: Path, launcher: type[Launcher], savepoint: tuple[str, str] | None = ("there", "newest")) -> Bench:
    """A bench for a job of the user's."""
    return Bench(
        folder=folder,
        checks=(OWN,),
        seed=1,
        job=Path("job.py"),
        savepoint=savepoint,
        store=nobody,
        launcher=launcher,
    )


def test_a_run_that_adds_results_to_those_of_the_savepoint_is_what_the_others_are_judged_by(tmp_path: Path) -> None:
    """The clone's own rows are part of it."""
    found = run_reference(bench(tmp_path, Played))
    assert found == Reference(tables={"log": [OLD, NEW]}, begun_with={"log": [OLD]})
    assert found.why_idle is None


def test_a_run_that_adds_nothing_shows_nothing(tmp_path: Path) -> None:
    """The tables would be as they should be whatever a fault did."""
    assert run_reference(bench(tmp_path, Idle)).why_idle == NOTHING_NEW


def test_a_row_that_is_there_once_more_or_replaced_is_something_new() -> None:
    """Tables are bags of rows, and a view changes its own."""
    assert Reference(tables={"log": [OLD, OLD]}, begun_with={"log": [OLD]}).why_idle is None
    same = {"log": [OLD, NEW]}
    assert Reference(tables=same | {"view": [NEW]}, begun_with=same | {"view": [OLD]}).why_idle is None
    assert Reference(tables={"log": [NEW, OLD]}, begun_with=same).why_idle == NOTHING_NEW


def test_without_a_savepoint_there_is_nothing_to_add_to(tmp_path: Path) -> None:
    """A job that gives no results at all is unknown to the judge."""
    found = run_reference(bench(tmp_path, Played, savepoint=None))
    assert (found.begun_with, found.why_idle) == ({}, None)


def test_a_job_that_fails_without_a_fault_is_refused(tmp_path: Path) -> None:
    """With its own words, whether or not there is a table."""
    with pytest.raises(DeclarationError, match="fails without any fault: clone: JobFailed: it never ran"):
        run_reference(bench(tmp_path, Failing))


def test_nothing_is_drilled_from_a_savepoint_to_which_nothing_is_added() -> None:
    """Every outcome is unknown, and says why."""

    class Known(Drills):
        def _reference(self, top: Path, lender: object) -> Reference:
            return Reference(tables={"log": [OLD]}, begun_with={"log": [OLD]})

    results = Known(job=Path("job.py"), savepoint=("there", "newest")).run()
    assert {(one.outcome, one.why) for one in results} == {("unknown", NOTHING_NEW)}


def test_good_tables_do_not_pass_a_job_that_a_fault_missed(tmp_path: Path) -> None:
    """It is unknown, and says why."""
    attempt = Attempt(bench(tmp_path, Played), Scenario(name="played", actions=()))
    attempt.perform()
    reference = Reference(tables={"log": [OLD]}, begun_with={})
    assert Drills()._judged(OWN, attempt, reference).outcome == "passed"
    attempt.missed[OWN] = "it missed"
    result = Drills()._judged(OWN, attempt, reference)
    assert (result.outcome, result.why) == ("unknown", "it missed")
