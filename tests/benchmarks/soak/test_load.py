"""The rows of a load test follow from its seed, and kills from theirs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.soak.kills import EARLIEST, LATEST, kill_times
from benchmarks.soak.load import HOT_KEY, SECOND, Load
from tests.benchmarks.soak.loads import SMALL, START


@pytest.mark.parametrize(("first", "end"), [(0, 1), (9_990, 10_010), (7, 25_000), (10_000, 20_000)])
def test_rows_are_the_same_in_whatever_parts_they_are_drawn(first: int, end: int) -> None:
    """The generator draws them a few at a time, who compares them some panes at a time."""
    for part, whole in zip(SMALL.drawn(first, end), SMALL.drawn(0, 25_000), strict=True):
        assert part.tolist() == whole[first:end].tolist()


def test_the_hot_key_has_its_share_and_the_others_the_rest() -> None:
    """One row in five, and all other keys come."""
    keys, _ = SMALL.drawn(0, SMALL.rows)
    assert 0.18 < np.mean(keys == HOT_KEY) < 0.22
    assert sorted(set(keys.tolist())) == [*range(SMALL.keys)]


def test_rows_before_a_time_are_those_with_an_earlier_event_time() -> None:
    """At the time of a row itself, just after it, before the first and after the last."""
    times = SMALL.event_us(0, SMALL.rows)
    for at in (0, 1, 999, SMALL.rows - 1):
        assert SMALL.rows_before(int(times[at])) == at
        assert SMALL.rows_before(int(times[at]) + 1) == at + 1
    assert SMALL.rows_before(0) == 0
    assert SMALL.rows_before(int(times[-1]) + 1) == SMALL.rows


def test_panes_are_all_that_get_rows() -> None:
    """Rows come from half a second after a boundary for 25 seconds: the sixth pane gets half a second of them."""
    assert list(SMALL.panes) == [START + number * 5 * SECOND for number in range(6)]
    assert SMALL.end_us == START + 30 * SECOND


def test_a_pane_is_completed_by_the_first_row_that_takes_the_watermark_to_its_end() -> None:
    """The last two panes are completed by no row of the load, but by the one after it."""
    times = SMALL.event_us(0, SMALL.rows)
    found = list(SMALL.completing_rows())
    assert [pane for _, pane in found] == list(SMALL.panes)[:4]
    for row, pane in found:
        assert times[row] - SMALL.delay_us >= pane + SMALL.pane_us > times[row - 1] - SMALL.delay_us


def test_a_load_is_read_as_it_was_saved(tmp_path: Path) -> None:
    """By the program that sends it."""
    SMALL.save(tmp_path / "load.json")
    assert Load.read(tmp_path / "load.json") == SMALL


def test_kills_come_at_random_times_that_the_seed_decides() -> None:
    """All within the run, in order."""
    times = kill_times(seed=1, seconds=900, kills=5)
    assert times == kill_times(seed=1, seconds=900, kills=5)
    assert times != kill_times(seed=2, seconds=900, kills=5)
    assert times == sorted(times)
    assert all(EARLIEST * 900 <= at <= LATEST * 900 for at in times)
    assert kill_times(seed=1, seconds=900, kills=0) == []
