"""One scenario on some jobs: its actions one after the other, each run of the jobs in a process of its own.

Says what was done to the jobs and in which order (`history`); whether they bore it is for the judge to say.
"""

from __future__ import annotations

import random
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recovery.drill import actions as do
from recovery.drill.expected.history import Drained, Moment, Started, generate, write
from recovery.drill.faults.damage import SmallDisk, damage_state
from recovery.drill.faults.evidence import Checkpoints
from recovery.drill.process.cluster import cluster
from recovery.drill.process.launcher import Launcher, environment
from recovery.drill.process.messages import Broken
from recovery.savepoint.catalog import savepoints

if TYPE_CHECKING:
    from collections.abc import Callable

    from recovery.drill.faults.faulty_s3 import FaultyStore
    from recovery.drill.scenarios import Scenario

HOUR = 3600
FILES = 6
_KILLABLE: tuple[do.Point, ...] = tuple(point for point, fault in do.POINTS.items() if fault is not None)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What an attempt works with.

    Attributes:
        folder: a folder of its own.
        checks: names of the jobs.
        seed: of the input and of random kills.
        job: a user's own job file.
        savepoint: (location, name) of which that job begins as a clone.
        endpoint: where S3 is, for that savepoint.
        broken: what is wrong with the product, on purpose.
        store: gives an S3 that can fail.
        seconds: how long a faulty store fails.
        launcher: starts the programs.
    """

    folder: Path
    checks: tuple[str, ...]
    seed: int
    job: Path | None = None
    savepoint: tuple[str, str] | None = None
    endpoint: str | None = None
    broken: Broken | None = None
    store: Callable[[], FaultyStore]
    seconds: float = 10.0
    launcher: type[Launcher] = Launcher


@dataclass
class Attempt:
    """One scenario on some jobs.

    Attributes:
        bench: what it works with.
        scenario: what is done.
        history: what happened, for the oracle.
        notes: what is to be told of all the jobs.
        missed: by job, why it is not shown that each fault hit it.
    """

    bench: Bench
    scenario: Scenario
    history: list[Moment] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kills = next((one.times for one in self.scenario.actions if isinstance(one, do.RandomKills)), 0)
        self._dice = random.Random(self.bench.seed)  # noqa: S311 -- picks faults
        self._files = generate(self.bench.seed, files=max(FILES, kills + 3))
        self._fed = self._read = 0
        self._clock_hours = 0.0
        self._saved: dict[str, tuple[int, int]] = {}
        self._disk: SmallDisk | None = None
        self._input = self.bench.folder / "in"
        self.jobs = self.bench.folder / "jobs"
        self._checkpoints = Checkpoints(self.jobs, self.bench.checks)
        self._common = self._errand_of_all()
        self.launcher = self.bench.launcher(self.bench.folder, self._common)

    def perform(self) -> None:
        """Do what the scenario says.

        Raises:
            CannotDrill: the machine lacks what is needed.
            Missed: a fault did not hit.
        """
        self._input.mkdir(parents=True)
        self.jobs.mkdir()
        with ExitStack() as tidy:
            if self.scenario.needs == "disk":
                self._disk = SmallDisk(self.jobs)
                tidy.callback(self._keep_tables)
            if self.scenario.needs == "cluster":
                self._common["master"] = tidy.enter_context(cluster(self.bench.folder / "cluster", environment()))
            if self.bench.savepoint is not None:
                location, name = self.bench.savepoint
                self.launcher.run(do="clone", location=location, name=name, endpoint=self.bench.endpoint)
            for action in self.scenario.actions:
                self.act(action)

    def act(self, action: do.Action) -> None:
        """Do one thing. Raises as `perform`."""
        if isinstance(action, do.Savepoint | do.Restore | do.Damage | do.FillDisk | do.FreeDisk | do.Outage):
            self._handle(action)
        else:
            self._work(action)

    def _work(self, action: do.Action) -> None:
        """What runs the jobs."""
        match action:
            case do.Run(files=files):
                self._feed(files)
                self.launcher.run(do="run", until=self._until(files), **self._clock())
            case do.Resume():
                self._feed(len(self._files))
                self.launcher.run(do="run", recovering=True, **self._clock())
            case do.Kill(point=point, batch=batch):
                self._kill(point, batch)
            case do.RandomKills(times=times):
                self._kill_at_random(times)
            case do.KillWorker(batch=batch) | do.KillExecutor(batch=batch):
                self._feed(len(self._files))
                stopped = self.launcher.run_and_lose(
                    "workers" if isinstance(action, do.KillWorker) else "executors", batch
                )
                self.notes.append(f"{stopped} of {len(self.bench.checks)} jobs stopped by it")
            case do.Drain(files=files):
                self._feed(files)
                self.launcher.run(do="drain", **self._clock())
                self.history.append(Drained())
            case do.Fails(says=says, everybody=everybody):
                self._feed(self._read + 1)
                self._read -= 1  # it is read again
                self.history.pop()
                self.launcher.run_and_fail(says, everybody=everybody)

    def _handle(self, action: do.Action) -> None:
        """What is done to jobs that do not run."""
        match action:
            case do.Savepoint():
                self._save(action)
            case do.Restore(name=name, killed_at=step, store=store):
                self._in_store(store, do="restore", name=name, killed_at=step)
                length, self._read = self._saved[name]
                del self.history[length:]
            case do.Damage(how=how):
                files = sum(damage_state(self.jobs / name / "checkpoint", how) for name in self.bench.checks)
                self.notes.append(f"{files} state files {how}")
            case do.FillDisk(leaving=leaving):
                assert self._disk is not None
                self._disk.fill(leaving)
            case do.FreeDisk():
                assert self._disk is not None
                self._disk.free()
            case do.Outage(hours=hours):
                self._clock_hours += hours

    # -- input and clock --------------------------------------------------------------------------------------

    def _feed(self, files: int) -> None:
        """A run begins that reads `files` files in all."""
        if self.scenario.clocked:
            self.history.append(Started(clock=round(self._clock_hours * HOUR)))
        for number in range(self._fed, files):
            write(self._input, number, self._files[number])
        self.history += self._files[self._read : files]
        self._fed, self._read = max(self._fed, files), files

    def _clock(self) -> dict[str, Any]:
        return {"ahead_hours": self._clock_hours} if self.scenario.clocked else {}

    def _until(self, files: int) -> int | None:
        return files if self.bench.job is not None else None

    # -- kills ------------------------------------------------------------------------------------------------

    def _kill(self, point: do.Point, batch: int) -> None:
        fault = do.POINTS[point]
        if fault is None:
            self._feed(batch)
            self.launcher.run_and_die(do="idle", **self._clock())
        else:
            self._feed(batch + 1 if self.scenario.clocked else len(self._files))
            self.launcher.run_and_die(do="run", point=fault, batch=batch, **self._clock())
        for name, why in self._checkpoints.missed(point, batch).items():
            self.missed.setdefault(name, why)
        if fault == "mid-batch":
            self.notes.append(f"{point}: {self._hit(batch)}")

    def _kill_at_random(self, times: int) -> None:
        self._feed(len(self._files))
        never = set(self.bench.checks)
        for _ in range(times):
            point = self._dice.choice(_KILLABLE)
            batch = min(self._checkpoints.last_done().values()) + 1 + self._dice.choice((0, 0, 1))
            self.launcher.run_and_die(do="run", point=do.POINTS[point], batch=batch)
            never -= self._checkpoints.half_done(batch)
            self.notes.append(f"{point} of batch {batch}: {self._hit(batch)}")
        self.missed |= dict.fromkeys(never, "none of the random kills left a batch of it half done")

    def _hit(self, batch: int) -> str:
        return f"{len(self._checkpoints.half_done(batch))} of {len(self.bench.checks)} jobs hit"

    # -- savepoints -------------------------------------------------------------------------------------------

    def _save(self, action: do.Savepoint) -> None:
        if action.killed:
            self.launcher.run_and_die(
                do="savepoint", name=action.name, location=str(self.bench.folder / "savepoints"), killed_at="first file"
            )
            for name in self.bench.checks:
                if savepoints(self.bench.folder / "savepoints" / name):
                    self.launcher.failed.setdefault(name, "a savepoint that was cut short is listed as complete")
            return
        self._in_store(action.store, do="savepoint", name=action.name, killed_at=None)
        self._saved[action.name] = (len(self.history), self._read)

    def _in_store(self, store: str, **errand: Any) -> None:
        if store == "folder":
            self._keep(location=str(self.bench.folder / "savepoints"), **errand)
            return
        faulty = self.bench.store()
        errand |= {"location": f"s3://drill/{self.bench.folder.name}", "endpoint": faulty.endpoint, "own_store": True}
        if "fails" in store:
            self._keep_in_an_outage(faulty, **errand)
        else:
            faulty.behave("slow" if "slow" in store else "well")
            self._keep(**errand)

    def _keep_in_an_outage(self, faulty: FaultyStore, **errand: Any) -> None:
        """A program for each job: they take turns in one, and only the first of them would meet the outage."""
        refused = []
        for name in self.bench.checks:
            faulty.behave("fails", self.bench.seconds)
            self._keep(checks=(name,), **errand)
            refused.append(faulty.refused)
            if not faulty.refused:
                self.missed.setdefault(name, f"the store was not asked while it failed, in {errand['do']}")
        self.notes.append(f"{errand['do']}: the store refused {', '.join(map(str, refused))} requests, job by job")

    def _keep(self, *, killed_at: str | None, **errand: Any) -> None:
        if killed_at is not None:
            self.launcher.run_and_die(killed_at=killed_at, **errand)
        else:
            self.launcher.run(**errand)

    def _keep_tables(self) -> None:
        """Move what is on the small disk to where the judge can read it later, and let go of the disk."""
        assert self._disk is not None
        self._disk.free()
        kept = self.bench.folder / "kept"
        shutil.copytree(self.jobs, kept)
        self._disk.close()
        self.jobs.rmdir()
        kept.rename(self.jobs)

    def _errand_of_all(self) -> dict[str, Any]:
        return {
            "checks": self.bench.checks,
            "job": None if self.bench.job is None else str(self.bench.job.absolute()),
            "files": str(self.bench.folder / "in"),
            "folder": str(self.bench.folder / "jobs"),
            "broken": self.bench.broken,
        }
