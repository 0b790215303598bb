# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""stddev, variance, skewness, covariance and corr: sums about a fixed shift, which is the first value of a cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import (
    FLOAT64,
    Floats,
    Ints,
    Values,
    canonical_nan,
    doubles_of_all,
    extended,
    raw_values,
    valid_values,
    with_nulls,
)
from panekeeper.framework.core.aggregates.protocol import Accumulator, State
from panekeeper.framework.core.aggregates.ranges import PartialColumns, merge_ranges

_HALF = 32
_EXACT_IN_DOUBLES = 2**53
_FAR = 2.0**62


@dataclass(frozen=True, kw_only=True)
class Spread(Accumulator):
    """Sample variance (n - 1), or its square root. State: n, shift, sum(x - shift), sum((x - shift)**2).

    The shift is the first value of the cell, or after `merge_ranges` the mean. A running mean (Welford) would need the
    rows one at a time; with a fixed shift the left fold is two scattered additions.
    """

    output: pa.DataType = FLOAT64
    is_root: bool

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), pa.float64(), pa.float64(), pa.float64()]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, shift, first, second = (extended(column, n_cells) for column in self.with_empty_columns(state))
        values, cells = valid_values(rows, self.inputs[0], cells)
        with np.errstate(all="ignore"):
            distance = _distances(values, _opened(shift, values, cells, counts))
            np.add.at(first, cells, distance)
            np.add.at(second, cells, distance * distance)
        counts += np.bincount(cells, minlength=n_cells)
        return _state(counts, shift, first, second)

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        with np.errstate(all="ignore"):
            moments = _moments([raw_values(column) for column in self.with_empty_columns(state)])
            counts, shift, offset, squares = merge_ranges(moments, lo, hi, empty=(0, 0, 0, 0), merge=_merge_moments)
            return _state(counts.astype(np.int64), shift + offset, np.zeros(len(lo)), squares)

    def finish(self, state: State) -> pa.Array:
        with np.errstate(all="ignore"):
            counts, _, _, squares = _moments([raw_values(column) for column in self.with_empty_columns(state)])
            variance: Floats = squares / np.maximum(counts - 1, 1)
        return with_nulls(canonical_nan(np.sqrt(variance) if self.is_root else variance), counts > 1)


@dataclass(frozen=True, kw_only=True)
class Skewness(Accumulator):
    """How much longer one tail is: n**0.5 * m3 / m2**1.5. State: n, shift, sums of (x - shift) by 1, 2 and 3."""

    output: pa.DataType = FLOAT64

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), *[pa.float64()] * 4]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, shift, *sums = (extended(column, n_cells) for column in self.with_empty_columns(state))
        values, cells = valid_values(rows, self.inputs[0], cells)
        with np.errstate(all="ignore"):
            distance = _distances(values, _opened(shift, values, cells, counts))
            for total, power in zip(sums, (distance, distance * distance, distance * distance * distance), strict=True):
                np.add.at(total, cells, power)
        counts += np.bincount(cells, minlength=n_cells)
        return _state(counts, shift, *sums)

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        with np.errstate(all="ignore"):
            moments = self._moments(state)
            counts, shift, offset, *powers = merge_ranges(moments, lo, hi, empty=(0,) * 5, merge=_merge_three)
            return _state(counts.astype(np.int64), shift + offset, np.zeros(len(lo)), *powers)

    def finish(self, state: State) -> pa.Array:
        with np.errstate(all="ignore"):
            counts, _, _, squares, cubes = self._moments(state)
            skewness: Floats = np.sqrt(counts) * cubes / np.sqrt(squares * squares * squares)
        return with_nulls(canonical_nan(skewness), (counts > 0) & (squares != 0))

    def _moments(self, state: State) -> PartialColumns:
        *lower, third = [raw_values(column) for column in self.with_empty_columns(state)]
        counts, shift, offset, squares = _moments(lower)
        cubes = third - 3 * offset * lower[3] + 2 * counts * offset * offset * offset
        return counts, shift, offset, squares, cubes


