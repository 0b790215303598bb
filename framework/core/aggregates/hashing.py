"""64-bit hashes of column values that are the same on every host, in every process and in every release.

They are stored (in the sketch of approx_distinct), so they may never change; Python's and Arrow's own hashes may.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panekeeper.framework.core.aggregates.columns import Ints, Values
from panekeeper.framework.core.aggregates.ordering import absolute_code, has_absolute_code, has_rank

Hashes = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_BASE = 0xD6E8FEB86659FD93  # odd, so it has an inverse modulo 2**64
_INVERSE = pow(_BASE, -1, 2**64)
_BLOCK = 2**20
"""Bytes of text hashed at once: eight times as many stay in memory meanwhile."""


def is_hashable(kind: pa.DataType) -> bool:
    """True if `stable_hashes` takes values of this type."""
    return has_absolute_code(kind) or has_rank(kind)


def stable_hashes(array: pa.Array) -> Hashes:
    """Return a hash for each value of an array without nulls. Equal values of one type have equal hashes."""
    kind = array.type
    if has_absolute_code(kind):
        return _mixed(absolute_code(array).view(np.uint64))
    if pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        offsets = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * width
        content = np.frombuffer(array.buffers()[1] or b"", dtype=np.uint8)
    else:
        large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        offsets = np.frombuffer(array.buffers()[1] or bytes(8), dtype=np.int64 if large else np.int32)
        offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
        content = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)
    hashes = [_of_bytes(content, offsets[start : end + 1]) for start, end in _blocks(offsets)]
    return np.concatenate([np.empty(0, dtype=np.uint64), *hashes])


def _mixed(words: Hashes) -> Hashes:
    """The splitmix64 finaliser: every bit of the input reaches every bit of the hash; a bijection."""
    words = words + _GOLDEN
    words = (words ^ (words >> np.uint64(30))) * _MIX_1
    words = (words ^ (words >> np.uint64(27))) * _MIX_2
    return words ^ (words >> np.uint64(31))


def _blocks(offsets: Ints) -> Iterator[tuple[int, int]]:
    """Cut values into blocks of at most `_BLOCK` bytes, or a single larger value."""
    start, n = 0, len(offsets) - 1
    while start < n:
        end = int(np.searchsorted(offsets, offsets[start] + _BLOCK, side="right")) - 1
        end = min(max(end, start + 1), n)
        yield start, end
        start = end


def _of_bytes(content: Values, offsets: Ints) -> Hashes:
    """Hash each value as a polynomial in `_BASE` over randomised bytes, by prefix sums over the whole block."""
    size = int(offsets[-1] - offsets[0])
    powers = _powers(_BASE, size)
    prefix = np.zeros(size + 1, dtype=np.uint64)
    np.cumsum(_BYTES[content[offsets[0] : offsets[-1]]] * powers[:size], out=prefix[1:])
    begin, end = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    polynomial = (prefix[end] - prefix[begin]) * _powers(_INVERSE, size)[begin]
    return _mixed(_mixed(polynomial) ^ (end - begin).view(np.uint64))


def _powers(base: int, count: int) -> Hashes:
    factors = np.full(count + 1, np.uint64(base))
    factors[0] = 1
    return np.cumprod(factors)


_BYTES = _mixed(np.arange(1, 257, dtype=np.uint64))
