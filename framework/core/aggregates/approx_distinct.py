# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""approx_distinct: the k smallest hashes of a cell estimate its number of distinct values.

If the k-th smallest of evenly spread hashes is at fraction f of the range, there are about (k - 1) / f of them
(Bar-Yossef et al. 2002). Below k distinct values the count is exact. With k = 1024 the standard error is 3.1 %.

Hashes are stored, so they may never change: they are the same on every host, in every process and in every release, as
Python's and Arrow's own are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panekeeper.framework.core.aggregates.columns import (
    INT64,
    Ints,
    Values,
    absolute_code,
    combine,
    has_absolute_code,
    has_rank,
    lists,
    offsets_of,
    raw_values,
    valid_mask,
)
from panekeeper.framework.core.aggregates.protocol import Accumulator, State, fold_changed_cells
from panekeeper.framework.core.stable_order import bounds, changes

Hashes = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_BASE = 0xD6E8FEB86659FD93  # odd, so it has an inverse modulo 2**64
_INVERSE = pow(_BASE, -1, 2**64)
_HASHED_AT_ONCE = 2**20
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
    """Cut values into blocks of at most `_HASHED_AT_ONCE` bytes, or a single larger value."""
    start, n = 0, len(offsets) - 1
    while start < n:
        end = int(np.searchsorted(offsets, offsets[start] + _HASHED_AT_ONCE, side="right")) - 1
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


SKETCH_SIZE = 1024
"""Hashes kept a cell: at most 8 KiB. Part of the state: changing it changes the state version."""

_MERGED_AT_ONCE = 2**18
"""Hashes sorted at once while merging ranges."""


@dataclass(frozen=True, kw_only=True)
class ApproxDistinct(Accumulator):
    """Approximate number of distinct values that are not null. State: the smallest K hashes, rising.

    A set of hashes does not depend on the order they came in, so neither does the result.
    """

    output: pa.DataType = INT64

    def state_types(self) -> list[pa.DataType]:
        return [pa.list_(pa.uint64())]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        return fold_changed_cells(self._fold, self.with_empty_columns(state), cells, n_cells, rows, seq)

    def _fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        array = combine(rows.column(self.inputs[0]))
        ends, held = _hashes(state[0])
        owners = np.repeat(np.arange(len(state[0])), np.diff(ends))
        fresh = stable_hashes(array.drop_null())
        return [
            _smallest(
                np.concatenate([owners, cells[valid_mask(array)]]),
                np.concatenate([held, fresh]),
                n_cells,
            )
        ]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        ends, held = _hashes(self.with_empty_columns(state)[0])
        begin, size = ends[lo], ends[hi] - ends[lo]
        total = bounds(size)
        blocks, start = [pa.array([], pa.list_(pa.uint64()))], 0
        while start < len(lo):
            end = max(int(np.searchsorted(total, total[start] + _MERGED_AT_ONCE, side="right")) - 1, start + 1)
            sizes = size[start:end]
            owners = np.repeat(np.arange(end - start), sizes)
            within = np.arange(len(owners)) - np.repeat(total[start:end] - total[start], sizes)
            blocks.append(_smallest(owners, held[begin[start:end][owners] + within], end - start))
            start = end
        return [pa.concat_arrays(blocks)]

    def finish(self, state: State) -> pa.Array:
        ends, held = _hashes(self.with_empty_columns(state)[0])
        counts = np.diff(ends)
        full = counts == SKETCH_SIZE
        counts[full] = estimate(held[ends[1:][full] - 1], SKETCH_SIZE)
        return pa.array(counts)


def estimate(largest: Hashes, size: int) -> Ints:
    """Return about how many distinct values there are, at least `size`, by the last one of so many smallest hashes."""
    fraction = (largest.astype(np.float64) + 1.0) / 2.0**64
    return np.maximum(np.rint((size - 1) / fraction).astype(np.int64), size)


def _hashes(column: pa.Array) -> tuple[Ints, Hashes]:
    """Return where each list begins, plus where the last one ends, and the entries of all lists."""
    return offsets_of(column), raw_values(column.flatten())


def _smallest(owners: Ints, hashes: Hashes, n: int) -> pa.Array:
    """Return for each owner 0..n-1 its K smallest distinct hashes, rising."""
    order = order_by_hash(owners, hashes, n)
    owners, hashes = owners[order], hashes[order]
    new = changes(owners, hashes)
    owners, hashes = owners[new], hashes[new]
    counts = np.bincount(owners, minlength=n)
    if counts.max(initial=0) > SKETCH_SIZE:
        rank = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        hashes, counts = hashes[rank < SKETCH_SIZE], np.minimum(counts, SKETCH_SIZE)
    return lists(counts, pa.array(hashes), pa.list_(pa.uint64()))


def order_by_hash(owners: Ints, hashes: Hashes, n: int) -> Ints:
    """Order by owner 0..n-1, then hash.

    One sort of a single word (owner above the leading bits of the hash) is several times faster than `lexsort`;
    it decides the order unless two different hashes of one owner share those bits.
    """
    bits = max(n - 1, 1).bit_length()
    words = (owners.astype(np.uint64) << np.uint64(64 - bits)) | (hashes >> np.uint64(bits))
    order = np.argsort(words)
    words, sorted_hashes = words[order], hashes[order]
    if np.any((words[1:] == words[:-1]) & (sorted_hashes[1:] != sorted_hashes[:-1])):
        return np.lexsort((hashes, owners))
    return order
