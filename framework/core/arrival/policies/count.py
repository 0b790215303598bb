# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""`Count`: a number of rows (docs/semantics.md sections 2.1 and 3.3)."""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase, row_events
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import (
    AllRows,
    NewValues,
    RoundEviction,
    RunningPolicy,
    Tumbles,
    fired_after,
    make_tumbles,
)
from panekeeper.framework.core.arrival.round import RoundRows, count_new_rows, rows_lacking
from panekeeper.framework.declarations.events import EventType, Reason
from panekeeper.framework.declarations.policies import Count


class CountPolicy(RunningPolicy):
    """Tumble after every n-th row; keep the newest n rows; fire after every n-th row."""

    def __init__(self, declared: Count) -> None:
        self._size = declared.size

    def tumbles(self, round_rows: RoundRows, values: NewValues, partitions: Partitions) -> Tumbles:
        """Tumble right after every n-th row, which is part of the window."""
        code, position, at = round_rows.rows
        full = rows_lacking(self._size, position) == 1
        row = position[full]
        return make_tumbles(
            code[full], row + 1, at[full], row, cause=Cause.ROW, phase=Phase.TRIGGER, reason=Reason.COUNT
        )

    def eviction(self, round_rows: RoundRows, rows: AllRows, partitions: Partitions) -> RoundEviction:
        return CountEviction(self._size, round_rows, partitions.full)

    def firings(
        self, round_rows: RoundRows, values: NewValues, eviction: RoundEviction, partitions: Partitions
    ) -> list[EventTable]:
        """Fire after every n-th row of a partition, with this row; evictions do not change the count.

        The rows since the last firing may be n and more, if the size was another one (section 13.5).
        """
        code, position, _ = round_rows.rows
        before = partitions.since.copy()
        fires = rows_lacking(self._size, before[code] + (position - round_rows.old_counts[code])) == 1
        count_new_rows(round_rows, partitions)
        has_fired = partitions.since // self._size > before // self._size
        partitions.since[has_fired] %= self._size
        return [fired_after(round_rows, fires, eviction, Reason.COUNT)]

    def rows_to_fire(self, rows: np.ndarray) -> np.ndarray:
        return rows_lacking(self._size, rows)

    def rows_to_be_full(self, rows: np.ndarray) -> np.ndarray:
        lacking: np.ndarray = np.maximum(self._size - rows, 1)
        return lacking


class CountEviction:
    """The newest n rows: one row is evicted just before another is inserted into a full window."""

    def __init__(self, size: int, round_rows: RoundRows, full: np.ndarray) -> None:
        self._size = size
        self._round_rows = round_rows
        self._full = full
        self.begin_before = np.maximum(round_rows.position - size, 0)
        self.begin_after = np.maximum(round_rows.position + 1 - size, 0)

    def begin_at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        begin: np.ndarray = np.maximum(ends - self._size, 0)
        return begin

    def sparse_rows(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        return {}

    def events(self) -> list[EventTable]:
        """Return one eviction before each insertion into a full window, and INITIAL_FULL when n rows are inserted."""
        code, position, at = self._round_rows.rows
        over = self.begin_after > self.begin_before
        filled = (position + 1 == self._size) & ~self._full[code]
        self._full[code[filled]] = True
        evicted_by = (code[over], position[over], at[over])
        filled_by = (code[filled], position[filled], at[filled])
        return [
            row_events(EventType.EVICTION, Phase.EVICTION, evicted_by, self.begin_before[over], self.begin_after[over]),
            row_events(EventType.INITIAL_FULL, Phase.FULL, filled_by, self.begin_after[filled], position[filled] + 1),
        ]

    def final_begin(self) -> np.ndarray:
        begin: np.ndarray = np.maximum(self._round_rows.sizes - self._size, 0)
        return begin
