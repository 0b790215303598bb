"""Ranges of neighbouring cells, heavily overlapping, merged all at once.

A window thirty times as long as its slices reads every cell thirty times. Instead, level k holds the merge of the
2^k cells from each position on; a range takes one part for each bit of its length, small parts first. The work is
(cells + ranges) * log2(longest range), and the value of a range depends on its own cells only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from panekeeper.framework.core.aggregates.columns import Floats, Ints, Values
from panekeeper.framework.core.stable_order import distinct, stable_order

PartialColumns = tuple[Values, ...]
"""One or more arrays of equal length that together are a column of partial results."""

Merge = Callable[[PartialColumns, PartialColumns], PartialColumns]
"""Merges two columns entry by entry; the left one is the earlier."""


_SHORT = 16
"""Reading this many cells costs as much as merging one."""
_LONG = 2**9
"""Groups of so many values are added up one by one; shorter ones together."""
_BLOCK = 2**14
"""Ranges merged at once if their cells are close together: few enough to stay in the processor's cache."""


def merge_ranges(
    level: PartialColumns, lo: Ints, hi: Ints, *, empty: tuple[float, ...], merge: Merge, within: bool = False
) -> PartialColumns:
    """Merge cells `lo[j] .. hi[j] - 1` for each j.

    Args:
        level: the cells.
        lo: first cell of each range.
        hi: cell after the last one of each range; a range with `hi == lo` gives `empty`.
        empty: neutral entry: merging it changes nothing, to the last bit.
        merge: must not change its arguments.
        within: merge only cells that are in one range together: others may be of different partitions. For those
            `merge` gets `empty` on the right.
    """
    starts = range(0, len(lo), _BLOCK)
    begin = [int(lo[start : start + _BLOCK].min()) for start in starts]
    end = [int(hi[start : start + _BLOCK].max()) for start in starts]
    scattered = sum(end) - sum(begin) > 2 * (len(level[0]) + len(lo))
    if len(lo) <= _BLOCK or scattered:
        return _merge_block(level, lo, hi, empty, merge, within=within)
    blocks = [
        _merge_block(
            tuple(part[first:past] for part in level),
            lo[start : start + _BLOCK] - first,
            hi[start : start + _BLOCK] - first,
            empty,
            merge,
            within=within,
        )
        for start, first, past in zip(starts, begin, end, strict=True)
    ]
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


def _merge_block(
    level: PartialColumns, lo: Ints, hi: Ints, empty: tuple[float, ...], merge: Merge, *, within: bool
) -> PartialColumns:
    length = hi - lo
    longest = int(length.max(initial=0))
    at = lo.copy()
    merged: PartialColumns = tuple(
        np.full(len(lo), blank, dtype=part.dtype) for blank, part in zip(empty, level, strict=True)
    )
    reach = _reach(lo, hi, len(level[0])) if within else None
    span = 1
    while span <= longest:
        odd = np.flatnonzero(length & span)
        if len(odd) == len(lo):
            merged = merge(merged, tuple(part[at] for part in level))
            at += span
        elif len(odd):
            merged_parts = merge(tuple(part[odd] for part in merged), tuple(part[at[odd]] for part in level))
            for part, merged_part in zip(merged, merged_parts, strict=True):
                part[odd] = merged_part
            at[odd] += span
        if 2 * span <= longest:
            later = tuple(part[span:] for part in level)
            if reach is not None:
                separate = reach[: len(later[0])] < np.arange(len(later[0])) + 2 * span
                later = tuple(_with(blank, part, separate) for blank, part in zip(empty, later, strict=True))
            level = merge(tuple(part[:-span] for part in level), later)
        span *= 2
    return merged


def _reach(lo: Ints, hi: Ints, cells: int) -> Ints:
    """Return for each cell the end of the longest range that begins there or before."""
    reach = np.zeros(cells, dtype=np.int64)
    some = hi > lo
    np.maximum.at(reach, lo[some], hi[some])
    return np.maximum.accumulate(reach)


def _with(blank: float, values: Values, places: Values) -> Values:
    changed = values.copy()
    changed[places] = blank
    return changed


def are_short(lo: Ints, hi: Ints, n_cells: int) -> bool:
    """Return whether reading every range cell by cell costs less than `merge_ranges`."""
    return int((hi - lo).sum()) <= _SHORT * (n_cells + len(lo))


def extremes_of_ranges(values: Values, lo: Ints, hi: Ints, *, largest: bool) -> Values:
    """Return the greatest (or smallest) of `values[lo[j] : hi[j]]` for each j, undefined where the range is empty."""
    best = np.zeros(len(lo), dtype=values.dtype)
    filled = np.flatnonzero(hi > lo)
    # Sorted by their begin, the gaps between two ranges, which reduceat reads as well, do not overlap.
    filled = filled[stable_order(lo[filled])]
    edges = np.empty(2 * len(filled), dtype=np.int64)
    edges[::2], edges[1::2] = lo[filled], hi[filled]
    if len(edges):
        padded = np.append(values, values[-1:])  # an edge may be behind the last value
        best[filled] = (np.maximum if largest else np.minimum).reduceat(padded, edges)[::2]
    return best


def sum_ranges(values: Ints, lo: Ints, hi: Ints) -> Ints:
    """Add integers over each range: exact, by prefix sums, which may wrap around without harm."""
    prefix = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=prefix[1:])
    return prefix[hi] - prefix[lo]


def running_sums(begun: Floats, values: Floats, offsets: Ints) -> Floats:
    """Return for each value the sum of its group until then, strictly from left to right.

    Args:
        begun: what each group begins with.
        values: group by group.
        offsets: group g has the values `offsets[g] .. offsets[g + 1] - 1`.
    """
    sums, lengths = np.empty(len(values)), np.diff(offsets)
    for group in np.flatnonzero(lengths >= _LONG).tolist():
        first, end = offsets[group], offsets[group + 1]
        sums[first:end] = np.add.accumulate(np.append(begun[group], values[first:end]))[1:]
    classes = np.where(lengths < _LONG, np.frexp(lengths)[1], 0)
    for size_class in distinct(classes[classes > 0]).tolist():
        # Groups of about one length lie side by side, so what is filled up is at most as much as there is.
        is_one = classes == size_class
        place = np.repeat(is_one, lengths)
        grid = np.zeros((np.count_nonzero(is_one), int(lengths[is_one].max()) + 1))
        grid[:, 0] = begun[is_one]
        is_filled = np.arange(1, grid.shape[1]) <= lengths[is_one, np.newaxis]
        grid[:, 1:][is_filled] = values[place]
        sums[place] = np.add.accumulate(grid, axis=1)[:, 1:][is_filled]
    return sums
