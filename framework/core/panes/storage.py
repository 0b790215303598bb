"""What panes hold is stored in runs of slots: many small slots in one value.

A stored value costs a round trip to the state store, whatever it holds, and a batch that replays a day may have
hundreds of slots of a few cells or rows. So what a batch writes to neighbouring slots is stored together while it is
small. A value goes when the last slot of its run is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.stable_order import distinct, stable_order
from panekeeper.state.codec import decode_rows, decode_table, encode_rows, encode_table
from panekeeper.state.history import History
from panekeeper.state.store import KeyGroupStore

SLICES_KIND = "slices"
ROWS_KIND = "rows"
_RUN_BYTES = 2**15
"""A run of several slots has about so many at most; to rewrite them costs as much as a round trip or two."""
_CROWD = 16
"""A slot that so many values have rows of is stored anew."""
_BLOCK = 16
"""Rows are stored together if their slots, divided by this, are the same. So there are few kinds of runs, and a slot
that is read brings the rows of few others, however far apart those of a batch are."""


class SliceStorage:
    """Cells of slices, ("slices", first slot, 0), or of another kind. Runs do not overlap.

    Only values with a changed slot are rewritten, so a batch costs by what is new and not by what is kept.
    """

    def __init__(self, store: KeyGroupStore, runs: dict[int, int], kind: str = SLICES_KIND) -> None:
        """Read nothing yet; `runs` are those in the header, first slot -> number of slots, and kept up to date."""
        self._store = store
        self._kind = kind
        self._runs = runs
        self._known: set[int] = set()
        """The first slots of values that were read, or written, in this batch."""

    def read(self, slots: np.ndarray) -> list[pa.Table]:
        """Return the cells of each value that has one of these slots and is not in memory yet."""
        unknown = [first for first in self._runs_with(slots)[0].tolist() if first not in self._known]
        self._known.update(unknown)
        return [decode_table(self._store.read(self._kind, first, 0)) for first in unknown]

    def retain(self, slots: np.ndarray) -> None:
        """Remove the values that have none of these slots, which are ascending."""
        firsts, ends = self._bounds()
        for first in firsts[~_overlap(firsts, ends, slots)].tolist():
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
        for begin, end in _cut(slots, np.searchsorted(self._bounds()[0], slots), _most(cells)):
            first = int(slots[begin])
            self._store.write(self._kind, first, 0, encode_table(cells.slice(begin, end - begin)))
            self._runs[first] = int(slots[end - 1]) + 1 - first
            self._known.add(first)

    def _remove(self, first: int) -> None:
        self._store.remove(self._kind, first, 0)
        del self._runs[first]

    def _runs_with(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first slot of each value that has one of these slots, and the one after its last."""
        firsts, ends = self._bounds()
        has = _overlap(firsts, ends, slots)
        return firsts[has], ends[has]

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first slot of each value, ascending, and the one after its last."""
        firsts = np.array(sorted(self._runs), dtype=np.int64)
        return firsts, firsts + np.array([self._runs[first] for first in firsts.tolist()], dtype=np.int64)


class RowStorage:
    """Rows, ("rows", first slot, number). A value is written once, so there may be several of the same run.

    A run is a slot, or a whole block. The header has how many values there are of each: a pane that is open for long
    gets one with every batch, and a list of all of them would be written with every batch.
    """

    def __init__(
        self, store: KeyGroupStore, runs: dict[tuple[int, int], int], columns: pa.Schema, history: History
    ) -> None:
        """Read nothing yet; `runs` are those in the header, and kept up to date; `columns` are those that are read."""
        self._store = store
        self._columns = columns
        self._history = history
        self._runs = runs
        self._tables: dict[tuple[int, int], list[pa.Table]] = {}

    @property
    def tables(self) -> list[pa.Table]:
        """The rows of all values that were read."""
        return [table for values in self._tables.values() for table in values]

    def read(self, slots: np.ndarray) -> None:
        """Read the values that have one of these slots, which are ascending, and are not in memory yet."""
        for run in self._runs_with(slots):
            if run not in self._tables:
                values = (
                    self._store.read(ROWS_KIND, run[0], _number(run, number)) for number in range(self._runs[run])
                )
                self._tables[run] = [decode_rows(value, self._columns, self._history.carried_since) for value in values]

    def retain(self, slots: np.ndarray) -> None:
        """Remove the values that have none of these slots, which are ascending."""
        kept = set(self._runs_with(slots))
        for run in [run for run in self._runs if run not in kept]:
            self._remove(run)

    def write(self, new: pa.Table, first_open: int, slots_of: Callable[[pa.Table], np.ndarray]) -> None:
        """Write new rows; with them those of slots that lie in many values, if these are in memory.

        Args:
            new: the rows.
            first_open: no open slot is before this one.
            slots_of: returns the slot of each row.
        """
        crowd = self._crowd(distinct(slots_of(new)))
        rows = pa.concat_tables([*(table for run in crowd for table in self._tables[run]), new])
        for run in crowd:
            self._remove(run)
        slots = slots_of(rows)
        order = stable_order(slots)
        order = order[np.searchsorted(slots[order], first_open) :]
        rows, slots = rows.take(pa.array(order)), slots[order]
        for begin, end in _cut(slots, slots // _BLOCK, _most(rows)):
            first, last = int(slots[begin]), int(slots[end - 1])
            run = (first, 1) if first == last else (first // _BLOCK * _BLOCK, _BLOCK)
            value, others = rows.slice(begin, end - begin), self._runs.get(run, 0)
            self._store.write(ROWS_KIND, run[0], _number(run, others), encode_rows(value, self._history.declaration))
            self._runs[run] = others + 1
            if run in self._tables:
                self._tables[run].append(value)

    def _remove(self, run: tuple[int, int]) -> None:
        for number in range(self._runs.pop(run)):
            self._store.remove(ROWS_KIND, run[0], _number(run, number))
        self._tables.pop(run, None)

    def _crowd(self, slots: np.ndarray) -> list[tuple[int, int]]:
        """Return the values that have rows of one of these slots, of those that many have, and all in memory."""
        runs = [run for run, values in self._runs.items() for _ in range(min(values, _CROWD))]
        unknown = self._bounds([run for run in self._runs if run not in self._tables])
        many = _covers(*self._bounds(runs), slots) >= _CROWD
        return self._runs_with(slots[many & (_covers(*unknown, slots) == 0)])

    def _runs_with(self, slots: np.ndarray) -> list[tuple[int, int]]:
        runs = [*self._runs]
        has = _overlap(*self._bounds(runs), slots)
        return [run for run, has_one in zip(runs, has.tolist(), strict=True) if has_one]

    def _bounds(self, runs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the first slot of each run, and the one after its last."""
        firsts = np.array([first for first, _ in runs], dtype=np.int64)
        return firsts, firsts + np.array([slots for _, slots in runs], dtype=np.int64)


