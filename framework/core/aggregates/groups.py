# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""`group_within=`: aggregates of each group of rows in a cell, of which the result has the first ones by an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import (
    Bools,
    Ints,
    combine,
    lists,
    offsets_of,
    order_codes,
    valid_mask,
)
from panekeeper.framework.core.aggregates.protocol import OfParts, State, fold_changed_cells
from panekeeper.framework.core.stable_order import changes, gather_ranges

RANK = "rank"


@dataclass(frozen=True, kw_only=True)
class Groups(OfParts):
    """The results of other accumulators for each group of a cell, as a list of structs with the rank, from 1.

    State: for each cell the lists of the values of the grouping columns, in their order with null first, and of each
    column of the states of the parts.

    Attributes:
        keys: the grouping columns.
        parts: what is computed of each group.
        by: place of the part whose results order the groups; None: the grouping columns do.
        falls: whether the greatest result comes first; null comes last in any case.
        top: how many groups are shown; None: all.
    """

    keys: pa.Schema
    by: int | None
    falls: bool
    top: int | None

    def state_types(self) -> list[pa.DataType]:
        kinds = [*self.keys.types, *(kind for part in self.parts for kind in part.state_types())]
        return [pa.list_(kind) for kind in kinds]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        return fold_changed_cells(self._fold, self.with_empty_columns(state), cells, n_cells, rows, seq)

    def _fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        ends, held = offsets_of(state[0]), [column.flatten() for column in state]
        owners = np.concatenate([np.repeat(np.arange(len(state[0])), np.diff(ends)), cells])
        fresh = [combine(rows.column(name)) for name in self.keys.names]
        keys = [pa.concat_arrays(pair) for pair in zip(held, fresh, strict=False)]
        order, first = _grouped(owners, keys)
        group_of = np.empty(len(owners), dtype=np.int64)
        group_of[order] = np.cumsum(first) - 1
        # Groups that there are keep their numbers while the parts are folded; the new ones follow in their order.
        known, groups = int(ends[-1]), int(first.sum())
        number = np.full(groups, -1, dtype=np.int64)
        number[group_of[:known]] = np.arange(known)
        number[number < 0] = np.arange(known, groups)
        of_rows = number[group_of[known:]]
        folded = [
            part.fold(own, of_rows, groups, rows, seq) for part, own in zip(self.parts, self._each(held), strict=True)
        ]
        at, starts = pa.array(number), order[np.flatnonzero(first)]
        columns = [*(key.take(pa.array(starts)) for key in keys), *(c.take(at) for own in folded for c in own)]
        return self._state(np.bincount(owners[starts], minlength=n_cells), columns)

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        state = self.with_empty_columns(state)
        ends = offsets_of(state[0])
        positions, offsets = gather_ranges(ends[lo], ends[hi])
        owners = np.repeat(np.arange(len(lo)), np.diff(offsets))
        held = [column.flatten().take(pa.array(positions)) for column in state]
        order, first = _grouped(owners, held[: len(self.keys)])
        held = [column.take(pa.array(order)) for column in held]
        begins = np.flatnonzero(first)
        until = np.concatenate([begins[1:], [len(order)]])[: len(begins)]
        merged = [part.merge_ranges(own, begins, until) for part, own in zip(self.parts, self._each(held), strict=True)]
        keys = [column.take(pa.array(begins)) for column in held[: len(self.keys)]]
        sizes = np.bincount(owners[order[begins]], minlength=len(lo))
        return self._state(sizes, [*keys, *(column for own in merged for column in own)])

    def finish(self, state: State) -> pa.Array:
        state = self.with_empty_columns(state)
        ends, held = offsets_of(state[0]), [column.flatten() for column in state]
        sizes = np.diff(ends)
        results = [part.finish(own) for part, own in zip(self.parts, self._each(held), strict=True)]
        owners, order = np.repeat(np.arange(len(sizes)), sizes), np.arange(int(ends[-1]))
        if self.by is not None:
            (codes,) = order_codes(results[self.by])
            order = np.lexsort((~codes if self.falls else codes, ~valid_mask(results[self.by]), owners))
        ranks = np.arange(len(order)) - np.repeat(ends[:-1], sizes) + 1
        if self.top is not None:
            order, ranks = order[ranks <= self.top], ranks[ranks <= self.top]
            sizes = np.minimum(sizes, self.top)
        columns = [column.take(pa.array(order)) for column in (*held[: len(self.keys)], *results)]
        fields = [self.output.value_type.field(place) for place in range(self.output.value_type.num_fields)]
        rows = pa.StructArray.from_arrays([*columns, pa.array(ranks.astype(np.int32))], fields=fields)
        return lists(sizes, rows, self.output)

    def _each(self, columns: list[pa.Array]) -> list[State]:
        """Return the state of each part, of which the cells are the groups."""
        sizes = (len(part.state_types()) for part in self.parts)
        return [columns[a:b] for a, b in pairwise(accumulate(sizes, initial=len(self.keys)))]

    def _state(self, sizes: Ints, columns: list[pa.Array]) -> State:
        return [lists(sizes, column, kind) for column, kind in zip(columns, self.state_types(), strict=True)]


def _grouped(owners: Ints, keys: list[pa.Array]) -> tuple[Ints, Bools]:
    """Return the order by owner, then the keys, of equals as they stand; and which entry is the first of its group."""
    columns = [owners]
    for key in keys:
        valid = valid_mask(key)
        columns += [valid.astype(np.int64), np.where(valid, order_codes(key)[0], 0)]
    order = np.lexsort(columns[::-1])
    return order, changes(*(column[order] for column in columns))


def exploded(results: pa.Array, names: Sequence[str]) -> tuple[Ints, list[pa.Array]]:
    """Return for each row of a column of lists of structs the place of its list, and the structs' columns of names."""
    filled = results.filter(pa.array(valid_mask(results)))
    sizes = np.diff(offsets_of(filled))
    rows = filled.flatten()
    columns = dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))
    return np.repeat(np.flatnonzero(valid_mask(results)), sizes), [columns[name] for name in names]
