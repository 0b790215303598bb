"""Jobs are started with one more rule after a kill; the programs here are fakes that refuse such a start, or do not."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from recovery.drill import actions as do
from recovery.drill.expected.history import OperatorChanged, generate
from recovery.drill.process.operator_file import load_operator, write_operator
from recovery.drill.scenario import Scenario
from recovery.drill.scenario_input import FILES
from recovery.drill.scenario_run import ScenarioRun
from state.checkpoint.folder import LocalFolder
from state.checkpoint.job_record import JobRecord, write_record, write_tables
from state.code_digest import digests_of_parts
from tests.recovery.drill.test_pause import table
from tests.recovery.drill.test_scenario_run import TWO, FakeLauncher, Lines, drill_setup

REFUSED = 'Start the program as it was with trigger="available_now", or start(..., accept_changed_code=1)'


class KilledInBatch1(FakeLauncher):
    """Each job is killed in its second batch, which the jobs of `held` have in a table; `refused` are its refusals."""

    held: ClassVar[tuple[str, ...]] = TWO
    refused: ClassVar[dict[str, str]] = dict.fromkeys(TWO, REFUSED)
    requests: ClassVar[Lines] = []

    def play(self, request: dict[str, Any]) -> tuple[int, Lines]:
        if request.get("point"):
            for name in TWO:
                self.leave(name, offsets=2, commits=1)
            return -signal.SIGKILL, []
        self.requests.append(request)
        is_changed = request["rejected_values"] or "negative" in str(request["operator_file"])
        first = is_changed and not request.get("accepted_batches")
        refused = self.refused if first and len(self.requests) == 1 else {}
        for name in {*request["job_names"]} - {*refused}:
            self.leave(name, offsets=2, commits=2)
        return 0, [{"job": name, "what": "error", "kind": "I", "text": text} for name, text in refused.items()]

    def leave(self, name: str, *, offsets: int, commits: int) -> None:
        """Leave the checkpoint and the log of a job."""
        folder = LocalFolder(self.jobs / name / "checkpoint")
        for log, number in (("offsets", offsets), ("commits", commits)):
            (folder.path / log).mkdir(parents=True, exist_ok=True)
            for batch in range(number):
                (folder.path / log / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{batch}}}\n-')
        if not (self.jobs / name / "log").exists():
            record = JobRecord(name=name, id="1f", declaration={}, group_ids=(), versions={})
            write_record(folder, record)
            newest = int(name in self.held)
            write_tables(folder, {"log": table(self.jobs / name / "log", (record.transaction("log"), newest))})


class NoTableHasIt(KilledInBatch1):
    held: ClassVar = ()
    refused: ClassVar = {}


class RunsItAgain(KilledInBatch1):
    refused: ClassVar = {"batched": REFUSED}


class RefusedForNothing(KilledInBatch1):
    held: ClassVar = ("batched",)


class RefusedWithoutAWayOut(KilledInBatch1):
    refused: ClassVar = {"batched": REFUSED, "delta": "no"}


def ran(tmp_path: Path, launcher: type[KilledInBatch1], way: Any, what: Any = "rule") -> ScenarioRun:
    """Return the scenario run after a kill, a change of the code, and a run."""
    actions = (do.Kill("after the state commit", batch=None), do.ChangeCode(way, what), do.Resume())
    run = ScenarioRun(drill_setup(tmp_path, launcher), Scenario(name="fake", actions=actions))
    KilledInBatch1.requests.clear()
    run.run()
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


def test_changed_code_runs_a_batch_again_that_no_table_has(tmp_path: Path) -> None:
    """Its rule holds from this batch on; all later runs have it."""
    run = ran(tmp_path, NoTableHasIt, None)
    assert (run.launcher.failed, run.not_hit) == ({}, {})
    for name in TWO:
        assert rejected_files(run, name) == expected_files(run, 1)
        assert 1 in rejected_files(run, name)
    assert [len(request["rejected_values"]) for request in KilledInBatch1.requests] == [1, 1]


def test_the_old_program_completes_a_batch_that_a_table_has(tmp_path: Path) -> None:
    """The rule holds for the files after it."""
    run = ran(tmp_path, KilledInBatch1, "old program")
    assert (run.launcher.failed, run.not_hit) == ({}, {})
    for name in TWO:
        assert rejected_files(run, name) == expected_files(run, 2)
    assert [len(request["rejected_values"]) for request in KilledInBatch1.requests] == [1, 0, 1]


def test_changed_code_completes_it_if_one_insists(tmp_path: Path) -> None:
    """With the number of the batch. The rule then rejects no row of the batch, which would be missing or doubled."""
    run = ran(tmp_path, KilledInBatch1, "accept")
    assert (run.launcher.failed, run.not_hit) == ({}, {})
    assert KilledInBatch1.requests[1]["accepted_batches"] == {"batched": 1, "delta": 1}
    for name in TWO:
        assert rejected_files(run, name) == expected_files(run, 2) != []
    assert 1 not in expected_files(run, 1)


@pytest.mark.parametrize(
    ("launcher", "way", "first"),
    [(NoTableHasIt, None, 1), (KilledInBatch1, "old program", 2), (KilledInBatch1, "accept", 2)],
)
def test_another_operator_holds_from_the_first_batch_that_it_computes(
    tmp_path: Path, launcher: type[KilledInBatch1], way: Any, first: int
) -> None:
    """A batch that a table has keeps its results, also where it is run again. All later runs have the operator."""
    run = ran(tmp_path, launcher, way, "operator")
    assert (run.launcher.failed, run.not_hit) == ({}, {})
    files = generate(1, files=FILES)
    for name in TWO:
        assert run.history_of(name) == (*files[:first], OperatorChanged(), *files[first:])
    used = [Path(request["operator_file"]).stem for request in KilledInBatch1.requests]
    assert used == (["negative", "positive", "negative"] if way == "old program" else ["negative"] * len(used))
    assert not any(request["rejected_values"] for request in KilledInBatch1.requests)


def test_the_code_of_an_operator_differs_by_what_it_computes(tmp_path: Path) -> None:
    """Its name is the same, and so is that of its module. The same code in another file is no other code."""
    found = {}
    for name, is_negative in (("a.py", False), ("b.py", True), ("c.py", False)):
        write_operator(tmp_path / name, is_negative=is_negative)
        found[name] = load_operator(tmp_path / name)
    assert len({(one.__module__, one.__qualname__) for one in found.values()}) == 1
    digests = {name: digests_of_parts(one()) for name, one in found.items()}
    assert digests["a.py"] == digests["c.py"] != digests["b.py"]


@pytest.mark.parametrize(
    ("launcher", "why"),
    [
        (RunsItAgain, "batch 1, which a table has, was run again by other code"),
        (RefusedForNothing, "changed code was refused, although no table has an unfinished batch"),
        (RefusedWithoutAWayOut, "the error does not name the ways out: I: no"),
    ],
)
def test_a_start_that_is_wrongly_allowed_or_refused_has_failed(
    tmp_path: Path, launcher: type[KilledInBatch1], why: str
) -> None:
    """One job of two."""
    failed = ran(tmp_path, launcher, "old program").launcher.failed
    assert list(failed) == ["delta"]
    assert failed["delta"].startswith(why)


def test_a_kill_at_another_place_than_the_scenario_is_about_shows_nothing(tmp_path: Path) -> None:
    """Whether a table had the batch is read from its log."""
    assert set(ran(tmp_path / "1", NoTableHasIt, "accept").not_hit) == {*TWO}
    assert set(ran(tmp_path / "2", KilledInBatch1, None).not_hit) == {*TWO}
