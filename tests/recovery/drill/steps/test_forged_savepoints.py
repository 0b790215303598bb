"""A forged savepoint must be refused and change nothing; the savepoints and the jobs here are small files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.recovery.drill import actions as do
from panekeeper.recovery.drill.faults.damage import FaultNotConfirmed
from panekeeper.recovery.drill.faults.forged import PATHS, PLANTED, REFUSAL, contents, forge
from panekeeper.recovery.drill.scenario import Scenario
from panekeeper.recovery.drill.scenario_run import ScenarioRun
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import show
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.drill.test_scenario_run import TWO, FakeLauncher, Lines, drill_setup


class Refusing(FakeLauncher):
    """Makes savepoints of one file, and refuses to restore what is not in their folder."""

    text: ClassVar[str] = f"the manifest has {REFUSAL}"
    planted: ClassVar[str | None] = None
    paths: ClassVar[list[str]] = []

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        location = Path(request["location"])
        for name in request["job_names"]:
            manifest = location / name / "savepoints" / f"{request['name']}.json"
            if request["do"] == "savepoint":
                (self.jobs / name).mkdir()
                (self.jobs / name / "state").write_text(name)
                for folder in ("savepoints", "blobs"):
                    (location / name / folder).mkdir(parents=True)
                manifest.write_text(json.dumps({"content": {"files": []}, "sha256": ""}))
            else:
                self.paths.extend(one["path"] for one in json.loads(manifest.read_text())["content"]["files"])
                if self.planted is not None:
                    (self.jobs / self.planted).write_text("planted")
        failing = () if request["do"] == "savepoint" else request["job_names"]
        return 0, [{"job": name, "what": "error", "kind": "E", "text": self.text} for name in failing]


class FailsOtherwise(Refusing):
    text = "no space left on device"


class PlantsAFile(Refusing):
    planted = f"../{PLANTED}"


class ChangesAJob(Refusing):
    planted = "delta/state"


def failed(tmp_path: Path, launcher: type[Refusing]) -> dict[str, str]:
    """Return the jobs whose drills have failed, with the reasons."""
    scenario = Scenario(name="fake", actions=(do.MakeSavepoint(), do.RestoreForged()))
    run = ScenarioRun(drill_setup(tmp_path, launcher), scenario)
    run.run()
    return run.launcher.failed


def test_a_refusal_that_changes_nothing_is_right(tmp_path: Path) -> None:
    """Each job gets another path. The savepoint itself is not forged, but a copy of it."""
    Refusing.paths.clear()
    assert failed(tmp_path, Refusing) == {}
    assert Refusing.paths == [*PATHS[:2]]
    (manifest,) = (tmp_path / "savepoints" / "delta").rglob("*.json")
    assert json.loads(manifest.read_text())["content"]["files"] == []


@pytest.mark.parametrize(
    ("launcher", "why"),
    [
        (FailsOtherwise, "the error does not say what to do: E: no space left on device"),
        (PlantsAFile, "a forged savepoint was refused, but changed "),
        (ChangesAJob, "a forged savepoint was refused, but changed delta/state"),
    ],
)
def test_a_refusal_for_another_reason_or_with_an_effect_has_failed(
    tmp_path: Path, launcher: type[Refusing], why: str
) -> None:
    """An effect is one on all jobs: nothing says whose it is."""
    found = failed(tmp_path, launcher)
    assert [*found] == [*TWO]
    assert all(one.startswith(why) for one in found.values())


def test_without_a_savepoint_nothing_is_forged(tmp_path: Path) -> None:
    """A refusal then shows nothing."""
    (tmp_path / "savepoints").mkdir()
    scenario = Scenario(name="fake", actions=(do.RestoreForged(),))
    with pytest.raises(FaultNotConfirmed, match="no savepoint was forged"):
        ScenarioRun(drill_setup(tmp_path, Refusing), scenario).run()


@pytest.mark.parametrize("path", PATHS)
def test_a_true_savepoint_that_is_forged_is_refused_for_its_path(
    job: FakeCheckpoint, tmp_path: Path, path: str
) -> None:
    """Its checksums are right, so that nothing else is wrong with it. Nothing is written."""
    savepoint(job.folder, "one", to=tmp_path / "savepoints")
    show(tmp_path / "savepoints", "one")
    forge(tmp_path / "savepoints", "one", path)
    before = contents(tmp_path)
    with pytest.raises(PanekeeperError, match=REFUSAL):
        restore(tmp_path / "savepoints", "one")
    assert contents(tmp_path) == before
