# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""`AnyOf`: a number of rows or a length of time, whichever is first (docs/semantics.md sections 2.6 and 3.2).

Rows and time both count from the last tumble or firing, so which of the two comes next depends on what came last. Where
neither comes in a round nothing is done for a partition; in the others it goes from one tumble or firing to the next.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import (
    NewValues,
    RoundEviction,
    RunningPolicy,
    TumbleCause,
    Tumbles,
    fired_after,
    fired_at,
    low_of,
)
from panekeeper.framework.core.arrival.round import RoundRows, count_from_firings, count_new_rows, require_bounded
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.policies import AnyOf
from panekeeper.state.records import NEVER


@dataclass(frozen=True, kw_only=True)
class _Turns:
    """When a window tumbles or fires in a round, sorted by partition, then as they come.

    Attributes:
        code: partition.
        at: instant, us.
        end: how many rows of the partition are inserted by then.
        is_timed: whether it is time that came first.
    """

    code: np.ndarray
    at: np.ndarray
    end: np.ndarray
    is_timed: np.ndarray


class AnyOfPolicy(RunningPolicy):
    """Tumble, or fire, after n rows or so much time, whichever is first."""

    def __init__(self, declared: AnyOf) -> None:
        self._size, self._size_us = declared.count.size, declared.time.us
        self.period_us = declared.time.us

    def tumbles(self, round_rows: RoundRows, values: NewValues, partitions: Partitions) -> Tumbles:
        turns = self._turns(round_rows, np.zeros_like(round_rows.old_counts), partitions)
        timed, counted = np.flatnonzero(turns.is_timed), np.flatnonzero(~turns.is_timed)
        return Tumbles(
            code=turns.code,
            high=turns.end,
            low=low_of(turns.code, turns.end),
            at=turns.at,
            row=np.where(turns.is_timed, 0, turns.end - 1),
            causes=(
                TumbleCause(which=timed, cause=Cause.DUE, phase=Phase.TRIGGER, reason=round_rows.timer_reason),
                TumbleCause(which=counted, cause=Cause.ROW, phase=Phase.TRIGGER, reason=Reason.COUNT),
            ),
        )

    def firings(
        self, round_rows: RoundRows, values: NewValues, eviction: RoundEviction, partitions: Partitions
    ) -> list[EventTable]:
        turns = self._turns(round_rows, round_rows.old_counts - partitions.since, partitions)
        count_new_rows(round_rows, partitions)
        count_from_firings(round_rows, partitions, turns.code, turns.end)
        code, at, end = turns.code, turns.at, turns.end
        timed, counted = turns.is_timed, ~turns.is_timed
        row = round_rows.first_of_code[code] + end - 1 - round_rows.old_counts[code]
        return [
            fired_at(round_rows, (code[timed], at[timed]), end[timed], eviction),
            fired_after(round_rows, row[counted], eviction, Reason.COUNT),
        ]

    def rows_to_fire(self, rows: np.ndarray) -> np.ndarray:
        lacking: np.ndarray = np.maximum(self._size - rows, 1)
        return lacking

    def _turns(self, round_rows: RoundRows, begin: np.ndarray, partitions: Partitions) -> _Turns:
        """Return the turns of a round, and set when each partition is due next; `begin`: the rows since the last."""
        end_at, due = round_rows.end_at, partitions.due
        is_due = partitions.live & (due <= end_at)
        if round_rows.after_outage:
            code = np.flatnonzero(is_due)
            due[code] = partitions.instants_after(end_at[code], self._size_us)
            is_timed = np.ones(len(code), dtype=bool)
            return _Turns(code=code, at=end_at[code], end=round_rows.sizes[code], is_timed=is_timed)
        require_bounded((end_at[is_due] - due[is_due]) // self._size_us + 1, self._size_us)
        is_full = (round_rows.sizes - begin >= self._size) & (round_rows.sizes > round_rows.old_counts)
        turns_of_partitions: list[tuple[np.ndarray, ...]] = []
        first = round_rows.first_of_code
        for partition in np.flatnonzero(is_due | is_full).tolist():
            at = round_rows.at[first[partition] : first[partition + 1]].tolist()
            old = int(round_rows.old_counts[partition])
            walk = _Walk(self._size, self._size_us, partitions, at, old)
            due[partition] = walk.go(int(begin[partition]), int(due[partition]), int(end_at[partition]))
            turns_of_partitions += [(np.full(len(turns[0]), partition), *turns) for turns in walk.turns]
        if not turns_of_partitions:
            none = np.empty(0, dtype=np.int64)
            return _Turns(code=none, at=none, end=none, is_timed=none.astype(bool))
        codes, ats, ends, timed = (np.concatenate(arrays) for arrays in zip(*turns_of_partitions, strict=True))
        return _Turns(code=codes, at=ats, end=ends, is_timed=timed)


class _Walk:
    """Goes through the turns of one partition, from each to the next."""

    def __init__(self, size: int, size_us: int, partitions: Partitions, at: list[int], old: int) -> None:
        self._size, self._size_us, self._partitions = size, size_us, partitions
        self._at, self._old = at, old
        self.turns: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        """Instants, rows inserted by then, and whether time came first."""

    def go(self, begin: int, due: int, end_at: int) -> int:
        """Go from the rows since the last turn to the end of the round; return when the timer is due then."""
        ats, ends, timed = list[int](), list[int](), list[bool]()
        at, old, total = self._at, self._old, self._old + len(self._at)
        while True:
            row = max(begin + self._size - 1, old)
            filled_at = at[row - old] if row < total else None
            if due <= end_at and (filled_at is None or due <= filled_at):
                inserted = old + bisect_left(at, due)
                ats.append(due)
                ends.append(inserted)
                timed.append(True)
                begin, due = inserted, due + self._size_us
                latest = min(end_at, at[inserted - old] if inserted < total else end_at)
                if due <= latest:  # empty until then
                    self._add(ats, ends, timed)
                    ats, ends, timed = [], [], []
                    instants = np.arange(due, latest + 1, self._size_us)
                    count = len(instants)
                    self.turns.append((instants, np.full(count, inserted), np.ones(count, dtype=bool)))
                    due += count * self._size_us
            elif filled_at is not None:
                ats.append(filled_at)
                ends.append(row + 1)
                timed.append(False)
                begin = row + 1
                if due != NEVER:
                    due = self._partitions.instants_after(filled_at, self._size_us)
            else:
                self._add(ats, ends, timed)
                return due

    def _add(self, ats: list[int], ends: list[int], timed: list[bool]) -> None:
        if ats:
            arrays = np.array(ats, dtype=np.int64), np.array(ends, dtype=np.int64), np.array(timed, dtype=bool)
            self.turns.append(arrays)
