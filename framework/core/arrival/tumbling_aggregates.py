"""Tumbling aggregates without rows: one partial result for each partition, finished at each cut.

Used when every aggregate can be folded. Rows since the last cut are in the partial result and nowhere else.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from framework.core.aggregates.protocol import Accumulator
from framework.core.arrival.policies.tumbling import Cuts
from framework.core.arrival.round import Stretch


class Cells:
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
        self, stretch: Stretch, cuts: Cuts, table: pa.Table, arrival: np.ndarray, seq: np.ndarray
    ) -> list[pa.Array]:
        """Fold the rows of a round, and return the results of its cuts.

        Args:
            stretch: the rows, by (code, arrival).
            cuts: sorted by (code, high).
            table: the rows in arrival order.
            arrival: position in `table` of each row of the stretch.
            seq: arrival number of each row of `table`.
        """
        count = len(stretch.held)
        known = np.full(count, -1, dtype=np.int64)
        known[self._codes] = np.arange(len(self._codes))
        # A partition's open window keeps its place; the windows that begin in this round come behind all of those.
        fresh = np.flatnonzero(known < 0)
        known[fresh] = len(self._codes) + np.arange(len(fresh))
        cut_first = np.searchsorted(cuts.code, np.arange(count + 1))
        rank = np.arange(len(cuts.code)) - cut_first[cuts.code]
        cut_cell = np.where(rank == 0, known[cuts.code], count + np.arange(len(cuts.code)) - 1)
        after = count + np.arange(len(cuts.code))  # the window that each cut opens
        passed = _cuts_passed(stretch, cuts)
        opened = after[cut_first[stretch.code] + passed - 1] if len(after) else 0
        cell = np.where(passed == 0, known[stretch.code], opened)
        cells = np.empty(len(cell), dtype=np.int64)
        cells[arrival] = cell
        total = count + len(cuts.code)
        states = [
            accumulator.fold(state, cells, total, table, seq)
            for accumulator, state in zip(self._accumulators, self._states, strict=True)
        ]
        picked = pa.array(cut_cell)
        results = [a.finish([c.take(picked) for c in s]) for a, s in zip(self._accumulators, states, strict=True)]
        final = known.copy()
        final[cuts.code] = after
        self._codes = np.arange(count)
        self._states = [[c.take(pa.array(final)) for c in state] for state in states]
        return results

    def forget(self, codes: np.ndarray) -> None:
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


def _cuts_passed(stretch: Stretch, cuts: Cuts) -> np.ndarray:
    """How many cuts of its partition came before each row: those with no more rows in than its number."""
    span = int(max(stretch.number.max(initial=0), cuts.high.max(initial=0))) + 2
    key = cuts.code * span + cuts.high
    begin = np.searchsorted(cuts.code, stretch.code)
    passed: np.ndarray = np.searchsorted(key, stretch.code * span + stretch.number, side="right") - begin
    return passed
