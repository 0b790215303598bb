"""Sessions as in the suites of other systems: their rows, times and results; and where ours differ, how."""

from __future__ import annotations

from typing import Any

from panekeeper import agg
from panekeeper.framework.declarations.windows import Session
from tests.framework.core.sessions.session_runs import Item, SessionRun, aggregate_spec, seconds

GAP = 300
"""Kafka's cases have a gap of five minutes, and times of milliseconds; here both are seconds."""


def run(window: Session, *batches: list[Item]) -> SessionRun:
    """Return the run after these batches."""
    made = SessionRun(aggregate_spec(window, n=agg.count()))
    for batch in batches:
        made.batch(batch)
    return made


def found(made: SessionRun) -> list[tuple[Any, ...]]:
    """Return (key, first row, last row, rows) of the results, sorted."""
    return sorted((row["k"], row["session_start"], row["last_row"], row["n"]) for row in seconds(made.results))


def rows(key: str, *times: int) -> list[Item]:
    """Return rows of a key."""
    return [("row", key, time, 1, None) for time in times]


def words(text: str, time: int, gaps: dict[str, int] | None = None) -> list[Item]:
    """Return a row for each word, as Spark's suite has them."""
    return [("row", word, time, 1, (gaps or {}).get(word, 10)) for word in text.split()]


END: Item = ("watermark", 10_000)


def test_kafka_rows_within_the_gap_are_one_session() -> None:
    """One session has them all.

    KStreamSessionWindowAggregateProcessorTest: shouldCreateSingleSessionWhenWithinGap, with 50 for 500 ms of 5 min;
    shouldUpdateSessionIfTheSameTime; shouldRemoveMergedSessionsFromStateStore.
    """
    assert found(run(Session(GAP), rows("john", 0, 50), [END])) == [("john", 0, 50, 2)]
    assert found(run(Session(GAP), rows("mel", 0, 0), [END])) == [("mel", 0, 0, 2)]
    assert found(run(Session(GAP), rows("a", 0), rows("a", 100), [END])) == [("a", 0, 100, 2)]


