"""Eviction policies of sliding windows: where the content of a partition begins after each of its rows.

One class a policy, one question each way: the beginning just before a new row is dealt with, just after it, and at an
instant with so many rows in. Content is `[start, end)` of the partition's rows; only delta eviction of values that are
not sorted leaves holes, and says so [semantics 0.2].
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np

from framework.core.arrival.event_table import EventTable, Phase, row_events, timer_events
from framework.core.arrival.round import RoundRows, count_before
from framework.declarations.events import EventType

TICK = 1000
"""A tuple is evicted when it is strictly older than T: a millisecond after [semantics 1]."""


class Starts(Protocol):
    """The beginning of the content, for every new row of a round."""

    before: np.ndarray
    """Beginning just before each new row: what a delta trigger shows."""
    after: np.ndarray
    """Beginning once each new row is in: what a count trigger shows."""

    def at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Beginning at an instant, with `ends` rows of the partition in."""
        ...

    def holes(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        """Explicit content, by index, of those (partition, so many rows in) whose range has holes."""
        ...

    def events(self) -> list[EventTable]:
        """The evictions, and the initial fulls that hang on them."""
        ...

    def final(self) -> np.ndarray:
        """Beginning at the end of the round, by code."""
        ...


class CountStarts:
    """Keep the newest n: one goes just before a row is inserted into a full window."""

    def __init__(self, size: int, round_rows: RoundRows, full: np.ndarray) -> None:
        self._size = size
        self._stretch = round_rows
        self._full = full
        self.before = np.maximum(round_rows.position - size, 0)
        self.after = np.maximum(round_rows.position + 1 - size, 0)

    def at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The last n of the rows that are in."""
        begin: np.ndarray = np.maximum(ends - self._size, 0)
        return begin

    def holes(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        """Never any."""
        return {}

    def events(self) -> list[EventTable]:
        """One row evicted before each insertion into a full window; full once when n are in."""
        code, position, at = self._stretch.rows
        over = self.after > self.before
        filled = (position + 1 == self._size) & ~self._full[code]
        self._full[code[filled]] = True
        some = (code[filled], position[filled], at[filled])
        return [
            _evicted((code[over], position[over], at[over]), self.before[over], self.after[over]),
            row_events(EventType.INITIAL_FULL, Phase.FULL, some, self.after[filled], position[filled] + 1),
        ]

    def final(self) -> np.ndarray:
        """The last n."""
        begin: np.ndarray = np.maximum(self._stretch.sizes - self._size, 0)
        return begin


class TimeStarts:
    """Keep what is not older than T: rows go by the clock, whether or not others come."""

    def __init__(self, size: int, round_rows: RoundRows, codes: np.ndarray, at: np.ndarray) -> None:
        self._stretch = round_rows
        self._codes = codes
        self._due = at + size + TICK
        self.before = self.after = self._gone(round_rows.code, round_rows.at)

    def at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """What is due goes before anything else at its instant."""
        return self._gone(codes, instants)

    def holes(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        """Never any."""
        return {}

    def events(self) -> list[EventTable]:
        """Rows that arrived together leave together; after an outage all that are overdue leave at once."""
        late = np.flatnonzero(self._due <= self._stretch.end_at[self._codes])
        codes = self._codes[late]
        numbers = late - np.searchsorted(self._codes, codes)
        instants = self._stretch.end_at[codes] if self._stretch.after_outage else self._due[late]
        opens = np.ones(len(late), dtype=bool)
        opens[1:] = (codes[1:] != codes[:-1]) | (instants[1:] != instants[:-1])
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(late)) - 1
        return [
            timer_events(
                EventType.EVICTION,
                (codes[first], instants[first]),
                numbers[first],
                numbers[last] + 1 if len(late) else numbers[first],
                phase=Phase.EVICTION,
            )
        ]

    def final(self) -> np.ndarray:
        """What is still young enough at the end of the round."""
        return self._gone(np.arange(len(self._stretch.old_counts)), self._stretch.end_at)

    def _gone(self, codes: np.ndarray, instants: np.ndarray) -> np.ndarray:
        return count_before(self._codes, self._due, codes, instants, inclusive=True)


class DeltaStarts:
    """Keep what differs by no more than d from the newest: every older row that differs by more goes.

    While values do not fall, that is a stretch at the beginning and one cursor tells it. Once they do, all that is
    left must be looked through, and what goes or stays is listed row by row [semantics 0.2].
    """

    def __init__(
        self, size: float, round_rows: RoundRows, offsets: np.ndarray, values: np.ndarray, full: np.ndarray
    ) -> None:
        self._stretch = round_rows
        self._full = full
        self._size = size
        self.before = np.zeros(len(round_rows.code), dtype=np.int64)
        self.after = np.zeros(len(round_rows.code), dtype=np.int64)
        self._first = round_rows.first_of_code
        self._left: dict[tuple[int, int], list[int]] = {}  # (code, rows in) -> what is left, where it has holes
        self._gone: dict[int, list[int]] = {}  # new row -> what it evicts, where listed
        self._shown: dict[int, list[int]] = {}  # new row -> the content before it, where listed
        for code in np.unique(round_rows.code).tolist():
            own = values[offsets[code] : offsets[code + 1]].tolist()
            self._walk(code, int(round_rows.old_counts[code]), own)

    def _walk(self, code: int, held: int, values: list[float]) -> None:
        """Go through the new rows of one partition while values rise, then through the rest."""
        start, begins, size = 0, [0], self._size
        reached = held
        if all(a <= b for a, b in pairwise(values[:held])):
            last = values[held - 1] if held else values[0]
            for newest in values[held:]:
                if newest < last:
                    break
                while newest - values[start] > size:
                    start += 1
                begins.append(start)
                last = newest
                reached += 1
        row = int(self._first[code])
        new = reached - held
        self.before[row : row + new] = begins[:-1]
        self.after[row : row + new] = begins[1:]
        if reached < len(values):
            self._search(code, list(range(start, reached)), values, row + new)

    def _search(self, code: int, live: list[int], values: list[float], row: int) -> None:
        """Go on from the first value that fell, looking through everything that is left."""
        for position in range(len(values) - (int(self._first[code + 1]) - row), len(values)):
            newest = values[position]
            self.before[row] = live[0] if live else position
            gone = [n for n in live if newest - values[n] > self._size]
            if gone:
                self._gone[row], self._shown[row] = gone, live
                dropped = set(gone)
                live = [n for n in live if n not in dropped]
            live = [*live, position]
            self.after[row] = live[0]
            if position + 1 - live[0] != len(live):
                self._left[code, position + 1] = live
            row += 1

    def at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The beginning after the last row that is in."""
        new = ends - self._stretch.old_counts[codes]
        rows = self._first[codes] + new - 1
        return np.where(new > 0, self.after[np.maximum(rows, 0)] if len(self.after) else 0, 0)

    def holes(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        """The rows left, where those between were evicted."""
        if not self._left:
            return {}
        found = {}
        for index, pair in enumerate(zip(codes.tolist(), ends.tolist(), strict=True)):
            if pair in self._left:
                found[index] = np.array(self._left[pair], dtype=np.int64)
        return found

    def events(self) -> list[EventTable]:
        """Evictions before each insertion; full just before the first one of a partition's life."""
        listed = np.zeros(len(self.after), dtype=bool)
        listed[list(self._gone)] = True
        rows = np.flatnonzero((self.after > self.before) | listed)
        code = self._stretch.code[rows]
        _, first = np.unique(code, return_index=True)
        filled = rows[first[~self._full[code[first]]]]
        self._full[code] = True
        position = self._stretch.position[filled]
        return [
            self._events(EventType.EVICTION, Phase.EVICTION, rows, self.after[rows], self._gone),
            self._events(EventType.INITIAL_FULL, Phase.FULL_BEFORE, filled, position, self._shown),
        ]

    def _events(
        self, kind: EventType, phase: Phase, rows: np.ndarray, high: np.ndarray, listed: dict[int, list[int]]
    ) -> EventTable:
        code, position, at = self._stretch.rows
        content = {}
        if listed:
            content = {n: np.array(listed[row]) for n, row in enumerate(rows.tolist()) if row in listed}
        return row_events(kind, phase, (code[rows], position[rows], at[rows]), self.before[rows], high, content=content)

    def final(self) -> np.ndarray:
        """The beginning after the last row."""
        every = np.arange(len(self._stretch.old_counts))
        return self.at(every, self._stretch.end_at, self._stretch.sizes)


def _evicted(rows: tuple[np.ndarray, np.ndarray, np.ndarray], low: np.ndarray, high: np.ndarray) -> EventTable:
    return row_events(EventType.EVICTION, Phase.EVICTION, rows, low, high)
