"""`run`: a script gives on Spark, as a job into Delta tables, what it gives in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from panekeeper import (
    AllOf,
    AnyOf,
    Batched,
    Calendar,
    Count,
    Cumulate,
    Event,
    EventType,
    Operator,
    Punctuation,
    Sliding,
    Time,
    TimeInterval,
    Tumbling,
    agg,
)
from panekeeper.framework.declarations.operator import Emit
from panekeeper.testing import Clock, Flush, Restart, Watermark, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sizes(Operator):
    """Emits how many rows a window has when it fires, by port."""

    events = frozenset({EventType.TRIGGER, EventType.EVICTION})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(n=event.table.num_rows, of=event.port)


def row(k: str, t: float, v: int) -> dict[str, Any]:
    """A row."""
    return {"k": k, "t": t, "v": v}


ROWS: list[Any] = [
    [row("a", 1, 2), row("b", 12, 5), {"k": "a", "v": 9}],
    Clock("3 seconds"),
    [row("a", 9, -4), row("b", 25, 1), row("c", 41, 6)],
    Clock("15 seconds"),
    Clock("1 minute"),
    Restart(),
    [row("a", 3, 1), row("c", 44, 7), row("b", 7, 0)],
    Clock("20 seconds"),
]
"""Rows, some late and one without a time, with the clock and a restart after an outage."""
SUMS = {"n": agg.count(), "s": agg.sum("v", where="v > 0")}
SCRIPTS: dict[str, dict[str, Any]] = {
    "panes": {
        "window": TimeInterval("10 seconds", discard_age="10 seconds"),
        "aggregates": SUMS,
        "event_time": "t",
        "watermark": "2 seconds",
        "reject": {"NEGATIVE": "v < 0"},
        "script": [*ROWS, Flush()],
    },
    "watermarks": {
        "window": Cumulate("5 seconds", "10 seconds", discard_age="1 minute"),
        "aggregates": SUMS | {"all": agg.collect("v")},
        "event_time": "t",
        "script": [*ROWS[:3], Watermark(20), *ROWS[3:6], Watermark(50), *ROWS[6:], Watermark(100)],
    },
    "calendar": {
        "window": Calendar("day", zone="America/New_York", starts="19:01", discard_age="1 minute"),
        "aggregates": SUMS,
        "event_time": "t",
        "script": [*ROWS[:3], Watermark(61), *ROWS[3:], Watermark(100)],
    },
    "fills": {
        "window": TimeInterval("10 seconds", discard_age="1 minute", fill="last", fill_for="30 seconds"),
        "aggregates": SUMS,
        "event_time": "t",
        "script": [*ROWS[:3], Watermark(30), *ROWS[3:6], Watermark(50), *ROWS[6:], Watermark(200)],
    },
    "ports": {
        "ports": {
            "left": {"window": TimeInterval("10 seconds"), "event_time": "t"},
            "right": {"window": Tumbling(Count(2))},
        },
        "operator": Sizes(),
        "output": "n bigint, of int",
        "script": [{"left": one, "right": one} if isinstance(one, list) else one for one in [*ROWS, Flush()]],
    },
    "count or time": {"window": Tumbling(AnyOf(Count(2), Time("10 seconds")), aligned=True), "aggregates": SUMS},
    "sliding": {
        "window": Sliding(
            evict=AllOf(Time("30 seconds"), Count(2)), trigger=AnyOf(Count(2), Time("10 seconds")), when_full=True
        ),
        "aggregates": SUMS,
    },
    "marked": {
        "window": Tumbling(Punctuation()),
        "aggregates": SUMS,
        "punctuation": "v >= 6",
        "arrival_time": "t",
        "max_ahead": None,
    },
    "batched": {
        "window": Batched(within="25 seconds", every="10 seconds"),
        "aggregates": {"all": agg.collect("v")},
        "script": [*ROWS[:-1], Flush()],
    },
}


def order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows in an order of their own: that between partitions in one batch is open."""
    return sorted(rows, key=lambda one: (one["batch"], str(one)))


SOON = {"panes", "ports", "sliding", "marked"}
"""Event time, two inputs, arrival time, marks."""


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in SOON else pytest.mark.release) for case in SCRIPTS]
)
def test_a_script_gives_on_spark_what_it_gives_in_memory(case: str, spark: SparkSession) -> None:
    """The rows of the log with their batches, the quarantine, the counts and the watermark."""
    how = {"schema": "k string, t timestamp, v long", "partition_by": "k", "script": ROWS} | SCRIPTS[case]
    expected, found = run(**how), run(**how, engine="spark", spark=spark)
    assert found
    assert order(found) == order(expected)
    assert order(found.quarantine) == order(expected.quarantine)
    assert found.counts == expected.counts
    assert found.watermark == expected.watermark
