"""Oracles for operators with state, of one port or two; as those of `arrival_oracle.py`."""

from __future__ import annotations

from collections.abc import Sequence

from integration_tests.drills.expected.arrival_oracle import NaiveWindow, PartitionState, Rows, Tables
from integration_tests.drills.expected.event_time_oracle import port_of
from integration_tests.drills.expected.history import FileArrived, History, OperatorChanged, Row


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
