"""The oracle of restart drills, against examples that can be done in the head."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.drill.expected.arrival_oracle import (
    HOUR,
    BatchedTime,
    Punctuated,
    SlidingCount,
    SlidingDelta,
    SlidingTime,
    TumblingTime,
)
from recovery.drill.expected.history import Arrived, Drained, Moment, Row, Started, generate
from recovery.drill.expected.state_oracle import Interval, LetGo, RunningTotal
from recovery.drill.jobs import CHECKS


def arrive(*rows: tuple[int, int, int]) -> Arrived:
    """One file of (id, minute, value), all of sensor a; measured when they arrived."""
    return Arrived(rows=tuple(Row(id=i, sensor="a", at=m * 60, seen=m * 60, value=v) for i, m, v in rows))


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
        (Punctuated(5), [arrive((1, 1, 1), (2, 2, 5), (3, 3, 2))], [(2, 3, "PUNCTUATION")]),
        (
            TumblingTime(by_row=True, period=HOUR),
            [arrive((1, 0, 0), (2, 59, 0), (3, 60, 0), (4, 200, 0))],
            [(2, 3, "TIME"), (1, 3, "TIME")],
        ),
        (
            TumblingTime(period=2 * HOUR),
            [Started(clock=0), arrive((1, 0, 0)), Started(clock=9 * HOUR), arrive((2, 1, 0)), Started(clock=10 * HOUR)],
            [(1, 1, "OVERDUE")],
        ),
        (
            SlidingTime(4 * HOUR, by_row=False, period=2 * HOUR),
            [Started(clock=0), arrive((1, 0, 0)), Started(clock=3 * HOUR), arrive((2, 1, 0)), Started(clock=6 * HOUR)],
            [(1, 1, "OVERDUE"), (1, 2, "OVERDUE")],
        ),
        (
            BatchedTime(4 * HOUR, 3, period=2 * HOUR),
            [Started(clock=0), arrive((1, 0, 0)), Started(clock=3 * HOUR), Started(clock=9 * HOUR)],
            [(1, 1, "OVERDUE"), (0, None, "OVERDUE")],
        ),
    ],
)
def test_windows_in_arrival_order(oracle: Any, history: list[Moment], log: list[tuple[Any, ...]]) -> None:
    """Counts, differences, marks, the rows' clock, and the wall clock across an outage."""
    assert contents(oracle(tuple(history))["log"]) == log


def test_panes_are_told_when_the_watermark_passes_them_and_again_for_late_rows() -> None:
    """A row too late for every pane is refused, one without a time as well."""
    late = Arrived(rows=(Row(id=3, sensor="a", at=0, seen=0, value=0), Row(id=4, sensor="a", at=0, seen=None, value=0)))
    history = (arrive((1, 10, 0)), arrive((2, 70, 0)), late, arrive((5, 130, 0)), late)
    tables = Interval(HOUR, period=HOUR, discard_age=HOUR)(history)
    assert tables["log"] == [
        ("a", 0, 1, 1, 0, "WATERMARK"),
        ("a", 0, 2, 4, 1, "LATE"),
        ("a", HOUR, 1, 2, 0, "WATERMARK"),
    ]
    assert tables["view"] == tables["log"][1:]
    assert tables["quarantine"] == [("NULL_EVENT_TIME", None), ("LATE", 0), ("NULL_EVENT_TIME", None)]


def test_a_drain_lets_go_of_what_is_there() -> None:
    """And the sensor begins anew."""
    log = LetGo(2)((arrive((1, 1, 0)), Drained(), arrive((2, 2, 0), (3, 3, 0))))["log"]
    assert log == [("a", "partition_eviction", 1, 1), ("a", "eviction", 2, 5)]


def test_ports_share_a_total_and_the_first_comes_first() -> None:
    """A pair of small values, and three large ones, wherever they stand in their file."""
    log = RunningTotal(2, 3)((arrive((1, 1, 6), (2, 2, 1), (3, 3, 7), (4, 4, 8), (5, 5, 2)), arrive((6, 6, 0))))["log"]
    assert log == [("a", 1, 3, 0, "COUNT"), ("a", 2, 24, 1, "COUNT")]


def test_the_same_seed_gives_the_same_rows() -> None:
    """And another seed others."""
    assert generate(7, files=3) == generate(7, files=3)
    assert generate(7, files=3) != generate(8, files=3)


@pytest.mark.parametrize("check", [check for check in CHECKS if not check.clocked], ids=lambda check: check.name)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_check_expects_results_before_and_after_each_stop(check: Any, seed: int) -> None:
    """A check without results after a stop would pass whatever was lost."""
    files = generate(seed, files=6)
    before, after = (len(check.oracle()((Started(clock=0), *files[:upto]))["log"]) for upto in (3, 6))
    assert 0 < before < after