def test_kafka_a_row_between_two_sessions_merges_them() -> None:
    """KStreamSessionWindowAggregateProcessorTest: shouldMergeSessions."""
    made = run(Session(GAP), rows("mel", 0), rows("mel", GAP + 1), rows("mel", GAP // 2), [END])
    assert found(made) == [("mel", 0, GAP + 1, 3)]


def test_kafka_rows_further_apart_are_sessions_of_their_own() -> None:
    """A row one unit beyond the gap begins another session.

    KStreamSessionWindowAggregateProcessorTest: shouldHaveMultipleSessionsForSameIdWhenTimestampApartBySessionGap,
    shouldGetAggregatedValuesFromValueGetter.
    """
    second, third = GAP + 1, 2 * (GAP + 1)
    made = run(Session(GAP), rows("mel", 0), rows("mel", second, second), rows("mel", third, third, third), [END])
    assert found(made) == [("mel", 0, 0, 1), ("mel", second, second, 2), ("mel", third, third, 3)]


def test_kafka_several_keys_with_sessions_that_merge() -> None:
    """KStreamSessionWindowAggregateProcessorTest: shouldHandleMultipleSessionsAndMerging."""
    later, last = GAP + 1, GAP + 1 + GAP // 2
    batches = [
        [*rows("a", 0), *rows("b", 0), *rows("c", 0), *rows("d", 0)],
        rows("d", GAP // 2),
        [*rows("a", later), *rows("b", later)],
        [*rows("a", last), *rows("c", last)],
        [END],
    ]
    assert found(run(Session(GAP), *batches)) == [
        ("a", 0, 0, 1),
        ("a", later, last, 2),
        ("b", 0, 0, 1),
        ("b", later, later, 1),
        ("c", 0, 0, 1),
        ("c", last, last, 1),
        ("d", 0, GAP // 2, 2),
    ]


def test_kafka_a_session_that_was_out_is_taken_back() -> None:
    """KStreamSessionWindowAggregateProcessorTest: shouldImmediatelyForwardRemovedSessionsWhenMerging, which differs.

    There each row has a result, and the one before is taken back by a null. Here a session that is known by its start
    gets a greater refinement, and only other starts are named in `replaces`; a result a batch by `emit="on_update"`.
    """
    got = seconds(run(Session(GAP, emit="on_update"), rows("a", 0), rows("a", 5)).results)
    assert [(row["session_start"], row["n"], row["refinement"], row["replaces"]) for row in got] == [
        (0, 1, 0, []),
        (0, 2, 1, []),
    ]
    got = seconds(run(Session(GAP, emit="on_update"), rows("a", 5), rows("a", 0)).results)
    assert [(row["session_start"], row["n"], row["refinement"], row["replaces"]) for row in got] == [
        (5, 1, 0, []),
        (0, 2, 1, [5]),
    ]


def test_kafka_late_rows_with_grace() -> None:
    """KStreamSessionWindowAggregateProcessorTest: shouldLogAndMeterWhenSkippingLateRecord..., which differs.

    With a gap of 10. There (version 2.8) a session of one row at 0 is late at stream time 1 without grace, at 2 with a
    grace of 1, as grace counts from its last row. Here the discard age counts from the end, which is the gap later: a
    row at 0 is late from 10 on, and from 11 on. A null is a key like any other, and no error.
    """
    for age in (0, 1):
        on_time = run(Session(10, discard_age=age), [("watermark", 9 + age), *rows("late", 0)])
        late = run(Session(10, discard_age=age), [("watermark", 10 + age), *rows("late", 0)])
        assert (on_time.rejected, [one[0] for one in late.rejected]) == ([], ["LATE"])
    assert found(run(Session(10), [("row", None, -1, 1, None)], [END])) == [(None, -1, -1, 1)]


STORY: list[tuple[int | None, str, int]] = [
    (None, "hello world spark streaming", 40),
    (None, "world hello structured streaming", 41),
    (11, "spark streaming", 25),
    (11, "spark streaming", 0),
    (11, "spark streaming", 30),
    (11, "hello apache spark", 60),
    (30, "structured streaming", 90),
]
"""Watermark before the words, the words, their time. Spark's watermark has a delay of 30 s."""


def spark_story(window: Session, gaps: dict[str, int] | None = None) -> SessionRun:
    """Return a run of the story that Spark's suite has in several forms, up to the watermark 60."""
    batches = [[*([("watermark", mark)] if mark else []), *words(text, at, gaps)] for mark, text, at in STORY]
    return run(window, *batches, [("watermark", 60)])


def ended(made: SessionRun) -> list[tuple[Any, ...]]:
    """Return (key, start, end, duration, rows) as Spark's suite does."""
    got = seconds(made.results)
    return sorted(
        (row["k"], row["session_start"], row["session_end"], row["session_end"] - row["session_start"], row["n"])
        for row in got
    )


def test_spark_append_mode() -> None:
    """The same results: what has ended at the watermark 60, and two rows that are dropped.

    StreamingSessionWindowSuite: "append mode - session window".
    """
    made = spark_story(Session(10))
    assert ended(made) == [
        ("hello", 40, 51, 11, 2),
        ("spark", 25, 50, 25, 3),
        ("streaming", 25, 51, 26, 4),
        ("structured", 41, 51, 10, 1),
        ("world", 40, 51, 11, 2),
    ]
    assert [one[0] for one in made.rejected] == ["LATE", "LATE"]


def test_spark_complete_mode() -> None:
    """The same sessions at the end, which is a flush here; the story has no rows at 0, and the watermark does not move.

    StreamingSessionWindowSuite: "complete mode - session window".
    """
    batches = [words(text, at) for _, text, at in STORY if at]
    assert ended(run(Session(10), *batches, [("flush",)])) == [
        ("apache", 60, 70, 10, 1),
        ("hello", 40, 51, 11, 2),
        ("hello", 60, 70, 10, 1),
        ("spark", 25, 50, 25, 3),
        ("spark", 60, 70, 10, 1),
        ("streaming", 25, 51, 26, 4),
        ("streaming", 90, 100, 10, 1),
        ("structured", 41, 51, 10, 1),
        ("structured", 90, 100, 10, 1),
        ("world", 40, 51, 11, 2),
    ]


def test_spark_gaps_of_rows() -> None:
    """Rows without a positive gap are in no session: Spark filters them out, here they are in the quarantine.

    StreamingSessionWindowSuite: "SPARK-36465: dynamic gap duration".
    """
    made = spark_story(Session("g"), {"hello": 1, "structured": 0, "world": -10})
    assert ended(made) == [("hello", 40, 42, 2, 2), ("spark", 25, 50, 25, 3), ("streaming", 25, 51, 26, 4)]
    reasons = [one[0] for one in made.rejected]
    assert (reasons.count("LATE"), reasons.count("NO_SESSION")) == (2, 4)


def test_spark_aggregates_over_rows_out_of_order() -> None:
    """The same values; first and last, which are not deterministic there, are the first and the last to arrive.

    StreamingSessionWindowSuite: "session window with first/last function", "session window - with more aggregation
    functions and UDAFs".
    """
    aggregates = {"mean": agg.mean("v"), "dev": agg.stddev("v"), "total": agg.sum("v")}
    aggregates |= {"least": agg.min("v"), "most": agg.max("v"), "first": agg.first("v"), "last": agg.last("v")}
    made = SessionRun(aggregate_spec(Session(10), **aggregates))
    for time in (41, 42, 40):
        made.batch([("row", "a", time, time, None)])
    made.batch([("watermark", 70)])
    (row,) = seconds(made.results)
    expected = {"session_start": 40, "session_end": 52, "mean": 41.0, "dev": 1.0, "total": 123, "least": 40, "most": 42}
    assert {name: row[name] for name in expected} == expected
    assert (row["first"], row["last"]) == (41, 40)
