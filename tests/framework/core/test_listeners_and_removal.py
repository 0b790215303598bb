"""Listeners are called before the operator; a user aggregate with `remove` slides instead of starting over."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from framework.core.job_spec import JobSpec
from framework.core.key_group import KeyGroupRunner
from framework.core.steps import Rows, Tick
from framework.declarations.operator import OperatorWithListeners
from panekeeper import Count, Emit, Event, EventType, Listener, Operator, Sliding, agg
from state.store import MemoryStore

NUMBERS = pa.schema([pa.field("v", pa.int64())])


class Seen:
    """The events that were handled, in order."""

    handled: ClassVar[list[tuple[str, str]]] = []


class Ear(Listener):
    """Subscribes to insertions only."""

    events = frozenset({EventType.INSERTION})

    def handle_event(self, event: Event) -> None:
        """Note it."""
        Seen.handled.append(("listener", event.type.value))


class Mouth(Operator):
    """Subscribes to insertions and triggers."""

    events = frozenset({EventType.INSERTION, EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Note it, and emit the number of rows of a trigger."""
        Seen.handled.append(("operator", event.type.value))
        if event.type is EventType.TRIGGER:
            emit(n=event.table.num_rows)


class Total(agg.UserAggregate):
    """A sum that counts how often it added and removed."""

    def __init__(self) -> None:
        self.calls = 0

    def zero(self) -> int:
        """Nothing yet."""
        return 0

    def add(self, state: int, value: int) -> int:
        """One more."""
        self.calls += 1
        return state + value

    def result(self, state: int) -> int:
        """The sum."""
        return state


class SlidingTotal(Total):
    """The same sum, that can give a value back."""

    def remove(self, state: int, value: int) -> int:
        """One less."""
        self.calls += 1
        return state - value


def totals(aggregate: agg.UserAggregate, values: list[int], size: int, every: int, cut: int) -> list[Any]:
    """The results of a sliding window over the values, in two batches."""
    declared = {"total": agg.user(aggregate, "v", output="int64")}
    output = pa.schema([pa.field("total", pa.int64())])
    window = Sliding(evict=Count(size), trigger=Count(every))
    spec = JobSpec(window=window, keys=pa.schema([]), columns=NUMBERS, aggregates=declared, output=output)
    store, got = MemoryStore(), []
    for part in (values[:cut], values[cut:]):
        outcome = KeyGroupRunner(spec, store).run([Tick(0), Rows(pa.table({"v": part}, schema=NUMBERS))])
        if outcome.results is not None:
            got += outcome.results.column("total").to_pylist()
    return got


def test_a_listener_handles_each_event_before_the_operator() -> None:
    """Only the events that it subscribed to; those of the operator reach the operator alone."""
    Seen.handled.clear()
    spec = JobSpec(
        window=Sliding(evict=Count(2)),
        keys=pa.schema([]),
        columns=NUMBERS,
        operator=OperatorWithListeners(Mouth(), (Ear(),)),
        output=pa.schema([pa.field("n", pa.int64())]),
    )
    outcome = KeyGroupRunner(spec, MemoryStore()).run([Tick(0), Rows(pa.table({"v": [1]}, schema=NUMBERS))])
    assert Seen.handled == [("listener", "insertion"), ("operator", "insertion"), ("operator", "trigger")]
    assert outcome.results is not None
    assert outcome.results.column("n").to_pylist() == [1]


@given(
    values=st.lists(st.integers(-99, 99), max_size=40),
    size=st.integers(1, 9),
    every=st.integers(1, 9),
    cut=st.integers(0, 40),
)
def test_removing_what_left_gives_what_starting_over_gives(values: list[int], size: int, every: int, cut: int) -> None:
    """For every size, trigger and cut."""
    expected = [sum(values[max(0, end - size) : end]) for end in range(every, len(values) + 1, every)]
    assert totals(Total(), values, size, every, cut) == expected
    assert totals(SlidingTotal(), values, size, every, cut) == expected


def test_removal_saves_adding_all_over_again() -> None:
    """A window of fifty that fires with every row adds and removes one value a firing, not fifty."""
    starting_over, sliding = Total(), SlidingTotal()
    assert totals(starting_over, [1] * 200, 50, 1, 200) == totals(sliding, [1] * 200, 50, 1, 200)
    assert sliding.calls < starting_over.calls / 20
