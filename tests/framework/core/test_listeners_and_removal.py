"""Listeners are called before the operator; a user aggregate with `remove` slides instead of starting over."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Count, Emit, Event, EventType, Listener, Operator, Sliding, TimeInterval, agg
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows, Tick
from panekeeper.framework.declarations.operator import OperatorWithListeners
from panekeeper.state.store import MemoryStore

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


class Content(agg.UserAggregate):
    """The values themselves; its result is its state, which it changes in place."""

    def zero(self) -> list[int]:
        return []

    def add(self, state: list[int], value: int) -> list[int]:
        state.append(value)
        return state

    def remove(self, state: list[int], value: int) -> list[int]:
        state.remove(value)
        return state

    def result(self, state: list[int]) -> list[int]:
        return state


def totals(
    aggregate: agg.UserAggregate, values: list[int], size: int, every: int, cut: int, kind: Any = "int64"
) -> list[Any]:
    """The results of a sliding window over the values, in two batches."""
    declared = {"total": agg.user(aggregate, "v", output=kind)}
    output = pa.schema([pa.field("total", pa.int64() if kind == "int64" else kind)])
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


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_a_result_that_is_the_state_is_taken_before_the_state_slides_on(cut: int) -> None:
    """However many firings a batch has."""
    found = totals(Content(), [1, 2, 3, 4], 2, 1, cut, pa.list_(pa.int64()))
    assert found == [[1], [1, 2], [2, 3], [3, 4]]


class Histories(Operator):
    """Keeps the values of all rows in one list and emits it with each event: as a list, and as bytes."""

    events = frozenset({EventType.INSERTION})

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.packed = bytearray()

    def handle_event(self, event: Event, emit: Emit) -> None:
        for value in event.column("v"):
            self.seen.append(value)
            self.packed.append(value)
            emit(seen=self.seen, packed=self.packed)


@pytest.mark.parametrize("window", [Sliding(evict=Count(2)), TimeInterval(60)], ids=["sliding", "panes"])
def test_an_emitted_list_is_as_it_was_whatever_the_operator_adds_to_it_in_the_same_batch(window: Any) -> None:
    """Else results would depend on which events share a micro-batch."""
    spec = JobSpec(
        window=window,
        keys=pa.schema([]),
        columns=NUMBERS,
        operator=Histories(),
        output=pa.schema([("seen", pa.list_(pa.int64())), ("packed", pa.binary())]),
    )
    times = {EVENT_TIME: [0, 0, 0]} if spec.has_panes else {}
    table = pa.table({"v": pa.array([1, 2, 3], pa.int64()), **times})
    results = KeyGroupRunner(spec, MemoryStore()).run([Tick(0), Rows(table)]).results
    assert results is not None
    assert results.column("seen").to_pylist() == [[1], [1, 2], [1, 2, 3]]
    assert results.column("packed").to_pylist() == [b"\1", b"\1\2", b"\1\2\3"]


class Counters(Operator):
    """Counts in an array of numpy and emits it as a table with each event: Arrow refers to the memory of the array."""

    events = frozenset({EventType.INSERTION})

    def __init__(self) -> None:
        self.counts = np.zeros(2, dtype=np.int64)

    def handle_event(self, event: Event, emit: Emit) -> None:
        for value in event.column("v"):
            self.counts[value % 2] += 1
            emit.table(pa.table({"count": self.counts}))


def test_an_emitted_table_is_as_it_was_whatever_the_operator_does_to_its_memory_in_the_same_batch() -> None:
    """As above."""
    spec = JobSpec(
        window=Sliding(evict=Count(2)),
        keys=pa.schema([]),
        columns=NUMBERS,
        operator=Counters(),
        output=pa.schema([("count", pa.int64())]),
    )
    results = (
        KeyGroupRunner(spec, MemoryStore()).run([Tick(0), Rows(pa.table({"v": [1, 2, 3]}, schema=NUMBERS))]).results
    )
    assert results is not None
    assert results.column("count").to_pylist() == [0, 1, 1, 1, 1, 2]


def test_removal_saves_adding_all_over_again() -> None:
    """A window of fifty that fires with every row adds and removes one value a firing, not fifty."""
    starting_over, sliding = Total(), SlidingTotal()
    assert totals(starting_over, [1] * 200, 50, 1, 200) == totals(sliding, [1] * 200, 50, 1, 200)
    assert sliding.calls < starting_over.calls / 20
