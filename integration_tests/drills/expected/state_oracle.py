"""Oracles for time intervals, operators with state, and two ports; as those of `arrival_oracle.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from integration_tests.drills.expected.arrival_oracle import NaiveWindow, PartitionState, Rows, Tables
from integration_tests.drills.expected.history import FileArrived, History, OperatorChanged, Row

LARGE = 6
"""A row with this value or a greater one goes to the second of two ports."""


class RunningTotal:
    """Tumbles after `sizes` rows; emits how many windows of the sensor there were so far and the sum of their values.

    With two sizes there are two ports, and large values go to the second. Number and sum count both ports, a log row
    has the port, and the rows of a file for the first port are processed before those for the second. Other code of the
    operator emits the negative of each sum.
    """

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.held: dict[tuple[str, int], list[Row]] = {}
        self.so_far: dict[str, tuple[int, int]] = {}
        self.sign = 1
        self.log: Rows = []

    def __call__(self, history: History) -> Tables:
        """Return the table `log`."""
        for event in history:
            if isinstance(event, OperatorChanged):
                self.sign = -self.sign
            elif isinstance(event, FileArrived):
                self.process_file(event.rows)
        return {"log": self.log}

    def process_file(self, rows: Sequence[Row]) -> None:
        """Add the rows for the first port, then those for the second."""
        ports = range(len(self.sizes))
        for port in ports:
            for row in rows:
                if len(ports) == 1 or port_of(row) == port:
                    self.process(port, row)

    def process(self, port: int, row: Row) -> None:
        """Add a row to the window of a port; tumble when it is full."""
        window = self.held.setdefault((row.sensor, port), [])
        window.append(row)
        if len(window) == self.sizes[port]:
            windows, total = self.so_far.get(row.sensor, (0, 0))
            self.so_far[row.sensor] = windows + 1, total + sum(one.value for one in window)
            port_column = (port,) if len(self.sizes) > 1 else ()
            windows, total = self.so_far[row.sensor]
            self.log.append((row.sensor, windows, self.sign * total, *port_column, "COUNT"))
            window.clear()


def port_of(row: Row) -> int:
    """Return the port of a row, 0 or 1."""
    return int(row.value >= LARGE)


class EvictOnDrain(NaiveWindow):
    """Tumbles after `size` rows; a drain evicts every partition."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def on_row(self, part: PartitionState, row: Row) -> None:
        """Tumble when the window is full; the last row is part of it."""
        part.held.append((row, self.clock))
        if len(part.held) == self.size:
            self.emit("eviction", row.sensor, part)
            part.held = []

    def on_drain(self) -> None:
        """Emit the content of every partition, empty ones too, and evict it."""
        for sensor, part in self.parts.items():
            self.emit("partition_eviction", sensor, part)
        self.parts = {}

    def emit(self, kind: str, sensor: str, part: PartitionState) -> None:
        """Log one row of the operator."""
        ids = [row.id for row, _ in part.held]
        self.log.append((sensor, kind, len(ids), sum(ids)))


@dataclass
class PaneState:
    """One pane.

    Attributes:
        held: rows by sensor.
        firings: by sensor, how often the pane fired.
        changed: sensors with rows since the last firing.
    """

    held: dict[str, list[Row]] = field(default_factory=dict)
    firings: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)


class NaiveTimeInterval:
    """Panes [k * period, k * period + size) that fire when the watermark passes their end, and again for late rows."""

    def __init__(self, size: int, *, period: int, discard_age: int) -> None:
        self.size, self.period, self.age = size, period, discard_age
        self.watermark: int | None = None
        self.panes: dict[int, PaneState] = {}
        self.log: Rows = []
        self.rejected: Rows = []

    def __call__(self, history: History) -> Tables:
        """Return the expected rows of the tables `log`, `view` and `quarantine`."""
        newest: int | None = None
        for event in history:
            if not isinstance(event, FileArrived):
                continue
            for row in event.rows:
                self.process(row)
            seen = [row.seen for row in event.rows if row.seen is not None]
            newest = max([*seen, *([] if newest is None else [newest])], default=None)
            if newest is not None:
                self.advance(newest)
        view = {row[:2]: row for row in self.log}  # a later row replaces an earlier one
        return {"log": self.log, "view": [*view.values()], "quarantine": self.rejected}

    def process(self, row: Row) -> None:
        """Add a row to every pane that contains its event time and is not closed."""
        if row.seen is None:
            self.rejected.append(("NULL_EVENT_TIME", None, row.id))
            return
        newest = row.seen // self.period * self.period
        starts = range(newest, row.seen - self.size, -self.period)
        open_ = [s for s in starts if self.watermark is None or self.watermark < s + self.size + self.age]
        if not open_:
            self.rejected.append(("LATE", row.seen, row.id))
        for start in open_:
            pane = self.panes.setdefault(start, PaneState())
            pane.held.setdefault(row.sensor, []).append(row)
            pane.changed.add(row.sensor)

    def advance(self, watermark: int) -> None:
        """Fire the changed panes whose end the watermark has passed, then close those past the discard age."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        before, self.watermark = self.watermark, watermark
        for start, pane in sorted(self.panes.items()):
            if watermark >= start + self.size and pane.changed:
                for sensor in sorted(pane.changed):
                    late = before is not None and before >= start + self.size
                    self.emit(start, sensor, pane, "LATE" if late else "WATERMARK")
                pane.changed = set()
            if watermark >= start + self.size + self.age:
                del self.panes[start]

    def emit(self, start: int, sensor: str, pane: PaneState, reason: str) -> None:
        """Log one row: the content of the pane for a sensor."""
        ids = [row.id for row in pane.held[sensor]]
        times = pane.firings.get(sensor, 0)
        pane.firings[sensor] = times + 1
        self.log.append((sensor, start, len(ids), sum(ids), times, reason))
