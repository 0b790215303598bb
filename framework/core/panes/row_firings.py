"""Rows at some of which panes fire: what fires where, and into which parts that cuts the rows.

What a pane fires at a row is what it holds then. So rows are added in parts, from one firing to the next, of all
partitions at once, and the state after each part is what a firing shows. The cost is that of the rows and of the
firings, however many come one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.partition_keys import first_seen
from panekeeper.framework.core.past_firings import SOME, PastFirings
from panekeeper.framework.core.stable_order import distinct, stable_order
from panekeeper.state.records import NEVER


@dataclass(frozen=True, kw_only=True)
class RowFirings:
    """Firings of partitions in panes, each right after a row: ascending by these, those of one row by pane.

    Attributes:
        rows: the position of the row among those that are added.
        codes: the partition.
        panes: the pane.
        refinements: how often it fired before.
        is_late: whether the pane is complete; it fires early otherwise.
        ordinals: how often it fired before, at the rows that are added.
        rows_after: how many of the rows that are added to it come after this firing.
    """

    rows: np.ndarray
    codes: np.ndarray
    panes: np.ndarray
    refinements: np.ndarray
    is_late: np.ndarray
    ordinals: np.ndarray
    rows_after: np.ndarray

    def past(self, some: np.ndarray) -> PastFirings:
        """Return what the partitions of some firings have fired before; one that fires late was complete before."""
        return PastFirings(
            codes=self.codes[some],
            fired=self.refinements[some],
            complete=self.is_late[some],
            new=np.full(len(some), SOME),
            due_us=np.full(len(some), NEVER),
        )


@dataclass(frozen=True)
class RowsByCell:
    """Rows by their cells.

    Attributes:
        order: the rows, those of one cell in arrival order.
        starts: where in that order each cell begins.
        cuts: where in it something has fired, right before.
    """

    order: np.ndarray
    starts: np.ndarray
    cuts: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Rows in parts: those of one partition and slice between two firings. Parts of one such cell are neighbours.

    Attributes:
        of_rows: the part of each row.
        order: the rows by their part.
        codes: the partition of each part.
        slices: its slice.
        rounds: how many firings come before it, of those that cut its rows; ascending in a cell.
        of_firings: the round of each firing, which comes at the end of that.
    """

    of_rows: np.ndarray
    order: np.ndarray
    codes: np.ndarray
    slices: np.ndarray
    rounds: np.ndarray
    of_firings: np.ndarray

    def in_blocks(self, most: int | None) -> Iterator[Block]:
        """Yield the parts in blocks of some rounds, with about so many firings at most; None: all at once."""
        if most is None or len(self.of_firings) <= most:
            yield Block(slice(None), self.order, np.arange(len(self.rounds)), np.arange(len(self.of_firings)))
            return
        of_each = (self.rounds[self.of_rows], self.rounds, self.of_firings)
        orders = [stable_order(rounds) for rounds in of_each]
        in_order = [rounds[order] for rounds, order in zip(of_each, orders, strict=True)]
        first, fired = 0, in_order[2]
        while first <= int(in_order[1][-1]):
            begun = int(np.searchsorted(fired, first)) + most
            end = max(int(fired[begun]) if begun < len(fired) else int(in_order[1][-1]) + 1, first + 1)
            rows, parts, firings = (
                order[slice(*np.searchsorted(rounds, [first, end]).tolist())]
                for rounds, order in zip(in_order, orders, strict=True)
            )
            yield Block(rows, stable_order(self.of_rows[rows]), np.sort(parts), firings)
            first = end


@dataclass(frozen=True)
class Block:
    """Some rounds, whose rows, parts and firings are added at once.

    Attributes:
        rows: the positions of the rows; a slice of all.
        order: these rows by their parts.
        parts: the parts, ascending.
        firings: the positions of the firings.
    """

    rows: np.ndarray | slice
    order: np.ndarray
    parts: np.ndarray
    firings: np.ndarray


@dataclass(frozen=True, kw_only=True)
class FiringRows:
    """Rows to be added, in arrival order, and what fires at them.

    Attributes:
        table: the rows.
        codes: the partition of each.
        slices: its slice; or its pane, where each pane has rows of its own.
        oldest: the oldest pane that it joins.
        newest: the newest one.
        seq: its arrival number.
        firings: what fires.
        by_cell: the rows by partition and pane, each as often as it is in panes.
    """

    table: pa.Table
    codes: np.ndarray
    slices: np.ndarray
    oldest: np.ndarray
    newest: np.ndarray
    seq: np.ndarray
    firings: RowFirings
    by_cell: RowsByCell

    def parts_of_slices(self) -> Parts:
        """Cut the rows of each partition and slice at its own firings, where each slice is in one pane only."""
        order, starts, cuts = self.by_cell.order, self.by_cell.starts, self.by_cell.cuts
        begins = distinct(np.concatenate([starts, cuts[cuts < len(order)]]))
        of_rows = np.empty(len(order), dtype=np.int64)
        of_rows[order] = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(order))))
        first, own = order[begins], np.searchsorted(begins, starts)
        rounds = np.arange(len(begins)) - np.repeat(own, np.diff(np.append(own, len(begins))))
        return Parts(
            of_rows=of_rows,
            order=order,
            codes=self.codes[first],
            slices=self.slices[first],
            rounds=rounds,
            of_firings=self.firings.ordinals,
        )

    def parts_of_partitions(self) -> Parts:
        """Cut the rows of each partition and slice at all firings of the partition."""
        rounds = self.rounds()
        cells, _, _ = number_cells(self.codes, self.slices)
        numbers, appearing = first_seen(cells * (int(rounds.max()) + 1) + rounds)
        by_cell = np.argsort(appearing)
        place = np.empty(len(appearing), dtype=np.int64)
        place[by_cell] = np.arange(len(appearing))
        of_rows = place[numbers]
        order = stable_order(of_rows)
        first = order[np.flatnonzero(np.diff(of_rows[order], prepend=-1))]
        return Parts(
            of_rows=of_rows,
            order=order,
            codes=self.codes[first],
            slices=self.slices[first],
            rounds=rounds[first],
            of_firings=rounds[self.firings.rows],
        )

    def rounds(self) -> np.ndarray:
        """Return how many of the rows before each one, of the same partition, are rows at which something fires."""
        fires = np.zeros(len(self.codes), dtype=np.bool_)
        fires[self.firings.rows] = True
        return fired_before(self.codes, fires)


def fired_before(codes: np.ndarray, fires: np.ndarray) -> np.ndarray:
    """Return how many of the entries before each one, of the same partition, are ones at which something fires."""
    order = stable_order(codes)
    fired = np.cumsum(fires[order]) - fires[order]
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    before = np.empty(len(codes), dtype=np.int64)
    before[order] = fired - np.repeat(fired[starts], np.diff(np.append(starts, len(codes))))
    return before
