"""Any orderable type as 64-bit integers that compare the same way, so that every extreme is one integer loop.

Numbers, booleans, dates and times have such an integer each. Texts, binaries and decimals get their rank among the
values of a call, which is not comparable with that of another call. NaN is larger than every number, as in Spark.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.aggregates.columns import Floats, Ints, canonical_nan, raw_values

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
