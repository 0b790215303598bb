"""What the tables should hold: each window played by hand, one row at a time, over the history and nothing else.

The rules are those of the window descriptions in `docs/windows.md`, written again from scratch and as plainly as they
can be said. Nothing here imports the product, so that a mistake in it cannot excuse itself.

A window in arrival order answers with rows (sensor, n, total, first, last, reason): how many readings, the sum of
their ids, the first and last id. Which clock it lives by: the arrival time of the rows (`by_row`), or the wall clock of
the runs, in which all rows of a run arrive at once, for the sizes of these windows are hours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from recovery.drill.expected.history import Arrived, Drained, History, Row, Started

HOUR = 3600

Rows = list[tuple[Any, ...]]
Tables = dict[str, Rows]
Oracle = Callable[[History], Tables]


@dataclass
class Part:
    """The window of one sensor: what it holds (row, arrival), what waits, and what its policies remember."""

    due: int
    last: int
    held: list[tuple[Row, int]] = field(default_factory=list)
    waiting: list[tuple[Row, int]] = field(default_factory=list)
    since: int = 0


class Naive(ABC):
    """Plays a history; a kind of window says what a row does, and what time does. `period` is that of its timer."""

    def __init__(self, *, by_row: bool = False, period: int = 0) -> None:
        self.by_row = by_row
        self.period = period
        self.clock = 0
        self.ready: int | None = None
        self.parts: dict[str, Part] = {}
        self.log: Rows = []

    def __call__(self, history: History) -> Tables:
        """Return the table `log`."""
        for moment in history:
            match moment:
                case Started(clock=clock) if not self.by_row:
                    self.resume(clock)
                case Arrived(rows=rows):
                    for row in rows:
                        self.take(row)
                case Drained():
                    self.on_drain()
                case _:
                    pass
        return {"log": self.log}

    def take(self, row: Row) -> None:
        """One row: first what is due, then the row."""
        if self.by_row:
            for now, sensor in self.instants(row.at):
                self.clock = now
                self.on_timer(sensor, self.parts[sensor], "TIME")
            self.clock = row.at
        if row.sensor not in self.parts:
            self.parts[row.sensor] = Part(due=self.first_due(), last=self.clock)
        part = self.parts[row.sensor]
        part.last = self.clock
        self.on_row(part, row)

    def instants(self, until: int) -> Iterator[tuple[int, str]]:
        """When timers are due, in the order of time."""
        while self.period and self.parts:
            sensor, part = min(self.parts.items(), key=lambda one: (one[1].due, one[0]))
            if part.due > until:
                return
            now, part.due = part.due, part.due + self.period
            yield now, sensor

    def resume(self, now: int) -> None:
        """A run begins: what fell due while nobody was there happens now, once. A clock that went back is believed."""
        for part in self.parts.values():
            part.last = min(part.last, now)
            part.held = [(row, min(at, now)) for row, at in part.held]
            part.waiting = [(row, min(at, now)) for row, at in part.waiting]
        self.ready = now if self.ready is None else min(self.ready, now)
        self.clock = now
        for sensor, part in [*self.parts.items()]:
            if self.period and part.due <= now:
                part.due = self.next_due(now)
                self.on_timer(sensor, part, "OVERDUE")
            elif self.period:
                part.due = min(part.due, self.next_due(now))
            self.on_resume(sensor, part)

    def first_due(self) -> int:
        """When a new sensor's timer is due for the first time."""
        return self.next_due(self.clock)

    def next_due(self, now: int) -> int:
        """When a timer that fired now is due again."""
        return now + self.period

    def fire(self, sensor: str, held: list[tuple[Row, int]], reason: str) -> None:
        """A result; of nothing there is none."""
        ids = [row.id for row, _ in held]
        if ids:
            self.log.append((sensor, len(ids), sum(ids), ids[0], ids[-1], reason))

    @abstractmethod
    def on_row(self, part: Part, row: Row) -> None:
        """A row comes in."""

    def on_timer(self, sensor: str, part: Part, reason: str) -> None:  # noqa: B027 -- most kinds have no timer
        """The timer of a sensor is due."""

    def on_resume(self, sensor: str, part: Part) -> None:  # noqa: B027 -- to most kinds it means nothing
        """A run begins, after its timers."""

    def on_drain(self) -> None:  # noqa: B027 -- as above
        """The job is drained."""


