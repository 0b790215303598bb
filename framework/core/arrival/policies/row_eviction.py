"""Eviction from a sliding window that is decided row by row: what leaves when a new row is inserted."""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.arrival.event_table import EventTable, Phase, row_events
from panekeeper.framework.core.arrival.round import RoundRows
from panekeeper.framework.declarations.events import EventType


class RowEviction:
    """Begins of the content that a subclass sets, one for each new row; nothing is evicted between rows.

    A subclass sets `begin_before` and `begin_after`. Where the content is no range it lists rows by their position:
    `listed_evictions` and `listed_contents` (index of a new row -> what it evicts, the content before it),
    `listed_sparse` ((code, number of rows inserted) -> the content).
    """

    def __init__(self, round_rows: RoundRows, full: np.ndarray) -> None:
        self._round_rows = round_rows
        self._full = full
        self.first_of_code = round_rows.first_of_code
        self.begin_before = np.zeros(len(round_rows.code), dtype=np.int64)
        self.begin_after = np.zeros(len(round_rows.code), dtype=np.int64)
        self.listed_evictions: dict[int, list[int]] = {}
        self.listed_contents: dict[int, list[int]] = {}
        self.listed_sparse: dict[tuple[int, int], list[int]] = {}

    def begin_at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the begin after the last row that is inserted; time alone evicts nothing."""
        new = ends - self._round_rows.old_counts[codes]
        rows = self.first_of_code[codes] + new - 1
        return np.where(new > 0, self.begin_after[np.maximum(rows, 0)] if len(self.begin_after) else 0, 0)

    def sparse_rows(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        """Return the listed contents of these pairs, by index."""
        if not self.listed_sparse:
            return {}
        found = {}
        for index, pair in enumerate(zip(codes.tolist(), ends.tolist(), strict=True)):
            if pair in self.listed_sparse:
                found[index] = np.array(self.listed_sparse[pair], dtype=np.int64)
        return found

    def events(self) -> list[EventTable]:
        """Return one eviction before each insertion that evicts; INITIAL_FULL just before a partition's first one."""
        listed = np.zeros(len(self.begin_after), dtype=bool)
        listed[list(self.listed_evictions)] = True
        rows = np.flatnonzero((self.begin_after > self.begin_before) | listed)
        code = self._round_rows.code[rows]
        _, first = np.unique(code, return_index=True)
        filled = rows[first[~self._full[code[first]]]]
        self._full[code] = True
        position = self._round_rows.position[filled]
        return [
            self._events(EventType.EVICTION, Phase.EVICTION, rows, self.begin_after[rows], self.listed_evictions),
            self._events(EventType.INITIAL_FULL, Phase.FULL_BEFORE, filled, position, self.listed_contents),
        ]

    def final_begin(self) -> np.ndarray:
        """Return the begin after the last row of the round, by code."""
        every = np.arange(len(self._round_rows.old_counts))
        return self.begin_at(every, self._round_rows.end_at, self._round_rows.sizes)

    def _events(
        self, kind: EventType, phase: Phase, rows: np.ndarray, high: np.ndarray, listed: dict[int, list[int]]
    ) -> EventTable:
        code, position, at = self._round_rows.rows
        content = {}
        if listed:
            content = {n: np.array(listed[row]) for n, row in enumerate(rows.tolist()) if row in listed}
        place = (code[rows], position[rows], at[rows])
        return row_events(kind, phase, place, self.begin_before[rows], high, content=content)
