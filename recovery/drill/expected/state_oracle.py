"""As `oracle.py`, for what is not a plain window in arrival order: event time, and operators with state."""

from __future__ import annotations

from dataclasses import dataclass, field

from recovery.drill.expected.arrival_oracle import Naive, Part, Rows, Tables
from recovery.drill.expected.history import Arrived, History, Row

LARGE = 6
"""From this value on a reading comes to the second of two ports."""


class RunningTotal:
    """Lots of readings; told is how many lots of the sensor there were so far, and the sum of all their values.

    With two sizes there are two ports: large values come to the second. Number and sum are those of both, the port is
    told, too, and what a file holds for the first port comes before what it holds for the second.
    """

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.held: dict[tuple[str, int], list[Row]] = {}
        self.so_far: dict[str, tuple[int, int]] = {}
        self.log: Rows = []

    def __call__(self, history: History) -> Tables:
        """Return the table `log`."""
        ports = range(len(self.sizes))
        for rows in [moment.rows for moment in history if isinstance(moment, Arrived)]:
            for port in ports:
                for row in rows:
                    if len(ports) == 1 or port_of(row) == port:
                        self.take(port, row)
        return {"log": self.log}

    def take(self, port: int, row: Row) -> None:
        """The last of a lot tells."""
        lot = self.held.setdefault((row.sensor, port), [])
        lot.append(row)
        if len(lot) == self.sizes[port]:
            lots, total = self.so_far.get(row.sensor, (0, 0))
            self.so_far[row.sensor] = lots + 1, total + sum(one.value for one in lot)
            told = (port,) if len(self.sizes) > 1 else ()
            self.log.append((row.sensor, *self.so_far[row.sensor], *told, "COUNT"))
            lot.clear()


def port_of(row: Row) -> int:
    """Which of two ports a reading comes to."""
    return int(row.value >= LARGE)


class LetGo(Naive):
    """So many readings; a drain lets go of every sensor, whatever it holds."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def on_row(self, part: Part, row: Row) -> None:
        """The last of the window is part of it."""
        part.held.append((row, self.clock))
        if len(part.held) == self.size:
            self.tell("eviction", row.sensor, part)
            part.held = []

    def on_drain(self) -> None:
        """Their contents are told, the empty ones' too, and they begin anew."""
        for sensor, part in self.parts.items():
            self.tell("partition_eviction", sensor, part)
        self.parts = {}

    def tell(self, kind: str, sensor: str, part: Part) -> None:
        """One row of the operator."""
        ids = [row.id for row, _ in part.held]
        self.log.append((sensor, kind, len(ids), sum(ids)))


@dataclass
class Pane:
    """One pane: readings by sensor, how often each was told, and who has news."""

    held: dict[str, list[Row]] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    news: set[str] = field(default_factory=set)


class Interval:
    """Panes of event time: [k * period, that + size); told once the watermark has passed their end, again if late."""

    def __init__(self, size: int, *, period: int, discard_age: int) -> None:
        self.size, self.period, self.age = size, period, discard_age
        self.watermark: int | None = None
        self.panes: dict[int, Pane] = {}
        self.log: Rows = []
        self.refused: Rows = []

    def __call__(self, history: History) -> Tables:
        """Return the tables `log`, `view` and `quarantine`."""
        newest: int | None = None
        for moment in history:
            if not isinstance(moment, Arrived):
                continue
            for row in moment.rows:
                self.take(row)
            seen = [row.seen for row in moment.rows if row.seen is not None]
            newest = max([*seen, *([] if newest is None else [newest])], default=None)
            if newest is not None:
                self.advance(newest)
        view = {row[:2]: row for row in self.log}  # later ones replace earlier ones
        return {"log": self.log, "view": [*view.values()], "quarantine": self.refused}

    def take(self, row: Row) -> None:
        """A reading joins every pane that holds its time and is not closed yet."""
        if row.seen is None:
            self.refused.append(("NULL_EVENT_TIME", None))
            return
        newest = row.seen // self.period * self.period
        starts = range(newest, row.seen - self.size, -self.period)
        open_ = [s for s in starts if self.watermark is None or self.watermark < s + self.size + self.age]
        if not open_:
            self.refused.append(("LATE", row.seen))
        for start in open_:
            pane = self.panes.setdefault(start, Pane())
            pane.held.setdefault(row.sensor, []).append(row)
            pane.news.add(row.sensor)

    def advance(self, watermark: int) -> None:
        """Panes whose end has passed are told, as far as there is news; then those past their age are closed."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        before, self.watermark = self.watermark, watermark
        for start, pane in sorted(self.panes.items()):
            if watermark >= start + self.size and pane.news:
                for sensor in sorted(pane.news):
                    late = before is not None and before >= start + self.size
                    self.tell(start, sensor, pane, "LATE" if late else "WATERMARK")
                pane.news = set()
            if watermark >= start + self.size + self.age:
                del self.panes[start]

    def tell(self, start: int, sensor: str, pane: Pane, reason: str) -> None:
        """One row: the whole pane of a sensor."""
        ids = [row.id for row in pane.held[sensor]]
        times = pane.told.get(sensor, 0)
        pane.told[sensor] = times + 1
        self.log.append((sensor, start, len(ids), sum(ids), times, reason))
