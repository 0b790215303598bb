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
    emit: str = "on_complete"
    watermark: int | None = None
    flushed: bool = False
    rows: list[tuple[object, int, object]] = field(default_factory=list)
    fired: dict[tuple[object, int], list[tuple[object, ...]]] = field(default_factory=dict)
    completed: set[tuple[object, int]] = field(default_factory=set)
    """Windows that have fired as complete."""
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
            closes = self.is_closed(last, watermark)
            is_ready = closes if self.emit == "on_close" else last + 1 <= watermark
            if is_ready and not self.is_closed(last, before) and self.has_news(key, last, values):
                is_late = before is not None and last + 1 <= before and self.emit != "on_close"
                firings.append(self.fire(key, last, values, "LATE" if is_late else "WATERMARK", closes=closes))
        return firings

    def batch_end(self) -> list[Firing]:
        """Return what fires at the end of a micro-batch."""
        firings = []
        for (key, last), values in self.contents().items() if self.emit == "on_update" and not self.flushed else ():
            known = self.fired.get((key, last), [])
            if not self.is_closed(last, self.watermark) and (not known or known[-1] != values):
                is_late = self.watermark is not None and last + 1 <= self.watermark
                why = "LATE" if is_late else "EARLY"
                firings.append(self.fire(key, last, values, why, closes=False, completes=is_late))
        return firings

    def flush(self) -> list[Firing]:
        """Return what fires at the end."""
        if self.flushed:
            return []
        firings = []
        for (key, last), values in self.contents().items():
            if not self.is_closed(last, self.watermark) and self.has_news(key, last, values):
                firings.append(self.fire(key, last, values, "FLUSH", closes=True))
        self.flushed = True
        return firings

    def is_closed(self, last: int, watermark: int | None) -> bool:
        """Whether the window that ends there is closed at a watermark."""
        return watermark is not None and last + 1 + self.age <= watermark

    def has_news(self, key: object, last: int, values: tuple[object, ...]) -> bool:
        """Whether a window has not fired as complete, or has other rows than it last fired."""
        return (key, last) not in self.completed or self.fired[key, last][-1] != values

    def fire(
        self, key: object, last: int, values: tuple[object, ...], why: str, *, closes: bool, completes: bool = True
    ) -> Firing:
        """Return a firing, and take note of it."""
        known = self.fired.setdefault((key, last), [])
        known.append(values)
        self.completed |= {(key, last)} if completes else set()
        return key, last - self.difference, last, values, len(known) - 1, closes, why
