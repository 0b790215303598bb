"""What the naive tumbling, sliding and batched windows share: the clock, partitions, marks, checkpoints.

Decides what is due when, and which partition is evicted (docs/semantics.md sections 1, 3.5, 4, 5.3 and 7). The clock is
moved to the earliest thing that is due, that one thing is done, and so on.
"""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.model.time_intervals import Event, exact, seconds

EXPIRED, TIMER, AGE, UPDATE = range(4)
"""The order at one instant in one partition: rows too old leave, it tumbles or fires, it is evicted as a whole, and
then, after the rows of that instant, a window batch is due."""

Due = tuple[int, int, str]
"""Something to come: when, what, and in which partition."""


@dataclass(eq=False)
class HeldRow:
    """A row and when it arrived; two that look alike are still two."""

    value: Any
    arrival: int


@dataclass
class Partition:
    """`fired` is the last tumble or trigger by time, or the creation; `count` the rows since the last trigger."""

    fired: int
    inserted: int
    content: list[HeldRow] = field(default_factory=list)
    waiting: list[HeldRow] = field(default_factory=list)
    full: bool = False
    count: int = 0
    base: float | None = None


@dataclass
class State:
    """All that a checkpoint keeps. The partitions stand in the order of their last insertion, least recent first.

    `created` is when all inputs were ready, `updated` the last batch instant that is over.
    """

    created: int
    updated: int
    partitions: dict[str, Partition] = field(default_factory=dict)
    finished: bool = False


