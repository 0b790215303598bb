"""What each partition of a pane has fired last, so that the next firing can take it back (`results="retracting"`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import NO_ROW
from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.panes.refinements import PANE_COLUMN
from panekeeper.framework.core.panes.storage import SliceStorage
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.core.stable_order import distinct, stable_order
from panekeeper.state.codec import of_type
from panekeeper.state.records import IntervalRecord
from panekeeper.state.store import KeyGroupStore

LAST_KIND = "last"
LAST_RESULT = "last.{}"
"""Column of stored results that will be taken back; no partition column has such a name."""


class LastResults:
    """The last results of the panes that fire in this batch; `record.last_runs` lists what is stored."""

    def __init__(self, output: pa.Schema, keys: PartitionKeys, store: KeyGroupStore, record: IntervalRecord) -> None:
        """Load nothing yet."""
        self._output = output
        self._keys = keys
        self._record = record
        self._storage = SliceStorage(store, record.last_runs, LAST_KIND)
        self._codes = np.empty(0, dtype=np.int64)
        self._panes = np.empty(0, dtype=np.int64)
        self._columns = [pa.array([], field.type) for field in output]
        self._changed = np.empty(0, dtype=np.int64)

    def replace(
        self, codes: np.ndarray, panes: np.ndarray, columns: list[pa.Array]
    ) -> tuple[np.ndarray, list[pa.Array]]:
        """Keep new results; those of one pair in order. Return the places of those with results before, and these."""
        self._load(distinct(panes))
        held = len(self._codes)
        both = np.concatenate([self._codes, codes]), np.concatenate([self._panes, panes])
        cells, self._codes, self._panes = number_cells(*both)
        order, last = stable_order(cells), np.full(len(cells), NO_ROW)
        last[order[1:]] = np.where(cells[order[1:]] == cells[order[:-1]], order[:-1], NO_ROW)
        again = np.flatnonzero(last[held:] != NO_ROW)
        known = [
            pa.concat_arrays([old, of_type(new, old.type)]) for old, new in zip(self._columns, columns, strict=True)
        ]
        before = [column.take(pa.array(last[held + again])) for column in known]
        source = np.empty(len(self._codes), dtype=np.int64)
        source[cells] = np.arange(len(cells))  # where a pair repeats, the last assignment stays
        self._columns = [column.take(pa.array(source)) for column in known]
        self._changed = distinct(np.concatenate([self._changed, panes]))
        return again, before

    def save(self) -> None:
        """Write what changed, and remove the results of panes that have closed."""
        is_open = np.isin(self._panes, np.fromiter(self._record.panes, dtype=np.int64))
        self._codes, self._panes = self._codes[is_open], self._panes[is_open]
        self._columns = [column.filter(pa.array(is_open)) for column in self._columns]
        self._storage.retain(np.array(sorted(self._record.panes), dtype=np.int64))
        self._storage.write(self._changed, self._panes, self._stored)
        self._changed = self._changed[:0]

    def _stored(self, at: np.ndarray) -> pa.Table:
        columns = {
            LAST_RESULT.format(n): c.take(pa.array(at)) for n, c in zip(self._output.names, self._columns, strict=True)
        }
        return with_keys(pa.table({PANE_COLUMN: self._panes[at], **columns}), self._keys, self._codes[at])

    def _load(self, panes: np.ndarray) -> None:
        for table in self._storage.read(panes):
            self._codes = np.concatenate([self._codes, self._keys.encode(table)])
            self._panes = np.concatenate([self._panes, table.column(PANE_COLUMN).to_numpy()])
            for place, field in enumerate(self._output):
                name = LAST_RESULT.format(field.name)
                stored = table.column(name).combine_chunks() if name in table.column_names else pa.nulls(table.num_rows)
                self._columns[place] = pa.concat_arrays([self._columns[place], of_type(stored, field.type)])
