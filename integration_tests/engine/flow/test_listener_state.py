"""A listener that is a state handler keeps its state from batch to batch, as an operator does."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from integration_tests.selection import first_before_release
from panekeeper import (
    Count,
    DeclarationError,
    Emit,
    Event,
    EventType,
    Listener,
    Operator,
    StateHandler,
    Tumbling,
    windowed,
)
from panekeeper.state.handler import StateContext

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

EVICTION = frozenset({EventType.EVICTION})


class Counting(Listener, StateHandler):
    """Counts the rows that it has seen."""

    events: ClassVar[frozenset[EventType]] = EVICTION

    def __init__(self) -> None:
        self.count = 0

    def handle_event(self, event: Event) -> None:
        self.count += len(event.column("value"))

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("count", self.count)

    def reset(self, ctx: StateContext) -> None:
        self.count = ctx.read("count")


class Reporting(Operator):
    """Emits the count of its listener."""

    events: ClassVar[frozenset[EventType]] = EVICTION

    def __init__(self, listener: Counting) -> None:
        self.listener = listener

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(count=self.listener.count)


@pytest.mark.parametrize("given", first_before_release((False,), (True,)), ids=["listener", "handler too"])
def test_a_listener_with_state_need_not_be_given_as_a_handler(readings: Readings, *, given: bool) -> None:
    """Nor is it called twice if it is."""
    listener = Counting()
    windows = windowed(readings.stream(), name="readings", partition_by="sensor", key_groups=1).window(
        Tumbling(Count(2))
    )
    computed = windows.operator(
        Reporting(listener), output="count bigint", listeners=[listener], handlers=[listener] if given else []
    )
    for value in range(3):
        readings.put(("a", "10:00:00", value), ("a", "10:00:01", value))
    job = computed.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger="available_now")
    assert job.await_end(timeout=300)
    assert sorted(row["count"] for row in readings.rows("log")) == [2, 4, 6]


def test_the_end_of_a_file_and_marks_are_one_or_the_other(readings: Readings) -> None:
    """Refused where they are declared: the start failed by an error of Spark's."""
    rows = readings.stream().withColumn("last", F.expr("false"))
    with pytest.raises(DeclarationError, match="marks= cannot be given with punctuation='end_of_file'"):
        windowed(rows, name="readings", punctuation="end_of_file", marks="last")
