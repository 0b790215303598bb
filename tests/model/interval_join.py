"""A naive interval join: every pair of rows is looked at, row by row, in the order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Row = tuple[int, int, tuple[object, ...], object]
"""Port, time, values that must be equal, and whatever tells the row from others."""
Result = tuple[object, object, str]
"""What tells the row of port 0 and that of port 1, None for one that is not there; and the reason."""


@dataclass
class NaiveIntervalJoin:
    """Rows and watermarks in, results out; all times in one unit."""

    before: int
    after: int
    discard_age: int
    how: str
    watermark: int | None = None
    flushed: bool = False
    rows: list[Row] = field(default_factory=list)
    matched: set[object] = field(default_factory=set)
    given_up: set[object] = field(default_factory=set)
    late: list[object] = field(default_factory=list)

    def on_row(self, row: Row) -> list[Result]:
        """Return the pairs that a row makes with those before it."""
        port, time, equal, name = row
        if self.flushed or (self.watermark is not None and time < self.watermark - self.discard_age):
            self.late.append(name)
            return []
        found: list[Result] = []
        for other_port, other_time, other_equal, other in self.rows:
            if other_port == port or equal != other_equal or None in equal:
                continue
            distance = other_time - time if port == 0 else time - other_time
            if -self.before <= distance <= self.after:
                found.append((name, other, "MATCH") if port == 0 else (other, name, "MATCH"))
                self.matched |= {name, other}
        self.rows.append(row)
        return found

    def on_watermark(self, watermark: int) -> list[Result]:
        """Return the rows whose last possible partner would be late from now on."""
        if self.flushed or (self.watermark is not None and watermark <= self.watermark):
            return []
        self.watermark = watermark
        return self._give_up(
            [row for row in self.rows if row[1] + max(self._forward(row), 0) < watermark - self.discard_age], "NO_MATCH"
        )

    def on_flush(self) -> list[Result]:
        """Return all rows without a match."""
        self.flushed = True
        return self._give_up(self.rows, "FLUSH")

    def _forward(self, row: Row) -> int:
        return self.before if row[0] else self.after

    def _give_up(self, rows: Sequence[Row], reason: str) -> list[Result]:
        alone = {"left": (0,), "right": (1,), "full": (0, 1), "inner": ()}[self.how]
        new = [row for row in rows if row[3] not in self.given_up | self.matched]
        self.given_up |= {row[3] for row in rows}
        return [(row[3], None, reason) if row[0] == 0 else (None, row[3], reason) for row in new if row[0] in alone]
