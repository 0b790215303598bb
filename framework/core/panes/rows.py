# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""Rows, each kept once: what panes hold for an operator, or for an aggregate that cannot be merged.

How they are stored is up to `storage`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.job_spec import ARRIVAL_NUMBER, EVENT_TIME
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.pane_index import CellIndex
from panekeeper.framework.core.panes.storage import RowStorage
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.stable_order import distinct, gather_ranges, stable_order
from panekeeper.state.codec import that_may_be_null, with_columns
from panekeeper.state.history import History
from panekeeper.state.records import IntervalRecord
from panekeeper.state.store import KeyGroupStore

SLICE_COLUMN = "_slice"


class PaneRows:
    """The rows of the slots that this batch needs."""

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
        added = (EVENT_TIME, ARRIVAL_NUMBER, SLICE_COLUMN)
        self._schema = pa.schema([*that_may_be_null(columns), *(pa.field(name, pa.int64()) for name in added)])
        self._geometry = geometry
        self._record = record
        self._storage = RowStorage(store, record.row_runs, self._schema, history)
        self._new = self._schema.empty_table()
        self._index: CellIndex | None = None
        self._rows: pa.Table | None = None
        self._loaded = np.empty(0, dtype=np.int64)
        """The slots whose rows are indexed, ascending."""

    def insert(self, table: pa.Table, codes: np.ndarray, slices: np.ndarray, seq: np.ndarray) -> None:
        """Add rows; their codes are computed again from the key columns."""
        table = table.append_column(ARRIVAL_NUMBER, pa.array(seq)).append_column(SLICE_COLUMN, pa.array(slices))
        self._new = pa.concat_tables([self._new, with_columns(table, self._schema)])
        self._index = None

    def load(self, panes: np.ndarray) -> None:
        """Load the rows of all these panes at once; one by one, all rows would be sorted again for each."""
        self._index_of(panes)

    def holds(self, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        return self.counts(codes, panes) > 0

    def counts(self, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """Return how many rows each pair has."""
        index = self._index_of(panes)
        if index is None:
            return np.zeros(len(codes), dtype=np.int64)
        low, high = index.ranges(codes, panes)
        counts: np.ndarray = high - low
        return counts

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
        slots = self._geometry.slots_of_panes(open_panes)
        self._storage.retain(slots)
        self._new = self._new.filter(pa.array(np.isin(self._slots_of(self._new), slots)))
        self._index = None

    def condition_holds(self, rows: pa.Table, cells: np.ndarray, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        raise TypeError("a condition is tried on partial results, and here are rows")

    def forget(self, codes: np.ndarray, panes: np.ndarray) -> None:
        raise TypeError("rows are kept once for all panes that have them, so none of these can forget them alone")

    def save(self) -> None:
        """Write the new rows."""
        if self._new.num_rows:
            first_open = self._geometry.slots_of_panes(np.array([min(self._record.panes)]))[0]
            self._storage.write(self._new, int(first_open), self._slots_of)
            self._new = self._new.slice(0, 0)

    def _slots_of(self, rows: pa.Table) -> np.ndarray:
        return self._geometry.slots(rows.column(SLICE_COLUMN).to_numpy())

    def _index_of(self, panes: np.ndarray) -> CellIndex | None:
        wanted = self._geometry.slots_of_panes(distinct(panes))
        if self._index is None or not np.isin(wanted, self._loaded).all():
            self._loaded = distinct(np.concatenate([self._loaded, wanted]))
            self._storage.read(wanted)
            new = self._new.filter(pa.array(np.isin(self._slots_of(self._new), self._loaded)))
            rows = pa.concat_tables([*self._storage.tables, new]).combine_chunks()
            if not rows.num_rows:
                return None
            # By arrival first: rows of one cell then stay in arrival order, in however many segments they are stored.
            self._rows = rows.take(pa.array(stable_order(rows.column(ARRIVAL_NUMBER).to_numpy())))
            codes, slices = self._keys.encode(self._rows), self._rows.column(SLICE_COLUMN).to_numpy()
            self._index = CellIndex(codes, slices, self._geometry)
        return self._index
