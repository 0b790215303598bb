"""Runs one scenario on some jobs: its actions in order, each run of the jobs in a process of its own.

It records what happened to the jobs (`history`) and which faults are confirmed. It does not look at the tables.
"""

from __future__ import annotations

import random
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from integration_tests.drills import actions as do
from integration_tests.drills.expected.history import HistoryEvent, JobDrained
from integration_tests.drills.faults.armed import IN_OTHER_THREADS, release_commits
from integration_tests.drills.faults.damage import SmallDisk, damage_state
from integration_tests.drills.faults.evidence import CheckpointEvidence, epoch_of
from integration_tests.drills.faults.volumes import MissingVolume
from integration_tests.drills.process.cluster import cluster
from integration_tests.drills.process.launcher import environment
from integration_tests.drills.scenario_input import ScenarioInput, input_files
from integration_tests.drills.steps.changed_code import ChangedCode
from integration_tests.drills.steps.maintained_tables import maintain_tables
from integration_tests.drills.steps.paused_jobs import PausedJobs
from integration_tests.drills.steps.running_jobs import RunningJobs
from integration_tests.drills.steps.savepoint_runs import SavepointRuns

if TYPE_CHECKING:
    from integration_tests.drills.drill_setup import DrillSetup
    from integration_tests.drills.scenario import Scenario

_KILL_POINTS: tuple[do.Point, ...] = tuple(point for point, fault in do.POINTS.items() if fault is not None)


