"""Stable sorting of many small integers: partition codes, slices, positions, instants of a batch.

numpy sorts 64-bit integers by comparing them. Codes of a batch span few values, and counting them is up to twenty times
as fast (docs/decisions/0015-cpu-of-a-batch.md).
"""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FEW = 1000
"""Below this, comparing is as fast."""
_COUNTED = 2**12
"""Arrow counts values that span less, and compares others."""
_DIGIT = 16
"""Bits that numpy counts at once."""


def stable_order(*keys: np.ndarray) -> np.ndarray:
    """Return the positions that sort by the last key, then by the one before, and so on; equals keep their order.

    The same as `np.lexsort(keys)` of integers.

    >>> stable_order(np.array([3, 1, 3, 1]))
    array([1, 3, 0, 2])
    """
    order: np.ndarray | None = None
    for key in keys:
        further = _order(key if order is None else key[order])
        if further is not None:
            order = further if order is None else order[further]
    return np.arange(len(keys[0])) if order is None else order


def ranked(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct integers, ascending, and the place of each value among them.

    >>> ranked(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1]))
    """
    order = stable_order(values)
    ascending = values[order]
    is_new = changes(ascending)
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.cumsum(is_new) - 1
    return ascending[is_new], ranks


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct integers, ascending. `np.unique` hashes them: thirty times as long where there are many.

    >>> distinct(np.array([7, 3, 7]))
    array([3, 7])
    """
    ascending = values if (values[1:] >= values[:-1]).all() else values[stable_order(values)]
    distinct_values: np.ndarray = ascending[changes(ascending)]
    return distinct_values


def changes(*columns: np.ndarray) -> np.ndarray:
    """Return which entries differ from the one before, in any of the columns; the first one does."""
    differs = np.ones(len(columns[0]), dtype=np.bool_)
    differs[1:] = reduce(or_, [column[1:] != column[:-1] for column in columns])
    return differs


def bounds(sizes: np.ndarray) -> np.ndarray:
    """Return where each of some runs begins that lie end to end, and where the last one ends; of bools, how many hold.

    >>> bounds(np.array([2, 0, 1]))
    array([0, 2, 2, 3])
    """
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)])


def _order(values: np.ndarray) -> np.ndarray | None:
    """Return the positions that sort integers; None where they ascend, as mostly the times of rows do."""
    if (values[1:] >= values[:-1]).all():
        return None
    if len(values) < _FEW:
        return np.argsort(values, kind="stable")
    least = int(values.min())
    span = int(values.max()) - least
    if span < _COUNTED:
        counted: np.ndarray = pc.sort_indices(pa.array(values)).to_numpy().view(np.int64)  # stable
        return counted
    if span < 2**_DIGIT:
        return np.argsort((values - least).astype(np.uint16), kind="stable")
    if span < 2 ** (2 * _DIGIT):
        offsets = (values - least).astype(np.uint32)
        order = np.argsort(offsets.astype(np.uint16), kind="stable")  # counts; astype keeps the low bits
        return order[np.argsort((offsets >> _DIGIT)[order].astype(np.uint16), kind="stable")]
    return np.argsort(values, kind="stable")


def gather_ranges(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (positions, offsets): the ranges low..high-1 end to end, and where each begins (one more at the end).

    >>> gather_ranges(np.array([5, 0]), np.array([7, 1]))
    (array([5, 6, 0]), array([0, 2, 3]))
    """
    lengths = high - low
    offsets = bounds(lengths)
    positions = np.arange(offsets[-1]) + np.repeat(low - offsets[:-1], lengths)
    return positions, offsets