def _number(run: tuple[int, int], place: int) -> int:
    """Return the number of a value among all that begin with its slot, from its place among those of the same run.

    >>> _number((7, 1), 3), _number((7, 2), 3)
    (3, 4294967299)
    """
    return (run[1] - 1) * 2**32 + place


def _most(table: pa.Table) -> int:
    """Return how many of these rows a run of several slots has at most."""
    return int(_RUN_BYTES * table.num_rows // max(table.nbytes, 1))


def _overlap(firsts: np.ndarray, ends: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Return whether each range has one of these slots, which are ascending."""
    has: np.ndarray = np.searchsorted(slots, firsts) < np.searchsorted(slots, ends)
    return has


def _covers(firsts: np.ndarray, ends: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Return how many of these ranges have each slot."""
    begun, over = (np.searchsorted(np.sort(edges), slots, side="right") for edges in (firsts, ends))
    covers: np.ndarray = begun - over
    return covers


def _within(slots: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return whether each slot is in one of these ranges."""
    inside: np.ndarray = _covers(firsts, ends, slots) > 0
    return inside


def _cut(slots: np.ndarray, zones: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of runs of ascending slots: at most so many rows, or one slot, and all of one zone.

    >>> list(_cut(np.array([1, 1, 2, 3, 7, 7, 7]), np.array([0, 0, 0, 0, 1, 1, 1]), 3))
    [(0, 3), (3, 4), (4, 7)]
    """
    if not len(slots):
        return
    starts = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
    begin = 0
    for start, end in pairwise(starts[1:]):
        if end - begin > most or zones[start] != zones[begin]:
            yield begin, start
            begin = start
    yield begin, len(slots)
