"""`batch_results`: what a window computes on a few rows, in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from panekeeper import (
    Batched,
    Count,
    DeclarationError,
    Event,
    EventType,
    InputError,
    LifecycleError,
    Operator,
    Sliding,
    StateContext,
    StateHandler,
    TimeInterval,
    Tumbling,
    agg,
)
from panekeeper.framework.declarations.operator import Emit
from panekeeper.testing import batch_results

ROWS = [{"key": "a", "v": 1}, {"key": "b", "v": 10}, {"key": "a", "v": 2}]


def test_results_are_those_of_a_job_with_restarts_between_its_batches() -> None:
    """With the partition key, the reason and the columns of the aggregates."""
    found = batch_results(Tumbling(Count(2)), ROWS[:2], ROWS[2:], partition_by=["key"], total=agg.sum("v"))
    assert [(row["key"], row["total"], row["reason"]) for row in found] == [("a", 3, "COUNT")]


def test_a_window_without_partitions_takes_all_rows() -> None:
    """A batch without rows changes nothing."""
    found = batch_results(Sliding(evict=Count(2)), ROWS[:1], [], ROWS[1:], values=agg.collect("v"))
    assert [row["values"] for row in found] == [[1], [1, 10], [10, 2]]


class Raises(agg.UserAggregate):
    """Raises."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        raise ValueError("no")

    def result(self, state: int) -> int:
        return state


def test_an_aggregate_that_raises_raises_here() -> None:
    """Nothing is quarantined where nobody looks."""
    with pytest.raises(InputError, match="ValueError: no"):
        batch_results(Tumbling(Count(1)), ROWS, mine=agg.user(Raises(), "v", output="int64"))


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "neither": (lambda: batch_results(Tumbling(Count(1)), ROWS), "takes rows, and aggregates"),
    "both": (
        lambda: batch_results(Tumbling(Count(1)), ROWS, operator=Lasting(), output="total bigint", n=agg.count()),
        "or an operator with its output",
    ),
    "no row": (lambda: batch_results(Batched(retain=1, every=1), [], n=agg.count()), "takes rows"),
    "no such column": (lambda: batch_results(Tumbling(Count(1)), ROWS, total=agg.sum("w")), "there is no column 'w'"),
    "no event time": (lambda: batch_results(TimeInterval(60), ROWS, n=agg.count()), "event_time is None; a TimeInter"),
    "an event time without a pane": (
        lambda: batch_results(Tumbling(Count(1)), ROWS, event_time="v", n=agg.count()),
        "event_time is 'v'; a TimeInterval needs",
    ),
    "no times": (
        lambda: batch_results(TimeInterval(60), ROWS, event_time="v", n=agg.count()),
        "'v' is int64, not a time",
    ),
    "an event that never happens": (
        lambda: batch_results(TimeInterval(60), ROWS, event_time="v", operator=Evicting(), output="total bigint"),
        "never happens in a TimeInterval window",
    ),
    "no output": (lambda: batch_results(Tumbling(Count(1)), ROWS, operator=Lasting()), "output is None"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_computed_is_refused(case: str) -> None:
    """With an error that says what is missing."""
    call, words = REFUSED[case]
    with pytest.raises(DeclarationError, match=words):
        call()


class Lasting(Operator, StateHandler):
    """Emits the sum of each window, and that of all windows before in this partition."""

    events = frozenset({EventType.EVICTION, EventType.TRIGGER})

    def __init__(self) -> None:
        self.totals: dict[Any, int] = {}

    def handle_event(self, event: Event, emit: Emit) -> None:
        self.totals[event.key] = self.totals.get(event.key, 0) + int(event.column("v").sum())
        emit(total=self.totals[event.key])

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("totals", self.totals)

    def reset(self, ctx: StateContext) -> None:
        self.totals = ctx.read("totals")


class Forgetful(Lasting):
    """Writes nothing of what it knows."""

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("totals", {})


class Unfit(Lasting):
    """Writes what cannot be stored."""

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("totals", object())


class Evicting(Lasting):
    """Waits for what no pane has."""

    events = frozenset({EventType.EVICTION})


def test_an_operator_keeps_what_it_has_written_and_nothing_else() -> None:
    """Each batch has an instance of its own."""
    how: dict[str, Any] = {"partition_by": ["key"], "operator": Lasting(), "output": "total bigint"}
    found = batch_results(Tumbling(Count(1)), ROWS[:2], ROWS[2:], **how)
    assert [(row["key"], row["total"]) for row in found] == [("a", 1), ("b", 10), ("a", 3)]
    found = batch_results(Tumbling(Count(1)), ROWS[:2], ROWS[2:], **how | {"operator": Forgetful()})
    assert [(row["key"], row["total"]) for row in found] == [("a", 1), ("b", 10), ("a", 2)]
    with pytest.raises(LifecycleError, match="cannot be kept"):
        batch_results(Tumbling(Count(1)), ROWS, **how | {"operator": Unfit()})


def test_a_time_interval_fires_by_the_watermark_of_the_batches_before() -> None:
    """With an operator or aggregates; a late row refines its pane when the watermark moves on.

    minute  0             1     2        fires
    batch   1: 1, 5       2: 3  4: 1     3: minute 0 (6)
            3: 2 (late)                  5: minute 0 (8), minute 1 (3)
    """
    at = [datetime(2024, 5, 1, 10, minute, tzinfo=UTC) for minute in range(3)]
    rows = [[(at[0], 1), (at[0], 5)], [(at[1], 3)], [(at[0], 2)], [(at[2], 1)], []]
    batches = [[{"t": time, "v": value} for time, value in batch] for batch in rows]
    window = TimeInterval(60, discard_age=600)
    found = batch_results(window, *batches, event_time="t", total=agg.sum("v"))
    panes = [(row["pane_start"], row["total"], row["refinement"]) for row in found]
    assert panes == [(at[0], 6, 0), (at[0], 8, 1), (at[1], 3, 0)]
    found = batch_results(window, *batches, event_time="t", operator=Lasting(), output={"total": int})
    assert [row["total"] for row in found] == [6, 14, 17]
