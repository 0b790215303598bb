"""Which drills there are, what is reported for those that cannot run, and how results are shown."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.cli.main import main
from panekeeper.recovery.drill.actions import (
    POINTS,
    FillWhileIdle,
    JumpClock,
    KillExecutor,
    Maintain,
    MakeSavepoint,
    RandomKills,
    Reset,
    Restore,
    RestoreForged,
)
from panekeeper.recovery.drill.faults.armed import POINTS as FAULT_POINTS
from panekeeper.recovery.drill.faults.damage import FaultNotConfirmed, damage_state, fill_disk
from panekeeper.recovery.drill.jobs import DRILL_JOBS
from panekeeper.recovery.drill.process.messages import USER_JOB, ProgramRequest
from panekeeper.recovery.drill.reduced_scenarios import REDUCED
from panekeeper.recovery.drill.report import format_html, format_table, passed, report_fields
from panekeeper.recovery.drill.runner import Drills, Result
from panekeeper.recovery.drill.scenarios import SCENARIOS
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


def test_the_reduced_matrix_has_every_job_and_nearly_every_fault() -> None:
    """It leaves out combinations of faults and jobs, and only a few kinds of faults."""
    groups = Drills(reduced=True).groups()
    assert {name for one in groups for name in one.job_names} == {check.name for check in DRILL_JOBS}
    whole, part = ({type(action) for one in all_ for action in one.actions} for all_ in (SCENARIOS, REDUCED))
    assert whole - part == {RandomKills, KillExecutor, Maintain, Reset, FillWhileIdle, JumpClock, RestoreForged}


def test_every_savepoint_of_a_scenario_has_a_name_that_it_can_have() -> None:
    """Else its drill fails in the last of its minutes."""
    actions = [action for scenario in (*SCENARIOS, *REDUCED) for action in scenario.actions]
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


def test_a_users_job_runs_the_scenarios_that_need_no_input_of_the_drill() -> None:
    """A savepoint without a job file cannot be drilled."""
    groups = Drills(job=Path("job.py")).groups()
    assert {one.job_names for one in groups} == {(USER_JOB,)}
    assert not any(one.scenario.uses_wall_clock for one in groups)
    with pytest.raises(DeclarationError, match="--job"):
        Drills(savepoint=("there", "one")).groups()


def test_a_drill_beyond_the_budget_is_not_run_and_has_not_passed() -> None:
    """No scenario is started once the budget is spent."""
    results = Drills(budget_seconds=-1.0, only="x batched").run()
    assert {one.outcome for one in results} == {"not run"}
    assert not passed(results)


@pytest.mark.parametrize("outcome", ["failed", "unknown", "skipped", "not run"])
def test_only_a_pass_is_a_pass(outcome: str) -> None:
    """One drill that did not pass is enough; so is none at all."""
    bad = Result(scenario="kill", check="delta", outcome=outcome, why="<because>")  # type: ignore[arg-type]
    assert passed([GOOD])
    assert not passed([GOOD, bad])
    assert not passed([])


def test_a_report_is_shown_as_a_table_and_as_a_page() -> None:
    """Both have the reasons of drills that did not pass; the page escapes text."""
    bad = Result(scenario="kill", check="delta", outcome="failed", lost=2, rows=9, why="missing <a>")
    fields = report_fields([GOOD, bad], seed=5, began=datetime(2026, 1, 2, tzinfo=UTC))
    assert json.loads(json.dumps(fields))["outcomes"] == {"passed": 1, "failed": 1}
    text = format_table(fields)
    assert "failed: kill x delta: missing <a>" in text
    assert "2 drills with seed 5, 2026-01-02T00:00:00+00:00: 1 failed, 1 passed" in text
    html = format_html(fields)
    assert "missing &lt;a&gt;" in html
    assert "<script" not in html
    assert "http" not in html


def test_the_command_lists_its_drills(capsys: pytest.CaptureFixture[str]) -> None:
    """It refuses a wrong budget or page with an error in one line."""
    assert main(["drill", "--list", "--only", "no fault x delta"]) == 0
    assert capsys.readouterr().out == "no fault x delta\n"
    with pytest.raises(SystemExit, match="2"):
        main(["drill", "--budget", "soon"])
    assert "argument --budget: the time is 'soon'" in capsys.readouterr().err
    assert main(["drill", "--html", "/nowhere/drills.html"]) == 1
    assert "the page cannot be written" in capsys.readouterr().err


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
