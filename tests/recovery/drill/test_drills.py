"""Which drills there are, what becomes of those that cannot be run, and how the outcome is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from framework.declarations.errors import DeclarationError
from framework.engine.sink.fault_points import POINTS as FAULT_POINTS
from recovery.cli.drill import seconds_of
from recovery.cli.main import main
from recovery.drill.actions import POINTS, KillExecutor, RandomKills
from recovery.drill.faults.damage import Missed, damage_state
from recovery.drill.jobs import CHECKS
from recovery.drill.process.messages import OWN, Errand
from recovery.drill.report import fields as told
from recovery.drill.report import page, passed, words
from recovery.drill.runner import Drills, Result
from recovery.drill.scenarios import REDUCED, SCENARIOS

GOOD = Result(scenario="kill", check="batched", outcome="passed", rows=9, recover_seconds=2.0)


def test_every_check_meets_every_scenario_of_its_clock() -> None:
    """The matrix has no holes."""
    found = {(one.scenario.name, check) for one in Drills().outings() for check in one.checks}
    assert found == {(s.name, c.name) for s in SCENARIOS for c in CHECKS if s.clocked == c.clocked}


def test_the_reduced_form_has_every_check_and_nearly_every_fault() -> None:
    """What the reduced form leaves out is how often a fault meets a check, not which."""
    outings = Drills(reduced=True).outings()
    assert {name for one in outings for name in one.checks} == {check.name for check in CHECKS}
    whole, part = ({type(action) for one in all_ for action in one.actions} for all_ in (SCENARIOS, REDUCED))
    assert whole - part == {RandomKills, KillExecutor}


def test_every_fault_point_is_drilled() -> None:
    """A new point of the commit protocol needs words here."""
    assert {point for point in POINTS.values() if point} == set(FAULT_POINTS)


def test_drills_are_picked_by_a_part_of_their_name_or_a_pattern() -> None:
    """Both sides of the x count."""
    assert {one.checks for one in Drills(only="x batched").outings()} == {("batched",)}
    assert [one.scenario.name for one in Drills(only="*slow*").outings()] == ["the object store is slow"]
    with pytest.raises(DeclarationError, match="no drill is called 'nobody'"):
        Drills(only="nobody").outings()


def test_a_users_job_meets_what_needs_no_files_of_the_drill() -> None:
    """And a savepoint without a job cannot be drilled: nobody knows what would run on it."""
    outings = Drills(job=Path("job.py")).outings()
    assert {one.checks for one in outings} == {(OWN,)}
    assert not any(one.scenario.clocked for one in outings)
    with pytest.raises(DeclarationError, match="--job"):
        Drills(savepoint=("there", "one")).outings()


def test_what_the_budget_does_not_reach_is_told_and_is_no_pass() -> None:
    """Nothing is begun once it is spent."""
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


def test_the_outcome_is_told_in_words_and_as_a_page() -> None:
    """With the reasons of what did not pass; text is escaped on the page."""
    bad = Result(scenario="kill", check="delta", outcome="failed", lost=2, rows=9, why="missing <a>")
    fields = told([GOOD, bad], seed=5, began=datetime(2026, 1, 2, tzinfo=UTC))
    assert json.loads(json.dumps(fields))["outcomes"] == {"passed": 1, "failed": 1}
    text = words(fields)
    assert "failed: kill x delta: missing <a>" in text
    assert "2 drills with seed 5, 2026-01-02T00:00:00+00:00: 1 failed, 1 passed" in text
    html = page(fields)
    assert "missing &lt;a&gt;" in html
    assert "<script" not in html
    assert "http" not in html


def test_the_command_names_its_drills(capsys: pytest.CaptureFixture[str]) -> None:
    """And refuses what it cannot understand, in one line."""
    assert main(["drill", "--list", "--only", "no fault x delta"]) == 0
    assert capsys.readouterr().out == "no fault x delta\n"
    assert main(["drill", "--budget", "soon"]) == 1
    assert "the budget is 'soon'" in capsys.readouterr().err
    assert main(["drill", "--html", "/nowhere/drills.html"]) == 1
    assert "the page cannot be written" in capsys.readouterr().err
    assert [seconds_of(text) for text in ("90", "90s", "1.5m", "1h")] == [90, 90, 90, 3600]


def test_damage_that_finds_nothing_is_no_drill(tmp_path: Path) -> None:
    """A fault that misses shows nothing."""
    with pytest.raises(Missed, match="no state file"):
        damage_state(tmp_path, "missing")


def test_an_errand_comes_back_as_it_was(tmp_path: Path) -> None:
    """Through its file."""
    errand = Errand(do="run", checks=("a", "b"), files="in", folder="jobs", told="told", point="mid-batch", batch=2)
    errand.save(tmp_path / "errand.json")
    assert Errand.load(tmp_path / "errand.json") == errand
