"""A paused process must end with the error of its lease, and commit nothing; the processes here are fakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from integration_tests.drills import actions as do
from integration_tests.drills.faults.damage import FaultNotConfirmed
from integration_tests.drills.faults.evidence import epoch_of
from integration_tests.drills.process.launcher import Launcher
from integration_tests.drills.process.started_program import StartedProgram
from integration_tests.drills.scenario import Scenario
from integration_tests.drills.scenario_run import ScenarioRun
from integration_tests.drills.steps.savepoint_runs import RESTORED
from panekeeper.framework.engine.job.lease import acquire
from tests.drills.test_scenario_run import TWO, FakeLauncher, Lines, drill_setup

LOST = {"what": "error", "kind": "CheckpointInUse", "text": "job 'x' has lost the lease of the checkpoint"}
FENCED_OFF = {"what": "error", "kind": "SinkError", "text": "because a later epoch of the job has begun"}


class FakeProgram(StartedProgram):
    """A program that is paused at once and ends when it is continued, with these events."""

    def __init__(self, events: Lines) -> None:
        self.lines = events
        self.paused = False

    def wait_until_paused(self) -> None:
        self.paused = True

    def is_paused(self) -> bool:
        return self.paused

    def continue_paused(self) -> None:
        self.paused = False

    def result(self) -> tuple[int, float, Lines]:
        return 3, 0.0, self.lines

    def close(self) -> None:
        self.paused = False


class PausedInBatch2(FakeLauncher):
    """Each job is paused in batch 2, holding its lease; `ends` has how it ends when it is continued."""

    ends: ClassVar[dict[str, dict[str, Any]]] = dict.fromkeys(TWO, LOST)
    begun: ClassVar[dict[str, int]] = dict.fromkeys(TWO, 3)
    committed: ClassVar[dict[str, int]] = dict.fromkeys(TWO, 2)
    requests: ClassVar[Lines] = []

    def _start(self, *, own_store: bool = False, **request: Any) -> StartedProgram:
        self._empty_log()
        for name in TWO:
            folder = epoch_of(self.jobs / name / "checkpoint")
            for log, number in (("offsets", self.begun[name]), ("commits", self.committed[name])):
                (folder.path / log).mkdir(parents=True)
                for batch in range(number):
                    (folder.path / log / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{batch}}}\n-')
            acquire(folder, name)
        return FakeProgram([{"job": name} | one for name, one in self.ends.items()])

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        self.requests.append(request)
        return 0, []


class OnePausedBetweenBatches(PausedInBatch2):
    begun: ClassVar = {"batched": 3, "delta": 2}


class OneContinues(PausedInBatch2):
    ends: ClassVar = {"batched": LOST}


class OneIsFencedOff(PausedInBatch2):
    ends: ClassVar = {"batched": LOST, "delta": FENCED_OFF}


def ran(tmp_path: Path, launcher: type[Launcher], *actions: do.Action) -> ScenarioRun:
    """Return the scenario run after its last action."""
    run = ScenarioRun(drill_setup(tmp_path, launcher), Scenario(name="fake", actions=actions))
    PausedInBatch2.requests.clear()
    run.run()
    return run


PAUSE = do.Pause("in its commits", batch=2)


def test_a_paused_job_must_end_with_the_error_of_its_lease(tmp_path: Path) -> None:
    """One that ends without it has failed; so has one that only a later epoch refuses, if none has begun."""
    run = ran(tmp_path / "1", PausedInBatch2, PAUSE, do.Resume(), do.Continue())
    assert (run.launcher.failed, run.not_hit) == ({}, {})
    run = ran(tmp_path / "2", OneContinues, PAUSE, do.Resume(), do.Continue())
    assert run.launcher.failed == {"delta": "it should have failed with an error, and did not"}
    run = ran(tmp_path / "3", OneIsFencedOff, PAUSE, do.Resume(), do.Continue())
    assert list(run.launcher.failed) == ["delta"]


def test_a_job_that_was_not_paused_in_a_batch_is_not_hit(tmp_path: Path) -> None:
    """Its checkpoint has no uncommitted batch."""
    run = ran(tmp_path, OnePausedBetweenBatches, PAUSE, do.Resume(), do.Continue())
    assert run.not_hit == {"delta": "it was not paused in its commits"}


def test_a_process_that_is_not_paused_any_more_shows_nothing(tmp_path: Path) -> None:
    """It may have ended before another process took over."""
    with pytest.raises(FaultNotConfirmed, match="was not paused until now"):
        ran(tmp_path, PausedInBatch2, PAUSE, do.Resume(), do.Continue(), do.Continue())


def test_a_paused_process_ends_with_the_drill(tmp_path: Path) -> None:
    """Also if no action continues it."""
    run = ran(tmp_path, PausedInBatch2, PAUSE)
    assert isinstance(run.launcher._paused, FakeProgram)
    assert not run.launcher._paused.paused


def test_after_a_restore_the_paused_process_may_end_by_a_table_that_refuses_it(tmp_path: Path) -> None:
    """The job is restored to another folder, from which it runs then."""
    actions = (do.Run(files=1), do.MakeSavepoint(), PAUSE, do.Restore(elsewhere=True), do.Resume(), do.Continue())
    assert ran(tmp_path / "1", OneIsFencedOff, *actions).launcher.failed == {}
    folders = [(request["do"], request.get("checkpoint")) for request in PausedInBatch2.requests]
    assert folders == [("run", None), ("savepoint", None), ("restore", RESTORED), ("run", RESTORED)]
