"""Drills on real processes pass, and drills of a defective sink or store fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration_tests.drills.actions import Kill, Resume
from integration_tests.drills.runner import Drills
from integration_tests.drills.scenario import Scenario

if TYPE_CHECKING:
    from integration_tests.drills.faults.defects import Defect

NO_FAULT = Scenario(name="nothing happens", actions=(Resume(),), job_names=("tumbling-count", "time-interval"))
AFTER_DELTA = Scenario(
    name="killed",
    actions=(Kill("after Delta, before Spark's commit", batch=2), Resume()),
    job_names=("tumbling-count",),
)


@pytest.mark.parametrize(
    "drill",
    [
        pytest.param("a full disk x tumbling-count", marks=pytest.mark.extended),
        pytest.param("paused in its commits, and taken over x time-interval", marks=pytest.mark.release),
        pytest.param("kill -9 between two Delta commits x batched", marks=pytest.mark.release),
        pytest.param("kill -9 after the batch is recorded, then other code x state-handler", marks=pytest.mark.release),
    ],
)
def test_a_drill_of_one_job_passes(drill: str) -> None:
    """`make drill` runs the whole matrix."""
    (result,) = Drills(only=drill).run()
    if result.outcome == "skipped":
        pytest.skip(result.why)
    assert result.outcome == "passed", result.why


@pytest.mark.release
@pytest.mark.parametrize(
    ("defect", "scenario"),
    [("sink commits twice", AFTER_DELTA), ("sink skips a commit", NO_FAULT), ("store loses a batch", NO_FAULT)],
)
def test_a_drill_finds_each_defect(defect: Defect, scenario: Scenario) -> None:
    """A sink that is not idempotent doubles rows; one that skips a commit or loses a batch loses some."""
    results = Drills(scenarios=(scenario,), defect=defect).run()
    assert {one.outcome for one in results} == {"failed"}
    for one in results:
        assert one.doubled if defect == "sink commits twice" else one.lost + one.wrong


@pytest.mark.release
def test_a_fault_point_that_is_never_reached_makes_the_outcome_unknown() -> None:
    """The drill has shown nothing, however its tables look."""
    never = Scenario(name="never", actions=(Kill("after the offset log", batch=99), Resume()), job_names=("batched",))
    (result,) = Drills(scenarios=(never,)).run()
    assert result.outcome == "unknown"
    assert "should have been killed" in result.why
