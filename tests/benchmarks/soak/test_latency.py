"""Latencies and recoveries follow from the times of commits; memory and state from samples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.soak.capacity import steady_rate
from benchmarks.soak.footprint import Footprint, Sample, bytes_below, growth, sampled
from benchmarks.soak.latency import (
    PaneLatency,
    ReadRows,
    Recovery,
    pane_latencies,
    percentile,
    recoveries,
    undisturbed,
)
from benchmarks.soak.load import SECOND
from tests.benchmarks.soak.loads import SMALL

BEGIN = SMALL.start_us / SECOND
MEGABYTE = 1 << 20


def test_a_percentile_is_a_value_that_was_measured() -> None:
    """The nearest rank: of a hundred values the 99th."""
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50.0, 99.0, 100.0)
    assert percentile([3.0], 0.5) == 3.0


def test_a_pane_is_visible_from_the_first_commit_with_it_or_a_later_one() -> None:
    """Two panes in one commit, a late firing of an old pane between, and one that no commit has."""
    stored = {0: 10.0, 5: 15.0, 10: 20.0, 15: 25.0}
    shown = [(12.0, 0), (21.5, 10), (22.0, 5)]
    found = pane_latencies(stored, shown)
    assert [(one.pane, one.seconds) for one in found] == [(0, 2.0), (5, 6.5), (10, 1.5)]


def test_a_recovery_ends_when_the_job_is_no_more_behind_than_usual() -> None:
    """Killed at 5 s; the first batch after it is 6 s behind, the next one as before."""
    steady = [ReadRows(at=BEGIN + at, rows=1000) for at in (2.0, 3.0, 4.0, 5.0)]  # each 1 s behind
    after = [ReadRows(at=BEGIN + 11, rows=1000), ReadRows(at=BEGIN + 12, rows=6000)]
    first, second = recoveries([BEGIN - 8, BEGIN + 5.5], [*steady, *after], SMALL)
    assert (first.began, first.committed, first.caught_up) == (BEGIN - 8, BEGIN + 2, BEGIN + 2)
    assert second == Recovery(began=BEGIN + 5.5, committed=BEGIN + 11, caught_up=BEGIN + 12, until=BEGIN + 12)


def test_a_job_that_is_killed_again_before_it_commits_has_not_recovered() -> None:
    """Its recovery ends with the next kill, whose own goes on."""
    batches = [ReadRows(at=BEGIN + at, rows=1000) for at in (2.0, 3.0, 4.0)] + [ReadRows(at=BEGIN + 10, rows=6000)]
    _, once, again = recoveries([BEGIN, BEGIN + 5, BEGIN + 6], batches, SMALL)
    assert once == Recovery(began=BEGIN + 5, committed=None, caught_up=None, until=BEGIN + 6)
    assert again.caught_up == BEGIN + 10


def test_a_batch_without_rows_is_behind_nothing() -> None:
    """It completes panes after the last row; how far behind the job is, only rows say."""
    batches = [ReadRows(at=BEGIN + 2, rows=1000), ReadRows(at=BEGIN + 60, rows=0)]
    (first,) = recoveries([BEGIN], batches, SMALL)
    assert (first.committed, first.caught_up) == (BEGIN + 2, BEGIN + 2)


def test_latencies_without_recoveries_are_those_of_panes_that_none_of_them_touches() -> None:
    """A pane that was stored before a kill and became visible after it waited for the recovery."""
    recovered = [Recovery(began=20.0, committed=28.0, caught_up=30.0, until=30.0)]
    panes = [PaneLatency(pane=0, stored=at, visible=at + 2) for at in (10.0, 19.0, 25.0, 31.0)]
    assert undisturbed(panes, recovered) == [panes[0], panes[3]]


def test_a_capacity_is_that_of_batches_after_the_warm_up() -> None:
    """Too few of them say nothing."""
    with pytest.raises(ValueError, match="more than 3 batches"):
        steady_rate([ReadRows(at=1.0, rows=5)] * 3)


def test_growth_compares_the_last_third_with_the_first() -> None:
    """By medians, so that a peak is no growth."""
    assert growth([size * MEGABYTE for size in (10, 10, 90, 50, 50, 50, 30, 30, 30)]) == 20
    assert growth([1, 2]) is None


def test_growth_within_a_process_is_that_of_the_one_that_ran_longest() -> None:
    """After a kill memory begins low again, which hides a leak."""

    def life(pid: int, begin: int, sizes: list[int]) -> list[Sample]:
        return [
            Sample(float(begin + at), pid, {"driver": size * MEGABYTE, "java": 0, "workers": 0})
            for at, size in enumerate(sizes)
        ]

    found = Footprint(memory=[*life(1, 0, [10, 20, 30, 40, 50, 60]), *life(2, 6, [10, 10, 10])], state=[]).figures()
    assert found["memory_mb"]["driver"] == {"max": 60, "growth": -10, "growth_of_longest_process": 40}
    assert found["longest_process_seconds"] == 5


def test_the_state_on_disk_is_sampled_to_the_end(tmp_path: Path) -> None:
    """All files below the folder, also if the run was shorter than the time between two samples."""
    (tmp_path / "0" / "1").mkdir(parents=True)
    with sampled(os.getpid, tmp_path) as found:
        (tmp_path / "0" / "1" / "2.changelog").write_bytes(b"x" * MEGABYTE)
    assert bytes_below(tmp_path) == MEGABYTE
    assert found.figures()["state_mb"]["end"] == 1
