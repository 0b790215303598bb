"""The clock of running jobs jumps: what the oracles get, and what shows that each jump has hit a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from integration_tests.drills import actions as do
from integration_tests.drills.expected.history import RunStarted, generate
from integration_tests.drills.process import running_jobs
from integration_tests.drills.process.messages import ProgramRequest
from integration_tests.drills.scenario import Scenario
from integration_tests.drills.scenario_input import FILES
from integration_tests.drills.scenario_run import ScenarioRun
from panekeeper.state.checkpoint import control_files
from panekeeper.state.checkpoint.clock import now_us
from tests.drills.test_scenario_run import FakeLauncher, Lines, drill_setup

JOBS = ("clock-sliding", "time-interval")
HOUR = 3600


class Jumping(FakeLauncher):
    """Reads a file after each jump; `clock-sliding` reports each jump, and each start after the first."""

    noticed: ClassVar[int] = 99
    requests: ClassVar[Lines] = []

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        self.requests.append(request)
        if request["do"] == "jump":
            for file in sorted(Path(request["held_files"]).iterdir()):
                file.rename(Path(request["files"]) / file.name)
        folder = self.jobs / "clock-sliding"
        restarted = (folder / "checkpoint").exists()
        (folder / "checkpoint").mkdir(parents=True, exist_ok=True)
        for _ in range(restarted + min(len(request.get("jumps", ())), self.noticed)):
            report(folder / "log_downtime")
        return 0, []


class NoticesOne(Jumping):
    noticed: ClassVar = 1


def report(table: Path) -> None:
    """Append a row to a downtime table."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    number = len([*log.iterdir()])
    pq.write_table(pa.table({"seconds": [1.0]}), table / f"{number}.parquet")
    (log / f"{number:020d}.json").write_text(json.dumps({"add": {"path": f"{number}.parquet"}}))


def ran(tmp_path: Path, launcher: type[Jumping], *actions: do.Action) -> ScenarioRun:
    """Return the scenario run after its last action."""
    Jumping.requests.clear()
    scenario = Scenario(name="fake", actions=actions, uses_wall_clock=True)
    run = ScenarioRun(drill_setup(tmp_path, launcher, JOBS), scenario)
    run.run()
    return run


def test_a_jump_of_the_clock_is_an_outage_to_the_oracles(tmp_path: Path) -> None:
    """One file is read after each; a run that follows has the clock of the last one."""
    run = ran(tmp_path, Jumping, do.JumpClock(files=2, hours=(5, -7)), do.Outage(1), do.Resume())
    files = generate(1, files=FILES)
    expected = [RunStarted(clock=0), *files[:2], RunStarted(clock=5 * HOUR), files[2]]
    expected += [RunStarted(clock=-2 * HOUR), files[3], RunStarted(clock=-HOUR), *files[4:]]
    assert list(run.history_of("clock-sliding")) == expected
    assert (run.not_hit, run.launcher.failed) == ({}, {})
    jumped, resumed = Jumping.requests
    assert (jumped["ahead_hours"], jumped["jumps"], resumed["ahead_hours"]) == (0, (5, -2), -1)
    assert len([*(tmp_path / "in").iterdir()]) == FILES


def test_a_jump_that_a_job_does_not_report_has_not_hit_it(tmp_path: Path) -> None:
    """The report of a start is none of a jump. A job without the wall clock reports none."""
    jump = do.JumpClock(files=2, hours=(5, -7))
    assert ran(tmp_path / "1", Jumping, do.Run(files=1), jump).not_hit == {}
    why = {"clock-sliding": "1 of 2 jumps of the clock are in the downtime table"}
    assert ran(tmp_path / "2", NoticesOne, do.Run(files=1), jump).not_hit == why


class FakeJob:
    """Reads what is in the input folder; the time it was read is in `read`."""

    def __init__(self, files: Path) -> None:
        self.files, self.downtime = files, None
        self.read: list[tuple[str, int]] = []
        self.is_stopped = False

    def process_available(self) -> None:
        known = {name for name, _ in self.read}
        hours = round((vars(control_files)["now_us"]() - now_us()) / 3.6e9)
        self.read += [(path.name, hours) for path in sorted(self.files.iterdir()) if path.name not in known]

    def stop(self) -> None:
        self.is_stopped = True


def test_each_file_arrives_after_its_jump(tmp_path: Path, monkeypatch: Any) -> None:
    """The clock that is set is that of the control stream and of the ticks."""
    monkeypatch.setattr(control_files, "now_us", now_us)
    monkeypatch.setattr("panekeeper.framework.engine.clock.tick_scheduler.now_us", now_us)
    for folder, name in (("in", "0"), ("held", "1"), ("held", "2")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).touch()
    request = ProgramRequest(
        do="jump",
        job_names=JOBS[1:],
        files=str(tmp_path / "in"),
        held_files=str(tmp_path / "held"),
        folder=str(tmp_path),
        events_file="",
        jumps=(5.0, -2.0),
    )
    job: Any = FakeJob(tmp_path / "in")
    running_jobs.RunningJobs(request, {"time-interval": job}, lambda _name, _error: None).jump_clock()
    assert job.read == [("0", 0), ("1", 11), ("2", 4)]
    assert job.is_stopped
