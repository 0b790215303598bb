"""A job passes only if it is confirmed that each fault hit it. The launchers are fakes and start no process."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from integration_tests.drills import actions as do
from integration_tests.drills.drill_setup import DrillSetup
from integration_tests.drills.expected.history import generate
from integration_tests.drills.faults.armed import IN_OTHER_THREADS
from integration_tests.drills.faults.damage import FaultNotConfirmed
from integration_tests.drills.faults.faulty_s3 import FaultyStore
from integration_tests.drills.jobs import DRILL_JOBS, drill_job
from integration_tests.drills.process.launcher import Launcher
from integration_tests.drills.runner import Drills
from integration_tests.drills.scenario import Scenario
from integration_tests.drills.scenario_input import FILES
from integration_tests.drills.scenario_run import ScenarioRun
from integration_tests.drills.scenarios import SCENARIOS

TWO = ("batched", "delta")
Lines = list[dict[str, Any]]


class FakeLauncher(Launcher):
    """Calls `play` with each request, in place of a program; it returns the exit code and the events."""

    def __init__(self, folder: Path, common: dict[str, Any]) -> None:
        super().__init__(folder, common)
        self.jobs = Path(common["folder"])

    def _program(self, *, own_store: bool = False, **request: Any) -> tuple[int, float, Lines]:
        self._empty_log()
        code, lines = self.play(self._common | request)
        return code, 0.0, lines

    def _empty_log(self) -> None:
        self._started += 1
        self._log.touch()

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        return 0, []


class Store(FaultyStore):
    """A store that refuses one request after it is set to fail, like a short outage."""

    def __init__(self) -> None:
        self.refused = 0
        self.failing = False

    @property
    def endpoint(self) -> str:
        return "http://127.0.0.1:0"

    def set_mode(self, mode: Any, seconds: float = 10.0) -> None:
        self.refused, self.failing = 0, mode == "fails"

    def request(self) -> None:
        self.refused += self.failing
        self.failing = False


STORE = Store()


class SavesInStore(FakeLauncher):
    """Each job sends a request to the store, one after the other; those in `silent` do not."""

    silent: ClassVar[tuple[str, ...]] = ()

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        for name in request["job_names"]:
            if name not in self.silent:
                STORE.request()
        return 0, []


class SavesOneSilently(SavesInStore):
    silent = ("delta",)


class Killed(FakeLauncher):
    """Each job is killed with the batches of `left`: how many it had begun, and how many were committed."""

    left: ClassVar[dict[str, tuple[int, int]]] = {"batched": (3, 2), "delta": (3, 2)}

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        for name, numbers in self.left.items():
            for log, number in zip(("offsets", "commits"), numbers, strict=True):
                folder = self.jobs / name / "checkpoint/epochs/0000" / log
                folder.mkdir(parents=True, exist_ok=True)
                for batch in range(number):
                    (folder / str(batch)).touch()
        return -signal.SIGKILL, []


class KilledAfterOneHadEnded(Killed):
    left: ClassVar = {"batched": (3, 2), "delta": (6, 6)}


class KilledWhileAnOlderKillShows(Killed):
    left: ClassVar = {"batched": (3, 2), "delta": (2, 1)}


class KilledBetweenBatches(Killed):
    left: ClassVar = {"batched": (2, 2), "delta": (2, 2)}


class KilledBeforeAnything(Killed):
    left: ClassVar = {"batched": (2, 2), "delta": (0, 0)}


class LosingWorkers(FakeLauncher):
    """One job is stopped because a task failed."""

    task_failed = True

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        stopped = {"job": "batched", "what": "error", "kind": "JobFailed", "text": "a worker is gone"}
        killed = {"job": "", "what": "killed", "number": 4}
        return 0, [killed | ({"task_failed": self.task_failed} if request["victim"] == "workers" else {}), stopped]


class Maintained(FakeLauncher):
    """Each statement leaves a commit in the log, but an OPTIMIZE of `delta` finds one file only."""

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        for name in request["job_names"]:
            log = self.jobs / name / "log" / "_delta_log"
            log.mkdir(parents=True, exist_ok=True)
            done = [one for one in request["statements"] if (name, one) != ("delta", "OPTIMIZE")]
            for statement in ("VACUUM END" if one == "VACUUM" else one for one in done):
                path = log / f"{len([*log.iterdir()]):020d}.json"
                path.write_text(json.dumps({"commitInfo": {"operation": statement}}))
        return 0, []


class LosingIdleWorkers(LosingWorkers):
    task_failed = False


def drill_setup(folder: Path, launcher: type[Launcher], job_names: tuple[str, ...] = TWO) -> DrillSetup:
    """Return a setup with a fake launcher."""
    return DrillSetup(folder=folder, job_names=job_names, seed=1, store=lambda: STORE, launcher=launcher)


def ran(tmp_path: Path, launcher: type[Launcher], *actions: do.Action) -> ScenarioRun:
    """Return the scenario run after its last action."""
    run = ScenarioRun(drill_setup(tmp_path, launcher), Scenario(name="fake", actions=actions))
    run.run()
    return run


def test_each_job_has_an_outage_of_the_store(tmp_path: Path) -> None:
    """Jobs use the store one after the other, and it fails for a short time: it fails again for each."""
    run = ran(tmp_path, SavesInStore, do.MakeSavepoint(store="s3 fails"), do.Restore(store="s3 fails"))
    assert run.not_hit == {}
    assert run.notes == [
        "savepoint: the store refused 1, 1 requests, job by job",
        "restore: the store refused 1, 1 requests, job by job",
    ]


def test_only_the_job_without_a_refused_request_is_not_hit_by_an_outage(tmp_path: Path) -> None:
    """The other jobs are hit."""
    run = ran(tmp_path, SavesOneSilently, do.MakeSavepoint(store="s3 fails"))
    assert run.not_hit == {"delta": "the store got no request while it failed, in savepoint"}


@pytest.mark.parametrize(
    "point", [point for point, fault in do.POINTS.items() if fault not in (None, *IN_OTHER_THREADS)]
)
def test_a_kill_at_a_point_must_leave_an_uncommitted_batch_of_each_job(tmp_path: Path, point: do.Point) -> None:
    """A job that had ended was not hit, nor was one with an older uncommitted batch only."""
    assert ran(tmp_path / "1", Killed, do.Kill(point, batch=2)).not_hit == {}
    for number, launcher in enumerate((KilledAfterOneHadEnded, KilledWhileAnOlderKillShows, KilledBetweenBatches), 2):
        not_hit = ran(tmp_path / str(number), launcher, do.Kill(point, batch=2)).not_hit
        assert not_hit["delta"] == f"the kill {point} left no uncommitted batch from 2 on"
        assert ("batched" in not_hit) == (launcher is KilledBetweenBatches)


@pytest.mark.parametrize("point", [point for point, fault in do.POINTS.items() if fault in IN_OTHER_THREADS])
def test_in_the_middle_of_a_batch_one_hit_job_is_enough_and_their_number_is_noted(
    tmp_path: Path, point: do.Point
) -> None:
    """No job can wait for another there. If none was hit, the fault is not confirmed for any."""
    run = ran(tmp_path / "1", KilledWhileAnOlderKillShows, do.Kill(point, batch=2))
    assert (run.not_hit, run.notes) == ({}, [f"{point}: 1 of 2 jobs hit"])
    with pytest.raises(FaultNotConfirmed, match="no uncommitted batch from 2 on"):
        ran(tmp_path / "2", KilledBetweenBatches, do.Kill(point, batch=2))


def test_a_kill_between_two_batches_must_find_a_committed_and_no_uncommitted_batch(tmp_path: Path) -> None:
    """Otherwise it came at another point, or before the job had committed anything."""
    kill = do.Kill("before the offset log", batch=2)
    assert ran(tmp_path / "1", KilledBetweenBatches, kill).not_hit == {}
    assert set(ran(tmp_path / "2", Killed, kill).not_hit) == set(TWO)
    assert set(ran(tmp_path / "3", KilledBeforeAnything, kill).not_hit) == {"delta"}


def test_random_kills_note_how_many_jobs_each_hit_and_one_of_them_must_hit_a_job(tmp_path: Path) -> None:
    """Not every kill finds a batch of every job."""
    run = ran(tmp_path, KilledAfterOneHadEnded, do.RandomKills(times=2))
    assert set(run.not_hit) == {"delta"}
    assert [note.endswith(("1 of 2 jobs hit", "0 of 2 jobs hit")) for note in run.notes] == [True, True]


@pytest.mark.parametrize("beside", [None, 2])
def test_a_statement_that_has_left_no_commit_has_not_hit_the_job(tmp_path: Path, beside: int | None) -> None:
    """Nothing shows that it changed anything; an earlier one of the same kind does not count."""
    files = None if beside is None else 3
    first = do.Maintain(statements=("VACUUM", "ADD COLUMNS"), beside=beside, files=files)
    assert ran(tmp_path / "1", Maintained, first).not_hit == {}
    again = do.Maintain(statements=("VACUUM", "OPTIMIZE"), beside=beside, files=files)
    assert ran(tmp_path / "2", Maintained, again, again).not_hit == {"delta": "the log has no commit of OPTIMIZE"}


def test_killed_workers_show_something_only_if_a_task_failed(tmp_path: Path) -> None:
    """Idle workers can be killed without effect. Executors hold the state, idle or not, so it is not checked."""
    run = ran(tmp_path / "1", LosingWorkers, do.KillWorker(batch=2))
    assert run.notes == ["1 of 2 jobs stopped by it"]
    assert run.launcher.failed == {}
    with pytest.raises(FaultNotConfirmed, match="no Spark task failed"):
        ran(tmp_path / "2", LosingIdleWorkers, do.KillWorker(batch=2))
    ran(tmp_path / "3", LosingIdleWorkers, do.KillExecutor(batch=2))


class FullDisk(FakeLauncher):
    """The disk is full while one more file arrives; the jobs fail, or one of them does not."""

    failing: ClassVar[tuple[str, ...]] = TWO

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        for file in Path(request["held_files"]).iterdir() if request["do"] == "fill" else ():
            file.rename(Path(request["files"]) / file.name)
        failing = self.failing if request["do"] == "fill" else ()
        return 0, [{"job": name, "what": "error", "kind": "E", "text": "a disk is full"} for name in failing]


class OneFindsRoom(FullDisk):
    failing: ClassVar = ("batched",)


def test_each_job_must_fail_in_a_disk_that_is_full_while_it_is_idle(tmp_path: Path) -> None:
    """The file that arrived meanwhile is read by the next run, and is in the history once."""
    fill = do.FillWhileIdle(files=2, messages=("a disk is full",))
    run = ran(tmp_path / "1", FullDisk, fill, do.Resume())
    assert run.launcher.failed == {}
    assert run.history_of("delta") == generate(1, files=FILES)
    assert len([*(tmp_path / "1" / "in").iterdir()]) == FILES
    assert list(ran(tmp_path / "2", OneFindsRoom, fill).launcher.failed) == ["delta"]


@pytest.mark.parametrize("seed", range(1, 11))
def test_every_job_has_results_in_the_batches_that_are_killed_between_two_commits(seed: int) -> None:
    """A batch without results commits no table and never reaches that point: the kill would not hit the job."""
    point: do.Point = "between two Delta commits"
    files = generate(seed, files=FILES)
    for scenario in SCENARIOS:
        kills = [one for one in scenario.actions if isinstance(one, do.Kill) and one.point == point]
        for batch in [one.batch for one in kills if one.batch is not None]:
            for name in scenario.job_names or [check.name for check in DRILL_JOBS if not check.uses_wall_clock]:
                before, after = (drill_job(name).oracle()(files[:number]) for number in (batch, FILES))
                assert len(after["log"]) > len(before["log"]), name


@pytest.mark.parametrize("seed", range(1, 11))
def test_the_first_file_has_results_where_a_job_is_killed_in_its_batch(seed: int) -> None:
    """As above, for a kill in the batch of one more file: where it needs results, it is the first action."""
    points: tuple[do.Point, ...] = ("between two Delta commits", "between a Parquet file and its commit")
    for scenario in SCENARIOS:
        at = [n for n, one in enumerate(scenario.actions) if one in [do.Kill(point, batch=None) for point in points]]
        assert at in ([], [0])
        for name in scenario.job_names if at else ():
            assert drill_job(name).oracle()(generate(seed, files=1))["log"], name


def test_a_failed_job_stays_failed_if_a_fault_is_not_confirmed(tmp_path: Path) -> None:
    """Only a pass becomes unknown."""
    run = ran(tmp_path, FakeLauncher)
    run.not_hit["delta"] = "it not_hit"
    run.launcher.failed["delta"] = "run: defect"
    result = Drills()._result("delta", run)
    assert (result.outcome, result.why.startswith("run: defect")) == ("failed", True)
