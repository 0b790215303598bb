"""Panes and their firings, written as one would say it: row by row, pane by pane, with every row kept.

It has the rules of docs/semantics.md sections 6.2 to 6.7, and nothing of the core's: no slices, no counts that are
carried on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any


@dataclass
class Cell:
    """What one partition has in one pane."""

    rows: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    fired: int = 0
    complete: bool = False
    last: tuple[Any, ...] | None = None
    first_at: int | None = None
    due_at: int | None = None


@dataclass
class NaivePanes:
    """The log of a window, as (key, start in seconds, count, sum, refinement, final, reason, perhaps op).

    `window` has the options of a time interval by their names, durations in seconds; an `Every` is a pair such as
    ("rows", 2), ("clock", 10) or ("event_time", 10).
    """

    window: dict[str, Any]
    watermark: int | None = None
    cells: dict[int, dict[str, Cell]] = field(default_factory=dict)
    log: list[tuple[Any, ...]] = field(default_factory=list)
    flushed: bool = False
    clock: int = 0

    def play(self, items: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the log of ("row", key, seconds, value), ("watermark", seconds), ("clock", seconds), ("end",), ...

        ("end",) is the end of a micro-batch.
        """
        acts: dict[str, Callable[..., None]]
        acts = {"row": self.row, "watermark": self.advance, "flush": self.flush, "end": self.end, "clock": self.tick}
        for kind, *values in items:
            acts[kind](*values)
        return self.log

    def row(self, key: str, time: int, value: int) -> None:
        """A row joins every open pane that has its time."""
        if self.flushed:
            return
        self.fire_due([key])
        since = time - self.window["interval_offset"]
        newest = since // self.window["creation_period"]
        oldest = (since - self.window["interval_duration"]) // self.window["creation_period"] + 1
        for pane in range(oldest, newest + 1):
            if self.watermark is None or self.closing(pane) > self.watermark:
                cell = self.cells.setdefault(pane, {}).setdefault(key, Cell())
                cell.rows.append(value)
                cell.new.append(value)
                self.fire_or_wait(pane, key, cell)

    def fire_or_wait(self, pane: int, key: str, cell: Cell) -> None:
        """A row has joined: its number may be one at which the pane fires, or the clock begins to count."""
        is_complete = self.is_over(pane)
        if self.window.get("fires_when") and sum(cell.rows) >= self.window["fires_when"]:
            self.fire_by_rule(pane, key)
            return
        every = self.window.get("refire" if is_complete else "early")
        if every is None or (is_complete and not cell.complete):
            return
        by, size = every
        if by == "rows" and len(cell.new) == size:
            self.fire_by_rule(pane, key)
        if by == "clock":
            cell.first_at = self.clock if cell.first_at is None else cell.first_at
            cell.due_at = cell.due_at or next(at for at in count(cell.first_at + size, size) if at > self.clock)

    def tick(self, seconds: int) -> None:
        """The wall clock goes on."""
        self.clock = max(self.clock, seconds)
        self.fire_due("abc")

    def fire_due(self, keys: Iterable[str]) -> None:
        """Fire what the clock makes fire of some partitions."""
        for pane, cells in sorted(self.cells.items()):
            for key in keys:
                due = cells[key].due_at if key in cells else None
                if due is not None and due <= self.clock:
                    self.fire_by_rule(pane, key)

    def fire_by_rule(self, pane: int, key: str) -> None:
        """Fire between watermarks: early, or late if the pane is complete."""
        is_complete = self.is_over(pane)
        self.fire(pane, key, "LATE" if is_complete else "EARLY", complete=is_complete)

    def advance(self, watermark: int) -> None:
        """The watermark advances: panes complete, fire again and close."""
        if self.flushed or (self.watermark is not None and watermark <= self.watermark):
            return
        before, self.watermark = self.watermark, watermark
        for pane in sorted(self.cells):
            closes = watermark >= self.closing(pane)
            ready = self.closing(pane) if self.window["emit"] == "on_close" else self.end_of(pane)
            if watermark >= ready:
                reason = "WATERMARK" if before is None or before < ready else "LATE"
                self.fire_as_complete(pane, reason, closes=closes)
            elif self.window.get("early", ("",))[0] == "event_time":
                period = self.window["early"][1]
                if before is not None and watermark // period > before // period:
                    for key in sorted(key for key, cell in self.cells[pane].items() if cell.new):
                        self.fire(pane, key, "EARLY", complete=False)
            if closes:
                del self.cells[pane]

    def flush(self) -> None:
        """Whatever has not fired fires, and all panes close."""
        for pane in sorted(self.cells):
            self.fire_as_complete(pane, "FLUSH", closes=True)
        self.cells, self.flushed = {}, True

    def end(self) -> None:
        """The end of a micro-batch, at which panes fire that emit on update."""
        for pane in sorted(self.cells) if self.window["emit"] == "on_update" else ():
            for key in sorted(self.cells[pane]):
                if self.cells[pane][key].new:
                    self.fire_by_rule(pane, key)

    def fire_as_complete(self, pane: int, reason: str, *, closes: bool) -> None:
        """Fire a pane that completes, for all its partitions; or one that is complete, for those with new rows."""
        for key, cell in sorted(self.cells[pane].items()):
            waits = cell.complete and "refire" in self.window and not closes
            begins = not cell.complete and (cell.new or "then" not in self.window)
            if begins or (cell.new and not waits):
                self.fire(pane, key, reason, complete=True, closes=closes)

    def is_over(self, pane: int) -> bool:
        """Whether the watermark has reached the end of a pane."""
        return self.watermark is not None and self.watermark >= self.end_of(pane)

    def fire(self, pane: int, key: str, reason: str, *, complete: bool, closes: bool = False) -> None:
        """Add a row to the log."""
        cell = self.cells[pane][key]
        start = self.end_of(pane) - self.window["interval_duration"]
        results = self.window.get("results")
        rows = cell.new if results == "discarding" else cell.rows
        values = len(rows), sum(rows) if rows else None
        if results == "retracting" and cell.last is not None:
            self.log.append((key, start, *cell.last, cell.fired - 1, False, reason, -1))
        self.log.append((key, start, *values, cell.fired, closes, reason, *([1] if results == "retracting" else [])))
        cell.last = values
        if "then" in self.window:
            cell.rows = []
        cell.fired, cell.new, cell.complete = cell.fired + 1, [], cell.complete or complete
        cell.due_at = None

    def end_of(self, pane: int) -> int:
        """The end of a pane, in seconds."""
        start: int = pane * self.window["creation_period"] + self.window["interval_offset"]
        return start + int(self.window["interval_duration"])

    def closing(self, pane: int) -> int:
        """The watermark that closes a pane."""
        return self.end_of(pane) + int(self.window["discard_age"])
