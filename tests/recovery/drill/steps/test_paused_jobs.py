"""A paused process must end with the error of its lease, and commit nothing; the processes here are fakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from panekeeper.framework.engine.job.lease import acquire
from panekeeper.framework.engine.sink.small_commits import FENCED
from panekeeper.recovery.drill import actions as do
from panekeeper.recovery.drill.expected.epochs import expected_tables
from panekeeper.recovery.drill.expected.history import FileArrived, JobReset, generate
from panekeeper.recovery.drill.faults.damage import FaultNotConfirmed
from panekeeper.recovery.drill.jobs import drill_job
from panekeeper.recovery.drill.process.launcher import Launcher
from panekeeper.recovery.drill.process.started_program import StartedProgram
from panekeeper.recovery.drill.scenario import Scenario
from panekeeper.recovery.drill.scenario_input import FILES
from panekeeper.recovery.drill.scenario_run import ScenarioRun
from panekeeper.recovery.drill.steps.savepoint_runs import RESTORED
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord, write_record, write_tables
from tests.recovery.drill.test_pause import table
from tests.recovery.drill.test_scenario_run import TWO, FakeLauncher, Lines, drill_setup

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
    fenced: ClassVar[bool] = True
    requests: ClassVar[Lines] = []

    def _start(self, *, own_store: bool = False, **request: Any) -> StartedProgram:
        self._empty_log()
        for name in TWO:
            folder = LocalFolder(self.jobs / name / "checkpoint")
            for log, number in (("offsets", self.begun[name]), ("commits", self.committed[name])):
                (folder.path / log).mkdir(parents=True)
                for batch in range(number):
                    (folder.path / log / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{batch}}}\n-')
            record = JobRecord(name=name, id="1f", declaration={}, group_ids=(), versions={})
            write_record(folder, record)
            fence = [(record.transaction("log"), FENCED)] if self.fenced else []
            write_tables(folder, {"log": table(self.jobs / name / "log", (record.transaction("log"), 1), *fence)})
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


class OneIsABatchAhead(OneIsFencedOff):
    begun: ClassVar = {"batched": 3, "delta": 4}
    committed: ClassVar = {"batched": 2, "delta": 3}


class WithoutFence(OneIsFencedOff):
    fenced: ClassVar = False


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


def test_after_a_restore_the_tables_must_refuse_the_epoch_of_the_paused_process(tmp_path: Path) -> None:
    """The job is restored to another folder, from which it runs then; each table must have the fence."""
    actions = (do.Run(files=1), do.MakeSavepoint(), PAUSE, do.Restore(elsewhere=True), do.Resume(), do.Continue())
    assert ran(tmp_path / "1", OneIsFencedOff, *actions).launcher.failed == {}
    folders = [(request["do"], request.get("checkpoint")) for request in PausedInBatch2.requests]
    assert folders == [("run", None), ("savepoint", None), ("restore", RESTORED), ("run", RESTORED)]
    failed = ran(tmp_path / "2", WithoutFence, *actions).launcher.failed
    assert failed["delta"].startswith("a paused process is not fenced off: log: its log has no fence")


def test_after_a_reset_all_files_are_read_again(tmp_path: Path) -> None:
    """The batches of a job before the paused one are in the tables, and then all."""
    run = ran(tmp_path, OneIsABatchAhead, PAUSE, do.Reset(), do.Resume(), do.Continue())
    files = generate(1, files=FILES)
    assert run.history_of("batched") == (*files[:2], JobReset(), *files)
    assert run.history_of("delta") == (*files[:3], JobReset(), *files)
    assert (run.launcher.failed, run.not_hit) == ({}, {})


def test_a_reset_keeps_all_tables_but_the_view() -> None:
    """The view has the rows since the reset, the log those before it, too. Without a reset it changes nothing."""
    job = drill_job("time-interval")
    files: tuple[FileArrived, ...] = generate(1, files=FILES)
    whole, part = job.oracle()(files), job.oracle()(files[:3])
    found = expected_tables(job.oracle, (*files[:3], JobReset(), *files))
    assert found["log"] == [*part["log"], *whole["log"]]
    assert found["quarantine"] == [*part["quarantine"], *whole["quarantine"]]
    assert found["view"] == whole["view"]
    assert expected_tables(job.oracle, files) == whole
