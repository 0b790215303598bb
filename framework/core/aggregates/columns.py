"""Arrow columns as numpy arrays and back, without a Python object for each row; any orderable type as 64-bit integers.

Integers that compare the same way as the values make every extreme one integer loop. Numbers, booleans, dates and times
have such an integer each. Texts, binaries and decimals get their rank among the values of a call, which is not
comparable with that of another call. NaN is larger than every number, as in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from panekeeper.framework.core.stable_order import bounds

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Values = NDArray[Any]

INT64 = pa.int64()
FLOAT64 = pa.float64()

NO_ROW = -1
"""Stands for no row in an array of positions."""


def combine(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one contiguous array."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def validity_or_none(array: pa.Array) -> Bools | None:
    """Return which entries are not null, or None if all are."""
    if array.null_count == 0:
        return None
    mask: Bools = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return mask


def valid_mask(array: pa.Array) -> Bools:
    """Return which entries are not null."""
    mask = validity_or_none(array)
    return np.ones(len(array), dtype=np.bool_) if mask is None else mask


def raw_values(array: pa.Array) -> Values:
    """Return the numbers of a fixed-width column as stored, read-only; undefined where the entry is null.

    Times and durations are their integers; booleans are 0 and 1.
    """
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if len(array) == 0 or array.buffers()[1] is None:
        return np.zeros(len(array), dtype=_dtype(array.type))
    values: Values = np.frombuffer(array.buffers()[1], dtype=_dtype(array.type), count=array.offset + len(array))
    return values[array.offset :]


def valid_values(rows: pa.Table, column: str, cells: Ints) -> tuple[Values, Ints]:
    """Return the numbers of a column that are not null, and their cells; decimals as the nearest doubles."""
    array = combine(rows.column(column))
    if pa.types.is_decimal(array.type):
        array = array.cast(FLOAT64)
    mask = validity_or_none(array)
    return (raw_values(array), cells) if mask is None else (raw_values(array)[mask], cells[mask])


def doubles_of_all(rows: pa.Table, columns: Sequence[str], cells: Ints) -> tuple[list[Floats], Ints]:
    """Return the numbers of columns as doubles, in the rows in which none of them is null, and the cells of these."""
    rows = rows.select(list(dict.fromkeys(columns)))
    valid = np.logical_and.reduce([valid_mask(combine(column)) for column in rows.columns])
    rows, cells = rows.filter(pa.array(valid)), cells[valid]
    return [valid_values(rows, column, cells)[0].astype(np.float64) for column in columns], cells


def extended(column: pa.Array, n_cells: int) -> Values:
    """Return a writable copy of a state column without nulls, continued with zeros up to `n_cells`."""
    values = np.zeros(n_cells, dtype=_dtype(column.type))
    values[: len(column)] = raw_values(column)
    return values


def canonical_nan(values: Floats) -> Floats:
    """Make every NaN the same one, in place: which operand's bits an addition keeps is up to the processor."""
    values[np.isnan(values)] = np.nan
    return values


def take(column: pa.Array, positions: Ints) -> pa.Array:
    """Return the entries at `positions`; null where the position is `NO_ROW`."""
    absent = positions == NO_ROW
    return column.take(pa.array(positions, mask=absent if absent.any() else None))


def with_nulls(values: Values, filled: Bools) -> pa.Array:
    """Return numbers as a column that is null where not `filled`."""
    return pa.array(values, mask=None if filled.all() else ~filled)


def whole_numbers(values: list[int | None], kind: pa.DataType) -> pa.Array:
    """Return whole numbers as a column of a type whose values are such: integers, durations, or decimals, in units."""
    if not pa.types.is_decimal(kind):
        return pa.array(values, kind)
    parts = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
    present = pa.array([value is not None for value in values], pa.bool_())
    return pa.Array.from_buffers(kind, len(values), [present.buffers()[1], pa.py_buffer(parts)])


def lists(sizes: Ints, values: pa.Array, kind: pa.DataType, missing: Bools | None = None) -> pa.Array:
    """Return values as lists of these sizes; null where `missing`."""
    offsets = bounds(sizes).astype(np.int32)
    mask = None if missing is None or not missing.any() else pa.array(missing)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=kind, mask=mask)


def offsets_of(column: pa.Array) -> Ints:
    """Return where each list begins in `column.flatten()`, plus where the last one ends."""
    if len(column) == 0:
        return np.zeros(1, dtype=np.int64)
    offsets: Ints = column.offsets.to_numpy().astype(np.int64)
    begins: Ints = offsets - offsets[0]
    return begins


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    if pa.types.is_boolean(kind):
        return np.dtype(np.int8)
    letter = "f" if pa.types.is_floating(kind) else "u" if pa.types.is_unsigned_integer(kind) else "i"
    return np.dtype(f"{letter}{kind.bit_width // 8}")


_LEAST = np.int64(np.iinfo(np.int64).min)
_MOST = np.int64(np.iinfo(np.int64).max)


def has_absolute_code(kind: pa.DataType) -> bool:
    """True if a value's integer does not depend on the other values."""
    return bool(pa.types.is_boolean(kind) or (pa.types.is_primitive(kind) and not pa.types.is_interval(kind)))


def has_rank(kind: pa.DataType) -> bool:
    """True if values of this type are ordered, though only among each other."""
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_decimal(kind)
    )


def order_codes(*arrays: pa.Array) -> list[Ints]:
    """Return the integers of several arrays of one type, comparable among all of them; undefined at nulls."""
    kind = arrays[0].type
    if not has_absolute_code(kind):
        return _ranks(arrays)
    return [absolute_code(array) for array in arrays]


def absolute_code(array: pa.Array) -> Ints:
    """Return the integer of each value of a type for which `has_own_code`."""
    values = raw_values(array)
    if values.dtype.kind == "f":
        return _float_codes(values.astype(np.float64))
    if values.dtype == np.uint64:
        return values.view(np.int64) ^ _LEAST
    wide: Ints = values.astype(np.int64, copy=False)
    return wide


def _float_codes(values: Floats) -> Ints:
    """The bits of a float, as sign and magnitude, turned into two's complement; -0.0 counts as 0.0."""
    values += 0.0
    bits = canonical_nan(values).view(np.int64)
    return bits ^ ((bits >> 63) & _MOST)


def _ranks(arrays: tuple[pa.Array, ...]) -> list[Ints]:
    encoded = pa.concat_arrays(arrays).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.zeros(max(len(order), 1), dtype=np.int64)
    rank[order] = np.arange(len(order), dtype=np.int64)
    ranks = rank[encoded.indices.fill_null(0).to_numpy()]
    ends = np.cumsum([len(array) for array in arrays])
    return np.split(ranks, ends[:-1])
