# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""count, sum and mean. Integers are added exactly, floats strictly from left to right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import (
    FLOAT64,
    INT64,
    Floats,
    Ints,
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
