"""Panes that fire by rules, on a real job: through restarts, into log and view (docs/semantics.md section 6.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.test_idle import fires
from panekeeper import DeclarationError, Every, JobFailed, TimeInterval, agg

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration_tests.engine.conftest import Readings


def test_early_and_late_firings_go_on_after_a_restart(readings: Readings) -> None:
    """Each at its row, with a row that takes back the one before; the last one is final, and in the view.

    a  10:00  1 2 | 4 |  16 32 | 64      early at the second row, complete, late at the second one, then as it closes
       10:01  8                          complete and closed at one watermark
    """
    window = TimeInterval(60, discard_age=120, early=Every(rows=2), refire=Every(rows=2), results="retracting")
    readings.put(("a", "10:00:10", 1), ("a", "10:00:20", 2), ("a", "10:00:30", 4))
    readings.put(("a", "10:01:30", 8))
    readings.run(window=window)
    readings.put(("a", "10:00:40", 16), ("a", "10:00:50", 32), ("a", "10:00:55", 64))
    readings.run(window=window)
    readings.put(("a", "10:09:30", 128))
    readings.run(window=window)
    found = [
        (f"{row['pane_start']:%H:%M}", row["refinement"], row["op"], row["total"], row["reason"], row["is_final"])
        for row in readings.rows("log")
    ]
    assert sorted(found) == [
        ("10:00", 0, -1, 3, "WATERMARK", False),
        ("10:00", 0, 1, 3, "EARLY", False),
        ("10:00", 1, -1, 7, "LATE", False),
        ("10:00", 1, 1, 7, "WATERMARK", False),
        ("10:00", 2, -1, 55, "LATE", False),
        ("10:00", 2, 1, 55, "LATE", False),
        ("10:00", 3, 1, 119, "LATE", True),
        ("10:01", 0, 1, 8, "WATERMARK", True),
    ]
    newest = [(f"{row['pane_start']:%H:%M}", row["total"], row["op"], row["is_final"]) for row in readings.rows("view")]
    assert sorted(newest) == [("10:00", 119, 1, True), ("10:01", 8, 1, True)]


def test_a_pane_fires_early_by_the_wall_clock_without_a_further_row(readings: Readings) -> None:
    """A tick comes when it is due, and no more of them once nothing is."""
    job = readings.start("immediate", window=TimeInterval(60, early=Every("1 second")))
    fired = fires(job)
    readings.put(("a", "10:00:10", 1), ("b", "10:00:15", 2))
    assert fired.wait(120)
    job.stop()
    assert readings.log() == [("a", "10:00", 1, 1, 0, "EARLY"), ("b", "10:00", 2, 1, 0, "EARLY")]
    assert job._run.ticks._due is None


def test_rules_that_do_not_fit_the_job_are_refused(readings: Readings) -> None:
    """An arrival time beside the wall clock; an aggregate of all rows, of parts of a pane."""
    parts: dict[str, Any] = {"window": TimeInterval(60, early=Every(rows=2), results="discarding")}
    with pytest.raises(DeclarationError, match="the window fires by the wall clock, and arrival_time='at' is another"):
        readings.computed(window=TimeInterval(60, early=Every("1 second")), arrival_time="at")
    with pytest.raises(DeclarationError, match="needs all rows of a pane, and by results='discarding' or fires_when="):
        readings.computed(**parts, total="collect")
    assert agg.collect("value").needs_content


def test_discarded_results_are_added_up_in_the_view(readings: Readings, fail_at: Callable[[str, int], None]) -> None:
    """Through restarts, one of them between two tables: the log has the new rows of each firing, the view all.

    a  10:00  1 2 | 4 |  16 | closed     early at the second row, complete, late, and closed without new rows
    """
    window = TimeInterval(60, discard_age=120, early=Every(rows=2), results="discarding")
    readings.put(("a", "10:00:10", 1), ("a", "10:00:20", 2), ("a", "10:00:30", 4))
    readings.put(("a", "10:01:30", 8))
    fail_at("between-delta", 0)
    with pytest.raises(JobFailed):
        readings.run(window=window)
    readings.run(window=window)
    readings.put(("a", "10:00:40", 16))
    readings.put(("a", "10:02:30", 32))
    readings.run(window=window)
    assert [one for one in readings.log() if one[1] == "10:00"] == [
        ("a", "10:00", 3, 2, 0, "EARLY"),
        ("a", "10:00", 4, 1, 1, "WATERMARK"),
        ("a", "10:00", 16, 1, 2, "LATE"),
    ]
    found = {f"{row['pane_start']:%H:%M}": (row["total"], row["n"], row["refinement"]) for row in readings.rows("view")}
    assert found == {"10:00": (23, 4, 2), "10:01": (8, 1, 0)}


def test_a_condition_over_the_result_columns_fires_through_a_restart(readings: Readings) -> None:
    """Each row at which it holds, with the rows since it last did; a name that is no result column is refused."""
    window = TimeInterval(60, fires_when="total >= 9 and n > 1", then="begin_anew")
    readings.put(("a", "10:00:10", 9), ("a", "10:00:20", 2), ("a", "10:00:30", 4))
    readings.run(window=window)
    readings.put(("a", "10:00:40", 8))
    readings.put(("a", "10:01:30", 1))
    readings.run(window=window)
    assert readings.log() == [("a", "10:00", 11, 2, 0, "EARLY"), ("a", "10:00", 12, 2, 1, "EARLY")]
    with pytest.raises(DeclarationError, match="'sum' is no result column of another aggregate"):
        readings.computed(window=TimeInterval(60, fires_when="sum > 3"))