class TumblingCount(Naive):
    """So many readings, then all of them go. With `age`, a sensor that was silent for so long is forgotten."""

    def __init__(self, size: int, *, age: int | None = None) -> None:
        super().__init__()
        self.size, self.age = size, age

    def on_row(self, part: Part, row: Row) -> None:
        """The last of the window is part of it."""
        part.held.append((row, self.clock))
        if len(part.held) == self.size:
            self.fire(row.sensor, part.held, "COUNT")
            part.held = []

    def on_resume(self, sensor: str, part: Part) -> None:
        """Nobody hears of what is forgotten: aggregates do not show it."""
        if self.age is not None and self.clock - part.last >= self.age:
            del self.parts[sensor]


class TumblingTime(Naive):
    """Every so often all readings go."""

    def on_row(self, part: Part, row: Row) -> None:
        """It waits for the timer."""
        part.held.append((row, self.clock))

    def on_timer(self, sensor: str, part: Part, reason: str) -> None:
        """All go."""
        self.fire(sensor, part.held, reason)
        part.held = []


class SlidingCount(Naive):
    """The last so many readings, shown after every so many."""

    def __init__(self, size: int, trigger: int) -> None:
        super().__init__()
        self.size, self.trigger = size, trigger

    def on_row(self, part: Part, row: Row) -> None:
        """The oldest makes room."""
        part.held = [*part.held[-self.size + 1 :], (row, self.clock)]
        part.since += 1
        if part.since == self.trigger:
            part.since = 0
            self.fire(row.sensor, part.held, "COUNT")


class SlidingTime(Naive):
    """The readings of the last `size` seconds, shown every `period`. One of exactly that age is still in."""

    def __init__(self, size: int, *, by_row: bool, period: int) -> None:
        super().__init__(by_row=by_row, period=period)
        self.size = size

    def on_row(self, part: Part, row: Row) -> None:
        """It is in."""
        part.held.append((row, self.clock))

    def on_timer(self, sensor: str, part: Part, reason: str) -> None:
        """What is too old goes before the rest is shown."""
        part.held = [(row, at) for row, at in part.held if self.clock - at <= self.size]
        self.fire(sensor, part.held, reason)


class SlidingDelta(Naive):
    """Readings not more than `size` below the newest, shown after every so many."""

    def __init__(self, size: int, trigger: int) -> None:
        super().__init__()
        self.size, self.trigger = size, trigger

    def on_row(self, part: Part, row: Row) -> None:
        """What is too far below it goes, wherever it stands."""
        part.held = [(old, at) for old, at in part.held if row.value - old.value <= self.size]
        part.held.append((row, self.clock))
        part.since += 1
        if part.since == self.trigger:
            part.since = 0
            self.fire(row.sensor, part.held, "COUNT")


class Punctuated(Naive):
    """All readings of all sensors go after a reading whose value is divisible by `divisor`."""

    def __init__(self, divisor: int) -> None:
        super().__init__()
        self.divisor = divisor

    def on_row(self, part: Part, row: Row) -> None:
        """The mark comes after the row."""
        part.held.append((row, self.clock))
        if row.value % self.divisor == 0:
            for sensor, each in self.parts.items():
                self.fire(sensor, each.held, "PUNCTUATION")
                each.held = []


class BatchedCount(Naive):
    """The last `retain` readings, changed by `every` at a time."""

    def __init__(self, retain: int, every: int) -> None:
        super().__init__()
        self.retain, self.every = retain, every

    def on_row(self, part: Part, row: Row) -> None:
        """It waits until its lot is complete."""
        part.waiting.append((row, self.clock))
        if len(part.waiting) == self.every:
            part.held = [*part.held, *part.waiting][-self.retain :]
            part.waiting = []
            self.fire(row.sensor, part.held, "COUNT")


class BatchedTime(Naive):
    """The last `retain` readings not yet `within` seconds old, changed every `period` from the first start on."""

    def __init__(self, within: int, retain: int, *, period: int) -> None:
        super().__init__(period=period)
        self.within, self.retain = within, retain

    def next_due(self, now: int) -> int:
        """One timetable for all: an outage does not shift it."""
        begin = self.ready or 0
        return begin + ((now - begin) // self.period + 1) * self.period

    def on_row(self, part: Part, row: Row) -> None:
        """It waits for its batch."""
        part.waiting.append((row, self.clock))

    def on_timer(self, sensor: str, part: Part, reason: str) -> None:
        """One update, if anything enters or leaves; one that empties the window is told, too."""
        before = part.held
        part.held = [(row, at) for row, at in [*before, *part.waiting] if self.clock < at + self.within]
        part.held = part.held[-self.retain :]
        part.waiting = []
        if part.held:
            if part.held != before:
                self.fire(sensor, part.held, reason)
        elif before:
            self.log.append((sensor, 0, None, None, None, reason))
