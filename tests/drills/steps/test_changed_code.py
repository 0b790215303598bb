"""Jobs are started with other code after a kill; the programs here are fakes that have recorded a batch, or not."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from integration_tests.drills import actions as do
from integration_tests.drills.expected.history import OperatorChanged, generate
from integration_tests.drills.faults.evidence import epoch_of
from integration_tests.drills.process.operator_file import load_operator, write_operator
from integration_tests.drills.scenario import Scenario
from integration_tests.drills.scenario_input import FILES
from integration_tests.drills.scenario_run import ScenarioRun
from panekeeper.state.checkpoint.folder import prepared_file
from panekeeper.state.checkpoint.job_record import JobRecord, write_record
from tests.drills.test_scenario_run import TWO, FakeLauncher, Lines, drill_setup


class KilledInBatch1(FakeLauncher):
    """Each job is killed in its second batch, which the jobs of `recorded` have prepared."""

    recorded: ClassVar[tuple[str, ...]] = TWO
    requests: ClassVar[Lines] = []

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        if request.get("point"):
            for name in TWO:
                self.leave(name, offsets=2, commits=1)
            return -signal.SIGKILL, []
        self.requests.append(request)
        for name in request["job_names"]:
            self.leave(name, offsets=2, commits=2)
        return 0, []

    def leave(self, name: str, *, offsets: int, commits: int) -> None:
        """Leave the checkpoint of a job."""
        folder = epoch_of(self.jobs / name / "checkpoint")
        for log, number in (("offsets", offsets), ("commits", commits)):
            (folder.path / log).mkdir(parents=True, exist_ok=True)
            for batch in range(number):
                (folder.path / log / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{batch}}}\n-')
        write_record(folder, JobRecord(name=name, id="1f", declaration={}, group_ids=(), versions={}, epoch=3))
        if name in self.recorded and commits < offsets:
            folder.write(prepared_file(3, offsets - 1), b"")


class NotRecorded(KilledInBatch1):
    recorded: ClassVar = ()


class OneRecorded(KilledInBatch1):
    recorded: ClassVar = ("delta",)


def ran(tmp_path: Path, launcher: type[KilledInBatch1], *changes: do.ChangeCode) -> ScenarioRun:
    """Return the scenario run after a kill, a change of the code, and a run."""
    actions: tuple[do.Action, ...] = (do.Kill("after the state commit", batch=None), *changes, do.Resume())
    run = ScenarioRun(drill_setup(tmp_path, launcher), Scenario(name="fake", actions=actions))
    KilledInBatch1.requests.clear()
    run.run()
    assert run.launcher.failed == {}
    return run


def rejected_files(run: ScenarioRun, name: str) -> list[int]:
    """The files of which rows are missing in the history of a job."""
    whole = generate(1, files=FILES)
    return [number for number, one in enumerate(run.history_of(name)) if one != whole[number]]


def expected_files(run: ScenarioRun, first: int) -> list[int]:
    """The files from `first` on that have rows which the rule rejects."""
    value = run._code._values[-1]
    files = generate(1, files=FILES)
    return [number for number in range(first, FILES) if value in {row.value for row in files[number].rows}]


@pytest.mark.parametrize(
    ("launcher", "first"),
    [
        (NotRecorded, {"batched": 1, "delta": 1}),
        (KilledInBatch1, {"batched": 2, "delta": 2}),
        (OneRecorded, {"batched": 1, "delta": 2}),
    ],
)
@pytest.mark.parametrize("what", ["rule", "operator"])
def test_other_code_holds_from_the_first_batch_that_is_not_recorded(
    tmp_path: Path, launcher: type[KilledInBatch1], first: dict[str, int], what: Any
) -> None:
    """One that is has been computed by the old code. All later runs have the new code."""
    run = ran(tmp_path, launcher, do.ChangeCode(what))
    files = generate(1, files=FILES)
    for name, since in first.items():
        if what == "operator":
            assert run.history_of(name) == (*files[:since], OperatorChanged(), *files[since:])
        else:
            assert rejected_files(run, name) == expected_files(run, since)
            assert 1 in expected_files(run, 1)
    used = [(len(request["rejected_values"]), request["operator_file"]) for request in KilledInBatch1.requests]
    assert len(used) == 2
    assert used[0] == used[1]
    assert used[0][0] == (what == "rule")
    assert ("negative" in str(used[0][1])) == (what == "operator")


def test_an_operator_that_is_changed_back_before_a_batch_has_run_is_the_one_of_before(tmp_path: Path) -> None:
    """As after a kill before the batch of the first change was recorded."""
    run = ran(tmp_path, KilledInBatch1, do.ChangeCode("operator"), do.ChangeCode("operator"))
    assert run.history_of("delta") == generate(1, files=FILES)


def test_the_changed_operator_has_the_name_of_the_other_and_other_code(tmp_path: Path) -> None:
    """So has that of a user who corrects it."""
    found = []
    for name, is_negative in (("a.py", False), ("b.py", True)):
        write_operator(tmp_path / name, is_negative=is_negative)
        found.append(load_operator(tmp_path / name))
    assert len({(one.__module__, one.__qualname__) for one in found}) == 1
    assert len({Path(sys.modules[one.__module__].__file__ or "").name for one in found}) == 1
    first, second = ((tmp_path / name).read_text().splitlines() for name in ("a.py", "b.py"))
    assert [(one, other) for one, other in zip(first, second, strict=True) if one != other] != []


@pytest.mark.parametrize(("launcher", "keeps"), [(KilledInBatch1, False), (NotRecorded, True)])
def test_a_kill_at_another_place_than_the_scenario_is_about_shows_nothing(
    tmp_path: Path, launcher: type[KilledInBatch1], *, keeps: bool
) -> None:
    """Whether a batch is recorded is looked up in its checkpoint."""
    assert set(ran(tmp_path, launcher, do.ChangeCode(keeps=keeps)).not_hit) == {*TWO}
    assert ran(tmp_path / "2", launcher, do.ChangeCode(keeps=not keeps)).not_hit == {}
