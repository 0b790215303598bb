"""Which pairs of rows match: equal in their codes, and near enough in time. No loop over rows."""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.stable_order import gather_ranges, stable_order

UNEQUAL = -1
"""Code of a row with a null among the columns that must be equal: it matches no row."""


def matches(
    codes: np.ndarray, earliest: np.ndarray, latest: np.ndarray, other_codes: np.ndarray, other_times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of all pairs: rows, and others of the same code at times in `[earliest, latest]`.

    The others are sorted by code and time, so those of a row are one range. Times are replaced by how many are less,
    which fits into an int64 with any code.

    >>> matches(np.array([0, 1]), np.array([3, 3]), np.array([5, 5]), np.array([0, 1, 0]), np.array([5, 6, 3]))
    (array([0, 0]), array([2, 0]))
    """
    ascending = np.sort(other_times)
    span = len(ascending) + 1
    placed = other_codes * span + np.searchsorted(ascending, other_times)
    order = stable_order(placed)
    placed = placed[order]
    low = np.searchsorted(placed, codes * span + np.searchsorted(ascending, earliest))
    high = np.searchsorted(placed, codes * span + np.searchsorted(ascending, latest, side="right"))
    high = np.where(codes == UNEQUAL, low, np.maximum(low, high))
    positions, offsets = gather_ranges(low, high)
    return np.repeat(np.arange(len(codes)), np.diff(offsets)), order[positions]
