"""When does each cell fire next, what has it fired before, and how many rows came since?

A cell is a partition and a number: that of a pane. Only windows that declare a rule for their firings have this record
of each cell (`FiringOptions.keeps_firings`); others need no more than `refinements.py`. What a rule means is
docs/semantics.md section 6.7. Where panes are plays no part here.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.panes.refinements import COUNT_COLUMN, PANE_COLUMN
from panekeeper.framework.core.panes.slot_runs import SliceStorage
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.core.stable_order import distinct
from panekeeper.state.records import IntervalRecord
from panekeeper.state.store import KeyGroupStore

FIRINGS_KIND = "firings"
NEW_COLUMN = "_new"
COMPLETE_COLUMN = "_complete"
NEVER = 2**63 - 1

CELL_COLUMNS = {COUNT_COLUMN: np.dtype(np.int32), COMPLETE_COLUMN: np.dtype(np.bool_), NEW_COLUMN: np.dtype(np.int64)}
"""What is kept of a cell: how often it fired; whether it fired as complete; how many rows came since it last fired."""


class CellFirings:
    """The cells that this batch reads or writes. `record` says what is stored, and which numbers have unfired rows."""

    def __init__(self, keys: PartitionKeys, store: KeyGroupStore, record: IntervalRecord) -> None:
        """Load nothing yet."""
        self._keys = keys
        self._record = record
        self._storage = SliceStorage(store, record.firing_runs, FIRINGS_KIND)
        self._codes = np.empty(0, dtype=np.int64)
        self._numbers = np.empty(0, dtype=np.int64)
        self._of_cells = {name: np.empty(0, dtype=kind) for name, kind in CELL_COLUMNS.items()}
        self._changed = np.empty(0, dtype=np.int64)

    def add_rows(self, codes: np.ndarray, numbers: np.ndarray, rows: np.ndarray | None = None) -> None:
        """Count rows that join cells, pair by pair; `rows` says how many each pair stands for, one if not given."""
        touched = distinct(numbers)
        self._load(touched)
        loaded = len(self._codes)
        both = np.concatenate([self._codes, codes]), np.concatenate([self._numbers, numbers])
        # The loaded cells come first and are distinct, so their places stay the same.
        cells, self._codes, self._numbers = number_cells(*both)
        for name, values in self._of_cells.items():
            self._of_cells[name] = np.zeros(len(self._codes), dtype=values.dtype)
            self._of_cells[name][:loaded] = values
        self._of_cells[NEW_COLUMN] += np.bincount(cells[loaded:], rows, len(self._codes)).astype(np.int64)
        self._changed = distinct(np.concatenate([self._changed, touched]))
        for number in touched.tolist():
            self._record.unfired[number] = NEVER

    def of(self, number: int) -> np.ndarray:
        """Return all cells of a number, by code."""
        self._load(np.array([number]))
        cells = np.flatnonzero(self._numbers == number)
        return cells[np.argsort(self._codes[cells], kind="stable")]

    def unfired(self, number: int) -> np.ndarray:
        """Return the cells of a number that have new rows, by code."""
        cells = self.of(number)
        unfired: np.ndarray = cells[self._of_cells[NEW_COLUMN][cells] > 0]
        return unfired

    def codes(self, cells: np.ndarray) -> np.ndarray:
        """Return the partition of each cell."""
        codes: np.ndarray = self._codes[cells]
        return codes

    def fired(self, cells: np.ndarray) -> np.ndarray:
        """Return how often each cell has fired."""
        fired: np.ndarray = self._of_cells[COUNT_COLUMN][cells]
        return fired

    def never_complete(self, cells: np.ndarray) -> np.ndarray:
        """Return whether each cell has not fired as complete yet."""
        never: np.ndarray = ~self._of_cells[COMPLETE_COLUMN][cells]
        return never

    def note_firing(self, number: int, cells: np.ndarray, *, complete: bool) -> None:
        """Note that cells of a number fire, with all that they hold."""
        self._of_cells[COUNT_COLUMN][cells] += 1
        self._of_cells[NEW_COLUMN][cells] = 0
        self._of_cells[COMPLETE_COLUMN][cells] |= complete
        self._changed = distinct(np.append(self._changed, number))
        if not len(self.unfired(number)):
            self._record.unfired.pop(number, None)

    def retain(self, numbers: np.ndarray) -> None:
        """Remove all cells but those of these numbers, which are ascending."""
        self._storage.retain(numbers)
        for number in [one for one in self._record.unfired if one not in self._record.panes]:
            del self._record.unfired[number]
        keep = np.isin(self._numbers, numbers)
        self._codes, self._numbers = self._codes[keep], self._numbers[keep]
        self._of_cells = {name: values[keep] for name, values in self._of_cells.items()}
        self._changed = self._changed[np.isin(self._changed, numbers)]

    def save(self) -> None:
        """Write the cells of the numbers that changed."""
        if len(self._changed):
            self._storage.write(self._changed, self._numbers, self._stored_cells)
            self._changed = self._changed[:0]

    def _stored_cells(self, at: np.ndarray) -> pa.Table:
        own = {PANE_COLUMN: self._numbers[at]} | {name: values[at] for name, values in self._of_cells.items()}
        return with_keys(pa.table(own), self._keys, self._codes[at])

    def _load(self, numbers: np.ndarray) -> None:
        for stored in self._storage.read(numbers):
            is_open = np.isin(stored.column(PANE_COLUMN).to_numpy(), np.fromiter(self._record.panes, dtype=np.int64))
            table = stored.filter(pa.array(is_open))
            self._codes = np.concatenate([self._codes, self._keys.encode(table)])
            self._numbers = np.concatenate([self._numbers, table.column(PANE_COLUMN).to_numpy()])
            for name, values in self._of_cells.items():
                self._of_cells[name] = np.concatenate([values, table.column(name).to_numpy()])
