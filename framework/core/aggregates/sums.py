# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""count, sum, mean and stddev. Integers and decimals are added exactly, floats strictly from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

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
    whole_numbers,
    with_nulls,
)
from panekeeper.framework.core.aggregates.protocol import Accumulator, State
from panekeeper.framework.core.aggregates.ranges import PartialColumns, merge_ranges, sum_ranges
from panekeeper.framework.declarations.errors import InputError

_HALF = 32
_SMALLER, _LARGER = 2.0**-64, 2.0**64
_EXACT = Context(prec=100)
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
    """Sum or mean of floats, in double precision.

    State: number of values, their sum, and, only where that is not finite, the sum of the values by 2**-64: what leaves
    the range of doubles on the way may come back, and a mean always does.
    """

    output: pa.DataType = FLOAT64
    mean: bool

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), pa.float64(), pa.float64()]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, before, scaled = (extended(column, n_cells) for column in self.with_empty_columns(state))
        values, cells = valid_values(rows, self.inputs[0], cells)
        values = values.astype(np.float64, copy=False)
        counts += np.bincount(cells, minlength=n_cells)
        totals = before.copy()
        with np.errstate(all="ignore"):
            np.add.at(totals, cells, values)
            if not (is_finite := np.isfinite(totals)).all():
                scaled = np.where(np.isfinite(before), before * _SMALLER, scaled)
                np.add.at(scaled, cells, values * _SMALLER)
                scaled[is_finite] = 0.0
        return [pa.array(counts), pa.array(canonical_nan(totals)), pa.array(canonical_nan(scaled))]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        counts, totals, scaled = (raw_values(column) for column in self.with_empty_columns(state))
        merged_scaled = np.zeros(len(lo))
        with np.errstate(all="ignore"):
            (merged,) = merge_ranges((totals,), lo, hi, empty=(0.0,), merge=_plus)
            if not (is_finite := np.isfinite(merged)).all():
                all_scaled = np.where(np.isfinite(totals), totals * _SMALLER, scaled)
                (merged_scaled,) = merge_ranges((all_scaled,), lo, hi, empty=(0.0,), merge=_plus)
                merged_scaled[is_finite] = 0.0
        floats = (canonical_nan(merged), canonical_nan(merged_scaled))
        return [pa.array(sum_ranges(counts, lo, hi)), *map(pa.array, floats)]

    def finish(self, state: State) -> pa.Array:
        counts, totals, scaled = (raw_values(column) for column in self.with_empty_columns(state))
        by = np.maximum(counts, 1) if self.mean else np.ones(len(counts))
        with np.errstate(all="ignore"):
            results: Floats = np.where(np.isfinite(totals), totals / by, scaled / by * _LARGER)
        return with_nulls(canonical_nan(results), counts > 0)


@dataclass(frozen=True, kw_only=True)
class ExactSum(Accumulator):
    """Sum or mean of integers, decimals or durations.

    State: number of values, and the exact sum in words of 32 bits, the highest first; all but that one are >= 0. It has
    more bits than the result, because a sum that leaves the result's type on the way may well come back: whether an
    overflow is reported must depend on the rows, not on how the stream is split into batches.
    """

    mean: bool
    words: int = 2
    further_digits: int = 0
    """How many more digits behind the point a mean of decimals has than its values."""

    @property
    def merges_exactly(self) -> bool:
        return True

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64()] * (1 + self.words)

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, *words = (extended(column, n_cells) for column in self.with_empty_columns(state))
        array = combine(rows.column(self.inputs[0]))
        mask = validity_or_none(array)
        cells = cells if mask is None else cells[mask]
        counts += np.bincount(cells, minlength=n_cells)
        for word, part in zip(words, _words_of(array, self.words), strict=True):
            np.add.at(word, cells, part if mask is None else part[mask])
        return _carried(counts, words)

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        counts, *words = (sum_ranges(raw_values(column), lo, hi) for column in self.with_empty_columns(state))
        return _carried(counts, words)

    def finish(self, state: State) -> pa.Array:
        counts, high, *lower = (raw_values(column) for column in self.with_empty_columns(state))
        if pa.types.is_floating(self.output):
            totals: Floats = high * 2.0**_HALF + lower[0]
            return with_nulls(totals / np.maximum(counts, 1), counts > 0)
        if self.output == INT64 and ((high >= -(2**31)) & (high < 2**31)).all():
            return with_nulls((high << _HALF) + lower[0], counts > 0)
        exact = high.astype(object)
        for word in lower:
            exact = (exact << _HALF) + word
        results = [self._result(total, n) for total, n in zip(exact.tolist(), counts.tolist(), strict=True)]
        return whole_numbers(results, self.output)

    def _result(self, total: int, n: int) -> int | None:
        """Return the result in units of the type; raises `InputError` if the type has not so many digits."""
        if n == 0:
            return None
        result = half_up(total * 10**self.further_digits, n) if self.mean else total
        is_decimal = pa.types.is_decimal(self.output)
        beyond = 10**self.output.precision if is_decimal else 2**63
        if -beyond < result < beyond or result == -(2**63) == -beyond:
            return result
        name, what = self.inputs[0], "mean" if self.mean else "sum"
        shown: Any = Decimal(result).scaleb(-self.output.scale, _EXACT) if is_decimal else result
        kind = f"decimal({self.output.precision}, {self.output.scale})" if is_decimal else "64 bits"
        raise InputError(
            f"agg.{what}({name!r}): the {what} of a window is {shown}, beyond {kind}; cast {name!r} to double"
        )


def half_up(total: int, n: int) -> int:
    """Divide, and round to the nearest; what lies between two is rounded away from 0, as Spark does.

    >>> half_up(5, 2), half_up(-5, 2), half_up(4, 3)
    (3, -3, 1)
    """
    rounded = (2 * abs(total) + n) // (2 * n)
    return rounded if total >= 0 else -rounded


def _words_of(array: pa.Array, words: int) -> list[Ints]:
    """Return the words of whole numbers, the highest first, as `ExactSum` adds them; of decimals, of their units."""
    if pa.types.is_decimal(array.type):
        parts = np.frombuffer(array.buffers()[1] or b"", dtype="<i4").reshape(-1, 4)[array.offset :][: len(array)]
        lower = [parts[:, place].astype(np.int64) & _LOW for place in reversed(range(words - 1))]
        return [parts[:, words - 1].astype(np.int64), *lower]
    values = raw_values(array)
    wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False)
    return [(wide >> _HALF).astype(np.int64, copy=False), wide.view(np.int64) & _LOW]


def _plus(left: PartialColumns, right: PartialColumns) -> PartialColumns:
    return (left[0] + right[0],)


def _carried(counts: Ints, words: Sequence[Ints]) -> State:
    """Return the state with what is too much for a word in the next higher one."""
    highest, *lower = words
    carried: list[Ints] = []
    carry: Ints | None = None
    for word in reversed(lower):
        whole = word if carry is None else word + carry
        carried.insert(0, whole & _LOW)
        carry = whole >> _HALF
    return [pa.array(one) for one in (counts, highest if carry is None else highest + carry, *carried)]


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
