"""Rows, each kept once: what panes hold for an operator, or for an aggregate that cannot be merged.

The rows of one batch and slot are one segment, ("rows", slot, n), written once and removed as a whole when the slot
holds no part of an open pane. A slot that is read in many segments is rewritten as one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from framework.core.job_spec import ARRIVAL_NUMBER, EVENT_TIME
from framework.core.panes.geometry import Geometry
from framework.core.panes.pane_index import CellIndex
from framework.core.partition_keys import PartitionKeys
from framework.core.row_ranges import gather_ranges
from framework.core.stable_order import distinct, positions_of, stable_order
from state.codec import decode_rows, encode_rows, that_may_be_null
from state.records import IntervalRecord
from state.store import KeyGroupStore
from state.upgrade.history import History

ROWS_KIND = "rows"
SLICE_COLUMN = "_slice"
_MAX_SEGMENTS_PER_SLOT = 16
"""A slot of this many segments is rewritten as one if it is in memory."""


class PaneRowBuffer:
    """The rows of the slots that this batch needs; `record.segments` has the number of segments of each slot."""

    def __init__(
        self,
        keys: PartitionKeys,
        columns: pa.Schema,
        geometry: Geometry,
        store: KeyGroupStore,
        record: IntervalRecord,
        history: History,
    ) -> None:
        self._keys = keys
        self._history = history
        added = (EVENT_TIME, ARRIVAL_NUMBER, SLICE_COLUMN)
        self._schema = pa.schema([*that_may_be_null(columns), *(pa.field(name, pa.int64()) for name in added)])
        self._geometry = geometry
        self._store = store
        self._record = record
        self._stored: dict[int, list[pa.Table]] = {}
        self._new: dict[int, list[pa.Table]] = {}
        self._index: CellIndex | None = None
        self._rows: pa.Table | None = None
        self._loaded_slots: set[int] = set()

    def insert(self, table: pa.Table, codes: np.ndarray, slices: np.ndarray, seq: np.ndarray) -> None:
        """Add rows; their codes are computed again from the key columns."""
        table = table.append_column(ARRIVAL_NUMBER, pa.array(seq)).append_column(SLICE_COLUMN, pa.array(slices))
        table = table.select(self._schema.names).cast(self._schema)
        for slot, at in positions_of(self._geometry.slots(slices)):
            self._new.setdefault(slot, []).append(table.take(pa.array(at)))
        self._index = None

    def load(self, panes: np.ndarray) -> None:
        """Load the rows of all these panes at once; one by one, all rows would be sorted again for each."""
        self._index_of(panes)

    def holds(self, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """Return whether the partition has a row in the pane, pair by pair."""
        index = self._index_of(panes)
        if index is None:
            return np.zeros(len(codes), dtype=bool)
        low, high = index.ranges(codes, panes)
        return low < high

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) of every partition present in each of the panes."""
        index = self._index_of(panes)
        return index.pairs(panes) if index else (np.empty(0, np.int64), np.empty(0, np.int64))

    def content(self, codes: np.ndarray, panes: np.ndarray) -> tuple[pa.Table, np.ndarray]:
        """Return (rows, offsets): the contents of the pairs end to end, each in arrival order."""
        index = self._index_of(panes)
        if index is None or self._rows is None:
            raise ValueError("there is no content: the panes have no rows")
        positions, offsets = gather_ranges(*index.ranges(codes, panes))
        at = index.order[positions]
        if self._geometry.slices_a_pane > 1:
            # Ranges are sorted by slice; the content of a pane is in arrival order over all its slices.
            arrival = self._rows.column(ARRIVAL_NUMBER).to_numpy()[at]
            at = at[stable_order(arrival, np.repeat(np.arange(len(codes)), np.diff(offsets)))]
        return self._rows.drop_columns([ARRIVAL_NUMBER, SLICE_COLUMN]).take(pa.array(at)).combine_chunks(), offsets

    def retain(self, open_panes: np.ndarray) -> None:
        """Remove every slot that holds no part of an open pane."""
        slots = set(self._geometry.slots_of_panes(open_panes).tolist()) if len(open_panes) else set()
        for slot in [s for s in self._record.segments if s not in slots]:
            for segment in range(self._record.segments.pop(slot)):
                self._store.remove(ROWS_KIND, slot, segment)
        self._new = {slot: tables for slot, tables in self._new.items() if slot in slots}
        self._stored = {slot: tables for slot, tables in self._stored.items() if slot in slots}
        self._index = None

    def save(self) -> None:
        """Write the new rows, one segment for each slot."""
        for slot, new in sorted(self._new.items()):
            tables, segments = new, self._record.segments.get(slot, 0)
            if slot in self._stored and segments >= _MAX_SEGMENTS_PER_SLOT:
                tables = [*self._stored[slot], *new]
                for segment in range(1, segments):
                    self._store.remove(ROWS_KIND, slot, segment)
                segments = 0
            value = encode_rows(pa.concat_tables(tables), self._history.declaration)
            self._store.write(ROWS_KIND, slot, segments, value)
            self._record.segments[slot] = segments + 1
        self._new.clear()

    def _index_of(self, panes: np.ndarray) -> CellIndex | None:
        wanted = set(self._geometry.slots_of_panes(distinct(panes)).tolist())
        if self._index is None or not wanted <= self._loaded_slots:
            self._loaded_slots |= wanted
            tables = [table for slot in sorted(self._loaded_slots) for table in self._tables(slot)]
            if not tables:
                return None
            # By arrival first: rows of one cell then stay in arrival order, in however many segments they are stored.
            rows = pa.concat_tables(tables).combine_chunks()
            self._rows = rows.take(pa.array(stable_order(rows.column(ARRIVAL_NUMBER).to_numpy())))
            codes, slices = self._keys.encode(self._rows), self._rows.column(SLICE_COLUMN).to_numpy()
            self._index = CellIndex(codes, slices, self._geometry)
        return self._index

    def _tables(self, slot: int) -> list[pa.Table]:
        if slot not in self._stored:
            segments = self._record.segments.get(slot, 0)
            values = [self._store.read(ROWS_KIND, slot, segment) for segment in range(segments)]
            self._stored[slot] = [decode_rows(one, self._schema, self._history.carried_since) for one in values]
        return [*self._stored[slot], *self._new.get(slot, [])]
