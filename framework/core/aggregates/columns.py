"""Arrow columns as numpy arrays and back, without a Python object for each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
    """Return the numbers of a column that are not null, and their cells."""
    array = combine(rows.column(column))
    mask = validity_or_none(array)
    return (raw_values(array), cells) if mask is None else (raw_values(array)[mask], cells[mask])


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
    """Return the entries at `positions`; null where the position is `NONE`."""
    absent = positions == NO_ROW
    return column.take(pa.array(positions, mask=absent if absent.any() else None))


def with_nulls(values: Values, filled: Bools) -> pa.Array:
    """Return numbers as a column that is null where not `filled`."""
    return pa.array(values, mask=None if filled.all() else ~filled)


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    if pa.types.is_boolean(kind):
        return np.dtype(np.int8)
    letter = "f" if pa.types.is_floating(kind) else "u" if pa.types.is_unsigned_integer(kind) else "i"
    return np.dtype(f"{letter}{kind.bit_width // 8}")
