"""Batched windows: rows wait outside and enter at batch instants (docs/semantics.md section 8).

At each batch instant the window becomes a range of the partition's rows, from the oldest that is neither too old nor
beyond `retain`, to the newest that arrived. The rows of the old range that are not in the new one leave, the others of
the new range enter. If no row leaves or enters, nothing happens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.round import RoundRows, count_before, due_timers, rows_lacking
from panekeeper.framework.core.outlook import NONE
from panekeeper.framework.declarations.events import EventType, Reason
from panekeeper.framework.declarations.windows import Batched
from panekeeper.state.records import NEVER


@dataclass(frozen=True, kw_only=True)
class BatchedUpdates:
    """The updates of a round, sorted by (code, time): the content, rows old_low..old_high-1, becomes low..high-1."""

    code: np.ndarray
    at: np.ndarray
    row: np.ndarray
    low: np.ndarray
    high: np.ndarray
    old_low: np.ndarray
    old_high: np.ndarray
    cause: Cause
    reason: Reason

    def events(self) -> list[EventTable]:
        """Return eviction, insertion and trigger of each update that changes the content: one window batch."""
        left = np.minimum(self.low, self.old_high)
        entered = np.maximum(self.low, self.old_high)
        out, into = left > self.old_low, self.high > entered
        return [
            self._events(EventType.EVICTION, Phase.EVICTION, out, self.old_low, left),
            self._events(EventType.INSERTION, Phase.INSERTION, into, entered, self.high),
            self._events(EventType.TRIGGER, Phase.TRIGGER, out | into, self.low, self.high),
        ]

    def _events(self, kind: EventType, phase: Phase, some: np.ndarray, low: np.ndarray, high: np.ndarray) -> EventTable:
        return EventTable(
            code=self.code[some],
            at=self.at[some],
            row=self.row[some],
            low=low[some],
            high=high[some],
            kind=kind,
            cause=self.cause,
            phase=phase,
            reason=self.reason,
        )

    def final(self, partitions: Partitions, sizes: np.ndarray) -> np.ndarray:
        """Set how many rows are inside and waiting after the round; return where the needed rows begin."""
        low, high = np.zeros_like(sizes), partitions.inside.copy()
        if len(self.code):
            last = np.append(self.code[1:] != self.code[:-1], True)
            low[self.code[last]], high[self.code[last]] = self.low[last], self.high[last]
        partitions.inside[:] = high - low
        partitions.waiting[:] = sizes - high
        return low


def timed_updates(
    window: Batched,
    round_rows: RoundRows,
    partitions: Partitions,
    codes: np.ndarray,
    at: np.ndarray,
    *,
    is_last_at_instant: bool,
) -> BatchedUpdates:
    """Return the updates of a window with a fixed time between batches.

    A row of the batch instant is in; a row of exactly its lifetime is out. An instant is processed once the clock has
    passed it, or once no more rows of it come (`is_last_at_instant`).
    """
    within, every = window.within_us, window.every_us
    assert within is not None
    assert every is not None
    if round_rows.after_outage:
        own = skip_overdue(every, partitions, round_rows.end_at + is_last_at_instant)
        instants = round_rows.end_at[own]
    else:
        own, instants = due_timers(partitions, every, round_rows, inclusive=is_last_at_instant)
    high = round_rows.old_counts[own] + round_rows.count_new_before(own, instants, inclusive=True)
    low = np.minimum(count_before(codes, at + within, own, instants, inclusive=True), high)
    if window.retain is not None:
        low = np.maximum(low, high - window.retain)
    return _updates(own, instants, np.zeros_like(own), low, high, partitions, Cause.BATCH, round_rows.timer_reason)


def counted_updates(window: Batched, round_rows: RoundRows, partitions: Partitions) -> BatchedUpdates:
    """Return the updates of a window that counts rows: at each m-th row, with all m at once."""
    size, retain = int(window.every), window.retain  # type: ignore[arg-type]  # checked when it was declared
    code, position, at = round_rows.rows
    full = rows_lacking(size, position - partitions.inside[code]) == 1
    high = position[full] + 1
    low = np.maximum(high - (retain or 0), 0)
    return _updates(code[full], at[full], position[full], low, high, partitions, Cause.ROW, Reason.COUNT)


def rows_to_fire(window: Batched, partitions: Partitions) -> np.ndarray:
    """Return after how many further rows the next batch of each partition comes; `NONE`: it comes with the clock."""
    if window.within is not None:
        return np.full_like(partitions.waiting, NONE)
    return rows_lacking(int(window.every), partitions.waiting)  # type: ignore[arg-type]  # checked when it was declared


def insert_all_waiting(
    codes: np.ndarray, sizes: np.ndarray, at: np.ndarray, partitions: Partitions, retain: int | None
) -> BatchedUpdates:
    """Return the updates of a flush: all waiting rows enter at once, each partition at its instant."""
    high = sizes[codes]
    low = np.zeros_like(high) if retain is None else np.maximum(high - retain, 0)
    return _updates(codes, at, np.zeros_like(codes), low, high, partitions, Cause.END, Reason.FLUSH)


def _updates(
    code: np.ndarray,
    at: np.ndarray,
    row: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    partitions: Partitions,
    cause: Cause,
    reason: Reason,
) -> BatchedUpdates:
    old_low, old_high = np.zeros_like(low), partitions.inside[code]
    if len(code):
        same = code[1:] == code[:-1]
        old_low[1:] = np.where(same, low[:-1], old_low[1:])
        old_high[1:] = np.where(same, high[:-1], old_high[1:])
    return BatchedUpdates(
        code=code, at=at, row=row, low=low, high=high, old_low=old_low, old_high=old_high, cause=cause, reason=reason
    )


def first_batch_instant(ready: int, every: int | None, clock: int) -> int:
    """Return the first batch instant after `clock` on the grid that begins when the window was ready; all in us."""
    return NEVER if every is None else ready + max((clock - ready) // every + 1, 1) * every


def skip_overdue(every: int, partitions: Partitions, now: np.ndarray) -> np.ndarray:
    """Return the partitions that missed batch instants before `now`, and advance them along the grid.

    All partitions have one grid, which begins when the window was ready; an outage does not shift it
    (docs/semantics.md section 8). The update at `now` itself, if it is due, still includes the rows of that instant.
    """
    codes = np.flatnonzero(partitions.live & (partitions.due < now))
    partitions.due[codes] += ((now[codes] - 1 - partitions.due[codes]) // every + 1) * every
    return codes
