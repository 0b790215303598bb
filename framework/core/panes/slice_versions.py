"""The states of slices while rows are added to them: before, and after each part of the rows.

Parts end where something fires (`row_firings.py`), and what fires is merged from the states that its slices have then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.protocol import PartRows, State
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator
from panekeeper.framework.core.panes.pane_index import CellIndex
from panekeeper.framework.core.stable_order import bounds, gather_ranges

_MERGED_AT_ONCE = 2**20
"""About so many states of slices are gathered at once."""
_NONE = -1


@dataclass(frozen=True, kw_only=True)
class SliceVersions:
    """Which states there are: those of the cells that were held, then one after each part.

    Attributes:
        held: how many cells were held.
        n_cells: how many cells there are now.
        cells: the cell of each part; those of a cell are neighbours.
        rounds: its round, ascending in a cell.
    """

    held: int
    n_cells: int
    cells: np.ndarray
    rounds: np.ndarray

    def folded(
        self,
        accumulator: GuardedAccumulator,
        known: State,
        rows: PartRows,
        *,
        begins_anew: bool,
    ) -> State:
        """Return all states of an aggregate.

        Args:
            accumulator: the aggregate.
            known: its states of the cells that were held, and one without rows.
            rows: the rows of the parts.
            begins_anew: whether what has fired is forgotten, so that a part begins without what was before it.
        """
        if begins_anew:
            begins = np.where(self.rounds == 0, np.minimum(self.cells, self.held), self.held)
            after = accumulator.fold(_taken(known, begins), rows.parts, len(self.cells), rows.table, rows.seq)
        else:
            firsts = np.flatnonzero(np.diff(self.cells, prepend=-1))
            begun = np.minimum(self.cells[firsts], self.held)
            after = accumulator.fold_parts(_taken(known, begun), np.append(firsts, len(self.cells)), rows)
        return [pa.concat_arrays([column.slice(0, self.held), own]) for column, own in zip(known, after, strict=True)]

    @property
    def last(self) -> np.ndarray:
        """The last state of each cell."""
        last = np.arange(self.n_cells)
        last[self.cells] = self.held + np.arange(len(self.cells))  # where a cell repeats, the last assignment stays
        return last

    def of_firings(
        self, index: CellIndex, codes: np.ndarray, panes: np.ndarray, rounds: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield for some firings: which, the states of their slices end to end, and where these begin and end.

        Args:
            index: the cells there are now.
            codes: the partition of each firing.
            panes: its pane.
            rounds: it comes after the parts of that round.
        """
        low, high = index.ranges(codes, panes)
        total, span = bounds(high - low), int(self.rounds.max()) + 1
        keys, start = self.cells * span + self.rounds, 0
        by_key = np.argsort(keys)
        keys = keys[by_key]
        while start < len(codes):
            end = int(np.searchsorted(total, total[start] + _MERGED_AT_ONCE, side="right")) - 1
            some = slice(start, max(end, start + 1))
            places, offsets = gather_ranges(low[some], high[some])
            cells = index.order[places]
            until = np.minimum(np.repeat(rounds[some], np.diff(offsets)), span - 1)
            at = by_key[np.searchsorted(keys, cells * span + until, side="right") - 1]
            is_held = np.where(cells < self.held, cells, _NONE)
            states = np.where(self.cells[at] == cells, self.held + at, is_held)
            is_there = states != _NONE
            before = bounds(is_there)[offsets]
            yield some, states[is_there], before[:-1], before[1:]
            start = some.stop


def _taken(state: State, places: np.ndarray) -> State:
    return [column.take(pa.array(places)) for column in state]
