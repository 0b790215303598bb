"""Tumbling aggregates without rows: one partial result for each partition, finished at each cut.

Used when every aggregate can be folded. Rows since the last cut are in the partial result and nowhere else.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from framework.core.aggregates.protocol import Accumulator
from framework.core.arrival.policies.tumbles import Tumbles
from framework.core.arrival.round import RoundRows


class TumblingAggregates:
    """The open windows' partial results; `codes` says whose they are, one row each."""

    def __init__(self, accumulators: list[Accumulator], no_rows: pa.Table) -> None:
        self._accumulators = accumulators
        self.no_rows = no_rows
        """An empty table of the plan's columns."""
        self._codes = np.empty(0, dtype=np.int64)
        self._states = [[pa.array([], kind) for kind in a.state_types()] for a in accumulators]

    def load(self, table: pa.Table | None, codes: np.ndarray) -> None:
        """Take the partial results that `columns` wrote into the partitions' table."""
        if table is None:
            return
        self._codes = codes
        self._states = [
            [table.column(f"{n}.{part}").combine_chunks() for part in range(len(state))]
            for n, state in enumerate(self._states)
        ]

    def fold(
        self, round_rows: RoundRows, tumbles: Tumbles, table: pa.Table, arrival: np.ndarray, seq: np.ndarray
    ) -> list[pa.Array]:
        """Fold the rows of a round, and return the results of its cuts.

        Args:
            round_rows: the rows, by (code, arrival).
            tumbles: sorted by (code, high).
            table: the rows in arrival order.
            arrival: position in `table` of each row of the stretch.
            seq: arrival number of each row of `table`.
        """
        count = len(round_rows.old_counts)
        known = np.full(count, -1, dtype=np.int64)
        known[self._codes] = np.arange(len(self._codes))
        # A partition's open window keeps its place; the windows that begin in this round come behind all of those.
        fresh = np.flatnonzero(known < 0)
        known[fresh] = len(self._codes) + np.arange(len(fresh))
        first_tumble = np.searchsorted(tumbles.code, np.arange(count + 1))
        rank = np.arange(len(tumbles.code)) - first_tumble[tumbles.code]
        tumble_cell = np.where(rank == 0, known[tumbles.code], count + np.arange(len(tumbles.code)) - 1)
        after = count + np.arange(len(tumbles.code))  # the window that each cut opens
        passed = _tumbles_before_rows(round_rows, tumbles)
        opened = after[first_tumble[round_rows.code] + passed - 1] if len(after) else 0
        cell = np.where(passed == 0, known[round_rows.code], opened)
        cells = np.empty(len(cell), dtype=np.int64)
        cells[arrival] = cell
        total = count + len(tumbles.code)
        states = [
            accumulator.fold(state, cells, total, table, seq)
            for accumulator, state in zip(self._accumulators, self._states, strict=True)
        ]
        picked = pa.array(tumble_cell)
        results = [a.finish([c.take(picked) for c in s]) for a, s in zip(self._accumulators, states, strict=True)]
        final = known.copy()
        final[tumbles.code] = after
        self._codes = np.arange(count)
        self._states = [[c.take(pa.array(final)) for c in state] for state in states]
        return results

    def remove_partitions(self, codes: np.ndarray) -> None:
        """Start these partitions anew."""
        keep = ~np.isin(self._codes, codes)
        if not keep.all():
            self._codes = self._codes[keep]
            self._states = [[c.filter(pa.array(keep)) for c in state] for state in self._states]

    def columns(self, codes: np.ndarray) -> dict[str, pa.Array]:
        """Return the partial results of these partitions, as columns to be stored; empty ones where there are none."""
        missing = np.setdiff1d(codes, self._codes)
        if len(missing):
            self._states = [
                accumulator.fold(state, missing[:0], len(self._codes) + len(missing), self.no_rows, missing[:0])
                for accumulator, state in zip(self._accumulators, self._states, strict=True)
            ]
            self._codes = np.concatenate([self._codes, missing])
        order = np.argsort(self._codes)
        at = pa.array(order[np.searchsorted(self._codes[order], codes)])
        return {
            f"{n}.{part}": column.take(at) for n, state in enumerate(self._states) for part, column in enumerate(state)
        }


def _tumbles_before_rows(round_rows: RoundRows, tumbles: Tumbles) -> np.ndarray:
    """How many cuts of its partition came before each row: those with no more rows in than its number."""
    span = int(max(round_rows.position.max(initial=0), tumbles.high.max(initial=0))) + 2
    key = tumbles.code * span + tumbles.high
    begin = np.searchsorted(tumbles.code, round_rows.code)
    passed: np.ndarray = np.searchsorted(key, round_rows.code * span + round_rows.position, side="right") - begin
    return passed
