"""Where the cells of slices are stored: a run of slots in one value, ("slices", first slot, 0).

A stored value costs a round trip to the state store, whatever it holds, and a batch that replays a day may have
hundreds of slots of a few cells. So slots that a batch changes are stored together while they are small. Only values
with a changed slot are rewritten, so a batch costs by what is new and not by what is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from framework.core.stable_order import distinct, stable_order
from state.codec import decode_table, encode_table
from state.store import KeyGroupStore

SLICES_KIND = "slices"
_RUN_BYTES = 2**15
"""A run of several slots has about so many at most; to rewrite them costs as much as a round trip or two."""


class SliceStorage:
    """The stored values of one key group. Their runs of slots do not overlap."""

    def __init__(self, store: KeyGroupStore, runs: dict[int, int]) -> None:
        """Read nothing yet; `runs` are those in the header, first slot -> number of slots, and kept up to date."""
        self._store = store
        self._runs = runs
        self._known: set[int] = set()
        """The first slots of values that were read, or written, in this batch."""

    def read(self, slots: np.ndarray) -> list[pa.Table]:
        """Return the cells of each value that has one of these slots and is not in memory yet."""
        unknown = [first for first in self._runs_with(slots)[0].tolist() if first not in self._known]
        self._known.update(unknown)
        return [decode_table(self._store.read(SLICES_KIND, first, 0)) for first in unknown]

    def retain(self, slots: np.ndarray) -> None:
        """Remove the values that have none of these slots, which are ascending."""
        firsts, ends = self._bounds()
        for first in firsts[np.searchsorted(slots, firsts) == np.searchsorted(slots, ends)].tolist():
            self._remove(first)

    def write(self, changed: np.ndarray, slots: np.ndarray, cells_at: Callable[[np.ndarray], pa.Table]) -> None:
        """Write the changed slots, together with the others of the values that have them.

        Args:
            changed: the slots, ascending.
            slots: the slot of each cell in memory.
            cells_at: returns the cells at these positions.
        """
        firsts, ends = self._runs_with(changed)
        at = np.flatnonzero(_within(slots, changed, changed + 1) | _within(slots, firsts, ends))
        at = at[stable_order(slots[at])]
        cells, slots = cells_at(at), slots[at]
        for first in firsts.tolist():
            self._remove(first)
        most = _RUN_BYTES * len(slots) // max(cells.nbytes, 1)
        for begin, end in _cut(slots, self._bounds()[0], most):
            first = int(slots[begin])
            self._store.write(SLICES_KIND, first, 0, encode_table(cells.slice(begin, end - begin)))
            self._runs[first] = int(slots[end - 1]) + 1 - first
            self._known.add(first)

    def _remove(self, first: int) -> None:
        self._store.remove(SLICES_KIND, first, 0)
        del self._runs[first]

    def _runs_with(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first slot of each value that has one of these slots, and the one after its last."""
        firsts, ends = self._bounds()
        at = distinct(np.searchsorted(firsts, slots[_within(slots, firsts, ends)], side="right") - 1)
        return firsts[at], ends[at]

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first slot of each value, ascending, and the one after its last."""
        firsts = np.array(sorted(self._runs), dtype=np.int64)
        return firsts, firsts + np.array([self._runs[first] for first in firsts.tolist()], dtype=np.int64)


def _within(values: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return whether each value is in one of these ranges, which are ascending and do not overlap."""
    inside: np.ndarray = np.searchsorted(firsts, values, side="right") > np.searchsorted(ends, values, side="right")
    return inside


def _cut(slots: np.ndarray, others: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of runs of ascending slots: at most so many cells, or one slot, and no other value between.

    >>> list(_cut(np.array([1, 1, 2, 3, 7, 7, 7]), np.array([5]), 3))
    [(0, 3), (3, 4), (4, 7)]
    """
    if not len(slots):
        return
    starts = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
    gaps = np.searchsorted(others, slots[starts[:-1]]).tolist()
    begin = 0
    for (start, end), (gap_before, gap) in zip(pairwise(starts[1:]), pairwise(gaps), strict=True):
        if end - begin > most or gap != gap_before:
            yield begin, start
            begin = start
    yield begin, len(slots)