class NaiveArrivalWindow(ABC):
    """Plays one vector's window, item by item; `events` grows in the shape of a vector's `expect`.

    `shows_empty` is whether anybody receives firings of a partition without rows: an operator does, aggregates do not.
    """

    def __init__(self, window: dict[str, Any], *, shows_empty: bool = True) -> None:
        self.window = window
        self.shows_empty = shows_empty
        self.partitioned = window.get("partitioned", False)
        self.limit: Any = window.get("partition_eviction")
        self.events: list[Event] = []
        self.saved: dict[str, State] = {}
        self.begin(exact(window.get("ready_at", window.get("created_at", 0))))

    def play(self, items: list[dict[str, Any]]) -> list[Event]:
        for item in items:
            if "advance_clock" in item:
                self.advance(exact(item["advance_clock"]), closed=True)
            elif "reset" in item:
                self.state = copy.deepcopy(self.saved[item["reset"]])
                self.resume(exact(item["at"]))
            elif "reset_to_initial" in item:
                self.begin(exact(item["at"]))
            else:
                self.advance(exact(item["at"]), closed=item.get("punct") == "final")
                self.on_item(item)
        return self.events

    def on_item(self, item: dict[str, Any]) -> None:
        if "value" in item:
            self.insert(json.dumps(item.get("key") if self.partitioned else None, sort_keys=True), item["value"])
        elif "punct" in item:
            self.on_mark(item["punct"])
        elif "checkpoint" in item:
            self.saved[item["checkpoint"]] = copy.deepcopy(self.state)
        elif "evict_partition" in item:
            self.evict_partition(json.dumps(item["evict_partition"], sort_keys=True))
        else:
            raise ValueError(f"the model has no {item}")

    # The clock.

    def begin(self, now: int) -> None:
        """All inputs are ready: a window without partitioning has its one partition from here on."""
        self.now = now
        self.state = State(created=now, updated=now)
        if not self.partitioned:
            self.create("null")

    def advance(self, to: int, *, closed: bool) -> None:
        """Do what is due up to and including `to`; `closed`: nothing more arrives at that very instant."""
        while due := self.earliest(to, closed=closed):
            self.now, kind, text = due
            self.fire_timer(kind, text)
        self.now = to

    def earliest(self, to: int, *, closed: bool) -> Due | None:
        """What is due first, up to an instant."""
        due = [] if self.state.finished else [one for one in self.due() if one[0] <= to]
        return min((one for one in due if one[0] < to or closed or one[1] != UPDATE), default=None)

    def after(self, at: int, period: int) -> int:
        """When a period that begins at an instant is over; one that is aligned began at a multiple of it."""
        return (at // period + 1) * period if self.window.get("aligned") else at + period

    def resume(self, to: int) -> None:
        """The process was down until `to`: what fell due meanwhile happens now, once; partitions of age go last."""
        self.now = to
        self.set_clock_back(to)
        if not self.shows_empty:
            self.pass_idle_timers(to)
        due = set() if self.state.finished else set(self.due())
        late = {(kind, text) for instant, kind, text in due if instant < to or (instant == to and kind != UPDATE)}
        for kind, text in sorted(late, key=lambda one: (one[0] == AGE, *one)):
            self.fire_timer(kind, text)

    def set_clock_back(self, to: int) -> None:
        """A clock that went back: timers wait a whole period, and nothing seems to have happened later than now."""
        for part in self.state.partitions.values():
            part.fired, part.inserted = min(part.fired, to), min(part.inserted, to)
            for held in part.content + part.waiting:
                held.arrival = min(held.arrival, to)

    def pass_idle_timers(self, to: int) -> None:
        """Nobody sees which instants of an idle partition passed before the stop: its timer keeps the timetable."""
        for text, part in self.state.partitions.items():
            while any(due < to and self.is_idle(part, due) for due in self.timers_of(text, part)):
                part.fired = min(self.timers_of(text, part))

    def timers_of(self, text: str, part: Partition) -> list[int]:
        """When its timer is due; at most one."""
        return [instant for instant, kind, _ in self.due_in(text, part) if kind == TIMER]

    def is_idle(self, part: Partition, at: int) -> bool:
        """Whether the partition has no rows at an instant."""
        return not part.content

    def due(self) -> Iterator[Due]:
        """When each partition has what to do next."""
        for text, part in self.state.partitions.items():
            if self.limit and self.limit["policy"] == "partitionAge":
                yield part.inserted + exact(self.limit["size"]), AGE, text
            yield from self.due_in(text, part)

    def fire_timer(self, kind: int, text: str) -> None:
        if kind == AGE:
            self.evict_partition(text)
        elif text in self.state.partitions:
            self.on_due(kind, text, self.state.partitions[text])

    # Partitions.

    def create(self, text: str) -> Partition:
        part = self.state.partitions[text] = Partition(self.now, self.now)
        self.on_create(text, part)
        return part

    def insert(self, text: str, value: Any) -> None:
        part = self.state.partitions.get(text) or self.create(text)
        part.inserted = self.now
        self.state.partitions[text] = self.state.partitions.pop(text)
        self.on_tuple(text, part, HeldRow(value, self.now))
        if self.limit and self.exceeded():
            while self.oldest() and not self.size(self.oldest()):
                self.evict_partition(self.oldest())
            while self.exceeded():
                self.evict_partition(self.oldest())

    def oldest(self) -> str:
        return next(iter(self.state.partitions), "")

    def size(self, text: str) -> int:
        return len(self.state.partitions[text].content) + len(self.state.partitions[text].waiting)

    def exceeded(self) -> bool:
        """Whether a limit on the number of partitions, or of all rows, is broken."""
        limit: int = self.limit["size"]
        if self.limit["policy"] == "partitionCount":
            return len(self.state.partitions) > limit
        if self.limit["policy"] == "tupleCount":
            return sum(map(self.size, self.state.partitions)) > limit
        return False

    def evict_partition(self, text: str) -> None:
        if text in self.state.partitions:
            self.emit("partition_eviction", text, self.state.partitions[text].content)
            del self.state.partitions[text]

    # What the kinds of windows do each in their own way.

    def on_create(self, text: str, part: Partition) -> None:  # noqa: B027 -- not every kind has something to do
        """Most kinds do nothing when a partition is created."""

    @abstractmethod
    def on_tuple(self, text: str, part: Partition, new: HeldRow) -> None: ...

    def due_in(self, text: str, part: Partition) -> Iterable[Due]:
        return ()

    def on_due(self, kind: int, text: str, part: Partition) -> None:  # noqa: B027 -- as above
        """Windows without a clock are never due."""

    def on_mark(self, mark: str) -> None:
        if mark == "final":
            self.state.finished = True
            for text, part in self.state.partitions.items():
                self.emit("final", text, part.content)

    def emit(self, event: str, text: str, held: list[HeldRow]) -> None:
        tuples = [one.value for one in held]
        self.events.append({"event": event, "key": json.loads(text), "tuples": tuples, "at": seconds(self.now)})
