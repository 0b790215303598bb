"""Poison rows in the input of a drill: which of them a job must refuse, and what its tables hold then."""

from __future__ import annotations

import pytest

from panekeeper.recovery.drill.expected import poison
from panekeeper.recovery.drill.expected.history import FileArrived, generate
from panekeeper.recovery.drill.jobs import drill_job
from panekeeper.recovery.drill.scenario_input import input_files
from panekeeper.recovery.drill.scenarios import SCENARIOS

FILES = generate(1, files=6)
POISONED = poison.poisoned(FILES)


def sensors(files: tuple[object, ...]) -> set[str]:
    """The sensors of all rows."""
    return {row.sensor for one in files if isinstance(one, FileArrived) for row in one.rows}


@pytest.mark.parametrize(
    ("job", "columns"),
    [("sliding-time", {"at"}), ("time-interval", {"seen"}), ("delta", {"value"}), ("batched", set())],
)
def test_a_job_refuses_the_rows_whose_bad_value_it_uses(job: str, columns: set[str]) -> None:
    """A bad sensor always; the others are rows like any other, of a sensor of their own."""
    used = drill_job(job).used_columns
    assert used == {"sensor", *columns}
    kept = sensors(poison.without_poison(POISONED, used))
    assert {one.kind for one in poison.KINDS} - kept == {one.kind for one in poison.KINDS if one.column in used}


def test_every_refused_row_and_every_sum_that_is_too_large_is_expected_once() -> None:
    """With the reason, and the id if it is a row; a job without poison rows has the files as they were."""
    job = drill_job("sliding-time")
    oracle = job.oracle()(poison.without_poison(POISONED, job.used_columns))
    tables = poison.with_poison(oracle, job.place_of_sum, POISONED, job.used_columns)
    large = [row for row in tables["log"] if row[2] is None]
    assert len(large) == tables["quarantine"].count(("SUM_OVERFLOW", None)) > 0
    rows = [row for row in tables["quarantine"] if row[1] is not None]
    assert len({*rows}) == len(rows) == 5 * len(poison.POISONED_FILES)
    assert [one for number, one in enumerate(POISONED) if number not in poison.POISONED_FILES] == [
        one for number, one in enumerate(FILES) if number not in poison.POISONED_FILES
    ]


def test_a_batch_that_is_killed_has_poison_rows() -> None:
    """Else the scenario is one of a kill only."""
    (scenario,) = (one for one in SCENARIOS if one.rows == "poison")
    assert {getattr(one, "batch", None) for one in scenario.actions} - {None} == {*poison.POISONED_FILES}


def test_most_rows_of_a_backlog_have_one_key() -> None:
    """And it is far larger than the input of other scenarios."""
    (scenario,) = (one for one in SCENARIOS if one.rows == "one key")
    rows = [row.sensor for one in input_files(scenario, 1) for row in one.rows]
    assert len(rows) > 100 * sum(len(one.rows) for one in FILES)
    assert 0.9 < rows.count("a") / len(rows) < 1
