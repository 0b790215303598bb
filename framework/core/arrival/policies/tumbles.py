"""Where a tumbling window tumbles: each tumble evicts all rows since the one before (docs/semantics.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase
from panekeeper.framework.declarations.events import EventType, Reason


@dataclass(frozen=True, kw_only=True)
class Tumbles:
    """The tumbles of a round, sorted by (code, high): the partition's rows low..high-1 are evicted at `at`.

    Attributes:
        code: partition.
        high: how many of the partition's rows are inserted by then.
        low: `high` of the partition's tumble before; 0 for the first one of the round.
        at: wall-clock instant, us.
        row: position of the row that made the window tumble; 0 for a timer or a mark.
        cause, phase: place at its instant.
        reason: why the window tumbled.
    """

    code: np.ndarray
    high: np.ndarray
    low: np.ndarray
    at: np.ndarray
    row: np.ndarray
    cause: Cause
    phase: Phase
    reason: Reason

    def events(self) -> EventTable:
        """Return the evictions; an aggregate has a result for each that evicts something."""
        return EventTable(
            code=self.code,
            at=self.at,
            row=self.row,
            low=self.low,
            high=self.high,
            kind=EventType.EVICTION,
            cause=self.cause,
            phase=self.phase,
            reason=self.reason,
        )

    def final_begin(self, count: int) -> np.ndarray:
        """Return where the open window of each partition 0..count-1 begins after the round."""
        begin = np.zeros(count, dtype=np.int64)
        np.maximum.at(begin, self.code, self.high)
        return begin


def make_tumbles(
    code: np.ndarray, high: np.ndarray, at: np.ndarray, row: np.ndarray, *, cause: Cause, phase: Phase, reason: Reason
) -> Tumbles:
    """Return tumbles, given sorted by (code, high); `low` follows from the order."""
    low = np.zeros_like(high)
    if len(high):
        low[1:] = np.where(code[1:] == code[:-1], high[:-1], 0)
    return Tumbles(code=code, high=high, low=low, at=at, row=row, cause=cause, phase=phase, reason=reason)


def tumble_all(codes: np.ndarray, sizes: np.ndarray, at: np.ndarray, reason: Reason) -> Tumbles:
    """Return the tumble of these partitions with all that they have, now: at a window mark, or at the end."""
    none = np.zeros_like(codes)
    return make_tumbles(codes, sizes[codes], at, none, cause=Cause.END, phase=Phase.TRIGGER, reason=reason)
