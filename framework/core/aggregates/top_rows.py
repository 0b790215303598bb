# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""top_rows, first_row and last_row: whole rows, the first ones by some columns; of equals the first to arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import (
    Ints,
    combine,
    lists,
    offsets_of,
    order_codes,
    raw_values,
    valid_mask,
)
from panekeeper.framework.core.aggregates.protocol import Accumulator, State, fold_changed_cells
from panekeeper.framework.core.stable_order import gather_ranges

_SEQ = "seq"
_ROW = "row"


@dataclass(frozen=True, kw_only=True)
class TopRows(Accumulator):
    """The first `k` rows of each cell by the columns `by`; a row in which one of them is null does not take part.

    State: of these rows, in their order, the lists of each ordering column, of arrival numbers, and of rows as structs.

    Attributes:
        by: the ordering columns, and whether each falls.
        by_types: their types.
        row: the struct of the columns of a row that are shown.
        k: how many rows.
        is_single: whether the result is the row itself, not a list.
    """

    by: tuple[tuple[str, bool], ...]
    by_types: tuple[pa.DataType, ...]
    row: pa.DataType
    k: int
    is_single: bool

    def state_types(self) -> list[pa.DataType]:
        return [pa.list_(kind) for kind in (*self.by_types, pa.int64(), self.row)]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        by = [combine(rows.column(name)) for name, _ in self.by]
        shown = [combine(rows.column(self.row.field(place).name)) for place in range(self.row.num_fields)]
        entries = [*by, pa.array(seq), pa.StructArray.from_arrays(shown, fields=list(self.row))]
        takes_part = np.logical_and.reduce([valid_mask(column) for column in by])
        table = pa.table({str(place): column for place, column in enumerate(entries)}).filter(pa.array(takes_part))
        state = self.with_empty_columns(state)
        return fold_changed_cells(self._added, state, cells[takes_part], n_cells, table, seq[takes_part])

    def _added(self, state: State, cells: Ints, n_cells: int, entries: pa.Table, _: Ints) -> State:
        owners = np.repeat(np.arange(len(state[0])), np.diff(offsets_of(state[0])))
        both = [
            pa.concat_arrays([held.flatten(), combine(fresh)])
            for held, fresh in zip(state, entries.columns, strict=True)
        ]
        return self._first_ones(np.concatenate([owners, cells]), both, n_cells)

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        state = self.with_empty_columns(state)
        ends = offsets_of(state[0])
        positions, offsets = gather_ranges(ends[lo], ends[hi])
        owners = np.repeat(np.arange(len(lo)), np.diff(offsets))
        return self._first_ones(owners, [column.flatten().take(pa.array(positions)) for column in state], len(lo))

    def _first_ones(self, owners: Ints, entries: list[pa.Array], n: int) -> State:
        """Return the first entries of each owner 0..n-1, in order."""
        *by, seq, _ = entries
        keys = [~code if falls else code for (_, falls), (code,) in zip(self.by, map(order_codes, by), strict=True)]
        order = np.lexsort((raw_values(seq), *reversed(keys), owners))
        sizes = np.bincount(owners, minlength=n)
        place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        order = order[place < self.k]
        return [
            lists(np.minimum(sizes, self.k), column.take(pa.array(order)), kind)
            for column, kind in zip(entries, self.state_types(), strict=True)
        ]

    def finish(self, state: State) -> pa.Array:
        rows = self.with_empty_columns(state)[-1]
        if not self.is_single:
            return rows
        sizes = np.diff(offsets_of(rows))
        return rows.flatten().take(pa.array(offsets_of(rows)[:-1], mask=sizes == 0))
