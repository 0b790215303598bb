"""Sessions by hand: when they complete, refire, merge, close, are cut; and what an operator sees of it."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from panekeeper import Every, TimeInterval, agg
from panekeeper.framework.declarations.windows import Session
from panekeeper.testing import Clock, Watermark, run
from tests.framework.core.sessions.session_runs import (
    Item,
    SessionRecorder,
    SessionRun,
    aggregate_spec,
    recorder_spec,
    seconds,
)


def rows(*times: int, key: str = "a") -> list[Item]:
    """Return a row of value 1 at each of these times."""
    return [("row", key, time, 1, None) for time in times]


def to(time: int) -> Item:
    """Return a watermark."""
    return ("watermark", time)


def firings(window: Session, *batches: list[Item]) -> list[tuple[Any, ...]]:
    """Return (start, end, rows, replaces, refinement, reason) of each firing, after a restart before each batch."""
    run = SessionRun(aggregate_spec(window, n=agg.count()))
    for batch in batches:
        run.batch(batch)
    return [
        (row["session_start"], row["session_end"], row["n"], row["replaces"], row["refinement"], row["reason"])
        for row in seconds(run.results)
    ]


def test_a_session_ends_a_gap_after_its_last_row() -> None:
    """Rows exactly a gap apart are together; the watermark at the end completes it."""
    got = firings(Session(10), rows(1, 11), [to(20)], [to(21)], rows(40), [to(50)])
    assert got == [(1, 21, 2, [], 0, "WATERMARK"), (40, 50, 1, [], 0, "WATERMARK")]


def test_a_late_row_fires_its_session_again_at_the_next_watermark() -> None:
    """Until it closes; the last one of the rows is too late."""
    window = Session(10, discard_age=5)
    got = firings(window, rows(0, 8), [to(20)], rows(3), [to(20)], [to(21)], [to(23)], rows(5), [to(99)])
    assert got == [(0, 18, 2, [], 0, "WATERMARK"), (0, 18, 3, [], 1, "LATE")]


def test_a_late_row_that_prolongs_a_session_makes_it_wait_for_its_new_end() -> None:
    """A session of which more may come has no result meanwhile."""
    got = firings(Session(10, discard_age=50), rows(0), [to(12)], rows(7), [to(13)], [to(16)], [to(17)])
    assert got == [(0, 10, 1, [], 0, "WATERMARK"), (0, 17, 2, [], 1, "WATERMARK")]


@pytest.mark.parametrize(
    ("how", "batch"),
    [
        ({"early": Every(rows=1)}, 3),
        ({"early": Every("5 seconds")}, 3),
        ({"early": Every(event_time=1)}, 3),
        ({"refire": Every(rows=1)}, 3),
        ({"emit": "on_update"}, 1),
        ({}, 3),
    ],
    ids=["rows", "clock", "watermark", "late rows", "on update", "neither"],
)
@pytest.mark.parametrize("window", [Session, TimeInterval])
def test_what_begins_behind_the_watermark_is_late_and_fires_once(window: Any, how: Any, batch: int) -> None:
    """A session as a pane: early firings are of what is not complete; one after the batch is that as complete."""
    script = [Watermark(20), [{"t": 5}], Clock(60), Watermark(21), Watermark(22), Watermark(90)]
    declared = window(10, discard_age=30, **how)
    found = run(declared, aggregates={"n": agg.count()}, schema="t timestamp", event_time="t", script=script)
    assert [(one["batch"], one["n"], one["refinement"], one["reason"]) for one in found] == [(batch, 1, 0, "LATE")]


def test_a_session_that_fires_once_has_the_reason_of_a_watermark_whenever_its_rows_came() -> None:
    """Also where an earlier row cuts it so that the watermark has closed it already.

    ```
    103.5         .---------.          it closes at 123.5
    97.6     .---------.               then at 117.6, behind 118.5
    ```
    """
    script = [[{"t": 103.5}], Watermark(118.5), [{"t": 97.6}], Watermark(119)]
    window = Session(10, max_duration=10, discard_age=10, emit="on_close")
    found = run(window, aggregates={"n": agg.count()}, schema="t timestamp", event_time="t", script=script).in_seconds
    assert [(one["session_start"], one["session_end"], one["n"], one["reason"], one["is_final"]) for one in found] == [
        (97.6, 107.6, 2, "WATERMARK", True)
    ]


def test_a_row_between_two_fired_sessions_makes_one_that_replaces_both() -> None:
    """Its refinement is one more than the greatest of theirs; the start that it keeps is not named."""
    batches = [rows(0, 20), [to(30)], rows(22), [to(32)], rows(10), [to(40)], [to(200)]]
    assert firings(Session(10, discard_age=90), *batches) == [
        (0, 10, 1, [], 0, "WATERMARK"),
        (20, 30, 1, [], 0, "WATERMARK"),
        (20, 32, 2, [], 1, "WATERMARK"),
        (0, 32, 4, [20], 2, "LATE"),
    ]


def test_an_earlier_row_moves_the_start_and_replaces_the_result_by_the_old_one() -> None:
    """What was known by the old start is taken back, once."""
    batches = [rows(20), [to(30)], rows(15), [to(31)], rows(16), [to(32)]]
    assert firings(Session(10, discard_age=90), *batches) == [
        (20, 30, 1, [], 0, "WATERMARK"),
        (15, 30, 2, [20], 1, "LATE"),
        (15, 30, 3, [], 2, "LATE"),
    ]


def test_a_session_that_has_not_fired_leaves_no_trace() -> None:
    """It is merged before the watermark reaches its end."""
    assert firings(Session(10), rows(0, 18), rows(9), [to(99)]) == [(0, 28, 3, [], 0, "WATERMARK")]


def test_a_row_too_late_by_itself_joins_a_session_that_is_open() -> None:
    """It reaches back from it; the same row before the other one is too late."""
    window = Session(10)
    run = SessionRun(aggregate_spec(window, n=agg.count()))
    run.run([to(30), *rows(12), *rows(21), *rows(12), to(99)])
    assert [(row["session_start"], row["n"]) for row in seconds(run.results)] == [(12, 2)]
    assert [one[0] for one in run.rejected] == ["LATE"]
    assert run.counts == {
        "rows_in": 3,
        "admitted": 1,
        "refined_late": 1,
        "dropped_late": 1,
        "outside": 0,
        "repeated": 0,
    }


def test_a_session_is_cut_at_its_longest_duration() -> None:
    """It ends there, and the next row begins another one."""
    got = firings(Session(10, max_duration=25), rows(0, 8, 16, 24, 25, 30), [to(24)], [to(25)], [to(40)])
    assert got == [(0, 25, 4, [], 0, "WATERMARK"), (25, 40, 2, [], 0, "WATERMARK")]


def test_a_gap_for_each_row() -> None:
    """A row goes as far as its gap; a row without one is in the quarantine, and counted as outside."""
    run = SessionRun(aggregate_spec(Session("g"), n=agg.count()))
    items: list[Item] = [
        ("row", "a", 0, 1, 30),
        ("row", "a", 5, 1, 2),
        ("row", "a", 31, 1, 4),
        ("row", "a", 6, 1, None),
    ]
    run.run([*items, ("row", "a", 7, 1, -3), to(99)])
    got = [(row["session_start"], row["session_end"], row["n"]) for row in seconds(run.results)]
    assert got == [(0, 30, 2), (31, 35, 1)]
    assert [one[0] for one in run.rejected] == ["NO_SESSION", "NO_SESSION"]
    assert run.counts["outside"] == 2


def test_a_flush_fires_what_is_open_and_closes_it() -> None:
    """Only sessions with new rows fire; rows after it are too late."""
    window, items = Session(10, discard_age=50), [*rows(0, 40), to(10), ("flush",), *rows(45)]
    run = SessionRun(aggregate_spec(window, n=agg.count()))
    results = seconds(run.run(items))
    assert [(row["session_start"], row["reason"], row["is_final"]) for row in results] == [
        (0, "WATERMARK", False),
        (40, "FLUSH", True),
    ]
    assert [one[0] for one in run.rejected] == ["LATE"]
    assert run.stores[0].entries == {}


def test_late_rows_fire_a_complete_session_at_every_second_one_and_as_it_closes() -> None:
    """One that a late row prolongs beyond the watermark is not complete, and fires at its new end."""
    window = Session(10, discard_age=30, refire=Every(rows=2))
    got = firings(window, rows(0), [to(12)], rows(2), [to(13)], rows(1), rows(1), [to(14)], [to(42)])
    late: list[tuple[Any, ...]] = [(0, 12, 3, [], 1, "LATE"), (0, 12, 4, [], 2, "LATE")]
    assert got == [(0, 10, 1, [], 0, "WATERMARK"), *late]
    got = firings(window, rows(0), [to(12)], rows(2), rows(7), rows(5), [to(17)])
    assert got == [(0, 10, 1, [], 0, "WATERMARK"), (0, 17, 4, [], 1, "WATERMARK")]


def test_late_rows_fire_a_complete_session_by_the_wall_clock() -> None:
    """At the instants that lie whole periods after its first row, while it has new rows; a flush fires the rest."""
    window = Session(10, discard_age=50, refire=Every(10))
    clocks = [[("tick", time)] for time in (3, 13, 22, 23, 33, 39)]
    batches = [
        [*clocks[0], *rows(0)],
        [to(12)],
        clocks[1],
        rows(1),
        clocks[2],
        clocks[3],
        clocks[4],
        rows(2),
        clocks[5],
    ]
    got = firings(window, *batches, [("flush",)])
    assert got == [(0, 10, 1, [], 0, "WATERMARK"), (0, 11, 2, [], 1, "LATE"), (0, 12, 3, [], 2, "FLUSH")]


def logged(window: Session, *batches: list[Item]) -> SessionRun:
    """Return a run with a count of rows, after a restart before each batch."""
    run = SessionRun(aggregate_spec(window, n=agg.count()))
    for batch in batches:
        run.batch(batch)
    return run


MERGING = [rows(0), rows(20, 21), [to(32)], rows(11), [to(33)]]
"""Two sessions that fire, and a row that makes one of them."""


def test_a_merged_session_takes_back_every_result_that_it_replaces() -> None:
    """Each by its own start, as it was, before the new one, which still names the others for the view."""
    run = logged(Session(11, discard_age=30, results="retracting"), *MERGING)
    shown = ("session_start", "session_end", "last_row", "n", "replaces", "refinement", "is_final", "op", "reason")
    assert [tuple(row[name] for name in shown) for row in seconds(run.results)] == [
        (0, 11, 0, 1, [], 0, False, 1, "WATERMARK"),
        (20, 32, 21, 2, [], 0, False, 1, "WATERMARK"),
        (0, 11, 0, 1, [], 0, False, -1, "LATE"),
        (20, 32, 21, 2, [], 0, False, -1, "LATE"),
        (0, 32, 21, 4, [20], 1, False, 1, "LATE"),
    ]


def test_results_are_taken_back_of_those_that_fire_where_others_only_close() -> None:
    """At one watermark: the first session closes, and the second one fires again."""
    window = Session(10, discard_age=30, results="retracting")
    run = logged(window, rows(0), rows(21), [to(39)], rows(20), [to(40)])
    assert [(row["session_start"], row["op"], row["n"]) for row in seconds(run.results)] == [
        (0, 1, 1),
        (21, 1, 1),
        (21, -1, 1),
        (20, 1, 2),
    ]


def test_a_merged_session_shows_its_new_rows_and_the_view_all() -> None:
    """What the sessions before have shown counts for it: the log adds up to all rows."""
    run = logged(Session(11, discard_age=30, results="discarding"), *MERGING)
    found = [(row["session_start"], row["n"], row["replaces"], row["refinement"]) for row in seconds(run.results)]
    assert found == [(0, 1, [], 0), (20, 2, [], 0), (0, 1, [20], 1)]
    view = [(row["session_start"], row["n"], row["replaces"], row["refinement"]) for row in seconds(run.view)]
    assert view == [(0, 1, [], 0), (20, 2, [], 0), (0, 4, [20], 1)]


def test_a_result_is_taken_back_with_null_for_an_aggregate_that_came_since() -> None:
    """Such a one may be added where sessions keep their rows."""
    window = Session(10, max_duration=60, discard_age=30, results="retracting")
    run = logged(window, rows(0), [to(12)])
    run.spec = aggregate_spec(window, n=agg.count(), total=agg.sum("v"))
    for batch in (rows(1), [to(13)]):
        run.batch(batch)
    assert [(row["op"], row["n"], row.get("total")) for row in run.results] == [(1, 1, None), (-1, 1, None), (1, 2, 2)]


def test_an_operator_hears_of_sessions_that_become_one() -> None:
    """MERGE has their rows and bounds, and comes before the INSERTION of the row that joined them."""
    run = SessionRun(recorder_spec(Session(10, discard_age=50), SessionRecorder()))
    items: list[Item] = [("row", "a", 0, 1, None), ("row", "a", 20, 2, None), to(30), ("row", "a", 10, 3, None), to(31)]
    results = run.run(items, [1, 2, 3, 4])
    assert [ast.literal_eval(row["event"]) for row in results] == [
        ("insertion", "a", 0, 10, 1),
        ("insertion", "a", 20, 30, 2),
        ("initial_full", "a", 0, 10, [1]),
        ("trigger", "a", 0, 10, [1], 0),
        ("initial_full", "a", 20, 30, [2]),
        ("trigger", "a", 20, 30, [2], 0),
        ("merge", "a", 0, 30, [(0, 10), (20, 30)], [1, 2]),
        ("insertion", "a", 0, 30, 3),
        ("trigger", "a", 0, 30, [1, 2, 3], 1),
    ]
    replaces = [row["replaces"] for row in seconds(results)]
    assert [places for places, row in zip(replaces, results, strict=True) if "merge" in row["event"]] == [[20]]
    assert replaces[-1] == [20]


def test_sessions_without_partitions_are_of_all_rows() -> None:
    """There is one partition then."""
    spec = aggregate_spec(Session(10), n=agg.count())
    run = SessionRun(type(spec)(**{**vars(spec), "keys": spec.keys.empty_table().schema.remove(0)}))
    got = seconds(run.run([*rows(0, key="a"), *rows(5, key="b"), to(99)]))
    assert [(row["session_start"], row["n"]) for row in got] == [(0, 2)]
