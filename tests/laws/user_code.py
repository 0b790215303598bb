"""What a user would write: policies, aggregates and operators that the drawn declarations have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from panekeeper import (
    Emit,
    Event,
    EventType,
    Listener,
    Operator,
    PartitionUse,
    StateContext,
    StateHandler,
    UserPolicy,
    agg,
)

__all__ = [
    "Budget",
    "Choosy",
    "DistinctValues",
    "Everything",
    "Firings",
    "Lasting",
    "Lifetimes",
    "Nosy",
    "Range",
    "RowsInEach",
    "Texts",
    "Total",
]

OUTPUT = "event string, rows array<bigint>, detail string"
"""The columns that the operators emit."""


@dataclass(frozen=True)
class DistinctValues(UserPolicy):
    """Keep the newest rows that have no more than `size` distinct values."""

    attribute: str
    size: int

    def evict(self, content: Sequence[float], value: float) -> int:
        count = 0
        while len({*content[count:], value}) > self.size:
            count += 1
        return count


@dataclass(frozen=True)
class Budget(UserPolicy):
    """Tumble, or fire, with the row by which values add up to `limit`."""

    attribute: str
    limit: float

    tumbles_after = True

    def tumble(self, state: float | None, value: float) -> tuple[bool, float | None]:
        total = (state or 0.0) + value
        return total >= self.limit, total

    def fire(self, state: float | None, value: float) -> tuple[bool, float | None]:
        total = (state or 0.0) + value
        return (True, 0.0) if total >= self.limit else (False, total)


@dataclass(frozen=True)
class RowsInEach(UserPolicy):
    """Evict a partition once it has more than `size` rows."""

    size: int

    def evict_partitions(self, partitions: Sequence[PartitionUse]) -> Sequence[int]:
        return [position for position, partition in enumerate(partitions) if partition.rows > self.size]


class Range(agg.UserAggregate):
    """The least and the greatest value; partial results merge."""

    state = list[float]

    def zero(self) -> list[float]:
        return []

    def add(self, state: list[float], value: float) -> list[float]:
        return [min([value, *state[:1]]), max([value, *state[1:]])]

    def merge(self, a: list[float], b: list[float]) -> list[float]:
        return [min(a[:1] + b[:1]), max(a[1:] + b[1:])] if a and b else a or b

    def result(self, state: list[float]) -> float | None:
        return state[1] - state[0] if state else None


class Texts(agg.UserAggregate):
    """The values in their order, as one text; it needs the rows."""

    def zero(self) -> str:
        return ""

    def add(self, state: str, value: Any) -> str:
        return f"{state}{value};"

    def result(self, state: str) -> str:
        return state


class Total(agg.UserAggregate):
    """A sum of integers, of which rows can be taken away again."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        return state + value

    def remove(self, state: int, value: int) -> int:
        return state - value

    def result(self, state: int) -> int:
        return state % 1_000_003


class Choosy(agg.UserAggregate):
    """A sum that refuses some values, and cannot be computed for some firings."""

    state = int

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        if value == 5:
            raise ValueError("no fives")
        return (state + value) % 1_000_003

    def merge(self, a: int, b: int) -> int:
        return (a + b) % 1_000_003

    def result(self, state: int) -> int:
        if state == 3:
            raise ValueError("no threes")
        return state


def described(event: Event) -> str:
    """What an event says beside its rows."""
    said = [f"port {event.port}"]
    if event.type is EventType.TRIGGER:
        said += [str(event.reason), str(event.refinement)]
    if event.type is EventType.MERGE:
        said += [str(one) for one in event.merged]
    return " ".join(said)


class Everything(Operator):
    """Emits a row for each event, of what enters or leaves one for each row: these may come together or apart."""

    events: ClassVar[frozenset[EventType]] = frozenset(EventType) - {EventType.DROP}

    def handle_event(self, event: Event, emit: Emit) -> None:
        rows = event.table.column("n").to_pylist()
        apart = event.type in (EventType.INSERTION, EventType.EVICTION) and rows
        for one in [[row] for row in rows] if apart else [rows]:
            emit(event=event.type.value, rows=one, detail=described(event))


class Firings(Operator):
    """Emits the rows of what fires, or tumbles."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER, EventType.EVICTION})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(event=event.type.value, rows=event.table.column("n").to_pylist())


class Lifetimes(Operator):
    """Emits when windows are full, close, and go."""

    events: ClassVar[frozenset[EventType]] = frozenset(
        {EventType.INITIAL_FULL, EventType.CLOSE, EventType.PARTITION_EVICTION, EventType.FINAL, EventType.TRIGGER}
    )

    def handle_event(self, event: Event, emit: Emit) -> None:
        if event.type is not EventType.TRIGGER:
            emit(event=event.type.value, rows=event.table.column("n").to_pylist())


class Lasting(Everything, StateHandler):
    """Counts the events of each partition across batches."""

    events: ClassVar[frozenset[EventType]] = frozenset(
        {EventType.TRIGGER, EventType.EVICTION, EventType.CLOSE, EventType.INITIAL_FULL}
    )

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def handle_event(self, event: Event, emit: Emit) -> None:
        key = f"{event.port} {event.key!r}"
        counts = event.type is not EventType.EVICTION  # which may come together or apart
        self.seen[key] = self.seen.get(key, 0) + counts
        rows = event.table.column("n").to_pylist()
        emit(event=event.type.value, rows=rows, detail=str(self.seen[key] if counts else 0))

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("seen", self.seen)

    def reset(self, ctx: StateContext) -> None:
        self.seen = ctx.read("seen")


class Nosy(Listener):
    """Reads each event before the operator does, and keeps nothing."""

    def handle_event(self, event: Event) -> None:
        assert event.table.num_rows >= 0
