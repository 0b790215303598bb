"""What an accumulator does: partial results as columns, folded and merged many cells at a time.

A *cell* is one partial result; the caller says which row belongs to which cell. Windows, keys and time play no part.
Two promises make a result repeatable to the last bit:

* `fold` is a strict left fold in arrival order, so it does not matter how the stream is split into batches;
* in which order `merge_ranges` merges partial results depends on the cells of the range alone, not on the other cells.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NoReturn

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import Bools, Ints
from panekeeper.framework.core.stable_order import gather_ranges, stable_order

SUM_OVERFLOW = "SUM_OVERFLOW"
DISTINCT_OVERFLOW = "DISTINCT_OVERFLOW"

State = list[pa.Array]
"""Partial results: the columns of `Accumulator.state_types`, one row a cell."""


@dataclass(frozen=True)
class PartRows:
    """Rows in arrival order, in parts of the rows of a cell.

    Attributes:
        table: the rows.
        parts: the part of each.
        order: the rows by their parts, those of one part in arrival order.
        seq: the arrival number of each.
    """

    table: pa.Table
    parts: Ints
    order: Ints
    seq: Ints

    def only(self, mask: Bools) -> PartRows:
        """Return some of the rows; parts keep their numbers."""
        places = np.cumsum(mask) - 1
        order = places[self.order[mask[self.order]]]
        return PartRows(self.table.filter(pa.array(mask)), self.parts[mask], order, self.seq[mask])


@dataclass(frozen=True, kw_only=True)
class Accumulator(ABC):
    """An aggregate bound to the types of its columns. Holds no data; the same instance serves every batch.

    Attributes:
        inputs: the columns it reads; may be empty.
        output: type of the results.
    """

    inputs: tuple[str, ...]
    output: pa.DataType

    @property
    def needs_content(self) -> bool:
        """Whether only `from_content` works: no partial result is smaller than the rows themselves."""
        return False

    @property
    def runs_user_code(self) -> bool:
        """Whether any exception may come from a function of the user's, for some row or firing."""
        return False

    @property
    def reason(self) -> str:
        """Why a firing of it is in the quarantine, where it is not for a function of the user's."""
        return SUM_OVERFLOW

    @property
    def merges_exactly(self) -> bool:
        """Whether folding consecutive rows alone, and `merge`, gives the same bits as folding them, and cannot fail."""
        return False

    @abstractmethod
    def state_types(self) -> list[pa.DataType]:
        """Return the types of the stored columns of a partial result. Changing them changes the state version."""

    @abstractmethod
    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        """Add rows to cells and return the state of all `n_cells` cells.

        Args:
            state: cells 0..m-1; an empty list means that there are none yet. Cells m..n_cells-1 start empty.
            cells: the cell of each row.
            n_cells: number of cells afterwards, >= m.
            rows: in arrival order; at least the columns of `inputs`.
            seq: arrival number of each row, >= 0, rising; greater than all that were folded into these cells before.
        """

    @abstractmethod
    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        """Merge cells `lo[j] .. hi[j] - 1` into one partial result for each j. Ranges may overlap or be empty."""

    def merge(self, state: State, later: State, cells: Ints, n_cells: int) -> State:
        """Merge partial results into cells and return the state of all `n_cells` cells, where `merges_exactly`.

        Args:
            state: cells 0..m-1; cells m..n_cells-1 start empty.
            later: partial results of rows that arrived after those in `state`, in arrival order.
            cells: the cell of each of these.
            n_cells: number of cells afterwards; each has a partial result.
        """
        state = self.with_empty_columns(state)
        cell_of_each = np.concatenate([np.arange(len(state[0]), dtype=np.int64), cells])
        order = stable_order(cell_of_each)
        ends = np.cumsum(np.bincount(cell_of_each, minlength=n_cells))
        begins = np.concatenate([[0], ends[:-1]])
        both = [pa.concat_arrays([held, own]).take(pa.array(order)) for held, own in zip(state, later, strict=True)]
        return self.merge_ranges(both, begins, ends)

    def fold_parts(self, begun: State, offsets: Ints, rows: PartRows) -> State:
        """Return the partial result of each cell after each part of its rows, to the bits of `fold`.

        Args:
            begun: the partial result of each cell before.
            offsets: cell c has the parts `offsets[c] .. offsets[c + 1] - 1`, in this order, and at least one.
            rows: the rows of these parts.
        """
        if not self.merges_exactly:
            return fold_in_rounds(self.fold, begun, offsets, rows)
        n_cells, n_parts = len(offsets) - 1, int(offsets[-1])
        own = self.fold([], rows.parts, n_parts, rows.table, rows.seq)
        begins = offsets[:-1] + np.arange(n_cells)  # a cell, and then its parts
        places = np.arange(n_parts) + np.repeat(np.arange(1, n_cells + 1), np.diff(offsets))
        order = np.empty(n_cells + n_parts, dtype=np.int64)
        order[begins], order[places] = np.arange(n_cells), np.arange(n_cells, n_cells + n_parts)
        both = [pa.concat_arrays(pair).take(pa.array(order)) for pair in zip(begun, own, strict=True)]
        return self.merge_ranges(both, np.repeat(begins, np.diff(offsets)), places + 1)

    @abstractmethod
    def finish(self, state: State) -> pa.Array:
        """Return the result of each cell."""

    def from_content(self, rows: pa.Table, offsets: Ints) -> pa.Array:
        """Return the result of each group of rows `offsets[j] .. offsets[j + 1] - 1`, each in arrival order."""
        n = len(offsets) - 1
        groups = np.repeat(np.arange(n, dtype=np.int64), np.diff(offsets))
        members = rows.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        return self.finish(self.fold([], groups, n, members, np.arange(len(groups), dtype=np.int64)))

    def from_ranges(self, rows: pa.Table, lo: Ints, hi: Ints) -> pa.Array:
        """Return the result of rows `lo[j] .. hi[j] - 1` for each j, which may overlap; rows in arrival order."""
        positions, offsets = gather_ranges(lo, hi)
        return self.from_content(rows.take(pa.array(positions)), offsets)

    def with_empty_columns(self, state: State) -> State:
        """Return the state; in place of an empty list, columns without cells."""
        return list(state) if state else [pa.array([], kind) for kind in self.state_types()]


