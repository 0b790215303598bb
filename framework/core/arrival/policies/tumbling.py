"""Where a tumbling window is cut: every cut lets go of all rows since the one before [S2].

A policy gives, for each partition, how many rows are in at each cut. Delta looks at the first row of the window, not
at the smallest, and the row that exceeds opens the next window [semantics 2].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framework.core.arrival.event_table import Cause, EventTable, Phase
from framework.core.arrival.partitions import Partitions
from framework.core.arrival.round import RoundRows, due_timers
from framework.declarations.events import EventType, Reason


@dataclass(frozen=True, kw_only=True)
class Tumbles:
    """The cuts of a round, sorted by (code, high): rows low..high-1 of the partition go at `at`."""

    code: np.ndarray
    high: np.ndarray
    low: np.ndarray
    at: np.ndarray
    row: np.ndarray
    cause: Cause
    phase: Phase
    reason: Reason

    def events(self) -> EventTable:
        """The evictions; an aggregate answers each that holds something."""
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

    def final(self, count: int) -> np.ndarray:
        """Where the open window of each partition 0..count-1 begins after the round."""
        start = np.zeros(count, dtype=np.int64)
        np.maximum.at(start, self.code, self.high)
        return start


def count_cuts(size: int, round_rows: RoundRows) -> Tumbles:
    """Cut right after every n-th row, which is part of the window."""
    code, position, at = round_rows.rows
    full = (position + 1) % size == 0
    high = position[full] + 1
    return _cuts(code[full], high, at[full], position[full], Cause.TUPLE, Phase.TRIGGER, Reason.COUNT)


def delta_cuts(size: float, round_rows: RoundRows, values: np.ndarray, partitions: Partitions) -> Tumbles:
    """Cut before a row that exceeds the oldest one of the window by more than `size`."""
    cut: list[int] = []
    oldest = partitions.oldest
    for row, (code, value) in enumerate(zip(round_rows.code.tolist(), values.tolist(), strict=True)):
        first = oldest[code]
        if first is None:
            oldest[code] = value
        elif value - first > size:
            oldest[code] = value
            cut.append(row)
    rows = np.array(cut, dtype=np.int64)
    code, position, at = round_rows.rows
    return _cuts(code[rows], position[rows], at[rows], position[rows], Cause.TUPLE, Phase.EVICTION, Reason.DELTA)


def time_cuts(period: int, round_rows: RoundRows, partitions: Partitions) -> Tumbles:
    """Cut every so often, whatever arrived, also when nothing did."""
    codes, instants = due_timers(partitions, period, round_rows, inclusive=True)
    high = round_rows.old_counts[codes] + round_rows.count_new_before(codes, instants)
    reason = Reason.OVERDUE if round_rows.after_outage else Reason.TIME
    return _cuts(codes, high, instants, np.zeros_like(codes), Cause.DUE, Phase.TRIGGER, reason)


def no_cuts() -> Tumbles:
    """None: punctuation cuts between rounds."""
    none = np.empty(0, dtype=np.int64)
    return _cuts(none, none, none, none, Cause.TUPLE, Phase.TRIGGER, Reason.PUNCTUATION)


def all_cut(codes: np.ndarray, sizes: np.ndarray, at: int, reason: Reason) -> Tumbles:
    """Cut these partitions as they are, now: a window mark, or the end."""
    instants = np.full(len(codes), at)
    return _cuts(codes, sizes[codes], instants, np.zeros_like(codes), Cause.END, Phase.TRIGGER, reason)


def _cuts(
    code: np.ndarray, high: np.ndarray, at: np.ndarray, row: np.ndarray, cause: Cause, phase: Phase, reason: Reason
) -> Tumbles:
    low = np.zeros_like(high)
    if len(high):
        same = code[1:] == code[:-1]
        low[1:] = np.where(same, high[:-1], 0)
    return Tumbles(code=code, high=high, low=low, at=at, row=row, cause=cause, phase=phase, reason=reason)