@dataclass(frozen=True, kw_only=True)
class Comoments(Accumulator):
    """Sample covariance of two columns, or their correlation. Rows in which one of them is null do not take part.

    State: n, the shifts of both, sums of (x - shift) and (y - shift), of the squares of each, and of the products.
    """

    output: pa.DataType = FLOAT64
    is_correlation: bool

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), *[pa.float64()] * 7]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, shift_x, shift_y, *sums = (extended(column, n_cells) for column in self.with_empty_columns(state))
        (x, y), cells = doubles_of_all(rows, self.inputs, cells)
        with np.errstate(all="ignore"):
            x = x - _opened(shift_x, x, cells, counts)
            y = y - _opened(shift_y, y, cells, counts)
            for total, added in zip(sums, (x, y, x * x, y * y, x * y), strict=True):
                np.add.at(total, cells, added)
        counts += np.bincount(cells, minlength=n_cells)
        return _state(counts, shift_x, shift_y, *sums)

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        with np.errstate(all="ignore"):
            moments = self._moments(state)
            counts, *parts = merge_ranges(moments, lo, hi, empty=(0,) * 8, merge=_merge_comoments)
            shift_x, shift_y, offset_x, offset_y, *squares = parts
            nothing = np.zeros(len(lo))
            return _state(counts.astype(np.int64), shift_x + offset_x, shift_y + offset_y, nothing, nothing, *squares)

    def finish(self, state: State) -> pa.Array:
        with np.errstate(all="ignore"):
            counts, *_, square_x, square_y, product = self._moments(state)
            spread = np.sqrt(square_x) * np.sqrt(square_y)
            results: Floats = product / (spread if self.is_correlation else np.maximum(counts - 1, 1))
        return with_nulls(canonical_nan(results), (counts > 1) & ((spread != 0) | (not self.is_correlation)))

    def _moments(self, state: State) -> PartialColumns:
        """Return n, shifts, mean - shift of each, and the sums of squares and products of distances from the means."""
        counts, shift_x, shift_y, x, y, square_x, square_y, product = (
            raw_values(column) for column in self.with_empty_columns(state)
        )
        offset_x, offset_y = (total / np.maximum(counts, 1) for total in (x, y))
        return (
            counts.astype(np.float64),
            *(shift_x, shift_y, offset_x, offset_y),
            *(np.maximum(square_x - x * offset_x, 0.0), np.maximum(square_y - y * offset_y, 0.0)),
            product - x * offset_y,
        )


def _opened(shift: Floats, values: Values, cells: Ints, counts: Ints) -> Floats:
    """Set the shift of each cell without values to its first one, in place, and return that of the cell of each row."""
    opening = np.flatnonzero(counts[cells] == 0)[::-1]
    shift[cells[opening]] = values[opening]  # where a cell repeats, the last assignment stays: its first row
    return shift[cells]


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


def _merge_three(left: PartialColumns, right: PartialColumns) -> PartialColumns:
    """Merge moments of three orders pairwise, as `_merge_moments` does those of two [Pebay 2008]."""
    n_left, shift_left, offset_left, m2_left, m3_left = left
    n_right, shift_right, offset_right, m2_right, m3_right = right
    n, shift, offset, m2 = _merge_moments(left[:4], right[:4])
    delta = (shift_right - shift_left) + (offset_right - offset_left)
    all_rows = np.maximum(n, 1)
    m3 = m3_left + m3_right + delta * delta * delta * (n_left * n_right * (n_left - n_right) / (all_rows * all_rows))
    m3 += 3 * delta * (n_left * m2_right - n_right * m2_left) / all_rows
    np.copyto(m3, m3_left, where=n_right == 0)
    np.copyto(m3, m3_right, where=n_left == 0)
    return n, shift, offset, m2, m3


def _merge_comoments(left: PartialColumns, right: PartialColumns) -> PartialColumns:
    """Merge the moments of two columns pairwise; an empty side leaves the other untouched."""
    n_left, shift_x_left, shift_y_left, x_left, y_left, xx_left, yy_left, xy_left = left
    n_right, shift_x_right, shift_y_right, x_right, y_right, xx_right, yy_right, xy_right = right
    n, shift_x, offset_x, xx = _merge_moments(
        (n_left, shift_x_left, x_left, xx_left), (n_right, shift_x_right, x_right, xx_right)
    )
    _, shift_y, offset_y, yy = _merge_moments(
        (n_left, shift_y_left, y_left, yy_left), (n_right, shift_y_right, y_right, yy_right)
    )
    delta_x = (shift_x_right - shift_x_left) + (x_right - x_left)
    delta_y = (shift_y_right - shift_y_left) + (y_right - y_left)
    xy = xy_left + xy_right + delta_x * delta_y * n_left * (n_right / np.maximum(n, 1))
    np.copyto(xy, xy_left, where=n_right == 0)
    np.copyto(xy, xy_right, where=n_left == 0)
    return n, shift_x, shift_y, offset_x, offset_y, xx, yy, xy
