"""The rows that a partition has in a pane: rows of a table, sorted by (partition, slice), as ranges.

A pane is a range of slices and a partition has one code, so what the two share is one range of the sorted rows: two
binary searches, for any number of pairs at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.partition_keys import first_seen
from panekeeper.framework.core.stable_order import bounds, distinct, gather_ranges, stable_order

_FEW_CELLS = 8
"""Cells are counted by their number if there may be so many times more than rows, at most."""
_SEARCHED = 16
"""A search among sorted entries takes as long as to count so many of them."""
_FAR = 2**31
"""Slices that span more are numbered by their order; a batch has fewer partitions than that."""


def number_cells(codes: np.ndarray, slices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of each row's cell, in the order in which cells appear, and code and slice of each cell.

    >>> number_cells(np.array([4, 4, 5]), np.array([-1, -1, -1]))
    (array([0, 0, 1]), array([4, 5]), array([-1, -1]))
    """
    places = SlicePlaces(slices)
    cells, appearing = first_seen(codes * places.span + places.of(slices))
    return cells, appearing // places.span, places.slices(appearing % places.span)


@dataclass(frozen=True)
class Tally:
    """The cells that rows are in.

    Attributes:
        codes: the partition of each cell.
        slices: its slice.
        counts: how many rows it has.
    """

    codes: np.ndarray
    slices: np.ndarray
    counts: np.ndarray
    _keys: np.ndarray
    _found: np.ndarray | None

    @classmethod
    def of(cls, codes: np.ndarray, slices: np.ndarray, numbers: np.ndarray | None = None) -> Tally:
        """Count rows by their partition and slice; `numbers` says how many each entry stands for, if not one.

        >>> tally = Tally.of(np.array([4, 4, 5]), np.array([-1, -1, -1]), np.array([1, 1, 7]))
        >>> tally.codes, tally.slices, tally.counts, tally.cells
        (array([4, 5]), array([-1, -1]), array([2, 7]), array([0, 0, 1]))
        """
        places = SlicePlaces(slices)
        if (int(codes.max(initial=0)) + 1) * places.span > _FEW_CELLS * len(codes):
            cells, codes, slices = number_cells(codes, slices)
            return cls(codes, slices, np.bincount(cells, numbers).astype(np.int64), cells, None)
        keys = codes * places.span + places.of(slices)
        counts = np.bincount(keys, numbers)
        held = np.flatnonzero(counts)
        counts = counts[held].astype(np.int64)
        return cls(held // places.span, places.slices(held % places.span), counts, keys, held)

    @property
    def cells(self) -> np.ndarray:
        """The cell of each entry."""
        if self._found is None:
            return self._keys
        number = np.empty(int(self._found[-1]) + 1, dtype=np.int64)
        number[self._found] = np.arange(len(self._found))
        cells: np.ndarray = number[self._keys]
        return cells


class SlicePlaces:
    """Slices as numbers from 0 to `span`, in the same order, so small that they fit into an int64 with any code.

    It is the distance to the first slice, or, where slices lie far apart, the place among those that there are.
    """

    def __init__(self, slices: np.ndarray) -> None:
        self._base = int(slices.min()) if len(slices) else 0
        self.span = int(slices.max()) - self._base + 1 if len(slices) else 1
        self._known: np.ndarray | None = None
        if self.span > _FAR:
            self._known = distinct(slices)
            self.span = len(self._known)

    def of(self, slices: np.ndarray) -> np.ndarray:
        """Return the place of each slice, or of the next one that there is."""
        if self._known is not None:
            return np.searchsorted(self._known, slices)
        near: np.ndarray = np.clip(slices - self._base, 0, self.span)
        return near

    def slices(self, places: np.ndarray) -> np.ndarray:
        """Return the slice at each place."""
        return self._base + places if self._known is None else self._known[places]


class SortedCells:
    """Entries sorted by (code, slice), in `order`, so that those of a partition in a range of slices are one range.

    Entries of one cell stay in their order, or that of their `numbers`. Times (us) may stand for slices.
    """

    def __init__(self, codes: np.ndarray, slices: np.ndarray, numbers: np.ndarray | None = None) -> None:
        self._places = SlicePlaces(slices)
        sortable = codes * self._places.span + self._places.of(slices)
        self.order = stable_order(sortable) if numbers is None else stable_order(numbers, sortable)
        self._sorted = sortable[self.order]

    def between(self, codes: np.ndarray, first: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high): the range of `order` with what each partition has in `[first, end)`; it may be empty."""
        base, places = codes * self._places.span, self._places
        low, high = base + places.of(first), base + places.of(end)
        least, most = (int(self._sorted[0]), int(self._sorted[-1]) + 1) if len(self._sorted) else (0, 0)
        if least < 0 or len(self._sorted) + most > 2 * _SEARCHED * len(codes):  # a code of none is -1
            return np.searchsorted(self._sorted, low), np.searchsorted(self._sorted, high)
        begins = bounds(np.bincount(self._sorted))  # of each key that there may be
        return begins[np.clip(low, 0, most)], begins[np.clip(high, 0, most)]


class CellIndex(SortedCells):
    """The rows of a table by partition and pane."""

    def __init__(self, codes: np.ndarray, slices: np.ndarray, geometry: Geometry) -> None:
        super().__init__(codes, slices)
        self._geometry = geometry

    def ranges(self, codes: np.ndarray, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high): the range of `order` that has each pair's rows; low == high if there are none."""
        return self.between(codes, *self._geometry.slice_range(panes))

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) of every partition that has rows in each of these ascending panes, codes ascending.

        They are looked for among all pairs, or, where partitions have rows in few of the panes, cell by cell.
        """
        n_pairs = len(self._present) * len(panes)
        if n_pairs > len(self._cells):
            first, end = self._places_among(panes)
            if n_pairs > (end - first).sum():
                return self._pairs_of_cells(panes, first, end)
        codes, repeated = np.tile(self._present, len(panes)), np.repeat(panes, len(self._present))
        low, high = self.ranges(codes, repeated)
        return codes[low < high], repeated[low < high]

    @cached_property
    def _cells(self) -> np.ndarray:
        """The cells with rows, ascending, as `_sorted` has them."""
        return distinct(self._sorted)

    @cached_property
    def _present(self) -> np.ndarray:
        """The partitions with rows, ascending."""
        return distinct(self._cells // self._places.span)

    def _places_among(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each cell, the place of the first of these panes that has it, and the place after the last."""
        slices = self._places.slices(self._cells % self._places.span)
        first = np.searchsorted(panes, self._geometry.oldest_pane(slices))
        return first, np.maximum(first, np.searchsorted(panes, self._geometry.newest_pane(slices), side="right"))

    def _pairs_of_cells(self, panes: np.ndarray, first: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) as `pairs`, from what `_places_among` returned."""
        at, offsets = gather_ranges(first, end)
        n_codes = int(self._present[-1]) + 1
        pairs = distinct(at * n_codes + np.repeat(self._cells // self._places.span, np.diff(offsets)))
        return pairs % n_codes, panes[pairs // n_codes]
