"""Which drills there are, what is reported for those that cannot run, and how results are shown."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from integration_tests.drills import scenarios
from integration_tests.drills.actions import (
    POINTS,
    MakeSavepoint,
    Restore,
)
from integration_tests.drills.faults.armed import POINTS as FAULT_POINTS
from integration_tests.drills.faults.damage import FaultNotConfirmed, damage_state, fill_disk
from integration_tests.drills.jobs import DRILL_JOBS
from integration_tests.drills.process.messages import ProgramRequest
from integration_tests.drills.report import format_table, passed
from integration_tests.drills.runner import Drills, Result
from integration_tests.drills.scenarios import SCENARIOS
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.savepoint.manifest import checked_name

GOOD = Result(scenario="kill", check="batched", outcome="passed", rows=9, recover_seconds=2.0)


def test_every_job_is_in_every_scenario_of_its_clock() -> None:
    """The matrix has no holes but those of scenarios that name their jobs."""
    found = {(one.scenario.name, check) for one in Drills().groups() for check in one.job_names}
    assert found == {
        (scenario.name, check.name)
        for scenario in SCENARIOS
        for check in DRILL_JOBS
        if (check.name in scenario.job_names or not scenario.job_names)
        and (scenario.uses_wall_clock == check.uses_wall_clock or scenario.job_names)
    }


def test_every_savepoint_of_a_scenario_has_a_name_that_it_can_have() -> None:
    """Else its drill fails in the last of its minutes."""
    actions = [action for scenario in SCENARIOS for action in scenario.actions]
    names = {action.name for action in actions if isinstance(action, MakeSavepoint | Restore)}
    assert {checked_name(name) for name in names} == names


def test_every_fault_point_is_drilled() -> None:
    """A new point of the commit protocol needs a name in `POINTS`."""
    assert {point for point in POINTS.values() if point} == set(FAULT_POINTS)


def test_drills_are_picked_by_a_part_of_their_name_or_a_pattern() -> None:
    """Scenario and job both count."""
    assert {one.job_names for one in Drills(only="x batched").groups()} == {("batched",)}
    assert [one.scenario.name for one in Drills(only="*slow*").groups()] == ["the object store is slow"]
    with pytest.raises(DeclarationError, match="no drill is called 'nobody'"):
        Drills(only="nobody").groups()


@pytest.mark.parametrize("outcome", ["failed", "unknown", "skipped"])
def test_only_a_pass_is_a_pass(outcome: str) -> None:
    """One drill that did not pass is enough; so is none at all."""
    bad = Result(scenario="kill", check="delta", outcome=outcome, why="<because>")  # type: ignore[arg-type]
    assert passed([GOOD])
    assert not passed([GOOD, bad])
    assert not passed([])


def test_damage_without_a_state_file_is_not_confirmed(tmp_path: Path) -> None:
    """A fault without effect shows nothing."""
    with pytest.raises(FaultNotConfirmed, match="no state file"):
        damage_state(tmp_path, "missing")


def test_no_disk_is_filled_but_one_of_the_drill(tmp_path: Path) -> None:
    """A folder on which nothing is mounted is on a disk that others use."""
    with pytest.raises(FaultNotConfirmed, match="no disk of its own"):
        fill_disk(tmp_path, leaving=0)
    assert list(tmp_path.iterdir()) == []


def test_a_request_is_read_as_it_was_saved(tmp_path: Path) -> None:
    """Saving and loading a request changes no field."""
    request = ProgramRequest(
        do="run", job_names=("a", "b"), files="in", folder="jobs", events_file="events", point="mid-batch", batch=2
    )
    request.save(tmp_path / "request.json")
    assert ProgramRequest.load(tmp_path / "request.json") == request


def test_a_report_has_the_reasons_of_drills_that_did_not_pass() -> None:
    """Below the table, and above the numbers of outcomes."""
    bad = Result(scenario="kill", check="delta", outcome="failed", lost=2, rows=9, why="missing a")
    lines = format_table([GOOD, bad], seed=5).splitlines()
    assert lines[-2:] == ["failed: kill x delta: missing a", "2 drills with seed 5: 1 failed, 1 passed"]


def test_the_guide_prints_a_scenario_that_is_run() -> None:
    """With all its actions."""
    page = (Path(__file__).parents[2] / "docs/drills.md").read_text(encoding="utf-8")
    (printed,) = re.findall(r"^    (Scenario\(.*?\n    \))", page, re.DOTALL | re.MULTILINE)
    assert eval(textwrap.dedent(printed), vars(scenarios)) in SCENARIOS  # noqa: S307 -- our own page
