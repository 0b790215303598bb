"""Oracles for windows and joins in event time; as those of `arrival_oracle.py`.

The watermark is the greatest event time of the files before; of two ports, the least of theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from integration_tests.drills.expected.arrival_oracle import Rows, Tables
from integration_tests.drills.expected.history import FileArrived, History, Row

LARGE = 6
"""A row with this value or a greater one goes to the second of two ports."""


def port_of(row: Row) -> int:
    """Return the port of a row, 0 or 1."""
    return int(row.value >= LARGE)


class NaiveEventTime(ABC):
    """Processes a history row by row, and advances the watermark behind each file.

    Attributes:
        ports: number of ports.
        watermark: in seconds; None before each port has had a row.
        log: the expected rows so far.
        rejected: the expected rows of the quarantine.
    """

    ports = 1

    def __init__(self) -> None:
        self.watermark: int | None = None
        self.log: Rows = []
        self.rejected: Rows = []

    def __call__(self, history: History) -> Tables:
        """Return the expected rows of the tables `log`, `view` and `quarantine`."""
        newest: dict[int, int] = {}
        for event in history:
            for row in event.rows if isinstance(event, FileArrived) else ():
                if row.seen is None:
                    self.rejected.append(("NULL_EVENT_TIME", None, row.id))
                    continue
                self.on_row(row, row.seen)
                port = port_of(row) if self.ports == 2 else 0
                newest[port] = max(row.seen, newest.get(port, row.seen))
            if isinstance(event, FileArrived) and len(newest) == self.ports:
                before, self.watermark = self.watermark, min(newest.values())
                if before is None or self.watermark > before:
                    self.on_watermark(before, self.watermark)
        return {"log": self.log, "view": self.view(), "quarantine": self.rejected}

    @abstractmethod
    def on_row(self, row: Row, seen: int) -> None:
        """Process a row with its event time."""

    @abstractmethod
    def on_watermark(self, before: int | None, watermark: int) -> None:
        """Process a watermark that has advanced."""

    def view(self) -> Rows:
        """Return the expected rows of the view, if there is one."""
        return []


@dataclass
class PaneState:
    """One pane.

    Attributes:
        held: rows by sensor.
        firings: by sensor, how often the pane fired.
        changed: sensors with rows since the last firing.
        complete: sensors that fired when the pane was complete.
    """

    held: dict[str, list[Row]] = field(default_factory=dict)
    firings: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    complete: set[str] = field(default_factory=set)


class NaivePanes(NaiveEventTime):
    """Panes that fire when the watermark passes their end, and again for late rows.

    With `early`, they fire before that, too, when it passes a multiple of so many seconds.
    """

    def __init__(self, *, discard_age: int, early: int | None = None) -> None:
        super().__init__()
        self.age, self.early = discard_age, early
        self.panes: dict[tuple[int, int], PaneState] = {}

    @abstractmethod
    def panes_of(self, seen: int) -> Iterator[tuple[int, int]]:
        """Yield start and end of each pane that has this event time."""

    def on_row(self, row: Row, seen: int) -> None:
        """Add a row to every pane that contains its event time and is not closed."""
        panes = [*self.panes_of(seen)]
        kept = [(start, end) for start, end in panes if self.watermark is None or self.watermark < end + self.age]
        if not kept:
            self.rejected.append(("LATE", seen, row.id))
        for bounds in kept:
            pane = self.panes.setdefault(bounds, PaneState())
            pane.held.setdefault(row.sensor, []).append(row)
            pane.changed.add(row.sensor)

    def on_watermark(self, before: int | None, watermark: int) -> None:
        """Fire the changed panes whose end the watermark has passed, then close those past the discard age."""
        passes = self.early and before is not None and watermark // self.early > before // self.early
        for (start, end), pane in sorted(self.panes.items()):
            if watermark >= end:
                reason = "LATE" if before is not None and before >= end else "WATERMARK"
                due = pane.changed | (pane.held.keys() - pane.complete)
                pane.complete |= due
            else:
                reason, due = "EARLY", pane.changed if passes else set()
            for sensor in sorted(due):
                times = pane.firings.get(sensor, 0)
                pane.firings[sensor] = times + 1
                self.emit(sensor, (start, end), pane.held[sensor], times, reason)
            pane.changed = pane.changed - due
            if watermark >= end + self.age:
                del self.panes[start, end]

    def emit(self, sensor: str, pane: tuple[int, int], rows: Sequence[Row], times: int, reason: str) -> None:
        """Log the firing of a pane for a sensor."""
        ids = [row.id for row in rows]
        self.log.append((sensor, *pane, len(ids), sum(ids), times, reason))

    def view(self) -> Rows:
        """Return the last row of each sensor and pane."""
        return [*{row[:3]: row for row in self.log}.values()]


class NaiveTimeInterval(NaivePanes):
    """Panes [k * period, k * period + size)."""

    def __init__(self, size: int, *, period: int, discard_age: int, early: int | None = None) -> None:
        super().__init__(discard_age=discard_age, early=early)
        self.size, self.period = size, period

    def panes_of(self, seen: int) -> Iterator[tuple[int, int]]:
        """Yield the panes, the newest first."""
        for start in range(seen // self.period * self.period, seen - self.size, -self.period):
            yield start, start + self.size


class NaiveCumulate(NaiveTimeInterval):
    """Panes that begin together, each by one step longer than the one before."""

    def __init__(self, step: int, size: int, *, discard_age: int) -> None:
        super().__init__(size, period=size, discard_age=discard_age)
        self.step = step

    def panes_of(self, seen: int) -> Iterator[tuple[int, int]]:
        """Yield the panes, the longest first."""
        for start, end in super().panes_of(seen):
            yield from ((start, at) for at in range(end, seen, -self.step) if at > start)


class NaiveDays(NaiveTimeInterval):
    """Days that begin `offset` seconds after those in UTC; in these days no clock is changed."""

    def __init__(self, offset: int, *, discard_age: int, early: int | None = None) -> None:
        super().__init__(24 * 3600, period=24 * 3600, discard_age=discard_age, early=early)
        self.offset = offset

    def panes_of(self, seen: int) -> Iterator[tuple[int, int]]:
        """Yield the day."""
        yield from ((start + self.offset, end + self.offset) for start, end in super().panes_of(seen - self.offset))


class NaivePaneJoin(NaiveTimeInterval):
    """Panes in which each small value meets each large one of its sensor, or none."""

    ports = 2

    def emit(self, sensor: str, pane: tuple[int, int], rows: Sequence[Row], times: int, reason: str) -> None:
        """Log a row for each pair, and one for each small value that has none."""
        small, large = ([row.id for row in rows if port_of(row) == port] for port in (0, 1))
        for one in small:
            partners: list[int | None] = [*large] or [None]
            self.log += [(sensor, pane[0], one, other, times, reason) for other in partners]


class NaiveWithin(NaiveEventTime):
    """Each small value meets the large ones of its sensor from `before` seconds before it until `after` after it."""

    ports = 2

    def __init__(self, *, before: int, after: int, discard_age: int) -> None:
        super().__init__()
        self.before, self.after, self.age = before, after, discard_age
        self.held: list[tuple[Row, int]] = []
        self.matched: set[int] = set()

    def on_row(self, row: Row, seen: int) -> None:
        """Log a pair for each row of the other port that matches."""
        if self.watermark is not None and seen < self.watermark - self.age:
            self.rejected.append(("LATE", seen, row.id))
            return
        for other, at in self.held:
            if other.sensor == row.sensor and port_of(other) != port_of(row):
                small, large = ((row, seen), (other, at)) if port_of(other) else ((other, at), (row, seen))
                if small[1] - self.before <= large[1] <= small[1] + self.after:
                    self.log.append((row.sensor, small[0].id, large[0].id, "MATCH"))
                    self.matched |= {row.id, other.id}
        self.held.append((row, seen))

    def on_watermark(self, before: int | None, watermark: int) -> None:
        """Give up the rows whose last possible partner would be late; those without a match are results."""
        for row, seen in list(self.held):
            last = seen + max(0, self.before if port_of(row) else self.after)
            if last + self.age < watermark:
                self.held.remove((row, seen))
                if row.id not in self.matched:
                    pair = (None, row.id) if port_of(row) else (row.id, None)
                    self.log.append((row.sensor, *pair, "NO_MATCH"))


@dataclass
class SessionState:
    """One session.

    Attributes:
        held: its rows, with their event times.
        fired: how often it fired, or the one of those it was made of that fired most often.
        changed: whether it has rows that no firing had.
        complete: whether it has fired, and ends no later since.
        results: the starts by which results of it are in the view.
    """

    held: list[tuple[Row, int]]
    fired: int = 0
    changed: bool = True
    complete: bool = False
    results: set[int] = field(default_factory=set)

    @property
    def first(self) -> int:
        """The time of the first row."""
        return min(seen for _, seen in self.held)

    @property
    def last(self) -> int:
        """The time of the last row."""
        return max(seen for _, seen in self.held)


class NaiveSessions(NaiveEventTime):
    """Rows of a sensor that are at most `gap` seconds apart."""

    def __init__(self, gap: int, *, discard_age: int) -> None:
        super().__init__()
        self.gap, self.age = gap, discard_age
        self.open: dict[str, list[SessionState]] = {}
        self.shown: dict[tuple[str, int], tuple[object, ...]] = {}

    def on_row(self, row: Row, seen: int) -> None:
        """Make one session of a row and all open ones that it is near enough to."""
        others = self.open.setdefault(row.sensor, [])
        near = [one for one in others if one.first - self.gap <= seen <= one.last + self.gap]
        watermark = seen if self.watermark is None else self.watermark
        if not near and seen + self.gap + self.age <= watermark:
            self.rejected.append(("LATE", seen, row.id))
            return
        made = SessionState([(row, seen), *(held for one in near for held in one.held)])
        made.fired = max((one.fired for one in near), default=0)
        made.complete = any(one.complete for one in near) and made.last + self.gap <= watermark
        made.results = {start for one in near for start in one.results}
        self.open[row.sensor] = [*(one for one in others if one not in near), made]

    def on_watermark(self, before: int | None, watermark: int) -> None:
        """Fire the sessions that have ended, and close those past the discard age."""
        for sensor, sessions in self.open.items():
            for one in sorted(sessions, key=lambda session: session.first):
                end = one.last + self.gap
                if end <= watermark and (one.changed or not one.complete):
                    self.emit(sensor, one, "LATE" if before is not None and end <= before else "WATERMARK")
            self.open[sensor] = [one for one in sessions if one.last + self.gap + self.age > watermark]

    def emit(self, sensor: str, session: SessionState, reason: str) -> None:
        """Log the firing of a session, which takes back the results by other starts."""
        ids, start = [row.id for row, _ in session.held], session.first
        replaced = sorted(session.results - {start})
        bounds = (sensor, start, session.last + self.gap)
        self.log.append((*bounds, len(ids), sum(ids), tuple(replaced), session.fired, reason))
        for one in replaced:
            del self.shown[sensor, one]
        self.shown[sensor, start] = (*bounds, len(ids), sum(ids), session.fired, reason)
        session.fired, session.changed, session.complete, session.results = session.fired + 1, False, True, {start}

    def view(self) -> Rows:
        """Return the result of each session."""
        return [*self.shown.values()]


class NaiveByRow(NaiveEventTime):
    """For each row of a sensor, the rows of the `size` seconds until it, both ends included."""

    def __init__(self, size: int, *, discard_age: int) -> None:
        super().__init__()
        self.size, self.age = size, discard_age
        self.held: dict[str, list[tuple[Row, int]]] = {}
        self.fired: dict[tuple[str, int], int] = {}
        self.changed: set[tuple[str, int]] = set()

    def on_row(self, row: Row, seen: int) -> None:
        """Begin the window that ends at a row, and add the row to all open ones that have its time."""
        watermark = seen if self.watermark is None else self.watermark
        if seen + self.size + self.age < watermark:
            self.rejected.append(("LATE", seen, row.id))
            return
        self.held.setdefault(row.sensor, []).append((row, seen))
        if watermark <= seen + self.age:
            self.fired.setdefault((row.sensor, seen), 0)
        self.changed |= {one for one in self.fired if one[0] == row.sensor and seen <= one[1] <= seen + self.size}

    def on_watermark(self, before: int | None, watermark: int) -> None:
        """Fire the changed windows that have ended, and close those past the discard age."""
        for sensor, end in sorted(one for one in self.fired if one[1] < watermark):
            times = self.fired[sensor, end]
            if (sensor, end) in self.changed:
                ids = [row.id for row, seen in self.held[sensor] if end - self.size <= seen <= end]
                reason = "LATE" if before is not None and end < before else "WATERMARK"
                self.log.append((sensor, end - self.size, end, len(ids), sum(ids), times, reason))
                self.fired[sensor, end] = times + 1
                self.changed.discard((sensor, end))
            if end + self.age < watermark:
                del self.fired[sensor, end]

    def view(self) -> Rows:
        """Return the last row of each window."""
        return [*{row[:3]: row for row in self.log}.values()]