@dataclass
class ScenarioRun:
    """One scenario on some jobs.

    Attributes:
        setup: what it needs.
        scenario: its actions.
        notes: remarks for the reports of all jobs.
        not_hit: by job, why it is not confirmed that each fault hit it.
    """

    setup: DrillSetup
    scenario: Scenario
    notes: list[str] = field(default_factory=list)
    not_hit: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.setup.seed)
        files = input_files(self.scenario, self.setup.seed)
        self._input = ScenarioInput(self.setup.folder / "in", files, uses_wall_clock=self.scenario.uses_wall_clock)
        self._saved: dict[str, tuple[int, int]] = {}
        self._disk: SmallDisk | None = None
        self.jobs = self.setup.folder / "jobs"
        self._evidence = CheckpointEvidence(self.jobs, self.setup.job_names)
        self._common = self._common_request()
        self.launcher = self.setup.launcher(self.setup.folder, self._common)
        self._savepoints = SavepointRuns(
            folder=self.setup.folder,
            job_names=self.setup.job_names,
            launcher=self.launcher,
            store=self.setup.store,
            seconds=self.setup.seconds,
            notes=self.notes,
            not_hit=self.not_hit,
        )
        self._paused = PausedJobs(
            jobs=self.jobs, job_names=self.setup.job_names, launcher=self.launcher, evidence=self._evidence
        )
        self._code = ChangedCode(
            job_names=self.setup.job_names,
            files=self._input.files,
            launcher=self.launcher,
            evidence=self._evidence,
            notes=self.notes,
            not_hit=self.not_hit,
        )
        self._running = RunningJobs(
            folder=self.setup.folder, job_names=self.setup.job_names, files=self._input.files, launcher=self.launcher
        )
        self._volume: MissingVolume | None = None

    def run(self) -> None:
        """Run the actions of the scenario.

        Raises:
            ScenarioNotSupported: this host lacks what the scenario needs.
            FaultNotConfirmed: a fault had no effect on any job, or a program failed.
        """
        (self.setup.folder / "in").mkdir(parents=True)
        self.jobs.mkdir()
        if any(isinstance(one, do.ChangeCode) and one.what == "operator" for one in self.scenario.actions):
            self._code.use_operator_files(self.setup.folder / "code")
        with ExitStack() as cleanup:
            cleanup.callback(self.launcher.close)
            if self.scenario.needs == "disk":
                self._disk = SmallDisk(self.jobs)
                cleanup.callback(self._move_tables_off_disk)
            if self.scenario.needs == "cluster":
                self._common["master"] = cleanup.enter_context(cluster(self.setup.folder / "cluster", environment()))
            for action in self.scenario.actions:
                self.run_action(action)

    def history_of(self, name: str) -> tuple[HistoryEvent, ...]:
        """Return what happened to a job: the input of its oracle."""
        return self._code.history_of(name, self._input.history)

    def run_action(self, action: do.Action) -> None:
        """Run one action. Raises as `run`."""
        if isinstance(action, do.Pause | do.Continue):
            self._act_on_paused_jobs(action)
        elif isinstance(action, do.MakeSavepoint | do.Restore | do.Outage):
            self._act_on_stopped_jobs(action)
        elif isinstance(action, do.Damage | do.FillDisk | do.FreeDisk | do.TakeAway | do.PutBack | do.Maintain):
            self._act_on_files(action)
        elif isinstance(action, do.Drain | do.FillWhileIdle | do.JumpClock):
            self._run_continuously(action)
        else:
            self._run_jobs(action)

    def _run_jobs(self, action: do.Action) -> None:
        match action:
            case do.Run(files=files):
                self._input.write(files)
                self.launcher.run(do="run", **self._input.clock)
            case do.Resume():
                self._input.write()
                self.launcher.run(do="run", recovering=True, **self._input.clock)
            case do.Kill(point=point, batch=batch):
                self._kill(point, batch)
            case do.ChangeCode():
                self._code.start(action)
            case do.RandomKills(times=times):
                self._kill_at_random(times)
            case do.KillWorker(batch=batch) | do.KillExecutor(batch=batch):
                self._input.write()
                stopped = self.launcher.run_with_victim(
                    "workers" if isinstance(action, do.KillWorker) else "executors", batch
                )
                self.notes.append(f"{stopped} of {len(self.setup.job_names)} jobs stopped by it")
            case do.ExpectError(messages=messages, all_jobs=all_jobs):
                self._input.write(self._input.read + 1)
                self._input.read_again()
                self.launcher.run_expecting_error(messages, all_jobs=all_jobs)

    def _run_continuously(self, action: do.Action) -> None:
        match action:
            case do.Drain(files=files):
                self._input.write(files)
                self.launcher.run(do="drain", **self._input.clock)
                self._input.history.append(JobDrained())
            case do.FillWhileIdle(files=files):
                self._input.write(files)
                self._running.fill_disk(action, **self._input.clock)
                self._input.note_written()  # the next run reads the file, unless it was read after the disk was freed
            case do.JumpClock():
                self._jump_clock(action)

    def _act_on_stopped_jobs(self, action: do.Action) -> None:
        match action:
            case do.MakeSavepoint():
                self._savepoints.make(action)
                self._saved[action.name] = self._input.mark
            case do.Restore(name=name):
                self._savepoints.restore(action)
                self._paused.epoch_ended = True
                self._input.go_back(self._saved[name])
            case do.Outage(hours=hours):
                self._input.clock_hours += hours

    def _act_on_paused_jobs(self, action: do.Action) -> None:
        match action:
            case do.Pause():
                self._input.write()
                self.not_hit |= self._paused.pause(action) | self.not_hit
            case do.Continue():
                self._paused.continue_()

    def _act_on_files(self, action: do.Action) -> None:
        match action:
            case do.Damage(how=how):
                files = sum(
                    damage_state(epoch_of(self.jobs / name / "checkpoint").path, how) for name in self.setup.job_names
                )
                self.notes.append(f"{files} state files {how}")
            case do.Maintain(files=until):
                if until is not None:
                    self._input.write(until)
                self.not_hit |= maintain_tables(self.launcher, self.jobs, self.setup.job_names, action) | self.not_hit
            case do.FillDisk(leaving=leaving):
                assert self._disk is not None
                self._disk.fill(leaving)
            case do.FreeDisk():
                assert self._disk is not None
                self._disk.free()
            case do.TakeAway(what=what, leaving=leaving):
                self._volume = MissingVolume(self.setup.folder / "away", leaving=leaving)
                files = sum(self._volume.take(self.jobs / name, what) for name in self.setup.job_names)
                self.notes.append(f"{files} files of the {what} missing")
            case do.PutBack():
                assert self._volume is not None
                self.launcher.failed |= self._volume.put_back() | self.launcher.failed

    # -- input and clock --------------------------------------------------------------------------------------

    def _jump_clock(self, action: do.JumpClock) -> None:
        began, ahead = self._input.clock, self._input.clock_hours
        self._input.write(action.files)
        jumps = tuple(ahead + hours for hours in accumulate(action.hours))
        missed = self._running.jump_clock(action.files, jumps, fills_disk=action.disk_is_full, **began)
        self.not_hit |= missed | self.not_hit
        for hours in action.hours:
            self._input.note_jump(hours)

    # -- kills ------------------------------------------------------------------------------------------------

    def _kill(self, point: do.Point, batch: int | None) -> None:
        fault = do.POINTS[point]
        if batch is None:
            self._input.write(self._input.read + 1)
            batch = min(self._evidence.last_committed().values()) + 1
        elif fault is None:
            self._input.write(batch)
        else:
            self._input.write(batch + 1 if self.scenario.uses_wall_clock else None)
        if fault is None:
            self.launcher.run_until_killed(do="idle", **self._input.clock)
        else:
            self._run_until_killed(fault, batch, **self._input.clock)
        for name, why in self._evidence.not_hit(point, batch).items():
            self.not_hit.setdefault(name, why)
        if fault in IN_OTHER_THREADS:
            self.notes.append(f"{point}: {self._hit_text(batch)}")

    def _kill_at_random(self, times: int) -> None:
        self._input.write()
        never = set(self.setup.job_names)
        for _ in range(times):
            point = self._random.choice(_KILL_POINTS)
            batch = min(self._evidence.last_committed().values()) + 1 + self._random.choice((0, 0, 1))
            self._run_until_killed(do.POINTS[point], batch)
            never -= self._evidence.interrupted_jobs(batch)
            self.notes.append(f"{point} of batch {batch}: {self._hit_text(batch)}")
        self.not_hit |= dict.fromkeys(never, "none of the random kills left an uncommitted batch of it")

    def _run_until_killed(self, fault: str | None, batch: int, **clock: Any) -> None:
        self.launcher.run_until_killed(do="run", point=fault, batch=batch, **clock)
        for name in self.setup.job_names:
            release_commits(self.jobs / name / "log")

    def _hit_text(self, batch: int) -> str:
        return f"{len(self._evidence.interrupted_jobs(batch))} of {len(self.setup.job_names)} jobs hit"

    # -- disk ---------------------------------------------------------------------------------------------

    def _move_tables_off_disk(self) -> None:
        """Move the files of the small disk to where the comparison can read them, and unmount the disk."""
        assert self._disk is not None
        self._disk.free()
        kept = self.setup.folder / "kept"
        shutil.copytree(self.jobs, kept)
        self._disk.close()
        self.jobs.rmdir()
        kept.rename(self.jobs)

    def _common_request(self) -> dict[str, Any]:
        return {
            "job_names": self.setup.job_names,
            "files": str(self.setup.folder / "in"),
            "folder": str(self.setup.folder / "jobs"),
            "defect": self.setup.defect,
        }
