# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""`Time`: wall-clock time, or declared arrival time (docs/semantics.md sections 2.4 and 3.5)."""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase, timer_events
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import (
    AllRows,
    NewValues,
    RoundEviction,
    RunningPolicy,
    Tumbles,
    fired_at,
    make_tumbles,
)
from panekeeper.framework.core.arrival.round import (
    RoundRows,
    count_before,
    count_from_firings,
    count_new_rows,
    due_timers,
)
from panekeeper.framework.core.stable_order import changes
from panekeeper.framework.declarations.events import EventType
from panekeeper.framework.declarations.policies import Time

_MILLISECOND_US = 1000
"""A row is evicted when it is strictly older than T: one millisecond after (docs/semantics.md section 3.5)."""


class TimePolicy(RunningPolicy):
    """Tumble at a fixed rate; keep the rows that are not older than T; fire at a fixed rate."""

    starts_full = True

    def __init__(self, declared: Time) -> None:
        self._size_us = declared.us
        self.period_us = declared.us

    def tumbles(self, round_rows: RoundRows, values: NewValues, partitions: Partitions) -> Tumbles:
        """Tumble at a fixed rate, also when no row arrived."""
        codes, instants = due_timers(partitions, self._size_us, round_rows, inclusive=True)
        high = round_rows.old_counts[codes] + round_rows.count_new_before(codes, instants)
        return make_tumbles(
            codes,
            high,
            instants,
            np.zeros_like(codes),
            cause=Cause.DUE,
            phase=Phase.TRIGGER,
            reason=round_rows.timer_reason,
        )

    def eviction(self, round_rows: RoundRows, rows: AllRows, partitions: Partitions) -> RoundEviction:
        return TimeEviction(self._size_us, round_rows, rows)

    def firings(
        self, round_rows: RoundRows, values: NewValues, eviction: RoundEviction, partitions: Partitions
    ) -> list[EventTable]:
        """Fire at a fixed rate, also when the window is empty; a row of that very instant comes after the firing."""
        codes, instants = due_timers(partitions, self._size_us, round_rows, inclusive=True)
        ends = round_rows.old_counts[codes] + round_rows.count_new_before(codes, instants)
        count_new_rows(round_rows, partitions)
        count_from_firings(round_rows, partitions, codes, ends)
        return [fired_at(round_rows, (codes, instants), ends, eviction)]

    def evicted_at(self, arrival_times: np.ndarray) -> np.ndarray:
        return arrival_times + self._size_us + _MILLISECOND_US


class TimeEviction:
    """The rows that are not older than T: rows are evicted by the clock, whether or not others arrive."""

    def __init__(self, size_us: int, round_rows: RoundRows, rows: AllRows) -> None:
        self._round_rows = round_rows
        self._codes = rows.codes
        self._due = rows.at + size_us + _MILLISECOND_US
        self.begin_before = self.begin_after = self._evicted_count(round_rows.code, round_rows.at)

    def begin_at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the begin: what is due is evicted before anything else at its instant."""
        return self._evicted_count(codes, instants)

    def sparse_rows(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        return {}

    def events(self) -> list[EventTable]:
        """Return the evictions: rows that arrived together leave together; after an outage all overdue ones at once."""
        end_at = self._round_rows.end_at
        late = np.flatnonzero(self._due <= end_at[self._codes])
        codes = self._codes[late]
        positions = late - np.searchsorted(self._codes, codes)
        instants = end_at[codes] if self._round_rows.after_outage else self._due[late]
        first = np.flatnonzero(changes(codes, instants))
        last = np.append(first[1:], len(late)) - 1
        high = positions[last] + 1 if len(late) else positions[first]
        evicted = (codes[first], instants[first])
        return [timer_events(EventType.EVICTION, evicted, positions[first], high, phase=Phase.EVICTION)]

    def final_begin(self) -> np.ndarray:
        """Return where the rows begin that are not older than T at the end of the round."""
        return self._evicted_count(np.arange(len(self._round_rows.old_counts)), self._round_rows.end_at)

    def _evicted_count(self, codes: np.ndarray, instants: np.ndarray) -> np.ndarray:
        return count_before(self._codes, self._due, codes, instants, inclusive=True)
