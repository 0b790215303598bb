"""Eviction policies of sliding windows: where the content of a partition begins after each of its rows.

One class a policy, one question each way: the beginning just before a new row is dealt with, just after it, and at an
instant with so many rows in. Content is `[start, end)` of the partition's rows; only delta eviction of values that are
not sorted leaves holes, and says so [semantics 0.2].
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise, takewhile
from typing import Protocol

import numpy as np

from framework.core.sequence.moments import Moments, Phase, at_instants, at_rows
from framework.core.sequence.stretch import Stretch, count_before
from framework.events import EventType

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

    def moments(self) -> list[Moments]:
        """The evictions, and the initial fulls that hang on them."""
        ...

    def final(self) -> np.ndarray:
        """Beginning at the end of the round, by code."""
        ...


class CountStarts:
    """Keep the newest n: one goes just before a row is inserted into a full window."""

    def __init__(self, size: int, stretch: Stretch, full: np.ndarray) -> None:
        self._size = size
        self._stretch = stretch
        self._full = full
        self.before = np.maximum(stretch.number - size, 0)
        self.after = np.maximum(stretch.number + 1 - size, 0)

    def at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The last n of the rows that are in."""
        begin: np.ndarray = np.maximum(ends - self._size, 0)
        return begin

    def holes(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        """Never any."""
        return {}

    def moments(self) -> list[Moments]:
        """One row evicted before each insertion into a full window; full once when n are in."""
        code, number, at = self._stretch.rows
        over = self.after > self.before
        filled = (number + 1 == self._size) & ~self._full[code]
        self._full[code[filled]] = True
        some = (code[filled], number[filled], at[filled])
        return [
            _evicted((code[over], number[over], at[over]), self.before[over], self.after[over]),
            at_rows(EventType.INITIAL_FULL, Phase.FULL, some, self.after[filled], number[filled] + 1),
        ]

    def final(self) -> np.ndarray:
        """The last n."""
        begin: np.ndarray = np.maximum(self._stretch.sizes - self._size, 0)
        return begin


class TimeStarts:
    """Keep what is not older than T: rows go by the clock, whether or not others come."""

    def __init__(self, size: int, stretch: Stretch, codes: np.ndarray, at: np.ndarray) -> None:
        self._stretch = stretch
        self._codes = codes
        self._due = at + size + TICK
        self.before = self.after = self._gone(stretch.code, stretch.at)

    def at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """What is due goes before anything else at its instant."""
        return self._gone(codes, instants)

    def holes(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        """Never any."""
        return {}

    def moments(self) -> list[Moments]:
        """Rows that arrived together leave together; after an outage all that are overdue leave at once."""
        late = np.flatnonzero(self._due <= self._stretch.until[self._codes])
        codes = self._codes[late]
        numbers = late - np.searchsorted(self._codes, codes)
        instants = self._stretch.until[codes] if self._stretch.once else self._due[late]
        opens = np.ones(len(late), dtype=bool)
        opens[1:] = (codes[1:] != codes[:-1]) | (instants[1:] != instants[:-1])
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(late)) - 1
        return [
            at_instants(
                EventType.EVICTION,
                (codes[first], instants[first]),
                numbers[first],
                numbers[last] + 1 if len(late) else numbers[first],
                phase=Phase.EVICTION,
            )
        ]

    def final(self) -> np.ndarray:
        """What is still young enough at the end of the round."""
        return self._gone(np.arange(len(self._stretch.held)), self._stretch.until)

    def _gone(self, codes: np.ndarray, instants: np.ndarray) -> np.ndarray:
        return count_before(self._codes, self._due, codes, instants, inclusive=True)


class DeltaStarts:
    """Keep what differs by no more than d from the newest: every older row that differs by more goes."""

    def __init__(
        self, size: float, stretch: Stretch, offsets: np.ndarray, values: np.ndarray, full: np.ndarray
    ) -> None:
        self._stretch = stretch
        self._full = full
        self.before = np.zeros(len(stretch.code), dtype=np.int64)
        self.after = np.zeros(len(stretch.code), dtype=np.int64)
        self._first = stretch.first_of_code
        self._live: dict[int, dict[int, list[int]]] = {}  # code -> rows in -> explicit content, where it has holes
        self._evicted: list[tuple[int, list[int]]] = []
        self._filled: list[tuple[int, list[int]]] = []
        for code in np.unique(stretch.code).tolist():
            own = values[offsets[code] : offsets[code + 1]].tolist()
            self._walk(code, int(stretch.held[code]), own, size)

    def _walk(self, code: int, held: int, values: list[float], size: float) -> None:
        """Go through the new rows of one partition, from the content it had.

        While values do not fall, only the oldest can be too far away and `live` is never looked through.
        """
        live, row = deque(range(held)), int(self._first[code])
        rising = all(a <= b for a, b in pairwise(values[:held]))
        for number in range(held, len(values)):
            newest = values[number]
            self.before[row] = live[0] if live else number
            rising = rising and (not live or newest >= values[live[-1]])
            older = takewhile(lambda n, newest=newest: newest - values[n] > size, live) if rising else live  # type: ignore[misc]
            gone = [n for n in older if newest - values[n] > size]
            if gone:
                self._note(row, code, gone, live)
                dropped = set(gone)
                live = deque(n for n in live if n not in dropped)
            live.append(number)
            self.after[row] = live[0]
            if live[-1] - live[0] + 1 != len(live):
                self._live.setdefault(code, {})[number + 1] = list(live)
            row += 1

    def _note(self, row: int, code: int, gone: list[int], live: deque[int]) -> None:
        """Remember an eviction, and the content before it if it is the first of the partition's life."""
        self._evicted.append((row, gone))
        if not self._full[code]:
            self._full[code] = True
            self._filled.append((row, list(live)))

    def at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The beginning after the last row that is in."""
        new = ends - self._stretch.held[codes]
        rows = self._first[codes] + new - 1
        return np.where(new > 0, self.after[np.maximum(rows, 0)] if len(self.after) else 0, 0)

    def holes(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        """The rows left, where those between were evicted."""
        found = {}
        for index, (code, end) in enumerate(zip(codes.tolist(), ends.tolist(), strict=True)):
            live = self._live.get(code, {}).get(end)
            if live is not None:
                found[index] = np.array(live, dtype=np.int64)
        return found

    def moments(self) -> list[Moments]:
        """Evictions before each insertion; full just before the first one of a partition's life."""
        return [
            self._explicit(EventType.EVICTION, Phase.EVICTION, self._evicted),
            self._explicit(EventType.INITIAL_FULL, Phase.FULL_BEFORE, self._filled),
        ]

    def _explicit(self, kind: EventType, phase: Phase, noted: list[tuple[int, list[int]]]) -> Moments:
        rows = np.array([row for row, _ in noted], dtype=np.int64)
        code, number, at = self._stretch.rows
        zeros = np.zeros(len(rows), dtype=np.int64)
        content = {n: np.array(numbers, dtype=np.int64) for n, (_, numbers) in enumerate(noted)}
        return at_rows(kind, phase, (code[rows], number[rows], at[rows]), zeros, zeros, content=content)

    def final(self) -> np.ndarray:
        """The beginning after the last row."""
        every = np.arange(len(self._stretch.held))
        return self.at(every, self._stretch.until, self._stretch.sizes)


def _evicted(rows: tuple[np.ndarray, np.ndarray, np.ndarray], low: np.ndarray, high: np.ndarray) -> Moments:
    return at_rows(EventType.EVICTION, Phase.EVICTION, rows, low, high)
