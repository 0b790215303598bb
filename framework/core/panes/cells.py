# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""Partial aggregates, one cell for each partition and slice: what panes hold if nothing needs the rows.

However many panes overlap, a row is folded into one cell; a firing merges the pane's range of cells. How cells are
stored is up to `storage`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import NO_ROW, combine, take
from panekeeper.framework.core.aggregates.protocol import PartRows, State
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator
from panekeeper.framework.core.panes.folding import SLICE_COLUMN, append_states, is_partial, states_of
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.output import place_of
from panekeeper.framework.core.panes.pane_index import CellIndex, number_cells
from panekeeper.framework.core.panes.row_firings import Block, FiringRows, Parts
from panekeeper.framework.core.panes.slice_versions import SliceVersions
from panekeeper.framework.core.panes.storage import SliceStorage
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.core.stable_order import distinct, gather_ranges
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.codec import of_type, with_columns
from panekeeper.state.records import NEVER, IntervalRecord
from panekeeper.state.store import KeyGroupStore

_LISTS_AT_ONCE = 2**8
"""At so many firings at once rows are added, at most, where partial results are lists: each state of one is long."""
CONDITION_NUMBER = 10**6
"""Number of the condition at which panes fire, among those of the aggregates; no job has so many."""


class PaneCells:
    """The cells that this batch reads or writes; `record.segments` lists what is stored."""

    def __init__(
        self,
        accumulators: list[GuardedAccumulator],
        keys: PartitionKeys,
        geometry: Geometry,
        store: KeyGroupStore,
        record: IntervalRecord,
        no_rows: pa.Table,
        *,
        window: TimeInterval,
        condition: GuardedAccumulator | None = None,
    ) -> None:
        """Load nothing yet; `no_rows` is an empty table of the columns of rows.

        Where the window keeps panes apart, a cell is of a pane, in the place of a slice, so that what one pane holds
        can be forgotten, and that a `condition` can be tried at each row.
        """
        self._condition = condition
        self._accumulators = accumulators if condition is None else [*accumulators, condition]
        self._no_rows = no_rows
        self._keys = keys
        self._geometry = geometry
        self._forgets = window.forgets
        self._lattice = Geometry(1, 1, 0, 0) if window.keeps_panes_apart else geometry
        self._storage = SliceStorage(store, record.segments)
        self._record = record
        self._codes = np.empty(0, dtype=np.int64)
        self._slices = np.empty(0, dtype=np.int64)
        self._states: list[State] = [[pa.array([], t) for t in a.state_types()] for a in self._accumulators]
        self._changed = np.empty(0, dtype=np.int64)
        self._index: CellIndex | None = None

    def insert(self, table: pa.Table, codes: np.ndarray, slices: np.ndarray, seq: np.ndarray) -> None:
        """Fold rows, or merge partial rows, into their cells, in arrival order."""
        slots = distinct(self._lattice.slots(slices))
        self._load(slots)
        loaded = len(self._codes)
        all_codes, all_slices = np.concatenate([self._codes, codes]), np.concatenate([self._slices, slices])
        # The loaded cells come first and are distinct, so their numbers stay the same.
        cells, self._codes, self._slices = number_cells(all_codes, all_slices)
        self._states = self._joined(table, cells[loaded:], len(self._codes), slices, seq)
        self._changed = distinct(np.concatenate([self._changed, slots]))
        self._index = None

    def _joined(
        self, table: pa.Table, cells: np.ndarray, n_cells: int, slices: np.ndarray, seq: np.ndarray
    ) -> list[State]:
        """Return the states with those of rows, or of partial rows, in them."""
        pairs = [*zip(self._accumulators, self._states, strict=True)]
        if is_partial(table):
            of_new = [state for accumulator, state in pairs if not accumulator.is_of_all]
            later = states_of(table, of_new) * (len(pairs) // len(of_new))
            return [
                accumulator.merge(state, more, cells, n_cells)
                for (accumulator, state), more in zip(pairs, later, strict=True)
            ]
        joined = []
        for accumulator, state in pairs:
            rows, cells_of_rows, numbers = table, cells, seq
            if accumulator.begins_us is not None:
                own = self._has(accumulator, slices)
                rows, cells_of_rows, numbers = table.filter(pa.array(own)), cells[own], seq[own]
            joined.append(accumulator.fold(state, cells_of_rows, n_cells, rows, numbers))
        return joined

    def _has(self, accumulator: GuardedAccumulator, slices: np.ndarray) -> np.ndarray:
        """Return whether each slice is one of panes that have an aggregate that was added to the job."""
        has: np.ndarray = slices >= int(self._lattice.slice_range(self._first_panes(accumulator))[0][0])
        return has

    def insert_firing(self, rows: FiringRows) -> list[pa.Array]:
        fired, lattice = rows.firings, self._lattice
        parts = rows.parts_of_partitions() if lattice.slices_a_pane > 1 else rows.parts_of_slices()
        slots = distinct(lattice.slots(parts.slices))
        self._load(distinct(np.concatenate([slots, lattice.slots_of_panes(distinct(fired.panes))])))
        self._changed = distinct(np.concatenate([self._changed, slots]))
        has_lists = any(
            pa.types.is_nested(kind) for accumulator in self._accumulators for kind in accumulator.state_types()
        )
        in_blocks = parts.in_blocks(_LISTS_AT_ONCE if has_lists else None)
        inserted = [(block.firings, self._insert_parts(rows, parts, block)) for block in in_blocks]
        if self._forgets:
            is_last = fired.rows_after == 0
            self.forget(fired.codes[is_last], fired.panes[is_last])
        place = np.empty(len(fired.rows), dtype=np.int64)
        place[np.concatenate([firings for firings, _ in inserted])] = np.arange(len(place))
        columns = zip(*(results for firings, results in inserted if len(firings)), strict=True)
        return [pa.concat_arrays(column).take(pa.array(place)) for column in columns]

    def _insert_parts(self, rows: FiringRows, parts: Parts, block: Block) -> list[pa.Array]:
        """Add some of the parts, and return the results of what fires meanwhile."""
        held, own = len(self._codes), block.parts
        both = np.concatenate([self._codes, parts.codes[own]]), np.concatenate([self._slices, parts.slices[own]])
        cells, self._codes, self._slices = number_cells(*both)
        versions = SliceVersions(held=held, n_cells=len(self._codes), cells=cells[held:], rounds=parts.rounds[own])
        table, of_rows, slices, seq = rows.table, parts.of_rows, rows.slices[block.rows], rows.seq[block.rows]
        if not isinstance(block.rows, slice):
            numbers = np.empty(len(parts.rounds), dtype=np.int64)
            numbers[own] = np.arange(len(own))
            table, of_rows = table.take(pa.array(block.rows)), numbers[of_rows[block.rows]]
        states, part_rows = [], PartRows(table, of_rows, block.order, seq)
        for accumulator, state in zip(self._accumulators, self._states, strict=True):
            known = [pa.concat_arrays(pair) for pair in zip(state, accumulator.empty(1, self._no_rows), strict=True)]
            own_rows = part_rows if accumulator.begins_us is None else part_rows.only(self._has(accumulator, slices))
            states.append(
                versions.folded(accumulator, known, own_rows, begins_anew=self._forgets and not accumulator.is_of_all)
            )
        codes, panes, rounds = (of[block.firings] for of in (rows.firings.codes, rows.firings.panes, parts.of_firings))
        index = CellIndex(self._codes, self._slices, self._lattice)
        results = [
            self._finished(states, at, low, high, codes[some], panes[some])
            for some, at, low, high in versions.of_firings(index, codes, panes, rounds)
        ]
        self._states = [[column.take(pa.array(versions.last)) for column in state] for state in states]
        self._index = None
        return [pa.concat_arrays(column) for column in zip(*results, strict=True)]

    def _first_panes(self, accumulator: GuardedAccumulator) -> np.ndarray:
        """Return the first pane that has the aggregate, of one that was added to the job."""
        assert accumulator.begins_us is not None
        return np.array([self._geometry.first_from(accumulator.begins_us)])

    def holds(self, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        low, high = self._cells_of(panes).ranges(codes, panes)
        return low < high

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._cells_of(panes).pairs(panes)

    def results(self, codes: np.ndarray, panes: np.ndarray) -> list[pa.Array]:
        index = self._cells_of(panes)
        low, high = index.ranges(codes, panes)
        return self._finished(self._states, index.order, low, high, codes, panes)

    def _finished(
        self,
        states: list[State],
        at: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        codes: np.ndarray,
        panes: np.ndarray,
    ) -> list[pa.Array]:
        """Return the results of pairs: of each the states `at[low[j]] .. at[high[j] - 1]` together."""
        finished, places = [], pa.array(at)
        for accumulator, state in zip(self._accumulators, states, strict=True):
            if accumulator is self._condition:
                continue
            in_order = [column.take(places) for column in state]
            if accumulator.begins_us is None:
                place = place_of(self._geometry, codes, panes)
                finished.append(accumulator.finish_ranges(in_order, low, high, place))
                continue
            own = panes >= self._first_panes(accumulator)[0]
            if not own.any():
                finished.append(accumulator.nulls(len(codes)))
                continue
            place = place_of(self._geometry, codes[own], panes[own])
            results = accumulator.finish_ranges(in_order, low[own], high[own], place)
            finished.append(take(results, np.where(own, np.cumsum(own) - 1, NO_ROW)))
        return finished

    def retain(self, open_panes: np.ndarray) -> None:
        """Remove every slot, and every cell in memory, that is no part of an open pane."""
        slots = self._lattice.slots_of_panes(open_panes)
        self._storage.retain(slots)
        self._changed = self._changed[np.isin(self._changed, slots)]
        keep = self._slices >= self._first_slice(open_panes)
        if not keep.all():
            self._codes, self._slices = self._codes[keep], self._slices[keep]
            self._states = [[c.filter(pa.array(keep)) for c in state] for state in self._states]
            self._index = None

    def condition_holds(self, rows: pa.Table, cells: np.ndarray, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """Return whether the condition would hold after each of these rows.

        Args:
            rows: ascending by their cell, those of a cell in arrival order.
            cells: the cell of each row: its place in the next two.
            codes: the partition of each cell.
            panes: its pane.
        """
        condition = self._condition
        assert condition is not None, "only a window with a condition has rows tried"
        self._load(self._lattice.slots_of_panes(distinct(panes)))
        held = len(self._codes)
        both = np.concatenate([self._codes, codes]), np.concatenate([self._slices, panes])
        places = np.minimum(number_cells(*both)[0][held:], held)  # one after the last: a new cell
        known = [
            pa.concat_arrays(pair) for pair in zip(self._states[-1], condition.empty(1, self._no_rows), strict=True)
        ]
        # A cell for each row, with the rows of its own cell until then: what they fold to is the same to the last bit.
        each = np.arange(len(cells))
        positions, offsets = gather_ranges(np.searchsorted(cells, cells), each + 1)
        trials = np.repeat(each, np.diff(offsets))
        begun = [column.take(pa.array(places[cells])) for column in known]
        tried = rows.take(pa.array(positions))
        folded = condition.fold(begun, trials, len(cells), tried, self._record.next_seq + positions)
        place = place_of(self._geometry, codes[cells], panes[cells])
        holds: np.ndarray = condition.finish(folded, place).fill_null(False).to_numpy(zero_copy_only=False)
        return holds

    def forget(self, codes: np.ndarray, panes: np.ndarray) -> None:
        """Remove what the cells of these pairs hold, where a cell is of a pane, but for what is of all its rows."""
        held = len(self._codes)
        both = np.concatenate([self._codes, codes]), np.concatenate([self._slices, panes])
        gone = number_cells(*both)[0][held:]
        keep = np.ones(held, dtype=np.bool_)
        keep[gone[gone < held]] = False
        if any(accumulator.is_of_all for accumulator in self._accumulators):
            begun = pa.array(np.where(keep, np.arange(held), held))
            for place, accumulator in enumerate(self._accumulators):
                if not accumulator.is_of_all:
                    both_states = zip(self._states[place], accumulator.empty(1, self._no_rows), strict=True)
                    self._states[place] = [pa.concat_arrays(pair).take(begun) for pair in both_states]
        else:
            self._codes, self._slices = self._codes[keep], self._slices[keep]
            self._states = [[column.filter(pa.array(keep)) for column in state] for state in self._states]
        self._changed = distinct(np.concatenate([self._changed, self._lattice.slots(panes)]))
        self._index = None

    def save(self) -> None:
        """Write the slots that got rows."""
        if len(self._changed):
            self._storage.write(self._changed, self._lattice.slots(self._slices), self._stored_cells)
            self._changed = self._changed[:0]

    def _stored_cells(self, at: np.ndarray) -> pa.Table:
        """Return the cells at these positions as they are stored."""
        table = with_keys(pa.table({SLICE_COLUMN: self._slices[at]}), self._keys, self._codes[at])
        here = [[column.take(pa.array(at)) for column in state] for state in self._states]
        return append_states(table, here, [accumulator.number for accumulator in self._accumulators])

    def _first_slice(self, open_panes: np.ndarray) -> int:
        """Return the first slice of the oldest of these panes; no slice is as great if there is none."""
        return int(self._lattice.slice_range(open_panes)[0].min(initial=NEVER))

    def _cells_of(self, panes: np.ndarray) -> CellIndex:
        self._load(self._lattice.slots_of_panes(distinct(panes)))
        if self._index is None:
            self._index = CellIndex(self._codes, self._slices, self._lattice)
        return self._index

    def _load(self, slots: np.ndarray) -> None:
        """Load the cells in these slots, and what is stored with them; none that only closed panes had."""
        tables = self._storage.read(slots)
        if not tables:
            return
        columns = pa.schema([*self._keys.schema, pa.field(SLICE_COLUMN, pa.int64())])
        cells = pa.concat_tables([with_columns(table, columns) for table in tables]).combine_chunks()
        states = [
            [
                pa.concat_arrays(parts)
                for parts in zip(*(self._stored(table, accumulator) for table in tables), strict=True)
            ]
            for accumulator in self._accumulators
        ]
        slices = cells.column(SLICE_COLUMN).to_numpy()
        at = np.flatnonzero(slices >= self._first_slice(np.fromiter(self._record.panes, dtype=np.int64)))
        if len(at) < len(slices):
            cells, slices = cells.take(pa.array(at)), slices[at]
            states = [[column.take(pa.array(at)) for column in state] for state in states]
        self._codes = np.concatenate([self._codes, self._keys.encode(cells)])
        self._slices = np.concatenate([self._slices, slices])
        self._states = [
            [pa.concat_arrays([held, column]) for held, column in zip(state, loaded, strict=True)]
            for state, loaded in zip(self._states, states, strict=True)
        ]
        self._index = None

    def _stored(self, table: pa.Table, accumulator: GuardedAccumulator) -> State:
        """Return the partial results in stored cells; empty ones if the aggregate was added since."""
        kinds = {f"{accumulator.number}.{part}": kind for part, kind in enumerate(accumulator.state_types())}
        if accumulator.begins_us is not None and next(iter(kinds)) not in table.column_names:
            return accumulator.empty(table.num_rows, self._no_rows)
        return [of_type(combine(table.column(name)), kind) for name, kind in kinds.items()]
