"""Naive windows by row: all windows are found anew from all rows, at every watermark."""

from __future__ import annotations

from dataclasses import dataclass, field

Firing = tuple[object, int, int, tuple[object, ...], int, bool, str]
"""Key, first and last instant, values, how often it fired before, whether it closes, why."""


@dataclass
class NaiveByRow:
    """Rows and watermarks in, firings out; times in microseconds."""

    difference: int
    age: int
    right: bool
    watermark: int | None = None
    flushed: bool = False
    rows: list[tuple[object, int, object]] = field(default_factory=list)
    fired: dict[tuple[object, int], list[tuple[object, ...]]] = field(default_factory=dict)
    late: int = 0

    def is_late(self, time: int) -> bool:
        """Whether every window that could have a row at this time is closed."""
        return self.flushed or (self.watermark is not None and time + self.difference + 1 + self.age <= self.watermark)

    def row(self, key: object, time: int, value: object) -> None:
        """Take a row."""
        if self.is_late(time):
            self.late += 1
        else:
            self.rows.append((key, time, value))

    def contents(self) -> dict[tuple[object, int], tuple[object, ...]]:
        """Return the values of each window that there is, by key and last instant, by time and then arrival."""
        lasts = {(key, time) for key, time, _ in self.rows}
        if self.right:
            lasts |= {(key, time + 1 + self.difference) for key, time in lasts}
        found = {}
        for key, last in lasts:
            inside = sorted(
                (t, n) for n, (k, t, _) in enumerate(self.rows) if k == key and 0 <= last - t <= self.difference
            )
            if inside:
                found[key, last] = tuple(self.rows[n][2] for _, n in inside)
        return found

    def advance(self, watermark: int) -> list[Firing]:
        """Return what fires at a watermark."""
        if self.flushed or (self.watermark is not None and watermark <= self.watermark):
            return []
        before, self.watermark = self.watermark, watermark
        firings = []
        for (key, last), values in self.contents().items():
            complete = last + 1 <= watermark
            was_closed = before is not None and last + 1 + self.age <= before
            known = self.fired.setdefault((key, last), [])
            if complete and not was_closed and (not known or known[-1] != values):
                why = "LATE" if before is not None and last + 1 <= before else "WATERMARK"
                closes = last + 1 + self.age <= watermark
                firings.append((key, last - self.difference, last, values, len(known), closes, why))
                known.append(values)
        return firings

    def flush(self) -> list[Firing]:
        """Return what fires at the end."""
        if self.flushed:
            return []
        firings = []
        for (key, last), values in self.contents().items():
            known = self.fired.get((key, last), [])
            was_closed = self.watermark is not None and last + 1 + self.age <= self.watermark
            if not was_closed and (not known or known[-1] != values):
                firings.append((key, last - self.difference, last, values, len(known), True, "FLUSH"))
        self.flushed = True
        return firings
