"""The naive tumbling, sliding and batched windows: one tuple, one timer, one event at a time.

Decides what a tuple and a due instant do in each kind of window, and in which order [semantics 2, 3, 8].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.model.arrival_windows import STALE, TIMER, UPDATE, Due, Held, NaiveSequence, Partition
from tests.model.time_intervals import Event, exact

MILLISECOND = 1000
"""The step of the clock that tells a tuple older than T from one of age T [semantics 1]."""

EVERY_TUPLE = {"policy": "count", "size": 1}
"""The trigger of a sliding window that declares none."""


class NaiveTumbling(NaiveSequence):
    """Everything goes at once [semantics 2]."""

    def on_tuple(self, text: str, part: Partition, new: Held) -> None:
        policy = self.window["eviction"]
        if policy["policy"] == "delta" and part.content and self.apart(part.content[0], new):
            self.tumble(text, part)
        part.content.append(new)
        self.tell("insertion", text, [new])
        if policy["policy"] == "count" and len(part.content) == policy["size"]:
            self.tumble(text, part)

    def due_in(self, text: str, part: Partition) -> Iterator[Due]:
        if self.window["eviction"]["policy"] == "time":
            yield part.fired + exact(self.window["eviction"]["size"]), TIMER, text

    def on_due(self, kind: int, text: str, part: Partition) -> None:
        part.fired = self.now
        self.tumble(text, part)

    def on_mark(self, mark: str) -> None:
        super().on_mark(mark)
        if mark == "window" and self.window["eviction"]["policy"] == "punct":
            for text, part in self.state.partitions.items():
                self.tumble(text, part)

    def apart(self, oldest: Held, new: Held) -> bool:
        attribute = self.window["eviction"]["attr"]
        return bool(new.value[attribute] - oldest.value[attribute] > self.window["eviction"]["size"])

    def tumble(self, text: str, part: Partition) -> None:
        self.tell("eviction", text, part.content)
        part.content.clear()


class NaiveSliding(NaiveSequence):
    """The newest stay; the trigger looks on [semantics 3]."""

    def on_create(self, text: str, part: Partition) -> None:
        if self.window["eviction"]["policy"] == "time":
            self.fill(text, part)

    def on_tuple(self, text: str, part: Partition, new: Held) -> None:
        trigger = self.window.get("trigger", EVERY_TUPLE)
        if trigger["policy"] == "delta":
            value = new.value[trigger["attr"]]
            if part.base is not None and value > part.base + trigger["size"]:
                self.fire(text, part)
            if part.base is None or value > part.base + trigger["size"]:
                part.base = value
        self.make_room(text, part, new)
        part.content.append(new)
        self.tell("insertion", text, [new])
        if self.window["eviction"]["policy"] == "count" and len(part.content) == self.window["eviction"]["size"]:
            self.fill(text, part)
        part.count += 1
        if trigger["policy"] == "count" and part.count == trigger["size"]:
            part.count = 0
            self.fire(text, part)

    def make_room(self, text: str, part: Partition, new: Held) -> None:
        """Evict what the new tuple drives out."""
        policy = self.window["eviction"]
        gone: list[Held] = []
        if policy["policy"] == "count" and len(part.content) == policy["size"]:
            gone = part.content[:1]
        elif policy["policy"] == "delta":
            attribute = policy["attr"]
            gone = [old for old in part.content if new.value[attribute] - old.value[attribute] > policy["size"]]
            if gone:
                self.fill(text, part)
        self.let_go(text, part, gone)

    def due_in(self, text: str, part: Partition) -> Iterator[Due]:
        if self.window["eviction"]["policy"] == "time":
            for held in part.content:
                yield self.stale(held), STALE, text
        if self.window.get("trigger", EVERY_TUPLE)["policy"] == "time":
            yield part.fired + exact(self.window["trigger"]["size"]), TIMER, text

    def on_due(self, kind: int, text: str, part: Partition) -> None:
        if kind == STALE:
            self.let_go_stale(text, part)
        else:
            part.fired = self.now
            self.fire(text, part)

    def let_go_stale(self, text: str, part: Partition) -> None:
        if self.window["eviction"]["policy"] == "time":
            self.let_go(text, part, [old for old in part.content if self.stale(old) <= self.now])

    def stale(self, held: Held) -> int:
        """When a tuple goes by age; one of age T exactly is still in, so a millisecond after."""
        return held.arrival + exact(self.window["eviction"]["size"]) + MILLISECOND

    def let_go(self, text: str, part: Partition, gone: list[Held]) -> None:
        if gone:
            self.tell("eviction", text, gone)
            part.content = [old for old in part.content if old not in gone]

    def fill(self, text: str, part: Partition) -> None:
        if not part.full:
            part.full = True
            self.tell("initial_full", text, part.content)

    def fire(self, text: str, part: Partition) -> None:
        self.let_go_stale(text, part)
        self.tell("trigger", text, part.content)


class NaiveBatched(NaiveSequence):
    """Changes in batches only [semantics 8]; one timetable for all partitions, counted from the creation."""

    def due(self) -> Iterator[Due]:
        yield from super().due()
        if "within" in self.window:
            yield self.state.updated + exact(self.window["every"]), UPDATE, ""

    def ring(self, kind: int, text: str) -> None:
        if kind != UPDATE:
            super().ring(kind, text)
            return
        every, first = self.every(), self.state.updated + self.every()
        missed = self.state.created + (self.now - 1 - self.state.created) // every * every
        self.state.updated = first if first == self.now else missed  # down since: one update for all that were missed
        for each, part in self.state.partitions.items():
            self.update(each, part)

    def turn_back(self, to: int) -> None:
        super().turn_back(to)
        if "within" in self.window:
            self.state.created = min(self.state.created, to)
            passed = (to - 1 - self.state.created) // self.every() * self.every()
            self.state.updated = min(self.state.updated, self.state.created + max(passed, 0))

    def every(self) -> int:
        return exact(self.window["every"])

    def on_tuple(self, text: str, part: Partition, new: Held) -> None:
        part.waiting.append(new)
        if "within" not in self.window and len(part.waiting) == self.window["every"]:
            self.update(text, part)

    def update(self, text: str, part: Partition) -> None:
        before, keep = part.content, part.content + part.waiting
        if "within" in self.window:
            keep = [held for held in keep if self.now < held.arrival + exact(self.window["within"])]
        keep = keep[-self.window.get("retain", len(keep) + 1) :]
        left, entered = [h for h in before if h not in keep], [h for h in keep if h not in before]
        part.content, part.waiting = keep, []
        for event, held in (("eviction", left), ("insertion", entered)):
            if held:
                self.tell(event, text, held)
        if left or entered:
            self.tell("trigger", text, keep)


NAIVE: dict[str, type[NaiveTumbling | NaiveSliding | NaiveBatched]] = {
    "tumbling": NaiveTumbling,
    "sliding": NaiveSliding,
    "batched": NaiveBatched,
}


def play_naively(vector: dict[str, Any]) -> list[Event]:
    """What happens in a vector with a tumbling, sliding or batched window."""
    window: dict[str, Any] = vector["window"]
    return NAIVE[window["kind"]](window).play(vector["input"])
