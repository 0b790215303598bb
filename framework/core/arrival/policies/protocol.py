"""What a policy is at run time: the roles that it may have in a window in arrival order.

A declared policy (`declarations/policies.py`) is a value. Its implementation computes on all partitions of a key
group at once, on columns, and holds no data: what must be stored for a partition is in `Partitions`. A subclass
defines the methods of the roles that the policy can have; the others raise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np

from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase, row_events, timer_events
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.round import RoundRows
from panekeeper.framework.core.outlook import NONE
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.events import EventType, Reason
from panekeeper.state.records import NEVER


@dataclass(frozen=True, kw_only=True)
class TumbleCause:
    """Why some of the tumbles of a round happen.

    Attributes:
        which: the tumbles, in their order.
        cause, phase: their place at their instant.
        reason: as the results say it.
    """

    which: np.ndarray
    cause: Cause
    phase: Phase
    reason: Reason


@dataclass(frozen=True, kw_only=True)
class Tumbles:
    """The tumbles of a round, sorted by (code, high): the partition's rows low..high-1 are evicted at `at`.

    Attributes:
        code: partition.
        high: how many of the partition's rows are inserted by then.
        low: `high` of the partition's tumble before; 0 for the first one of the round.
        at: wall-clock instant, us.
        row: position of the row that made the window tumble; 0 for a timer or a mark.
        causes: why the window tumbled, each tumble for one of these.
    """

    code: np.ndarray
    high: np.ndarray
    low: np.ndarray
    at: np.ndarray
    row: np.ndarray
    causes: tuple[TumbleCause, ...]

    def events(self) -> list[EventTable]:
        """Return the evictions, a table for each cause; an aggregate has a result for each that evicts something."""
        return [
            EventTable(
                code=self.code[cause.which],
                at=self.at[cause.which],
                row=self.row[cause.which],
                low=self.low[cause.which],
                high=self.high[cause.which],
                kind=EventType.EVICTION,
                cause=cause.cause,
                phase=cause.phase,
                reason=cause.reason,
            )
            for cause in self.causes
        ]

    @property
    def order_of_events(self) -> np.ndarray:
        """Which tumble each of the events is, table after table."""
        return np.concatenate([cause.which for cause in self.causes])

    def final_begin(self, count: int) -> np.ndarray:
        """Return where the open window of each partition 0..count-1 begins after the round."""
        begin = np.zeros(count, dtype=np.int64)
        np.maximum.at(begin, self.code, self.high)
        return begin


def make_tumbles(
    code: np.ndarray, high: np.ndarray, at: np.ndarray, row: np.ndarray, *, cause: Cause, phase: Phase, reason: Reason
) -> Tumbles:
    """Return tumbles of one cause, given sorted by (code, high); `low` follows from the order."""
    sole_cause = TumbleCause(which=np.arange(len(code)), cause=cause, phase=phase, reason=reason)
    return Tumbles(code=code, high=high, low=low_of(code, high), at=at, row=row, causes=(sole_cause,))


def low_of(code: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return where the rows of each tumble begin: where those of the tumble before end."""
    low = np.zeros_like(high)
    if len(high):
        low[1:] = np.where(code[1:] == code[:-1], high[:-1], 0)
    return low


def tumble_all(codes: np.ndarray, sizes: np.ndarray, at: np.ndarray, reason: Reason) -> Tumbles:
    """Return the tumble of these partitions with all that they have, now: at a window mark, or at the end."""
    none = np.zeros_like(codes)
    return make_tumbles(codes, sizes[codes], at, none, cause=Cause.END, phase=Phase.TRIGGER, reason=reason)


NewValues = Callable[[str], np.ndarray]
"""Returns the values of a column, one for each new row of the round, in the order of `RoundRows`."""


@dataclass(frozen=True, kw_only=True)
class AllRows:
    """All rows that a window has in a round: its content, then the new rows; sorted by (partition, position).

    Attributes:
        codes: partition of each row.
        at: arrival time of each row, us.
        offsets: where the rows of each partition begin, by code, and one more at the end.
        column: returns the values of a column, one for each row.
    """

    codes: np.ndarray
    at: np.ndarray
    offsets: np.ndarray
    column: NewValues


