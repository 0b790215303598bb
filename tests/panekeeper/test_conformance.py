"""What Panekeeper does in the situations of docs/conformance.md: one short script each, in memory.

Event times are seconds: "a 12" is a row of the key a at 12 s, whose value is 12 unless one is given.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from panekeeper import AnyOf, Count, DeclarationError, Every, Session, Time, TimeInterval, Tumbling, agg
from panekeeper.testing import Clock, Restart, Results, Watermark, run

DAY = 86_400
NEW_YORK_DAY_OF_23_HOURS = 1_772_946_000
"""2026-03-08T05:00:00Z: midnight in New York, where clocks go forward that night."""

KEYED: dict[str, Any] = {"schema": "k string, t timestamp, v long", "partition_by": "k", "event_time": "t"}


def rows(*items: tuple[str | None, float | None] | tuple[str | None, float | None, Any]) -> list[dict[str, Any]]:
    """Return rows of key, time and value."""
    return [{"k": key, "t": at, "v": value[0] if value else at} for key, at, *value in items]


def panes(window: Any, *script: Any, **options: Any) -> Results:
    """Play a script through a window of event time that collects the times of its rows."""
    found: dict[str, Any] = {"aggregates": {"all": agg.collect("v")}} | options
    return run(window, script=script, **KEYED, **found)


def firings(found: Results, start: str = "pane_start") -> list[tuple[Any, ...]]:
    """Return key, start in seconds and values of each firing."""
    return [(row["k"], row[start], row["all"]) for row in found.in_seconds]


def test_a_row_behind_the_watermark_counts_in_a_pane_that_is_not_complete() -> None:
    """What matters is the end of the pane, not the time of the row."""
    found = panes(TimeInterval(10), rows(("a", 1)), Watermark(9), rows(("a", 3)), Watermark(10))
    assert firings(found) == [("a", 0, [1, 3])]


def test_a_late_row_fires_its_pane_again_at_the_next_watermark() -> None:
    """With all its rows and the next refinement; a row that is the first of its key in the pane has refinement 0."""
    found = panes(
        TimeInterval(10, discard_age=20), rows(("a", 1)), Watermark(10), rows(("a", 3), ("b", 4)), Watermark(12)
    )
    assert firings(found) == [("a", 0, [1]), ("a", 0, [1, 3]), ("b", 0, [4])]
    assert [(row["refinement"], row["reason"]) for row in found] == [(0, "WATERMARK"), (1, "LATE"), (0, "LATE")]


def test_a_row_of_a_closed_pane_is_in_the_quarantine() -> None:
    """With all its columns."""
    found = panes(TimeInterval(10), rows(("a", 1)), Watermark(10), rows(("a", 3)), Watermark(99))
    assert firings(found) == [("a", 0, [1])]
    assert [(row["reason"], row["row"]["v"]) for row in found.quarantine] == [("LATE", 3)]
    assert found.counts["dropped_late"] == 1


def test_a_row_joins_those_of_its_panes_that_are_open() -> None:
    """By `late="tuple"` it is dropped for all of them."""
    script = [rows(("a", 1), ("a", 8)), Watermark(10), rows(("a", 7)), Watermark(15)]
    assert firings(panes(TimeInterval(10, creation_period=5), *script)) == [
        ("a", -5, [1]),
        ("a", 0, [1, 8]),
        ("a", 5, [8, 7]),
    ]
    found = panes(TimeInterval(10, creation_period=5, late="tuple"), *script)
    assert firings(found)[-1] == ("a", 5, [8])


def test_rows_of_a_batch_are_compared_with_the_watermark_before_it() -> None:
    """However they stand in it; the watermark follows the rows between two batches."""
    found = panes(TimeInterval(10), rows(("a", 1), ("a", 25), ("a", 3)))
    assert firings(found) == [("a", 0, [1, 3])]
    found = panes(TimeInterval(10), rows(("a", 1), ("a", 25)), rows(("a", 3)))
    assert firings(found) == [("a", 0, [1])]


def test_panes_before_the_epoch_are_like_others() -> None:
    """They begin at multiples of their period, below 0, too."""
    found = panes(TimeInterval(10), rows(("a", -25), ("a", -1), ("a", 0)), Watermark(10))
    assert firings(found) == [("a", -30, [-25]), ("a", -10, [-1]), ("a", 0, [0])]


def test_a_row_at_the_end_of_a_pane_is_in_the_next_one() -> None:
    """A microsecond before it is in."""
    found = panes(TimeInterval(10), rows(("a", 0, 1), ("a", 9.999999, 2), ("a", 10, 3)), Watermark(20))
    assert firings(found) == [("a", 0, [1, 2]), ("a", 10, [3])]


def test_a_pane_of_a_day_has_24_hours_also_where_clocks_go_forward() -> None:
    """23 hours after midnight in New York it is midnight again there; the pane of 24 hours goes on."""
    midnight = NEW_YORK_DAY_OF_23_HOURS
    times = [midnight, midnight + 23 * 3600, midnight + DAY]
    found = panes(TimeInterval("1 day", interval_offset="5 hours"), rows(*[("a", at) for at in times]))
    assert firings(found) == [("a", midnight, times[:2])]


def test_a_row_in_a_gap_between_panes_is_counted_as_outside() -> None:
    """It belongs to none by declaration, so it is not in the quarantine."""
    found = panes(TimeInterval(2, creation_period=5), rows(("a", 1), ("a", 3)), Watermark(10))
    assert (firings(found), found.quarantine, found.counts["outside"]) == ([("a", 0, [1])], [], 1)


def test_a_watermark_is_kept_over_a_restart() -> None:
    """A row that was late before the stop is late after it."""
    found = panes(TimeInterval(10), rows(("a", 1)), rows(("a", 25)), Restart(), rows(("a", 3)))
    assert firings(found) == [("a", 0, [1])]
    assert [row["reason"] for row in found.quarantine] == ["LATE"]


def test_a_pane_fires_early_at_every_second_row_and_again_when_it_is_complete() -> None:
    """Exactly at these rows, wherever batches end."""
    window = TimeInterval(10, early=Every(rows=2))
    found = panes(window, rows(("a", 1), ("a", 2), ("a", 3)), rows(("a", 4)), Watermark(10))
    assert [(row["all"], row["reason"]) for row in found] == [
        ([1, 2], "EARLY"),
        ([1, 2, 3, 4], "EARLY"),
        ([1, 2, 3, 4], "WATERMARK"),
    ]


def test_a_pane_that_emits_on_update_fires_after_each_batch_with_rows() -> None:
    """Only the firing with which it closes says that no other follows."""
    found = panes(TimeInterval(10, emit="on_update"), rows(("a", 1), ("a", 2)), rows(("a", 3)), Watermark(10))
    assert [(row["all"], row["reason"], row["refinement"], row["is_final"]) for row in found] == [
        ([1, 2], "EARLY", 0, False),
        ([1, 2, 3], "EARLY", 1, False),
        ([1, 2, 3], "WATERMARK", 2, True),
    ]


def test_a_pane_that_emits_on_close_fires_once_with_its_late_rows() -> None:
    """At the end plus the discard age."""
    window = TimeInterval(10, discard_age=5, emit="on_close")
    found = panes(window, rows(("a", 1)), Watermark(10), rows(("a", 3)), Watermark(14), Watermark(15))
    assert [(row["batch"], row["all"], row["is_final"]) for row in found] == [(4, [1, 3], True)]


def test_a_result_may_come_with_the_one_that_it_takes_back() -> None:
    """So a sum over `op` times the value is right at any time."""
    window = TimeInterval(10, discard_age=5, results="retracting")
    script = [rows(("a", 1)), Watermark(10), rows(("a", 3)), Watermark(11)]
    found = panes(window, *script, aggregates={"total": agg.sum("v")})
    assert [(row["op"], row["total"], row["refinement"]) for row in found] == [(1, 1, 0), (-1, 1, 0), (1, 4, 1)]


def test_a_result_may_be_of_the_rows_since_the_last_one() -> None:
    """The firing as complete comes in any case."""
    window = TimeInterval(10, early=Every(rows=2), results="discarding")
    totals = {"total": agg.sum("v"), "n": agg.count()}
    found = panes(window, rows(("a", 1), ("a", 2), ("a", 3)), Watermark(10), aggregates=totals)
    assert [(row["total"], row["n"], row["reason"]) for row in found] == [(3, 2, "EARLY"), (3, 1, "WATERMARK")]


def test_a_pane_without_rows_has_no_result_unless_it_is_filled() -> None:
    """Between two that have rows."""
    found = panes(TimeInterval(10), rows(("a", 1), ("a", 25)), Watermark(99))
    assert firings(found) == [("a", 0, [1]), ("a", 20, [25])]
    found = panes(TimeInterval(10, fill="null", fill_for=10), rows(("a", 1), ("a", 25)), Watermark(30))
    assert firings(found) == [("a", 0, [1]), ("a", 10, None), ("a", 20, [25])]


def test_a_window_ends_by_count_or_time_whichever_is_first() -> None:
    """Both count from where the window before ended."""
    script = [[{"v": 1}, {"v": 2}], Clock(20), [{"v": 3}], Clock(29), Clock(1)]
    values = {"all": agg.collect("v")}
    found = run(Tumbling(AnyOf(Count(2), Time(30))), schema="v long", aggregates=values, script=script)
    assert [(row["all"], row["fired_at"], row["reason"]) for row in found.in_seconds] == [
        ([1, 2], 0, "COUNT"),
        ([3], 30, "TIME"),
    ]


def test_a_window_of_the_wall_clock_begins_with_its_first_row_or_by_the_epoch() -> None:
    """By the epoch if it is `aligned`."""
    script = [Clock(100), [{"v": 1}], Clock(60)]
    how: dict[str, Any] = {"schema": "k string, v long", "partition_by": "k", "aggregates": {"n": agg.count()}}
    found = run(Tumbling(Time(30)), script=script, **how).in_seconds
    assert [row["fired_at"] for row in found] == [130]
    found = run(Tumbling(Time(30), aligned=True), script=script, **how).in_seconds
    assert [row["fired_at"] for row in found] == [120]


def test_a_condition_on_the_results_fires_a_pane() -> None:
    """Right after the row after which it holds, with that row; the pane is empty afterwards, if that is declared."""
    totals = {"total": agg.sum("v"), "n": agg.count()}
    window = TimeInterval(10, fires_when="total >= 9", then="begin_anew")
    found = panes(window, rows(("a", 1, 5), ("a", 2, 6), ("a", 3, 1)), Watermark(10), aggregates=totals)
    assert [(row["total"], row["reason"]) for row in found] == [(11, "EARLY"), (1, "WATERMARK")]


def test_the_last_pane_of_a_finite_input_stays_open() -> None:
    """More rows may come."""
    assert firings(panes(TimeInterval(10), rows(("a", 1)), rows(("a", 5)))) == []


def test_rows_exactly_a_gap_apart_are_in_one_session() -> None:
    """A microsecond more begins another one; a session ends a gap after its last row."""
    found = panes(Session(10), rows(("a", 0, 1), ("a", 10, 2), ("a", 20.000001, 3)), Watermark(99))
    assert firings(found, "session_start") == [("a", 0, [1, 2]), ("a", 20.000001, [3])]
    first = found.in_seconds[0]
    assert (first["session_end"], first["last_row"]) == (20, 10)


def test_a_row_between_two_sessions_merges_them() -> None:
    """Before either had a result."""
    found = panes(Session(10), rows(("a", 0), ("a", 15)), rows(("a", 8)), Watermark(99))
    assert firings(found, "session_start") == [("a", 0, [0, 15, 8])]
    assert found[0]["replaces"] == []


def test_a_merged_session_names_the_results_that_it_replaces() -> None:
    """Its own start is replaced by the greater refinement."""
    window = Session(10, discard_age=60)
    found = panes(window, rows(("a", 0), ("a", 15)), Watermark(30), rows(("a", 8)), Watermark(31))
    assert firings(found, "session_start") == [("a", 0, [0]), ("a", 15, [15]), ("a", 0, [0, 15, 8])]
    assert [at.timestamp() for at in found[-1]["replaces"]] == [15]
    assert found[-1]["refinement"] == 1


def test_a_late_row_joins_a_session_that_is_open() -> None:
    """Also one that would be too late by itself."""
    found = panes(Session(10), rows(("a", 20), ("a", 12)), Watermark(15), rows(("a", 4)), rows(("b", 4)), Watermark(99))
    assert firings(found, "session_start") == [("a", 4, [20, 12, 4])]
    assert [row["row"]["k"] for row in found.quarantine] == ["b"]


# [0, 10) closes at 15, and [20, 30) is open
def test_a_session_that_is_closed_takes_no_row_and_is_no_part_of_another() -> None:
    """It closes at the watermark that reaches its end and lateness; a row between it and an open one joins that."""
    window = Session(10, discard_age=5)
    before, at = (
        panes(window, rows(("a", 0), ("a", 20)), Watermark(to), rows(("a", 10)), Watermark(99))
        for to in (14.999999, 15)
    )
    assert firings(before, "session_start")[-1] == ("a", 0, [0, 20, 10])
    assert firings(at, "session_start") == [("a", 0, [0]), ("a", 10, [20, 10])]


def test_each_row_may_have_a_gap_of_its_own() -> None:
    """A row whose gap is not above 0 is in no session."""
    found = panes(Session("v"), rows(("a", 0, 5), ("a", 4, 20), ("a", 23, 1), ("a", 30, 0)), Watermark(99))
    assert firings(found, "session_start") == [("a", 0, [5, 20, 1])]
    assert [row["reason"] for row in found.quarantine] == ["NO_SESSION"]


def test_a_session_can_have_a_longest_duration() -> None:
    """The next row begins another one."""
    found = panes(Session(10, max_duration=20), rows(("a", 0), ("a", 9), ("a", 18), ("a", 27)), Watermark(99))
    assert firings(found, "session_start") == [("a", 0, [0, 9, 18]), ("a", 27, [27])]


def test_nan_is_greater_than_every_number() -> None:
    """For `max` and `min`."""
    script = [[{"v": 1.0}, {"v": math.nan}, {"v": 2.0}]]
    extremes = {"most": agg.max("v"), "least": agg.min("v")}
    (found,) = run(Tumbling(Count(3)), schema="v double", aggregates=extremes, script=script)
    assert math.isnan(found["most"])
    assert found["least"] == 1.0


def test_a_sum_that_does_not_fit_64_bits_is_null_and_reported() -> None:
    """The other columns of the firing have their results, and one that comes back into the range is right."""
    most = 2**63 - 1
    sums = {"total": agg.sum("v"), "n": agg.count()}
    script = [[{"v": most}, {"v": 1}, {"v": most}, {"v": -most}]]
    found = run(Tumbling(Count(2)), schema="v long", aggregates=sums, script=script)
    assert [(row["total"], row["n"]) for row in found] == [(None, 2), (0, 2)]
    assert [row["reason"] for row in found.quarantine] == ["SUM_OVERFLOW"]


def test_null_is_a_key_and_no_value() -> None:
    """A key that is null has panes; aggregates of a column leave its nulls out."""
    counts = {"n": agg.count(), "values": agg.count("v"), "total": agg.sum("v")}
    found = panes(TimeInterval(10), rows((None, 1, 7), (None, 2, None)), Watermark(10), aggregates=counts)
    assert [(row["k"], row["n"], row["values"], row["total"]) for row in found] == [(None, 2, 1, 7)]


class Inverse(agg.UserAggregate):
    """Raises for a sum of 0."""

    def zero(self) -> float:
        """Return nothing so far."""
        return 0.0

    def add(self, state: float, value: float) -> float:
        """Add one value."""
        return state + value

    def result(self, state: float) -> float:
        """Return the inverse of the sum."""
        return 1 / state


def test_a_function_that_raises_costs_its_own_result_only() -> None:
    """It is null there, and in the quarantine with what was raised; other keys have theirs."""
    inverse = {"all": agg.user(Inverse(), "v", output="double")}
    script = rows(("a", 1, 0), ("b", 1, 4)), Watermark(10)
    found = panes(TimeInterval(10), *script, aggregates=inverse, allow_errors=True)
    assert firings(found) == [("a", 0, None), ("b", 0, 0.25)]
    assert [row["reason"] for row in found.quarantine] == ["USER_ERROR"]
    assert "ZeroDivisionError" in found.quarantine[0]["detail"]


def test_an_overdue_timer_fires_at_the_start_without_a_row() -> None:
    """Once, however many periods passed; the next one counts from then."""
    totals: dict[str, Any] = {"schema": "v long", "aggregates": {"total": agg.sum("v")}}
    found = run(Tumbling(Time(30)), script=[[{"v": 1}], Clock(95), Restart(), [{"v": 2}], Clock(30)], **totals)
    assert [(row["fired_at"], row["total"], row["reason"]) for row in found.in_seconds] == [
        (95, 1, "OVERDUE"),
        (125, 2, "TIME"),
    ]


def test_a_window_of_the_wall_clock_goes_on_over_a_restart() -> None:
    """The stop takes no time here: what was collected before and after it is in one window."""
    totals: dict[str, Any] = {"schema": "v long", "aggregates": {"total": agg.sum("v")}}
    script = [[{"v": 1}], Clock(10), [], Restart(), [{"v": 2}], Clock(20)]
    found = run(Tumbling(Time(30)), script=script, **totals)
    assert [(row["fired_at"], row["total"], row["reason"]) for row in found.in_seconds] == [(30, 3, "TIME")]


def test_a_row_that_the_source_brings_twice_counts_twice_unless_its_id_is_declared() -> None:
    """Windows do not know which rows are the same; `dedupe=` says it."""
    twice = rows(("a", 1), ("a", 1)), Watermark(10)
    assert firings(panes(TimeInterval(10), *twice)) == [("a", 0, [1, 1])]
    found = panes(TimeInterval(10), *twice, dedupe="v", dedupe_for="1 minute")
    assert (firings(found), found.counts["repeated"]) == ([("a", 0, [1])], 1)


def test_what_cannot_be_is_refused_where_it_is_declared() -> None:
    """A pane of a month, which has no length."""
    with pytest.raises(DeclarationError, match="month"):
        TimeInterval("1 month")
