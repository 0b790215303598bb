# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""stddev: the sample standard deviation, without losing digits to a large mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import (
    FLOAT64,
    Floats,
    Ints,
    canonical_nan,
    extended,
    raw_values,
    valid_values,
    with_nulls,
)
from panekeeper.framework.core.aggregates.protocol import Accumulator, State
from panekeeper.framework.core.aggregates.ranges import PartialColumns, merge_ranges


@dataclass(frozen=True, kw_only=True)
class StdDev(Accumulator):
    """Sample standard deviation (n - 1). State: n, shift, sum(x - shift), sum((x - shift)**2).

    The shift is the first value of the cell, or after `merge_ranges` the mean. A running mean (Welford) would need the
    rows one at a time; with a fixed shift the left fold is two scattered additions.
    """

    output: pa.DataType = FLOAT64

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), pa.float64(), pa.float64(), pa.float64()]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, shift, first, second = (extended(column, n_cells) for column in self.with_empty_columns(state))
        values, cells = valid_values(rows, self.inputs[0], cells)
        values = values.astype(np.float64, copy=False)
        opening = np.flatnonzero(counts[cells] == 0)[::-1]
        shift[cells[opening]] = values[opening]  # where a cell repeats, the last assignment stays: its first row
        counts += np.bincount(cells, minlength=n_cells)
        with np.errstate(all="ignore"):
            distance = values - shift[cells]
            np.add.at(first, cells, distance)
            np.add.at(second, cells, distance * distance)
        return _state(counts, shift, first, second)

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        with np.errstate(all="ignore"):
            moments = _moments([raw_values(column) for column in self.with_empty_columns(state)])
            counts, shift, offset, squares = merge_ranges(moments, lo, hi, empty=(0, 0, 0, 0), merge=_merge_moments)
            return _state(counts.astype(np.int64), shift + offset, np.zeros(len(lo)), squares)

    def finish(self, state: State) -> pa.Array:
        with np.errstate(all="ignore"):
            counts, _, _, squares = _moments([raw_values(column) for column in self.with_empty_columns(state)])
            deviation: Floats = np.sqrt(squares / np.maximum(counts - 1, 1))
        return with_nulls(canonical_nan(deviation), counts > 1)


def _state(counts: Ints, *sums: Floats) -> State:
    return [pa.array(counts), *(pa.array(canonical_nan(column)) for column in sums)]


def _moments(columns: list[Ints | Floats]) -> PartialColumns:
    """Number (as float: it takes part in products), shift, mean - shift, and sum of squared distances from the mean.

    The mean stays in two parts: as one number it would be rounded to the digits of its own size, and the distance
    between two means of large, close values would be rounding error.
    """
    counts, shift, first, second = columns
    offset = first / np.maximum(counts, 1)
    return counts.astype(np.float64), shift, offset, np.maximum(second - first * offset, 0.0)


def _merge_moments(left: PartialColumns, right: PartialColumns) -> PartialColumns:
    """Merge moments pairwise [Chan, Golub, LeVeque 1979]; an empty side leaves the other untouched."""
    n_left, shift_left, offset_left, m2_left = left
    n_right, shift_right, offset_right, m2_right = right
    n = n_left + n_right
    share = n_right / np.maximum(n, 1)
    delta = (shift_right - shift_left) + (offset_right - offset_left)
    shift = np.where(n_left == 0, shift_right, shift_left)
    offset = offset_left + delta * share
    m2 = m2_left + m2_right + delta * delta * n_left * share
    for merged, ours, theirs in ((offset, offset_left, offset_right), (m2, m2_left, m2_right)):
        np.copyto(merged, ours, where=n_right == 0)
        np.copyto(merged, theirs, where=n_left == 0)
    return n, shift, offset, m2