class RoundEviction(Protocol):
    """Where the content of each partition begins, at every point of one round.

    The content is the range `[begin, end)` of the partition's rows. Only an eviction that may remove a row between two
    that stay has content that is no range, and lists it in `sparse_rows` (docs/semantics.md section 3.4).
    """

    begin_before: np.ndarray
    """Begin of the content just before each new row is inserted: what a delta trigger shows."""
    begin_after: np.ndarray
    """Begin of the content once each new row is inserted: what a count trigger shows."""

    def begin_at(self, codes: np.ndarray, instants: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the begin at each instant (us) in each partition, when its first `ends` rows are inserted."""
        ...

    def sparse_rows(self, codes: np.ndarray, ends: np.ndarray) -> dict[int, np.ndarray]:
        """Return the positions of the rows in the content, by index, for each pair whose content is no range.

        A pair is a partition and the number of its rows that are inserted.
        """
        ...

    def events(self) -> list[EventTable]:
        """Return the evictions, and the INITIAL_FULL events that follow from them."""
        ...

    def final_begin(self) -> np.ndarray:
        """Return the begin at the end of the round, by code."""
        ...


class RunningPolicy:
    """The implementation of a policy. Each role is a method: a policy defines those that it can have.

    Attributes:
        period_us: period of the timer that each partition has for this policy, us; None without a timer.
        starts_full: whether a sliding window with this eviction policy is full from its first row on.
        tumbles_at_marks: whether a window mark makes a tumbling window with this eviction policy tumble.
        stores_own_numbers: whether `base` and `oldest` are numbers that the policy computes, not values of its column.
        partition_age_us: as a partition eviction by the clock: a partition is evicted so long after its newest row, us;
            None for one that is decided after each insertion, by `rows_within_limit` and `partitions_over_limit`.
    """

    period_us: int | None = None
    starts_full: bool = False
    tumbles_at_marks: bool = False
    stores_own_numbers: bool = False
    partition_age_us: int | None = None

    def tumbles(self, round_rows: RoundRows, values: NewValues, partitions: Partitions) -> Tumbles:
        """Eviction policy of a tumbling window: return where it tumbles in this round.

        Called once a round, also for a round without rows. Updates what `partitions` store for this role: `due`
        (timer) and `oldest` (one number for each partition).
        """
        self._refuse("evict from a tumbling window")

    def eviction(self, round_rows: RoundRows, rows: AllRows, partitions: Partitions) -> RoundEviction:
        """Eviction policy of a sliding window: return where its content begins in this round.

        Called once a round, before `firings`. Updates `partitions.full`.
        """
        self._refuse("evict from a sliding window")

    def firings(
        self, round_rows: RoundRows, values: NewValues, eviction: RoundEviction, partitions: Partitions
    ) -> list[EventTable]:
        """Trigger of a sliding window: return when it fires in this round, and with which content.

        Called once a round. Updates what `partitions` store for this role: `since` (rows since the last firing), `due`
        (timer) and `base` (one number for each partition).
        """
        self._refuse("be the trigger of a sliding window")

    def evicted_at(self, arrival_times: np.ndarray) -> np.ndarray:
        """Return when the clock evicts rows of a sliding window that arrived then (us); `NEVER` if it does not."""
        return np.full_like(arrival_times, NEVER)

    def rows_to_fire(self, rows: np.ndarray) -> np.ndarray:
        """Return after how many further rows it tumbles or fires where it has so many since; `NONE`: by no number."""
        return np.full_like(rows, NONE)

    def rows_to_be_full(self, rows: np.ndarray) -> np.ndarray:
        """Eviction policy of a sliding window: return after how many further rows it is full; `NONE`: by no number."""
        return np.full_like(rows, NONE)

    def rows_within_limit(self, codes: np.ndarray, begin: int, partitions: Partitions) -> int:
        """Partition eviction: return the position after the first row, from `begin` on, that may evict a partition.

        `codes` are the partitions of the new rows, in arrival order. The rows before that one are processed together
        with it: a later position than the right one evicts too late, an earlier one only costs time.
        """
        self._refuse("evict partitions")

    def partitions_over_limit(self, partitions: Partitions) -> np.ndarray:
        """Partition eviction: return the partitions that are evicted after the newest row, in this order."""
        self._refuse("evict partitions")

    def _refuse(self, role: str) -> NoReturn:
        raise DeclarationError(f"{type(self).__name__} cannot {role}: it does not define the method for it")


def fired_after(round_rows: RoundRows, rows: np.ndarray, eviction: RoundEviction, reason: Reason) -> EventTable:
    """Return the firings that come after some of the new rows of a round, each with its row in the content."""
    code, position, at = (column[rows] for column in round_rows.rows)
    end, content = position + 1, eviction.sparse_rows(code, position + 1)
    place, begin = (code, position, at), eviction.begin_after[rows]
    return row_events(EventType.TRIGGER, Phase.TRIGGER, place, begin, end, reason=reason, content=content)


def fired_at(
    round_rows: RoundRows, instants: tuple[np.ndarray, np.ndarray], ends: np.ndarray, eviction: RoundEviction
) -> EventTable:
    """Return the firings at instants of partitions, by time, each with the rows that are inserted by then."""
    code, at = instants
    begin, content = eviction.begin_at(code, at, ends), eviction.sparse_rows(code, ends)
    return timer_events(EventType.TRIGGER, instants, begin, ends, reason=round_rows.timer_reason, content=content)


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
        positions = {}
        for index, pair in enumerate(zip(codes.tolist(), ends.tolist(), strict=True)):
            if pair in self.listed_sparse:
                positions[index] = np.array(self.listed_sparse[pair], dtype=np.int64)
        return positions

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
