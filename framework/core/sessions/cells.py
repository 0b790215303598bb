# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""Partial aggregates, one cell for each partition and slice: what sessions hold if nothing needs the rows.

A slice is as long as the gap, so all rows of a partition in one slice are in one session, whatever comes later: a cell
never has to be split, and where sessions become one, no partial results are merged before the session fires. Then
those of its cells are, in the order of their times: results are the same wherever a batch is cut.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import combine
from panekeeper.framework.core.aggregates.protocol import State
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator, PlaceOf
from panekeeper.framework.core.panes.folding import SLICE_COLUMN, append_states, is_partial, states_of
from panekeeper.framework.core.panes.pane_index import SortedCells, number_cells
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.core.sessions.open_table import SessionColumns
from panekeeper.framework.core.stable_order import gather_ranges
from panekeeper.state.codec import of_type, with_columns


class SessionCells:
    """The cells of the leaves in memory, each stored in one value with its sessions."""

    def __init__(
        self, accumulators: list[GuardedAccumulator], keys: PartitionKeys, gap: int, no_rows: pa.Table
    ) -> None:
        """Load nothing yet; `no_rows` has the columns of rows."""
        self._no_rows = no_rows
        self._accumulators = accumulators
        self._keys = keys
        self._gap = gap
        self._codes = np.empty(0, dtype=np.int64)
        self._slices = np.empty(0, dtype=np.int64)
        self._states: list[State] = [
            [pa.array([], t) for t in accumulator.state_types()] for accumulator in accumulators
        ]

    def load(self, tables: list[pa.Table]) -> None:
        columns = pa.schema([*self._keys.schema, pa.field(SLICE_COLUMN, pa.int64())])
        cells = pa.concat_tables([with_columns(table, columns) for table in tables]).combine_chunks()
        self._codes = np.concatenate([self._codes, self._keys.encode(cells)])
        self._slices = np.concatenate([self._slices, cells.column(SLICE_COLUMN).to_numpy()])
        for place, accumulator in enumerate(self._accumulators):
            kinds = {f"{accumulator.number}.{part}": kind for part, kind in enumerate(accumulator.state_types())}
            self._states[place] = [
                pa.concat_arrays([held, *(of_type(combine(table.column(name)), kind) for table in tables)])
                for held, (name, kind) in zip(self._states[place], kinds.items(), strict=True)
            ]

    def insert(self, table: pa.Table, codes: np.ndarray, times: np.ndarray, seq: np.ndarray) -> None:
        slices = times // self._gap
        held = len(self._codes)
        all_codes, all_slices = np.concatenate([self._codes, codes]), np.concatenate([self._slices, slices])
        # The loaded cells come first and are distinct, so their numbers stay the same.
        cells, self._codes, self._slices = number_cells(all_codes, all_slices)
        cells, count = cells[held:], len(self._codes)
        pairs = zip(self._accumulators, self._states, strict=True)
        if is_partial(table):
            of_new = [
                state
                for accumulator, state in zip(self._accumulators, self._states, strict=True)
                if not accumulator.is_of_all
            ]
            later = states_of(table, of_new) * (len(self._states) // len(of_new))
            self._states = [a.merge(held, own, cells, count) for (a, held), own in zip(pairs, later, strict=True)]
        else:
            self._states = [a.fold(held, cells, count, table, seq) for a, held in pairs]

    def results(self, sessions: SessionColumns, place: PlaceOf) -> list[pa.Array]:
        """Return the finished aggregates of each session."""
        order, low, high = self._ranges(sessions)
        states = [[column.take(pa.array(order)) for column in state] for state in self._states]
        return [
            accumulator.finish_ranges(state, low, high, place)
            for accumulator, state in zip(self._accumulators, states, strict=True)
        ]

    def forget(self, sessions: SessionColumns) -> None:
        held = self._are_of(sessions)
        begun = pa.array(np.where(held, len(held), np.arange(len(held))))
        for place, accumulator in enumerate(self._accumulators):
            if not accumulator.is_of_all:
                with_empty = zip(self._states[place], accumulator.empty(1, self._no_rows), strict=True)
                self._states[place] = [pa.concat_arrays(pair).take(begun) for pair in with_empty]

    def remove(self, sessions: SessionColumns) -> None:
        kept = np.flatnonzero(~self._are_of(sessions))
        self._codes, self._slices = self._codes[kept], self._slices[kept]
        self._states = [[column.take(pa.array(kept)) for column in state] for state in self._states]

    def absorb(self, leaf: int) -> None:
        """Do nothing: cells are stored with their sessions."""

    def save(self, leaves: list[int], sessions: SessionColumns, bounds: list[int]) -> list[pa.Table | None]:
        order, low, high = self._ranges(sessions)
        at, offsets = gather_ranges(low, high)
        table, ends = self._stored(order[at.astype(np.int64)]), offsets.astype(np.int64)[bounds].tolist()
        return [table.slice(begin, end - begin) for begin, end in pairwise(ends)]

    def archive(self, leaves: list[int], sessions: SessionColumns, bounds: list[int]) -> list[pa.Table | None]:
        parts = self.save(leaves, sessions, bounds)
        self.remove(sessions)
        return parts

    def _stored(self, at: np.ndarray) -> pa.Table:
        """Return the cells at these positions as they are stored."""
        table = with_keys(pa.table({SLICE_COLUMN: self._slices[at]}), self._keys, self._codes[at])
        here = [[column.take(pa.array(at)) for column in state] for state in self._states]
        return append_states(table, here, [accumulator.number for accumulator in self._accumulators])

    def _are_of(self, sessions: SessionColumns) -> np.ndarray:
        """Return whether each cell is one of these sessions."""
        order, low, high = self._ranges(sessions)
        edges = np.bincount(low, minlength=len(order) + 1) - np.bincount(high, minlength=len(order) + 1)
        are_of = np.zeros(len(order), dtype=np.bool_)
        are_of[order] = np.cumsum(edges)[:-1] > 0
        return are_of

    def _ranges(self, sessions: SessionColumns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (order, low, high): the cells by partition and slice, and the range of them that each session has."""
        cells = SortedCells(self._codes, self._slices)
        first, end = sessions.first // self._gap, sessions.last // self._gap + 1
        return cells.order, *cells.between(sessions.codes, first, end)
