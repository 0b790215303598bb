# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""Aggregates whose result is a value of one row (max, min, arg_max, arg_min, first, last), or all values (collect).

Each of the former selects a row in its cell, then takes that row's values. Rows are positions in `old state, then new
rows`, so a smaller position is an earlier arrival.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import (
    NO_ROW,
    Bools,
    Ints,
    combine,
    has_absolute_code,
    order_codes,
    raw_values,
    take,
    valid_mask,
    validity_or_none,
    with_nulls,
)
from panekeeper.framework.core.aggregates.protocol import Accumulator, ContentAggregate, State, fold_changed_cells
from panekeeper.framework.core.aggregates.ranges import PartialColumns, are_short, extremes_of_ranges, merge_ranges

_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, kw_only=True)
class Extreme(Accumulator):
    """The largest (or smallest) value of a column, or what another column says in that row.

    Rows in which the ordering column is null do not take part. Of equals the earliest arrival wins.
    State: the ordering value; with `value`, also that row's arrival number (null: no row yet) and value.
    """

    by: str
    by_type: pa.DataType
    value: str | None = None
    largest: bool

    @property
    def merges_exactly(self) -> bool:
        return self.value is None  # an arrival number is given in the key group

    def state_types(self) -> list[pa.DataType]:
        return [self.by_type] if self.value is None else [self.by_type, pa.int64(), self.output]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        if has_absolute_code(self.by_type):
            return self._fold(self.with_empty_columns(state), cells, n_cells, rows, seq)
        return fold_changed_cells(self._fold, self.with_empty_columns(state), cells, n_cells, rows, seq)

    def _fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        new = [combine(rows.column(self.by))]
        if self.value is not None:
            new += [pa.array(seq), combine(rows.column(self.value))]
        held, offered = self._rising(state[0], new[0])
        mask = validity_or_none(new[0])
        at = np.arange(len(cells)) if mask is None else np.flatnonzero(mask)
        if mask is not None:
            cells, offered = cells[at], offered[at]
        winner = _current_positions(valid_mask(state[0]), n_cells)
        better = _improves(held, winner, cells, offered)
        # Where a cell repeats, the last assignment stays; in reverse that is the earliest of equal rows.
        winner[cells[better[::-1]]] = len(state[0]) + at[better[::-1]]
        return [take(pa.concat_arrays([ours, theirs]), winner) for ours, theirs in zip(state, new, strict=True)]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        state = self.with_empty_columns(state)
        if self.value is None and _are_plain_numbers(state[0]) and are_short(lo, hi, len(state[0])):
            best = extremes_of_ranges(raw_values(state[0]), lo, hi, largest=self.largest)
            return [with_nulls(best, hi > lo).view(self.by_type)]
        seen = valid_mask(state[0])
        keys = [np.where(seen, self._rising(state[0])[0], _LEAST)]
        if self.value is not None:
            keys.append(np.where(seen, -raw_values(state[1]), _LEAST))
        winner = _best_of_ranges(keys, seen, lo, hi)
        return [take(column, winner) for column in state]

    def finish(self, state: State) -> pa.Array:
        return self.with_empty_columns(state)[-1]

    def _rising(self, *arrays: pa.Array) -> list[Ints]:
        """Return codes by which the selected extreme is the greatest."""
        return order_codes(*arrays) if self.largest else [~code for code in order_codes(*arrays)]


@dataclass(frozen=True, kw_only=True)
class FirstOrLast(Accumulator):
    """The value that is not null and arrived first (or last). State: arrival number (null: none yet), value."""

    earliest: bool

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), self.output]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        state = self.with_empty_columns(state)
        new = [pa.array(seq), combine(rows.column(self.inputs[0]))]
        at = np.flatnonzero(valid_mask(new[1]))
        winner = _current_positions(valid_mask(state[0]), n_cells)
        if self.earliest:
            at = at[winner[cells[at]] == NO_ROW][::-1]
        winner[cells[at]] = len(state[0]) + at  # where a cell repeats, the last assignment stays
        return [take(pa.concat_arrays([ours, theirs]), winner) for ours, theirs in zip(state, new, strict=True)]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        state = self.with_empty_columns(state)
        seen, seq = valid_mask(state[0]), raw_values(state[0])
        winner = _best_of_ranges([np.where(seen, -seq if self.earliest else seq, _LEAST)], seen, lo, hi)
        return [take(column, winner) for column in state]

    def finish(self, state: State) -> pa.Array:
        return self.with_empty_columns(state)[1]


def _are_plain_numbers(column: pa.Array) -> bool:
    """Return whether equal values have equal bits, and the processor orders them as we do: no null, no NaN, no -0.0."""
    if column.null_count or not has_absolute_code(column.type) or pa.types.is_boolean(column.type):
        return False
    values = raw_values(column)
    return values.dtype.kind != "f" or not (np.isnan(values) | ((values == 0) & np.signbit(values))).any()


def _current_positions(seen: Bools, n_cells: int) -> Ints:
    """Return the position of the row that is selected in each cell before the new rows."""
    winner = np.full(n_cells, NO_ROW, dtype=np.int64)
    winner[: len(seen)] = np.where(seen, np.arange(len(seen)), NO_ROW)
    return winner


def _improves(held: Ints, winner: Ints, cells: Ints, offered: Ints) -> Ints:
    """Return which rows are better than the one selected in their cell, and not worse than another new row."""
    bar = np.full(len(winner), _LEAST, dtype=np.int64)
    bar[: len(held)] = np.where(winner[: len(held)] == NO_ROW, _LEAST, held)
    best = bar.copy()
    np.maximum.at(best, cells, offered)
    return np.flatnonzero((offered == best[cells]) & ((offered > bar[cells]) | (winner[cells] == NO_ROW)))


def _best_of_ranges(keys: list[Ints], seen: Bools, lo: Ints, hi: Ints) -> Ints:
    """Return the cell with the greatest keys of each range, the left one of equals; `NO_ROW` if no cell has a row."""
    positions = np.where(seen, np.arange(len(seen)), NO_ROW)
    merge = _greater if len(keys) == 1 else _greater_by_two
    return merge_ranges((*keys, positions), lo, hi, empty=(*(_LEAST for _ in keys), NO_ROW), merge=merge)[-1]


def _greater(left: PartialColumns, right: PartialColumns) -> PartialColumns:
    # An unseen left cell yields: a seen one may have the least code as well, and must not lose to it.
    swap = (right[0] > left[0]) | (left[-1] == NO_ROW)
    return tuple(np.where(swap, theirs, ours) for ours, theirs in zip(left, right, strict=True))


def _greater_by_two(left: PartialColumns, right: PartialColumns) -> PartialColumns:
    swap = (right[0] > left[0]) | ((right[0] == left[0]) & (right[1] > left[1]))
    return tuple(np.where(swap, theirs, ours) for ours, theirs in zip(left, right, strict=True))


@dataclass(frozen=True, kw_only=True)
class Collect(ContentAggregate):
    """The values that are not null, as a list in arrival order; an empty list if there are none."""

    def from_content(self, rows: pa.Table, offsets: Ints) -> pa.Array:
        array = combine(rows.column(self.inputs[0]))
        kept = np.zeros(len(array) + 1, dtype=np.int64)
        np.cumsum(valid_mask(array), out=kept[1:])
        inside = kept[offsets]
        values = array.drop_null().slice(int(inside[0]), int(inside[-1] - inside[0]))
        ends = pa.array((inside - inside[0]).astype(np.int32))
        return pa.ListArray.from_arrays(ends, values, type=self.output)
