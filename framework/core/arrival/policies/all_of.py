# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""`AllOf`: a row stays while a number of rows and a length of time both keep it (docs/semantics.md section 3.7)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from panekeeper.framework.core.arrival.event_table import EventTable, Phase, row_events
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.count import CountEviction
from panekeeper.framework.core.arrival.policies.protocol import AllRows, RoundEviction, RunningPolicy
from panekeeper.framework.core.arrival.policies.time import TimeEviction, TimePolicy
from panekeeper.framework.core.arrival.round import RoundRows
from panekeeper.framework.declarations.events import EventType
from panekeeper.framework.declarations.policies import AllOf


class AllOfPolicy(RunningPolicy):
    """Keep the newest n rows that are not older than T."""

    def __init__(self, declared: AllOf) -> None:
        self._size, self._size_us = declared.count.size, declared.time.us
        self._time = TimePolicy(declared.time)

    def eviction(self, round_rows: RoundRows, rows: AllRows, partitions: Partitions) -> RoundEviction:
        return AllOfEviction(self._size, self._size_us, round_rows, rows, partitions.full)

    def evicted_at(self, arrival_times: np.ndarray) -> np.ndarray:
        return self._time.evicted_at(arrival_times)

    def rows_to_be_full(self, rows: np.ndarray) -> np.ndarray:
        lacking: np.ndarray = np.maximum(self._size - rows, 1)
        return lacking


class AllOfEviction:
    """The content begins where the later of both contents does: each is the newest rows, up to some age or number."""

    def __init__(self, size: int, size_us: int, round_rows: RoundRows, rows: AllRows, full: np.ndarray) -> None:
        self._size, self._round_rows, self._full = size, round_rows, full
        self._count = CountEviction(size, round_rows, full)
        self._time = TimeEviction(size_us, round_rows, rows)
        self.begin_before = np.maximum(self._count.begin_before, self._time.begin_before)
        self.begin_after = np.maximum(self._count.begin_after, self._time.begin_after)

    def begin_at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        by_count, by_time = (policy.begin_at(codes, instants, ends) for policy in (self._count, self._time))
        begin: np.ndarray = np.maximum(by_count, by_time)
        return begin

    def sparse_rows(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        return {}

    def events(self) -> list[EventTable]:
        """Return what the clock evicts of the rows that the number keeps, what rows evict, and INITIAL_FULL.

        The window is full once so many rows are in it.
        """
        (by_time,) = self._time.events()
        inserted = self._round_rows.old_counts[by_time.code] + self._round_rows.count_new_before(
            by_time.code, by_time.at
        )
        low = np.maximum(by_time.low, self._count.begin_at(by_time.code, by_time.at, inserted))
        left = low < by_time.high
        code, position, at = self._round_rows.rows
        over = self.begin_after > self.begin_before
        is_full = position + 1 - self.begin_after == self._size
        filled = np.flatnonzero(is_full & ~self._full[code])
        filled = filled[np.unique(code[filled], return_index=True)[1]]
        self._full[code[filled]] = True
        evicted_by = (code[over], position[over], at[over])
        filled_by = (code[filled], position[filled], at[filled])
        return [
            replace(by_time, low=low).where(left),
            row_events(EventType.EVICTION, Phase.EVICTION, evicted_by, self.begin_before[over], self.begin_after[over]),
            row_events(EventType.INITIAL_FULL, Phase.FULL, filled_by, self.begin_after[filled], position[filled] + 1),
        ]

    def final_begin(self) -> np.ndarray:
        begin: np.ndarray = np.maximum(self._count.final_begin(), self._time.final_begin())
        return begin
