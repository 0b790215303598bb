"""The naive tumbling, sliding and batched windows: one row, one timer, one event at a time.

Decides what a row and a due instant do in each kind of window, and in which order (docs/semantics.md sections 2, 3
and 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.model.arrival_windows import EXPIRED, TIMER, UPDATE, Due, HeldRow, NaiveArrivalWindow, Partition
from tests.model.time_intervals import Event, exact

MILLISECOND = 1000
"""The step of the clock by which a row older than T differs from one of age T (docs/semantics.md section 3.5)."""

EVERY_TUPLE = {"policy": "count", "size": 1}
"""The trigger of a sliding window that declares none."""


def sizes_of(policy: dict[str, Any]) -> dict[str, Any]:
    """The size of each policy by its name, also of those that a policy is made of."""
    return {one["policy"]: one.get("size") for one in policy.get("of", [policy])}


class NaiveTumbling(NaiveArrivalWindow):
    """All rows leave at once (docs/semantics.md section 2)."""

    def on_tuple(self, text: str, part: Partition, new: HeldRow) -> None:
        policy = self.window["eviction"]
        if policy["policy"] == "delta" and part.content and self.exceeds_delta(part.content[0], new):
            self.tumble(text, part)
        part.content.append(new)
        self.emit("insertion", text, [new])
        if len(part.content) == sizes_of(policy).get("count"):
            part.fired = self.now  # time counts from here, if it counts, too
            self.tumble(text, part)

    def due_in(self, text: str, part: Partition) -> Iterator[Due]:
        if period := sizes_of(self.window["eviction"]).get("time"):
            yield self.after(part.fired, exact(period)), TIMER, text

    def on_due(self, kind: int, text: str, part: Partition) -> None:
        part.fired = self.now
        self.tumble(text, part)

    def on_mark(self, mark: str) -> None:
        super().on_mark(mark)
        if mark == "window" and self.window["eviction"]["policy"] == "punct":
            for text, part in self.state.partitions.items():
                self.tumble(text, part)

    def exceeds_delta(self, oldest: HeldRow, new: HeldRow) -> bool:
        attribute = self.window["eviction"]["attr"]
        return bool(new.value[attribute] - oldest.value[attribute] > self.window["eviction"]["size"])

    def tumble(self, text: str, part: Partition) -> None:
        self.emit("eviction", text, part.content)
        part.content.clear()


class NaiveSliding(NaiveArrivalWindow):
    """The newest stay; the trigger looks on (docs/semantics.md section 3)."""

    @property
    def kept(self) -> dict[str, Any]:
        """What keeps a row, and how long, or how many."""
        return sizes_of(self.window["eviction"])

    @property
    def fires_by(self) -> dict[str, Any]:
        """What it fires by, and after how many rows, or how long."""
        return sizes_of(self.window.get("trigger", EVERY_TUPLE))

    def on_create(self, text: str, part: Partition) -> None:
        if self.kept.keys() == {"time"}:
            self.fill(text, part)

    def on_tuple(self, text: str, part: Partition, new: HeldRow) -> None:
        trigger = self.window.get("trigger", EVERY_TUPLE)
        if trigger["policy"] == "delta":
            value = new.value[trigger["attr"]]
            if part.base is not None and value > part.base + trigger["size"]:
                self.fire(text, part)
            if part.base is None or value > part.base + trigger["size"]:
                part.base = value
        self.make_room(text, part, new)
        part.content.append(new)
        self.emit("insertion", text, [new])
        if len(part.content) == self.kept.get("count"):
            self.fill(text, part)
        part.count += 1
        if part.count == self.fires_by.get("count"):
            part.fired = self.now  # time counts from here, if it counts, too
            self.fire(text, part)

    def make_room(self, text: str, part: Partition, new: HeldRow) -> None:
        """Evict what leaves for the new row."""
        policy = self.window["eviction"]
        gone: list[HeldRow] = []
        if len(part.content) == self.kept.get("count"):
            gone = part.content[:1]
        elif policy["policy"] == "delta":
            attribute = policy["attr"]
            gone = [old for old in part.content if new.value[attribute] - old.value[attribute] > policy["size"]]
            if gone:
                self.fill(text, part)
        self.evict(text, part, gone)

    def due_in(self, text: str, part: Partition) -> Iterator[Due]:
        if "time" in self.kept:
            for held in part.content:
                yield self.stale(held), EXPIRED, text
        if period := self.fires_by.get("time"):
            yield self.after(part.fired, exact(period)), TIMER, text

    def is_idle(self, part: Partition, at: int) -> bool:
        expires = "time" in self.kept
        return not [held for held in part.content if not expires or self.stale(held) > at]

    def on_due(self, kind: int, text: str, part: Partition) -> None:
        if kind == EXPIRED:
            self.evict_expired(text, part)
        else:
            part.fired = self.now
            self.fire(text, part)

    def evict_expired(self, text: str, part: Partition) -> None:
        if "time" in self.kept:
            self.evict(text, part, [old for old in part.content if self.stale(old) <= self.now])

    def stale(self, held: HeldRow) -> int:
        """When a row leaves by age; one of age T exactly is still in, so a millisecond after."""
        return held.arrival + exact(self.kept["time"]) + MILLISECOND

    def evict(self, text: str, part: Partition, gone: list[HeldRow]) -> None:
        if gone:
            self.emit("eviction", text, gone)
            part.content = [old for old in part.content if old not in gone]

    def fill(self, text: str, part: Partition) -> None:
        if not part.full:
            part.full = True
            self.emit("initial_full", text, part.content)

    def fire(self, text: str, part: Partition) -> None:
        self.evict_expired(text, part)
        part.count = 0
        if part.full or not self.window.get("when_full"):
            self.emit("trigger", text, part.content)


class NaiveBatched(NaiveArrivalWindow):
    """Changes in batches only (docs/semantics.md section 8); one grid for all partitions, counted from the creation."""

    def due(self) -> Iterator[Due]:
        yield from super().due()
        if "within" in self.window:
            yield self.next_instant(), UPDATE, ""

    def fire_timer(self, kind: int, text: str) -> None:
        if kind != UPDATE:
            super().fire_timer(kind, text)
            return
        every, first, begin = self.every(), self.next_instant(), self.begin_of_grid()
        missed = begin + (self.now - 1 - begin) // every * every
        self.state.updated = first if first == self.now else missed  # down since: one update for all that were missed
        for each, part in self.state.partitions.items():
            self.update(each, part)

    def set_clock_back(self, to: int) -> None:
        super().set_clock_back(to)
        if "within" in self.window:
            self.state.created = min(self.state.created, to)
            begin = self.begin_of_grid()
            passed = (to - 1 - begin) // self.every() * self.every()
            self.state.updated = min(self.state.updated, begin + max(passed, 0))

    def begin_of_grid(self) -> int:
        """From when on batch instants count."""
        return 0 if self.window.get("aligned") else self.state.created

    def next_instant(self) -> int:
        """The first batch instant after the last one that is over."""
        begin, every = self.begin_of_grid(), self.every()
        return begin + ((self.state.updated - begin) // every + 1) * every

    def every(self) -> int:
        return exact(self.window["every"])

    def on_tuple(self, text: str, part: Partition, new: HeldRow) -> None:
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
                self.emit(event, text, held)
        if left or entered:
            self.emit("trigger", text, keep)


NAIVE: dict[str, type[NaiveTumbling | NaiveSliding | NaiveBatched]] = {
    "tumbling": NaiveTumbling,
    "sliding": NaiveSliding,
    "batched": NaiveBatched,
}


def play_naively(vector: dict[str, Any], *, shows_empty: bool = True) -> list[Event]:
    """What happens in a vector with a tumbling, sliding or batched window."""
    window: dict[str, Any] = vector["window"]
    return NAIVE[window["kind"]](window, shows_empty=shows_empty).play(vector["input"])
