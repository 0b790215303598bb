"""A fault that is not shown to have hit a job is no pass for it. The programs are played; no process is started."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from recovery.drill import actions as do
from recovery.drill.expected.history import generate
from recovery.drill.faults.damage import Missed
from recovery.drill.faults.faulty_s3 import FaultyStore
from recovery.drill.jobs import CHECKS, named
from recovery.drill.process.launcher import Launcher
from recovery.drill.runner import Drills
from recovery.drill.scenario_run import FILES, Attempt, Bench
from recovery.drill.scenarios import REDUCED, SCENARIOS, Scenario

TWO = ("batched", "delta")
Lines = list[dict[str, Any]]


class Played(Launcher):
    """What programs do is played by `play`, which gets their errands and returns how they ended and what they told."""

    def __init__(self, folder: Path, common: dict[str, Any]) -> None:
        super().__init__(folder, common)
        self.jobs = Path(common["folder"])

    def _program(self, *, own_store: bool = False, **errand: Any) -> tuple[int, float, Lines]:
        self._log_of_nothing()
        code, lines = self.play(self._common | errand)
        return code, 0.0, lines

    def _log_of_nothing(self) -> None:
        self._started += 1
        self._log.touch()

    def play(self, errand: dict[str, Any]) -> tuple[int, Lines]:
        return 0, []


class Store(FaultyStore):
    """A store that refuses the first request after it was told to fail, as an outage that is over by then does."""

    def __init__(self) -> None:
        self.refused = 0
        self.failing = False

    @property
    def endpoint(self) -> str:
        return "http://127.0.0.1:0"

    def behave(self, mood: Any, seconds: float = 10.0) -> None:
        self.refused, self.failing = 0, mood == "fails"

    def ask(self) -> None:
        self.refused += self.failing
        self.failing = False


STORE = Store()


class Keeping(Played):
    """Each job asks the store, one after the other; those in `silent` do not."""

    silent: ClassVar[tuple[str, ...]] = ()

    def play(self, errand: dict[str, Any]) -> tuple[int, Lines]:
        for name in errand["checks"]:
            if name not in self.silent:
                STORE.ask()
        return 0, []


class KeepingBadly(Keeping):
    silent = ("delta",)


class Killed(Played):
    """Each job is killed where `left` says: how many batches it had begun, and how many of them were done."""

    left: ClassVar[dict[str, tuple[int, int]]] = {"batched": (3, 2), "delta": (3, 2)}

    def play(self, errand: dict[str, Any]) -> tuple[int, Lines]:
        for name, numbers in self.left.items():
            for log, number in zip(("offsets", "commits"), numbers, strict=True):
                folder = self.jobs / name / "checkpoint" / log
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


class LosingWorkers(Played):
    """One job is stopped, for a task failed."""

    noticed = True

    def play(self, errand: dict[str, Any]) -> tuple[int, Lines]:
        stopped = {"check": "batched", "what": "error", "kind": "JobFailed", "text": "a worker is gone"}
        killed = {"check": "", "what": "killed", "number": 4}
        return 0, [killed | ({"noticed": self.noticed} if errand["victim"] == "workers" else {}), stopped]


class LosingIdleWorkers(LosingWorkers):
    noticed = False


def bench(folder: Path, launcher: type[Launcher], checks: tuple[str, ...] = TWO) -> Bench:
    """A bench whose programs are played."""
    return Bench(folder=folder, checks=checks, seed=1, store=lambda: STORE, launcher=launcher)


def attempted(tmp_path: Path, launcher: type[Launcher], *actions: do.Action) -> Attempt:
    """The attempt, once it is over."""
    attempt = Attempt(bench(tmp_path, launcher), Scenario(name="played", actions=actions))
    attempt.perform()
    return attempt


def test_each_job_meets_the_outage_of_the_store(tmp_path: Path) -> None:
    """They are kept one after the other, and the store is shut for a while only: it is shut anew for each."""
    attempt = attempted(tmp_path, Keeping, do.Savepoint(store="s3 fails"), do.Restore(store="s3 fails"))
    assert attempt.missed == {}
    assert attempt.notes == [
        "savepoint: the store refused 1, 1 requests, job by job",
        "restore: the store refused 1, 1 requests, job by job",
    ]


def test_a_job_that_did_not_meet_the_outage_is_unknown_and_the_others_are_not(tmp_path: Path) -> None:
    """Tables as they should be show nothing then."""
    attempt = attempted(tmp_path, KeepingBadly, do.Savepoint(store="s3 fails"))
    assert attempt.missed == {"delta": "the store was not asked while it failed, in savepoint"}


@pytest.mark.parametrize("point", [point for point, fault in do.POINTS.items() if fault not in (None, "mid-batch")])
def test_a_kill_at_a_point_must_leave_each_job_with_that_batch_half_done(tmp_path: Path, point: do.Point) -> None:
    """One that had ended was not hit, nor was one in which only an earlier kill shows."""
    assert attempted(tmp_path / "1", Killed, do.Kill(point, batch=2)).missed == {}
    for number, launcher in enumerate((KilledAfterOneHadEnded, KilledWhileAnOlderKillShows, KilledBetweenBatches), 2):
        missed = attempted(tmp_path / str(number), launcher, do.Kill(point, batch=2)).missed
        assert missed["delta"] == f"the kill {point} left no batch from 2 on half done"
        assert ("batched" in missed) == (launcher is KilledBetweenBatches)


def test_in_the_midst_of_a_batch_one_job_is_enough_and_the_number_is_told(tmp_path: Path) -> None:
    """For there nobody can wait for another. That none was there is told for all."""
    point: do.Point = "in the midst of a batch"
    attempt = attempted(tmp_path / "1", KilledWhileAnOlderKillShows, do.Kill(point, batch=2))
    assert (attempt.missed, attempt.notes) == ({}, [f"{point}: 1 of 2 jobs hit"])
    with pytest.raises(Missed, match="no batch from 2 on"):
        attempted(tmp_path / "2", KilledBetweenBatches, do.Kill(point, batch=2))


def test_a_kill_between_two_batches_must_find_some_done_and_none_begun(tmp_path: Path) -> None:
    """Otherwise it came at another point, or to a job that had done nothing."""
    kill = do.Kill("before the offset log", batch=2)
    assert attempted(tmp_path / "1", KilledBetweenBatches, kill).missed == {}
    assert set(attempted(tmp_path / "2", Killed, kill).missed) == set(TWO)
    assert set(attempted(tmp_path / "3", KilledBeforeAnything, kill).missed) == {"delta"}


def test_random_kills_tell_how_many_jobs_each_hit_and_one_that_none_hit_is_unknown(tmp_path: Path) -> None:
    """Not every one of them finds a batch of every job."""
    attempt = attempted(tmp_path, KilledAfterOneHadEnded, do.RandomKills(times=2))
    assert set(attempt.missed) == {"delta"}
    assert [note.endswith(("1 of 2 jobs hit", "0 of 2 jobs hit")) for note in attempt.notes] == [True, True]


def test_killed_workers_show_something_only_if_a_task_failed(tmp_path: Path) -> None:
    """Idle ones are killed, too, and nobody misses them. The executors of a cluster hold the state, idle or not."""
    attempt = attempted(tmp_path / "1", LosingWorkers, do.KillWorker(batch=2))
    assert attempt.notes == ["1 of 2 jobs stopped by it"]
    assert attempt.launcher.failed == {}
    with pytest.raises(Missed, match="no task of Spark's failed"):
        attempted(tmp_path / "2", LosingIdleWorkers, do.KillWorker(batch=2))
    attempted(tmp_path / "3", LosingIdleWorkers, do.KillExecutor(batch=2))


@pytest.mark.parametrize("seed", range(1, 11))
def test_every_job_has_something_to_tell_in_the_batches_that_are_killed_between_two_commits(seed: int) -> None:
    """A batch without results commits no table, and is never at that point: a kill there would miss such a job."""
    point: do.Point = "between two Delta commits"
    files = generate(seed, files=FILES)
    for scenario in (*SCENARIOS, *REDUCED):
        for batch in [one.batch for one in scenario.actions if isinstance(one, do.Kill) and one.point == point]:
            for name in scenario.checks or [check.name for check in CHECKS if not check.clocked]:
                before, after = (named(name).oracle()(files[:number]) for number in (batch, FILES))
                assert len(after["log"]) > len(before["log"]), name


def test_what_is_known_to_be_wrong_is_not_excused_by_a_fault_that_missed(tmp_path: Path) -> None:
    """Only a pass becomes unknown."""
    attempt = attempted(tmp_path, Played)
    attempt.missed["delta"] = "it missed"
    attempt.launcher.failed["delta"] = "run: broken"
    result = Drills()._judged("delta", attempt, None)
    assert (result.outcome, result.why.startswith("run: broken")) == ("failed", True)
