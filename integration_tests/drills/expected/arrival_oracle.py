"""Oracles for windows in arrival order: each computes the expected log from the history, one row at a time.

They implement the rules of `docs/windows.md` a second time, in the plainest way, and import nothing of the code that
they check, so that they cannot share a mistake with it.

A log row is (sensor, n, total, first, last, reason): the number of readings, the sum of their ids, the first and the
last id. The time of a window is the arrival time of its rows (`by_row`), or the wall clock at the start of each run:
these windows have sizes of hours, so all rows of a run arrive at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from integration_tests.drills.expected.history import FileArrived, History, JobDrained, Row, RunStarted

HOUR = 3600

Rows = list[tuple[Any, ...]]
Tables = dict[str, Rows]
Oracle = Callable[[History], Tables]


@dataclass
class PartitionState:
    """The window of one sensor.

    Attributes:
        due: when its timer fires next.
        last: arrival time of its last row.
        held: rows in the window, with their arrival times.
        waiting: rows of a batched window that are not in it yet, with their arrival times.
        since: rows since the last firing.
    """

    due: int
    last: int
    held: list[tuple[Row, int]] = field(default_factory=list)
    waiting: list[tuple[Row, int]] = field(default_factory=list)
    since: int = 0


class NaiveWindow(ABC):
    """Processes a history. A subclass implements what a row, the timer, a resume and a drain do to the window.

    Attributes:
        by_row: whether the clock is the arrival time of the rows, not the wall clock.
        period: of the timer, in seconds; 0 if the window has no timer.
        catch_up: how often a timer fires that became due while the job was down: "once", or "each" time.
        clock: the present time.
        ready: when the first run began, or the earliest clock after it was set back; None before the first run.
        parts: by sensor, its window.
        log: the expected rows so far.
    """

    def __init__(self, *, by_row: bool = False, period: int = 0, catch_up: str = "once") -> None:
        self.by_row = by_row
        self.period = period
        self.catch_up = catch_up
        self.clock = 0
        self.ready: int | None = None
        self.parts: dict[str, PartitionState] = {}
        self.log: Rows = []

    def __call__(self, history: History) -> Tables:
        """Return the expected rows of the table `log`."""
        for event in history:
            match event:
                case RunStarted(clock=clock) if not self.by_row:
                    self.resume(clock)
                case FileArrived(rows=rows):
                    for row in rows:
                        self.process(row)
                case JobDrained():
                    self.on_drain()
        return {"log": self.log}

    def process(self, row: Row) -> None:
        """Fire the timers that are due before the row arrives, then add the row."""
        if self.by_row:
            self.advance(row.at)
        if row.sensor not in self.parts:
            self.parts[row.sensor] = PartitionState(due=self.first_due(), last=self.clock)
        part = self.parts[row.sensor]
        part.last = self.clock
        self.on_row(part, row)

    def advance(self, until: int) -> None:
        """Fire each timer at each of its instants that is due."""
        for now, sensor in self.instants(until):
            self.clock = now
            self.on_timer(sensor, self.parts[sensor], "TIME")
        self.clock = until

    def instants(self, until: int) -> Iterator[tuple[int, str]]:
        """Yield the times and sensors of the timers that are due, in the order of time."""
        while self.period and self.parts:
            sensor, part = min(self.parts.items(), key=lambda one: (one[1].due, one[0]))
            if part.due > until:
                return
            now, part.due = part.due, part.due + self.period
            yield now, sensor

    def resume(self, now: int) -> None:
        """Begin a run: overdue timers of windows with rows fire by `catch_up`; arrival times go back with the clock."""
        for part in self.parts.values():
            part.last = min(part.last, now)
            part.held = [(row, min(at, now)) for row, at in part.held]
            part.waiting = [(row, min(at, now)) for row, at in part.waiting]
        self.ready = now if self.ready is None else min(self.ready, now)
        if self.catch_up == "each":
            self.advance(now)
        self.clock = now
        for sensor, part in [*self.parts.items()]:
            if self.period and not (part.held or part.waiting):
                part.due += max(0, -((part.due - now) // self.period)) * self.period
            if self.period and part.due <= now:
                part.due = self.next_due(now)
                self.on_timer(sensor, part, "OVERDUE")
            elif self.period:
                part.due = min(part.due, self.next_due(now))
            self.on_resume(sensor, part)

    def first_due(self) -> int:
        """Return when the timer of a new sensor is due for the first time."""
        return self.next_due(self.clock)

    def next_due(self, now: int) -> int:
        """Return when a timer that fired at `now` is due again."""
        return now + self.period

    def fire(self, sensor: str, held: list[tuple[Row, int]], reason: str) -> None:
        """Log one result; an empty window has none."""
        ids = [row.id for row, _ in held]
        if ids:
            self.log.append((sensor, len(ids), sum(ids), ids[0], ids[-1], reason))

    @abstractmethod
    def on_row(self, part: PartitionState, row: Row) -> None:
        """Add a row."""

    def on_timer(self, sensor: str, part: PartitionState, reason: str) -> None:  # noqa: B027 -- most kinds have no timer
        """Fire the timer of a sensor."""

    def on_resume(self, sensor: str, part: PartitionState) -> None:  # noqa: B027 -- most kinds do nothing
        """Act on the start of a run; called after the timers."""

    def on_drain(self) -> None:  # noqa: B027 -- as above
        """Act on a drain of the job."""


class TumblingCount(NaiveWindow):
    """Tumbles after `size` rows. With `age`, a partition without rows for that many seconds is evicted."""

    def __init__(self, size: int, *, age: int | None = None) -> None:
        super().__init__()
        self.size, self.age = size, age

    def on_row(self, part: PartitionState, row: Row) -> None:
        """Tumble when the window is full; the last row is part of it."""
        part.held.append((row, self.clock))
        if len(part.held) == self.size:
            self.fire(row.sensor, part.held, "COUNT")
            part.held = []

    def on_resume(self, sensor: str, part: PartitionState) -> None:
        """Evict the partition if it is too old. Aggregates emit nothing for that."""
        if self.age is not None and self.clock - part.last >= self.age:
            del self.parts[sensor]


class TumblingTime(NaiveWindow):
    """Tumbles with each period of its timer."""

    def on_row(self, part: PartitionState, row: Row) -> None:
        """Keep the row until the timer fires."""
        part.held.append((row, self.clock))

    def on_timer(self, sensor: str, part: PartitionState, reason: str) -> None:
        """Tumble at the instant of the timer."""
        self.fire(sensor, part.held, reason)
        part.held = []


class SlidingCount(NaiveWindow):
    """Holds the last `size` rows and fires after each `trigger` rows."""

    def __init__(self, size: int, trigger: int) -> None:
        super().__init__()
        self.size, self.trigger = size, trigger

    def on_row(self, part: PartitionState, row: Row) -> None:
        """Evict the oldest row if the window is full, then add this one."""
        part.held = [*part.held[-self.size + 1 :], (row, self.clock)]
        part.since += 1
        if part.since == self.trigger:
            part.since = 0
            self.fire(row.sensor, part.held, "COUNT")


class SlidingTime(NaiveWindow):
    """Holds the rows of the last `size` seconds and fires each period. A row of exactly that age is still held."""

    def __init__(self, size: int, *, by_row: bool, period: int, catch_up: str = "once") -> None:
        super().__init__(by_row=by_row, period=period, catch_up=catch_up)
        self.size = size

    def on_row(self, part: PartitionState, row: Row) -> None:
        """Add the row."""
        part.held.append((row, self.clock))

    def on_timer(self, sensor: str, part: PartitionState, reason: str) -> None:
        """Evict the rows that are too old, then fire."""
        self.on_resume(sensor, part)
        self.fire(sensor, part.held, reason)

    def on_resume(self, sensor: str, part: PartitionState) -> None:
        """Evict the rows that are too old: they do not come back if the clock goes back."""
        part.held = [(row, at) for row, at in part.held if self.clock - at <= self.size]


class SlidingDelta(NaiveWindow):
    """Holds the rows whose value is at most `size` below that of the newest; fires after each `trigger` rows."""

    def __init__(self, size: int, trigger: int) -> None:
        super().__init__()
        self.size, self.trigger = size, trigger

    def on_row(self, part: PartitionState, row: Row) -> None:
        """Evict the rows that are too far below this one, at any position, then add it."""
        part.held = [(old, at) for old, at in part.held if row.value - old.value <= self.size]
        part.held.append((row, self.clock))
        part.since += 1
        if part.since == self.trigger:
            part.since = 0
            self.fire(row.sensor, part.held, "COUNT")


class PunctuationWindow(NaiveWindow):
    """Tumbles in all partitions after a row whose value is divisible by `divisor`."""

    def __init__(self, divisor: int) -> None:
        super().__init__()
        self.divisor = divisor

    def on_row(self, part: PartitionState, row: Row) -> None:
        """Add the row, then process the window mark, if there is one."""
        part.held.append((row, self.clock))
        if row.value % self.divisor == 0:
            for sensor, each in self.parts.items():
                self.fire(sensor, each.held, "PUNCTUATION")
                each.held = []


class BatchedCount(NaiveWindow):
    """Holds the last `retain` rows; changes by window batches of `every` rows."""

    def __init__(self, retain: int, every: int) -> None:
        super().__init__()
        self.retain, self.every = retain, every

    def on_row(self, part: PartitionState, row: Row) -> None:
        """Keep the row until its window batch is complete."""
        part.waiting.append((row, self.clock))
        if len(part.waiting) == self.every:
            part.held = [*part.held, *part.waiting][-self.retain :]
            part.waiting = []
            self.fire(row.sensor, part.held, "COUNT")


class BatchedTime(NaiveWindow):
    """Holds the last `retain` rows that are younger than `within` seconds; changes once each period."""

    def __init__(self, within: int, retain: int, *, period: int) -> None:
        super().__init__(period=period)
        self.within, self.retain = within, retain

    def next_due(self, now: int) -> int:
        """Return the next multiple of the period since the first start: the same for all partitions, outage or not."""
        begin = self.ready or 0
        return begin + ((now - begin) // self.period + 1) * self.period

    def on_row(self, part: PartitionState, row: Row) -> None:
        """Keep the row until the next window batch."""
        part.waiting.append((row, self.clock))

    def on_timer(self, sensor: str, part: PartitionState, reason: str) -> None:
        """Fire if the content changes, with an empty result if the window becomes empty."""
        before = part.held
        part.held = [(row, at) for row, at in [*before, *part.waiting] if self.clock < at + self.within]
        part.held = part.held[-self.retain :]
        part.waiting = []
        if part.held and part.held != before:
            self.fire(sensor, part.held, reason)
        elif before and not part.held:
            self.log.append((sensor, 0, None, None, None, reason))
