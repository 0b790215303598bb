"""What the core does in a batch of the benchmarks is counted, not timed: a machine that is busy changes nothing in it.

A bound that a change exceeds is not wrong because of that. But then the change says what it gains for it, and
`python -m benchmarks --against` what it costs.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.panekeeper_jobs import SLIDING_COUNT, SLIDING_TIME, TUMBLING_COUNT, TUMBLING_DELTA, Median
from panekeeper import Every, Session, TimeInterval, agg
from tests.framework.core.batch_work import Work, work_of_a_batch

AGGREGATES = {"highest": agg.max("v"), "n": agg.count()}
EVENTS: dict[str, Any] = {"event_time": "ts"}
PANES: dict[str, Any] = EVENTS | {"aggregates": AGGREGATES}
ARRIVALS: dict[str, Any] = {"arrival_time": "ts", "order_by": "ts", "aggregates": AGGREGATES}
MEDIAN: dict[str, Any] = EVENTS | {"operator": Median(), "output": "median double"}
LOW_AND_HIGH = {"low": EVENTS, "high": EVENTS}

WINDOWS: dict[str, dict[str, Any]] = {
    "tumbling": PANES | {"window": TimeInterval(50)},
    "overlapping": PANES | {"window": TimeInterval(60, creation_period=2)},
    "many-panes": PANES | {"window": TimeInterval(0.1)},
    "early-at-rows": PANES | {"window": TimeInterval(50, early=Every(rows=10))},
    "on-update": PANES | {"window": TimeInterval(50, emit="on_update")},
    "count-distinct": EVENTS | {"window": TimeInterval(50), "aggregates": {"distinct": agg.count_distinct("v")}},
    "contents": MEDIAN | {"window": TimeInterval(50)},
    "kept-aggregates": PANES | {"window": TimeInterval(50, discard_age=1000)},
    "kept-contents": MEDIAN | {"window": TimeInterval(50, discard_age=1000)},
    "sessions": PANES | {"window": Session(5)},
    "kept-sessions": PANES | {"window": Session(5, discard_age=1000)},
    "join-panes": {
        "ports": {n: o | {"window": TimeInterval(5)} for n, o in LOW_AND_HIGH.items()},
        "join": {"how": "inner"},
    },
    "join-within": {"ports": LOW_AND_HIGH, "join_within": {"before": "2 seconds", "after": "2 seconds"}},
    "sliding-count": ARRIVALS | {"window": SLIDING_COUNT},
    "sliding-time": ARRIVALS | {"window": SLIDING_TIME},
    "tumbling-count": ARRIVALS | {"window": TUMBLING_COUNT},
    "tumbling-delta": ARRIVALS | {"window": TUMBLING_DELTA},
}
"""Those of the benchmarks, by the names of their workloads."""

TODAY = {
    "tumbling": (832, 1085, 6, 9960, 343168),
    "overlapping": (2259, 4308, 11, 46104, 1537664),
    "many-panes": (21785, 8023, 9, 108178, 1576832),
    "early-at-rows": (1121, 1678, 10, 19096, 458624),
    "on-update": (1092, 1573, 10, 18902, 394368),
    "count-distinct": (782, 1054, 6, 48688, 775808),
    "contents": (1631, 1495, 8, 66412, 1108096),
    "kept-aggregates": (815, 1028, 5, 10075, 345856),
    "kept-contents": (1613, 1455, 6, 66584, 1108096),
    "sessions": (915, 1484, 4, 15686, 323008),
    "kept-sessions": (1014, 1704, 5, 23356, 435264),
    "join-panes": (1153, 1348, 7, 9861, 2270080),
    "join-within": (765, 1658, 10, 13832, 1209856),
    "sliding-count": (423, 784, 5, 90609, 2066112),
    "sliding-time": (450, 848, 5, 20930, 721728),
    "tumbling-count": (368, 631, 2, 10297, 367360),
    "tumbling-delta": (418, 1053, 2, 10266, 360320),
}
"""What was counted when it was last looked at, as the fields of `Work`."""

SMALL, FACTOR = {"rows": 2000, "keys": 40}, 16
MARGIN, GROWTH = 1.05, 1.4
OF_EACH_KEY = {"contents", "kept-contents", "tumbling-delta"}
"""A function of the user's gets the rows of each firing; `Delta` seeks the ends of the windows of each key."""


@pytest.mark.parametrize("name", WINDOWS)
def test_a_batch_does_no_more_than_it_did(name: str) -> None:
    """Calls, segments and bytes are at most a twentieth more than when they were last looked at."""
    assert work_of_a_batch(**SMALL, **WINDOWS[name]).above(bound_of(name)) == {}


@pytest.mark.parametrize("name", ["tumbling", "overlapping", "sliding-count", "tumbling-count"])
def test_the_work_of_one_more_aggregate_is_above_the_bound(name: str) -> None:
    """So the bounds are near enough to what is done."""
    more = WINDOWS[name] | {"aggregates": AGGREGATES | {"lowest": agg.min("v")}}
    assert work_of_a_batch(**SMALL, **more).above(bound_of(name)) != {}


def bound_of(name: str) -> Work:
    """How much work is allowed for a window."""
    return Work(*(int(MARGIN * value) for value in TODAY[name]))


@pytest.mark.parametrize("name", [name for name in WINDOWS if name not in OF_EACH_KEY])
def test_rows_and_keys_are_columns_and_no_calls(name: str) -> None:
    """With many times as many rows and keys, calls are nearly the same, and there are no more bytes a row."""
    few = work_of_a_batch(**SMALL, **WINDOWS[name])
    many = work_of_a_batch(**{size: FACTOR * number for size, number in SMALL.items()}, **WINDOWS[name])
    bound = Work(
        calls=int(GROWTH * few.calls),
        library_calls=int(GROWTH * few.library_calls),
        store_calls=FACTOR * few.store_calls,  # long columns are several segments
        stored_bytes=int(GROWTH * FACTOR * few.stored_bytes),
        arrow_bytes=int(GROWTH * FACTOR * few.arrow_bytes),
    )
    assert many.above(bound) == {}


@pytest.mark.parametrize("name", sorted(OF_EACH_KEY))
def test_what_is_called_for_each_key_is_not_called_for_each_row(name: str) -> None:
    """With many times as many rows of the same keys, calls are nearly the same."""
    few = work_of_a_batch(**SMALL, **WINDOWS[name])
    many = work_of_a_batch(rows=FACTOR * SMALL["rows"], keys=SMALL["keys"], **WINDOWS[name])
    assert many.calls <= GROWTH * few.calls
    assert many.library_calls <= GROWTH * few.library_calls
