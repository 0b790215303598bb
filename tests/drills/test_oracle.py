"""The oracles of restart drills, against examples small enough to check by hand."""

from __future__ import annotations

from typing import Any

import pytest

from integration_tests.drills.expected.arrival_oracle import (
    HOUR,
    BatchedTime,
    PunctuationWindow,
    SlidingCount,
    SlidingDelta,
    SlidingTime,
    TumblingTime,
)
from integration_tests.drills.expected.event_time_oracle import (
    NaiveByRow,
    NaiveCumulate,
    NaiveDays,
    NaivePaneJoin,
    NaiveSessions,
    NaiveTimeInterval,
    NaiveWithin,
)
from integration_tests.drills.expected.history import FileArrived, HistoryEvent, JobDrained, Row, RunStarted, generate
from integration_tests.drills.expected.state_oracle import EvictOnDrain, RunningTotal
from integration_tests.drills.jobs import DRILL_JOBS


def arrive(*rows: tuple[int, int, int]) -> FileArrived:
    """One file of (id, minute, value), all of sensor a; measured when they arrived."""
    return FileArrived(rows=tuple(Row(id=i, sensor="a", at=m * 60, seen=m * 60, value=v) for i, m, v in rows))


def contents(log: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """(n, sum of ids, reason) of each result."""
    return [(row[1], row[2], row[5]) for row in log]


@pytest.mark.parametrize(
    ("oracle", "history", "log"),
    [
        (SlidingCount(3, 2), [arrive(*[(i, i, 0) for i in range(1, 6)])], [(2, 3, "COUNT"), (3, 9, "COUNT")]),
        (
            SlidingDelta(2, 1),
            [arrive((1, 1, 5), (2, 2, 1), (3, 3, 4))],
            [(1, 1, "COUNT"), (2, 3, "COUNT"), (2, 4, "COUNT")],
        ),
        (PunctuationWindow(5), [arrive((1, 1, 1), (2, 2, 5), (3, 3, 2))], [(2, 3, "PUNCTUATION")]),
        (
            TumblingTime(by_row=True, period=HOUR),
            [arrive((1, 0, 0), (2, 59, 0), (3, 60, 0), (4, 200, 0))],
            [(2, 3, "TIME"), (1, 3, "TIME")],
        ),
        (
            TumblingTime(period=2 * HOUR),
            [
                RunStarted(clock=0),
                arrive((1, 0, 0)),
                RunStarted(clock=9 * HOUR),
                arrive((2, 1, 0)),
                RunStarted(clock=10 * HOUR),
            ],
            [(1, 1, "OVERDUE")],
        ),
        (
            SlidingTime(4 * HOUR, by_row=False, period=2 * HOUR),
            [
                RunStarted(clock=0),
                arrive((1, 0, 0)),
                RunStarted(clock=3 * HOUR),
                arrive((2, 1, 0)),
                RunStarted(clock=6 * HOUR),
            ],
            [(1, 1, "OVERDUE"), (1, 2, "OVERDUE")],
        ),
        (
            SlidingTime(4 * HOUR, by_row=False, period=2 * HOUR, catch_up="each"),
            [
                RunStarted(clock=0),
                arrive((1, 0, 0)),
                RunStarted(clock=5 * HOUR),
                arrive((2, 1, 0)),
                RunStarted(clock=HOUR),
                RunStarted(clock=3 * HOUR),
            ],
            [(1, 1, "TIME"), (1, 1, "TIME"), (1, 2, "TIME")],
        ),
        (
            SlidingTime(3 * HOUR, by_row=False, period=2 * HOUR, catch_up="each"),
            [
                RunStarted(clock=0),
                arrive((1, 0, 0)),
                RunStarted(clock=HOUR),
                arrive((2, 1, 0)),
                RunStarted(clock=9 * HOUR),
            ],
            [(2, 3, "TIME"), (1, 2, "TIME")],
        ),
        (
            BatchedTime(4 * HOUR, 3, period=2 * HOUR),
            [RunStarted(clock=0), arrive((1, 0, 0)), RunStarted(clock=3 * HOUR), RunStarted(clock=9 * HOUR)],
            [(1, 1, "OVERDUE"), (0, None, "OVERDUE")],
        ),
    ],
)
def test_windows_in_arrival_order(oracle: Any, history: list[HistoryEvent], log: list[tuple[Any, ...]]) -> None:
    """Each kind of window has the expected log, with the clock of the rows and with the wall clock across an outage."""
    assert contents(oracle(tuple(history))["log"]) == log


def test_panes_fire_when_the_watermark_passes_their_end_and_again_for_late_rows() -> None:
    """A row that is too late for every pane is rejected, and so is one without an event time."""
    late = FileArrived(
        rows=(Row(id=3, sensor="a", at=0, seen=0, value=0), Row(id=4, sensor="a", at=0, seen=None, value=0))
    )
    history = (arrive((1, 10, 0)), arrive((2, 70, 0)), late, arrive((5, 130, 0)), late)
    tables = NaiveTimeInterval(HOUR, period=HOUR, discard_age=HOUR)(history)
    assert tables["log"] == [
        ("a", 0, HOUR, 1, 1, 0, "WATERMARK"),
        ("a", 0, HOUR, 2, 4, 1, "LATE"),
        ("a", HOUR, 2 * HOUR, 1, 2, 0, "WATERMARK"),
    ]
    assert tables["view"] == tables["log"][1:]
    assert tables["quarantine"] == [("NULL_EVENT_TIME", None, 4), ("LATE", 0, 3), ("NULL_EVENT_TIME", None, 4)]


def test_panes_that_begin_together_each_have_the_rows_of_the_shorter_ones() -> None:
    """Each fires when the watermark reaches its own end."""
    history = (arrive((1, 10, 0), (2, 40, 0)), arrive((3, 120, 0)))
    assert NaiveCumulate(HOUR // 2, HOUR, discard_age=0)(history)["log"] == [
        ("a", 0, 1800, 1, 1, 0, "WATERMARK"),
        ("a", 0, 3600, 2, 3, 0, "WATERMARK"),
    ]


def test_days_begin_by_their_offset() -> None:
    """A row before the first day is in the one before, which fires early, too, where that is declared."""
    history = (arrive((1, 10, 0)), arrive((2, 119, 0)), arrive((3, 120, 0)))
    day = ("a", -22 * HOUR, 2 * HOUR, 2, 3)
    assert NaiveDays(2 * HOUR, discard_age=0)(history)["log"] == [(*day, 0, "WATERMARK")]
    assert NaiveDays(2 * HOUR, discard_age=0, early=HOUR)(history)["log"] == [
        (*day, 0, "EARLY"),
        (*day, 1, "WATERMARK"),
        ("a", 2 * HOUR, 26 * HOUR, 1, 3, 0, "EARLY"),
    ]


def test_a_row_between_two_sessions_makes_them_one_whose_results_are_replaced() -> None:
    """The view has the one that holds; a row that is too late and near none is rejected."""
    gap = HOUR // 6
    history = (arrive((1, 0, 0)), arrive((2, 15, 0)), arrive((3, 26, 0)), arrive((4, 8, 0)), arrive((5, 80, 0)))
    tables = NaiveSessions(gap, discard_age=HOUR // 2)((*history, arrive((6, 1, 0))))
    assert tables["log"] == [
        ("a", 0, 600, 1, 1, (), 0, "WATERMARK"),
        ("a", 900, 1500, 1, 2, (), 0, "WATERMARK"),
        ("a", 0, 1500, 3, 7, (900,), 1, "LATE"),
        ("a", 1560, 2160, 1, 3, (), 0, "WATERMARK"),
    ]
    assert tables["view"] == [("a", 0, 1500, 3, 7, 1, "LATE"), ("a", 1560, 2160, 1, 3, 0, "WATERMARK")]
    assert tables["quarantine"] == [("LATE", 60, 6)]


def test_each_row_has_a_window_that_ends_at_it() -> None:
    """A late row changes those after it that are open, and has none itself once that would be closed."""
    history = (arrive((1, 0, 0)), arrive((2, 30, 0), (3, 10, 0)), arrive((4, 61, 0)), arrive((5, 20, 0)))
    tables = NaiveByRow(HOUR // 2, discard_age=2 * HOUR // 3)((*history, arrive((6, 71, 0)), arrive((7, 0, 0))))
    first, second, third = (("a", at * 60 - 1800, at * 60) for at in (0, 10, 30))
    assert tables["log"] == [
        (*first, 1, 1, 0, "WATERMARK"),
        (*second, 2, 4, 0, "WATERMARK"),
        (*third, 3, 6, 0, "WATERMARK"),
        (*third, 4, 11, 1, "LATE"),
        ("a", 61 * 60 - 1800, 61 * 60, 1, 4, 0, "WATERMARK"),
    ]
    assert tables["view"] == [*tables["log"][:2], *tables["log"][3:]]
    assert tables["quarantine"] == [("LATE", 0, 7)]


def test_small_values_meet_large_ones_within_bounds_or_of_their_pane() -> None:
    """A row without a match is a result once no partner can come; the watermark is that of both ports."""
    history = (arrive((1, 10, 0), (2, 12, 9), (3, 30, 9)), arrive((4, 50, 0)), arrive((5, 200, 0), (6, 200, 9)))
    within = NaiveWithin(before=60, after=300, discard_age=0)(history)
    assert within["log"] == [
        ("a", 1, 2, "MATCH"),
        ("a", 5, 6, "MATCH"),
        ("a", None, 3, "NO_MATCH"),
        ("a", 4, None, "NO_MATCH"),
    ]
    assert NaivePaneJoin(HOUR, period=HOUR, discard_age=0)(history)["log"] == [
        ("a", 0, 1, 2, 0, "WATERMARK"),
        ("a", 0, 1, 3, 0, "WATERMARK"),
        ("a", 0, 4, 2, 0, "WATERMARK"),
        ("a", 0, 4, 3, 0, "WATERMARK"),
    ]


def test_a_drain_evicts_every_partition() -> None:
    """The next row of a sensor begins a new window."""
    log = EvictOnDrain(2)((arrive((1, 1, 0)), JobDrained(), arrive((2, 2, 0), (3, 3, 0))))["log"]
    assert log == [("a", "partition_eviction", 1, 1), ("a", "eviction", 2, 5)]


def test_two_ports_share_a_total_and_the_first_port_is_processed_first() -> None:
    """Two small values fire the first port and three large ones the second, in any order within their file."""
    log = RunningTotal(2, 3)((arrive((1, 1, 6), (2, 2, 1), (3, 3, 7), (4, 4, 8), (5, 5, 2)), arrive((6, 6, 0))))["log"]
    assert log == [("a", 1, 3, 0, "COUNT"), ("a", 2, 24, 1, "COUNT")]


def test_the_same_seed_gives_the_same_rows() -> None:
    """Another seed gives other rows."""
    assert generate(7, files=3) == generate(7, files=3)
    assert generate(7, files=3) != generate(8, files=3)


@pytest.mark.parametrize(
    "check", [check for check in DRILL_JOBS if not check.uses_wall_clock], ids=lambda check: check.name
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_job_has_expected_results_before_and_after_a_stop(check: Any, seed: int) -> None:
    """A job without results after a stop would pass whatever was lost."""
    files = generate(seed, files=6)
    before, after = (len(check.oracle()((RunStarted(clock=0), *files[:upto]))["log"]) for upto in (3, 6))
    assert 0 < before < after
