# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""count, sum, mean and stddev. Integers are added exactly, floats strictly from left to right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import (
    FLOAT64,
    INT64,
    Floats,
    Ints,
    Values,
    canonical_nan,
    combine,
    extended,
    raw_values,
    valid_values,
    validity_or_none,
    with_nulls,
)
from panekeeper.framework.core.aggregates.protocol import Accumulator, State
from panekeeper.framework.core.aggregates.ranges import PartialColumns, merge_ranges, sum_ranges
from panekeeper.framework.declarations.errors import InputError

_HALF = 32
_EXACT_IN_DOUBLES = 2**53
_FAR = 2.0**62
_LOW = np.int64(2**_HALF - 1)


@dataclass(frozen=True, kw_only=True)
class CountAccumulator(Accumulator):
    """Number of rows, or of rows in which the column is not null. State: the number."""

    output: pa.DataType = INT64

    @property
    def merges_exactly(self) -> bool:
        return True

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64()]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts = extended(self.with_empty_columns(state)[0], n_cells)
        for column in self.inputs:
            mask = validity_or_none(combine(rows.column(column)))
            cells = cells if mask is None else cells[mask]
        counts += np.bincount(cells, minlength=n_cells)
        return [pa.array(counts)]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        return [pa.array(sum_ranges(raw_values(self.with_empty_columns(state)[0]), lo, hi))]

    def finish(self, state: State) -> pa.Array:
        return self.with_empty_columns(state)[0]


@dataclass(frozen=True, kw_only=True)
class FloatSum(Accumulator):
    """Sum or mean of floats, in double precision. State: number of values, their sum."""

    output: pa.DataType = FLOAT64
    mean: bool

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), pa.float64()]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, totals = (extended(column, n_cells) for column in self.with_empty_columns(state))
        values, cells = valid_values(rows, self.inputs[0], cells)
        counts += np.bincount(cells, minlength=n_cells)
        with np.errstate(all="ignore"):
            np.add.at(totals, cells, values.astype(np.float64, copy=False))
        return [pa.array(counts), pa.array(canonical_nan(totals))]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        counts, totals = (raw_values(column) for column in self.with_empty_columns(state))
        with np.errstate(all="ignore"):
            (merged,) = merge_ranges((totals,), lo, hi, empty=(0.0,), merge=_plus)
        return [pa.array(sum_ranges(counts, lo, hi)), pa.array(canonical_nan(merged))]

    def finish(self, state: State) -> pa.Array:
        counts, totals = (raw_values(column) for column in self.with_empty_columns(state))
        return with_nulls(totals / np.maximum(counts, 1) if self.mean else totals, counts > 0)


@dataclass(frozen=True, kw_only=True)
class IntSum(Accumulator):
    """Sum or mean of integers. State: number of values, and the exact sum as high * 2**32 + low, 0 <= low < 2**32.

    Two halves, because a sum that leaves 64 bits on the way may well come back: whether an overflow is reported
    must depend on the rows, not on how the stream is split into batches.
    """

    mean: bool

    @property
    def merges_exactly(self) -> bool:
        return True

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), pa.int64(), pa.int64()]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, high, low = (extended(column, n_cells) for column in self.with_empty_columns(state))
        values, cells = valid_values(rows, self.inputs[0], cells)
        wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False)
        counts += np.bincount(cells, minlength=n_cells)
        np.add.at(high, cells, (wide >> _HALF).astype(np.int64, copy=False))
        np.add.at(low, cells, wide.view(np.int64) & _LOW)
        return _carried(counts, high, low)

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        counts, high, low = (sum_ranges(raw_values(column), lo, hi) for column in self.with_empty_columns(state))
        return _carried(counts, high, low)

    def finish(self, state: State) -> pa.Array:
        counts, high, low = (raw_values(column) for column in self.with_empty_columns(state))
        if self.mean:
            totals: Floats = high * 2.0**_HALF + low
            return with_nulls(totals / np.maximum(counts, 1), counts > 0)
        beyond = np.flatnonzero((high >= 2**31) | (high < -(2**31)))
        if len(beyond):
            exact = int(high[beyond[0]]) * 2**_HALF + int(low[beyond[0]])
            name = self.inputs[0]
            raise InputError(
                f"agg.sum({name!r}): the sum of a window is {exact}, beyond 64 bits; cast {name!r} to double"
            )
        return with_nulls((high << _HALF) + low, counts > 0)


def _plus(left: PartialColumns, right: PartialColumns) -> PartialColumns:
    return (left[0] + right[0],)


def _carried(counts: Ints, high: Ints, low: Ints) -> State:
    return [pa.array(counts), pa.array(high + (low >> _HALF)), pa.array(low & _LOW)]


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
        opening = np.flatnonzero(counts[cells] == 0)[::-1]
        shift[cells[opening]] = values[opening]  # where a cell repeats, the last assignment stays: its first row
        counts += np.bincount(cells, minlength=n_cells)
        with np.errstate(all="ignore"):
            distance = _distances(values, shift[cells])
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


def _distances(values: Values, shifts: Floats) -> Floats:
    """Return how far each value is from the shift of its cell, which is a whole number where the values are.

    A double does not hold every integer beyond 2**53, so greater ones are subtracted as integers: the difference of two
    fits 64 bits, whatever wraps around on the way, unless they are further apart than doubles can tell exactly anyway.
    """
    rough: Floats = values.astype(np.float64, copy=False) - shifts
    if values.dtype.kind == "f" or not len(values) or max(int(values.max()), -int(values.min())) < _EXACT_IN_DOUBLES:
        return rough
    high = np.floor(shifts * 2.0**-_HALF)
    shift_words = (high.astype(np.int64) << _HALF) + (shifts - high * 2.0**_HALF).astype(np.int64)
    words = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False).view(np.int64)
    return np.where(np.abs(rough) < _FAR, (words - shift_words).astype(np.float64), rough)


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
