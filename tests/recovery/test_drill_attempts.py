"""A fault that is not shown to have hit a job is no pass for it. The programs are played; no process is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from recovery.drill import actions as do
from recovery.drill.attempt import Attempt, Bench
from recovery.drill.launch import Launcher
from recovery.drill.runner import Drills
from recovery.drill.scenarios import Scenario
from recovery.drill.store import FaultyStore

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


def test_what_is_known_to_be_wrong_is_not_excused_by_a_fault_that_missed(tmp_path: Path) -> None:
    """Only a pass becomes unknown."""
    attempt = attempted(tmp_path, Played)
    attempt.missed["delta"] = "it missed"
    attempt.launcher.failed["delta"] = "run: broken"
    result = Drills()._judged("delta", attempt, None)
    assert (result.outcome, result.why.startswith("run: broken")) == ("failed", True)
