"""Which pairs of rows match: equal in some columns, and near enough in time. No loop over rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.panes.pane_index import SortedCells
from panekeeper.framework.core.stable_order import distinct, gather_ranges

UNEQUAL = -1
"""Code of a row with a null among the columns that must be equal: it matches no row."""


def matches(
    codes: np.ndarray, earliest: np.ndarray, latest: np.ndarray, other_codes: np.ndarray, other_times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of all pairs: rows, and others of the same code at times in `[earliest, latest]`.

    >>> matches(np.array([0, 1]), np.array([3, 3]), np.array([5, 5]), np.array([0, 1, 0]), np.array([5, 6, 3]))
    (array([0, 0]), array([2, 0]))
    """
    others = SortedCells(other_codes, other_times)
    low, high = others.between(codes, earliest, latest + 1)
    high = np.where(codes == UNEQUAL, low, np.maximum(low, high))
    positions, offsets = gather_ranges(low, high)
    return np.repeat(np.arange(len(codes)), np.diff(offsets)), others.order[positions]


def equal_codes(new: Sequence[pa.ChunkedArray], kept: Sequence[pa.ChunkedArray]) -> tuple[np.ndarray, np.ndarray]:
    """Return a number for each new row and each kept one: the same if all columns are equal.

    Kept rows are many and most of them have other values, so they are looked up among those of the new rows, which are
    few. It is `UNEQUAL` where a column is null, and for a kept row that is equal to no new one.

    >>> a, b = pa.chunked_array([["x", None, "y"]]), pa.chunked_array([["y", "z", None]])
    >>> equal_codes([a], [b])
    (array([ 0, -1,  1]), array([ 1, -1, -1]))
    """
    codes, others = _codes_of_column(new[0], kept[0])
    for column, other in zip(new[1:], kept[1:], strict=True):
        of_column, others_of_column = _codes_of_column(column, other)
        span = int(of_column.max(initial=0)) + 1
        codes, others = (
            np.where((before == UNEQUAL) | (own == UNEQUAL), UNEQUAL, before * span + own)
            for before, own in ((codes, of_column), (others, others_of_column))
        )
        # Numbered anew after each column, so that the product of two stays far from the end of int64.
        known = distinct(codes[codes != UNEQUAL])
        codes, others = _place_in(known, codes), _place_in(known, others)
    return codes, others


def _codes_of_column(new: pa.ChunkedArray, kept: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    values = pc.unique(new).drop_null()
    codes, others = (
        pc.fill_null(pc.index_in(column, value_set=values), UNEQUAL).to_numpy().astype(np.int64)
        for column in (new, kept)
    )
    return codes, others


def _place_in(known: np.ndarray, values: np.ndarray) -> np.ndarray:
    if not len(known):
        return np.full(len(values), UNEQUAL)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[places] == values, places, UNEQUAL)
