# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""count, sum, mean and weighted_mean. Integers and decimals are added exactly, floats strictly from left to right."""

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
    canonical_nan,
    combine,
    doubles_of_all,
    extended,
    raw_values,
    valid_values,
    validity_or_none,
    whole_numbers,
    with_nulls,
)
from panekeeper.framework.core.aggregates.protocol import Accumulator, PartRows, State
from panekeeper.framework.core.aggregates.ranges import PartialColumns, merge_ranges, running_sums, sum_ranges
from panekeeper.framework.core.stable_order import bounds
from panekeeper.framework.declarations.errors import InputError

_HALF = 32
_SMALLER, _LARGER = 2.0**-64, 2.0**64
_EXACT = Context(prec=100)
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

    def fold_parts(self, begun: State, offsets: Ints, rows: PartRows) -> State:
        counts, before, scaled = (raw_values(column) for column in begun)
        mask = validity_or_none(combine(rows.table.column(self.inputs[0])))
        rows = rows if mask is None else rows.only(mask)
        values = raw_values(combine(rows.table.column(self.inputs[0]))).astype(np.float64, copy=False)[rows.order]
        until = bounds(np.bincount(rows.parts, minlength=int(offsets[-1])))
        cells, first = np.repeat(np.arange(len(counts)), np.diff(offsets)), until[offsets]
        numbers = until[1:] - first[cells]

        def after_parts(start: Floats, added: Floats) -> Floats:
            sums = running_sums(start, added, first)
            return np.where(numbers > 0, np.append(sums, 0.0)[until[1:] - 1], start[cells])

        with np.errstate(all="ignore"):
            totals, all_scaled = after_parts(before, values), np.zeros(len(cells))
            if not (is_finite := np.isfinite(totals)).all():
                start = np.where(np.isfinite(before), before * _SMALLER, scaled)
                all_scaled = after_parts(start, values * _SMALLER)
                all_scaled[is_finite] = 0.0
        floats = (canonical_nan(totals), canonical_nan(all_scaled))
        return [pa.array(numbers + counts[cells]), *map(pa.array, floats)]

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


@dataclass(frozen=True, kw_only=True)
class WeightedMean(Accumulator):
    """Mean of values, each as often as its weight says. State: number of rows, sum of the products, of the weights."""

    output: pa.DataType = FLOAT64

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), pa.float64(), pa.float64()]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, products, weights = (extended(column, n_cells) for column in self.with_empty_columns(state))
        (values, by), cells = doubles_of_all(rows, self.inputs, cells)
        counts += np.bincount(cells, minlength=n_cells)
        with np.errstate(all="ignore"):
            np.add.at(products, cells, values * by)
            np.add.at(weights, cells, by)
        return [pa.array(counts), pa.array(canonical_nan(products)), pa.array(canonical_nan(weights))]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        counts, *sums = (raw_values(column) for column in self.with_empty_columns(state))
        with np.errstate(all="ignore"):
            merged = merge_ranges(tuple(sums), lo, hi, empty=(0.0, 0.0), merge=_plus)
        return [pa.array(sum_ranges(counts, lo, hi)), *(pa.array(canonical_nan(column)) for column in merged)]

    def finish(self, state: State) -> pa.Array:
        _, products, weights = (raw_values(column) for column in self.with_empty_columns(state))
        with np.errstate(all="ignore"):
            results: Floats = products / weights
        return with_nulls(canonical_nan(results), weights != 0)


@dataclass(frozen=True, kw_only=True)
class BitOr(Accumulator):
    """The bits that are set in any integer. State: number of values, and these bits."""

    @property
    def merges_exactly(self) -> bool:
        return True

    def state_types(self) -> list[pa.DataType]:
        return [pa.int64(), self.output]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        counts, bits = (extended(column, n_cells) for column in self.with_empty_columns(state))
        values, cells = valid_values(rows, self.inputs[0], cells)
        counts += np.bincount(cells, minlength=n_cells)
        np.bitwise_or.at(bits, cells, values)
        return [pa.array(counts), pa.array(bits)]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        counts, bits = (raw_values(column) for column in self.with_empty_columns(state))
        (merged,) = merge_ranges((bits,), lo, hi, empty=(0,), merge=_either)
        return [pa.array(sum_ranges(counts, lo, hi)), pa.array(merged)]

    def finish(self, state: State) -> pa.Array:
        counts, bits = (raw_values(column) for column in self.with_empty_columns(state))
        return with_nulls(bits, counts > 0)


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
    return tuple(a + b for a, b in zip(left, right, strict=True))


def _either(left: PartialColumns, right: PartialColumns) -> PartialColumns:
    return (left[0] | right[0],)


def _carried(counts: Ints, words: Sequence[Ints]) -> State:
    """Return the state with what is too much for a word in the next higher one."""
    highest, *lower = words
    carried: list[Ints] = []
    carry: Ints | None = None
    for word in reversed(lower):
        whole = word if carry is None else word + carry
        carried.insert(0, whole & _LOW)
        carry = whole >> _HALF
    return [pa.array(column) for column in (counts, highest if carry is None else highest + carry, *carried)]