Fold = Callable[[State, Ints, int, pa.Table, Ints], State]


@dataclass(frozen=True, kw_only=True)
class OfParts(Accumulator):
    """An accumulator of others, its parts, which it folds and merges for itself."""

    parts: tuple[Accumulator, ...]

    @property
    def merges_exactly(self) -> bool:
        """Whether each part does."""
        return all(part.merges_exactly for part in self.parts)

    @property
    def runs_user_code(self) -> bool:
        """Whether any part does."""
        return any(part.runs_user_code for part in self.parts)

    @property
    def reason(self) -> str:
        """That of the first part that has one of its own."""
        return next((part.reason for part in self.parts if part.reason != SUM_OVERFLOW), SUM_OVERFLOW)


def fold_in_rounds(fold: Fold, begun: State, offsets: Ints, rows: PartRows) -> State:
    """Return what `fold_parts` does, for any `fold`: that of the first part of each cell, then of the next one."""
    cells = stable_order(-np.diff(offsets))  # those with many parts first, so that those of a round are the first ones
    sizes, begins = np.diff(offsets)[cells], offsets[:-1][cells]
    place, cell_of_part = np.empty(len(cells), dtype=np.int64), np.repeat(np.arange(len(cells)), np.diff(offsets))
    place[cells] = np.arange(len(cells))
    rounds = (np.arange(int(offsets[-1])) - offsets[:-1][cell_of_part])[rows.parts]
    order = stable_order(rounds)
    table, seq, owners = rows.table.take(pa.array(order)), rows.seq[order], place[cell_of_part[rows.parts[order]]]
    ends = np.searchsorted(rounds[order], np.arange(int(sizes[0]) + 1)).tolist()
    numbers = np.searchsorted(-sizes, -np.arange(int(sizes[0]))).tolist()
    state, folded, at = [column.take(pa.array(cells)) for column in begun], [], []
    for number, (n_cells, (first, end)) in enumerate(zip(numbers, pairwise(ends), strict=True)):
        state = [column.slice(0, n_cells) for column in state]
        state = fold(state, owners[first:end], n_cells, table.slice(first, end - first), seq[first:end])
        folded.append(state)
        at.append(begins[:n_cells] + number)
    source = np.empty(int(offsets[-1]), dtype=np.int64)
    source[np.concatenate(at)] = np.arange(len(source))
    return [pa.concat_arrays(columns).take(pa.array(source)) for columns in zip(*folded, strict=True)]


def fold_changed_cells(fold: Fold, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
    """Return what `fold` returns, called with only the cells that are new or get rows."""
    held = len(state[0])
    is_changed = np.zeros(n_cells, dtype=np.bool_)
    is_changed[held:] = True
    is_changed[cells] = True
    changed = np.flatnonzero(is_changed)
    if len(changed) == n_cells:
        return fold(state, cells, n_cells, rows, seq)
    local = np.cumsum(is_changed) - 1
    before = pa.array(changed[changed < held])
    after = fold([column.take(before) for column in state], local[cells], len(changed), rows, seq)
    source = np.arange(n_cells, dtype=np.int64)
    source[changed] = held + np.arange(len(changed))
    return [pa.concat_arrays([old, new]).take(pa.array(source)) for old, new in zip(state, after, strict=True)]


@dataclass(frozen=True, kw_only=True)
class ContentAggregate(Accumulator):
    """An aggregate without partial results: it is computed from the rows (`from_content`)."""

    @property
    def needs_content(self) -> bool:  # noqa: D102
        return True

    def state_types(self) -> list[pa.DataType]:  # noqa: D102
        self._refuse()

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:  # noqa: D102
        self._refuse()

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:  # noqa: D102
        self._refuse()

    def finish(self, state: State) -> pa.Array:  # noqa: D102
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} of {self.inputs} has no partial results: use from_content")
