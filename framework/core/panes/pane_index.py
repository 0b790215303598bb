"""The rows that a partition has in a pane: rows of a table, sorted by (partition, slice), as ranges.

A pane is a range of slices and a partition has one code, so what the two share is one range of the sorted rows: two
binary searches, for any number of pairs at once.
"""

from __future__ import annotations

import numpy as np

from framework.core.panes.geometry import Geometry
from framework.core.partition_keys import first_seen
from framework.core.stable_order import distinct, stable_order


def number_cells(codes: np.ndarray, slices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of each row's cell, in the order in which cells appear, and code and slice of each cell.

    >>> number_cells(np.array([4, 4, 5]), np.array([-1, -1, -1]))
    (array([0, 0, 1]), array([4, 5]), array([-1, -1]))
    """
    low = int(slices.min())
    span = int(slices.max()) - low + 1
    cells, found = first_seen(codes * span + (slices - low))
    return cells, found // span, found % span + low


class CellIndex:
    """The rows of a table sorted by (code, slice); rows of one cell stay in their order."""

    def __init__(self, codes: np.ndarray, slices: np.ndarray, geometry: Geometry) -> None:
        self._geometry = geometry
        self._base = int(slices.min()) if len(slices) else 0
        self._span = int(slices.max()) - self._base + 1 if len(slices) else 1
        sortable = codes * self._span + (slices - self._base)
        self.order = stable_order(sortable)
        self._sorted = sortable[self.order]

    def ranges(self, codes: np.ndarray, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (lo, hi): the range of `order` that has each pair's rows; lo == hi if there are none."""
        first, end = self._geometry.slice_range(panes)
        low = codes * self._span + np.clip(first - self._base, 0, self._span)
        high = codes * self._span + np.clip(end - self._base, 0, self._span)
        return np.searchsorted(self._sorted, low), np.searchsorted(self._sorted, high)

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) of every partition that has rows in each pane, pane by pane, codes ascending."""
        present = distinct(self._sorted // self._span)
        codes, repeated = np.tile(present, len(panes)), np.repeat(panes, len(present))
        low, high = self.ranges(codes, repeated)
        return codes[low < high], repeated[low < high]
