"""When does each cell fire next, what has it fired before, and how many rows came since?

A cell is a partition and a number: that of a pane. Only windows that declare a rule for their firings have this record
of each cell (`keeps_firings` of `FiringOptions`); others need no more than `refinements.py`. What a rule means is
docs/semantics.md section 6.7. Where panes are plays no part here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.outlook import NONE
from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.panes.refinements import COUNT_COLUMN, PANE_COLUMN
from panekeeper.framework.core.panes.row_firings import RowFirings, RowsByCell
from panekeeper.framework.core.panes.storage import SliceStorage
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.core.past_firings import PastFirings
from panekeeper.framework.core.stable_order import distinct, stable_order
from panekeeper.framework.declarations.firing import Every, PaneFiringOptions
from panekeeper.state.records import NEVER, NO_WATERMARK, IntervalRecord
from panekeeper.state.store import KeyGroupStore

FIRINGS_KIND = "firings"
NEW_COLUMN = "_new"
COMPLETE_COLUMN = "_complete"
FIRST_COLUMN = "_first_at"
DUE_COLUMN = "_due_at"

_OF_ALL: dict[str, np.dtype] = {
    COUNT_COLUMN: np.dtype(np.int32),
    COMPLETE_COLUMN: np.dtype(np.bool_),
    NEW_COLUMN: np.dtype(np.int64),
}
"""What is kept of a cell: how often it fired; whether it fired as complete; how many rows came since it last fired."""
_BY_CLOCK: dict[str, np.dtype] = {FIRST_COLUMN: np.dtype(np.int64), DUE_COLUMN: np.dtype(np.int64)}
"""Where cells fire by the clock, too: when its first row arrived; when it fires next, `NEVER` without new rows."""
CELL_COLUMNS = (*_OF_ALL, *_BY_CLOCK)


def next_multiple(watermark: int, period: int | None) -> int:
    """Return the next watermark at which what fires by event time fires: the next multiple of a period; all in us.

    `NEVER` without a period, and before the first watermark, which passes none.

    >>> next_multiple(59, 60), next_multiple(60, 60)
    (60, 120)
    """
    return NEVER if period is None or watermark == NO_WATERMARK else (watermark // period + 1) * period


def rows_between(early: Every | None, refire: Every | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return at every how many rows something fires, 0 for at none: by whether it is over, and has fired as complete.

    It fires at no row if it is over and has not fired as complete, which the next watermark makes it do.

    >>> rows_between(Every(rows=3), Every(rows=2))
    ((3, 3), (0, 2))
    """
    before, after = (0 if rule is None else rule.rows or 0 for rule in (early, refire))
    return (before, before), (0, after)


def next_instant(first: np.ndarray, period: int, now: int) -> np.ndarray:
    """Return the next of the instants that lie whole periods after `first`, later than now; all in us.

    >>> next_instant(np.array([3, 3]), 10, 13)
    array([23, 23])
    """
    later: np.ndarray = first + ((now - first) // period + 1) * period
    return later


@dataclass(frozen=True)
class _NoRule:
    """In the place of an `Every` that is not declared."""

    rows: None = None
    period_us: None = None


_NOT_BY_RULE = _NoRule()


class CellFirings:
    """The cells that this batch reads or writes. `record` says what is stored, and which numbers have unfired rows."""

    def __init__(
        self,
        options: PaneFiringOptions,
        keys: PartitionKeys,
        store: KeyGroupStore,
        record: IntervalRecord,
        ends: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        """Load nothing yet; `ends` returns the watermarks at which numbers are complete."""
        self._begins_anew = options.then is not None
        self._ends = ends
        self._early, self._refire = options.early or _NOT_BY_RULE, options.refire or _NOT_BY_RULE
        self._every = np.array(rows_between(options.early, options.refire))
        self._keys = keys
        self._record = record
        self._storage = SliceStorage(store, record.firing_runs, FIRINGS_KIND)
        self._codes = np.empty(0, dtype=np.int64)
        self._numbers = np.empty(0, dtype=np.int64)
        columns = _OF_ALL | (_BY_CLOCK if options.fires_by_clock else {})
        self._of_cells = {name: np.empty(0, dtype=kind) for name, kind in columns.items()}
        self._changed = np.empty(0, dtype=np.int64)

    def place(self, codes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return the cell of each pair, of whose numbers all are open."""
        self._load(distinct(numbers))
        loaded = len(self._codes)
        both = np.concatenate([self._codes, codes]), np.concatenate([self._numbers, numbers])
        # The loaded cells come first and are distinct, so their places stay the same.
        cells, self._codes, self._numbers = number_cells(*both)
        for name, values in self._of_cells.items():
            self._of_cells[name] = np.full(len(self._codes), NEVER if name == DUE_COLUMN else 0, dtype=values.dtype)
            self._of_cells[name][:loaded] = values
        if FIRST_COLUMN in self._of_cells:
            self._of_cells[FIRST_COLUMN][loaded:] = NEVER
        return cells[loaded:]

    def fire_within(self, cells: np.ndarray, rows: np.ndarray) -> bool:
        """Return whether any cell fires at one of so many rows that join it."""
        if not (self._early.rows or self._refire.rows):
            return False
        added = np.bincount(cells, rows, len(self._codes)).astype(np.int64)
        every = self._rows_between()
        return bool(((every > 0) & (self._of_cells[NEW_COLUMN] + added >= every)).any())

    def add_rows_that_fire(self, cells: np.ndarray, rows: np.ndarray, now: int) -> tuple[RowFirings, RowsByCell]:
        """Count rows that arrive now (us), and note the firings of cells that come right after some of them.

        Args:
            cells: the cell of each entry, that of a row in a cell; entries are ascending by rows.
            rows: the position of the row of each entry.
            now: the time.

        Returns:
            what fires, and the entries by cell.
        """
        every, before = self._rows_between(), self._of_cells[NEW_COLUMN].copy()
        fired_before, is_late = self._of_cells[COUNT_COLUMN], self._by_phase(np.arange(len(self._codes)))[1]
        order, added = stable_order(cells), np.bincount(cells, minlength=len(self._codes))
        starts = np.cumsum(added) - added
        by = np.maximum(every, 1)
        times = np.where(every > 0, (before + added) // by - before // by, 0)
        of_cells = np.repeat(np.arange(len(times)), times)
        ordinals = np.arange(len(of_cells)) - np.repeat(np.cumsum(times) - times, times)
        # A cell fires at the rows that make the number of its rows since it last fired a multiple.
        place = (before[of_cells] // by[of_cells] + ordinals + 1) * by[of_cells] - before[of_cells] - 1
        cuts, panes = starts[of_cells] + place, self._numbers[of_cells]
        at_rows = rows[order[cuts]]
        in_order = stable_order(panes, at_rows)
        firings = RowFirings(
            rows=at_rows[in_order],
            codes=self._codes[of_cells][in_order],
            panes=panes[in_order],
            refinements=(fired_before[of_cells] + ordinals)[in_order],
            is_late=is_late[of_cells][in_order],
            ordinals=ordinals[in_order],
            rows_after=(added[of_cells] - place - 1)[in_order],
        )
        self.add_rows(np.arange(len(added)), added, now)
        fires = np.flatnonzero(times)
        self._of_cells[COUNT_COLUMN][fires] += times[fires].astype(np.int32)
        self._of_cells[NEW_COLUMN][fires] %= by[fires]
        if DUE_COLUMN in self._of_cells:
            self._of_cells[DUE_COLUMN][fires] = NEVER
        return firings, RowsByCell(order, starts[added > 0], cuts + 1)

    def _rows_between(self) -> np.ndarray:
        """Return at every how many rows since it last fired each cell fires; 0: at none."""
        return self._every_of(np.arange(len(self._codes)))

    def _every_of(self, cells: np.ndarray) -> np.ndarray:
        is_over = self._ends(self._numbers[cells]) <= self._record.watermark
        every: np.ndarray = self._every[is_over.astype(np.int8), self._of_cells[COMPLETE_COLUMN][cells].astype(np.int8)]
        return every

    def add_rows(self, cells: np.ndarray, rows: np.ndarray | None, now: int) -> None:
        """Count rows of cells that arrive now (us); `rows` says how many each entry stands for, one if None."""
        added = np.bincount(cells, rows, len(self._codes)).astype(np.int64)
        new = self._of_cells[NEW_COLUMN]
        begins = np.flatnonzero((added > 0) & (new == 0))
        new += added
        touched = distinct(self._numbers[np.flatnonzero(added)])
        self._changed = distinct(np.concatenate([self._changed, touched]))
        for number in touched.tolist():
            self._record.unfired.setdefault(number, NEVER)
        if FIRST_COLUMN in self._of_cells:
            self._set_clock(begins, now)

    def fires_at(self, cells: np.ndarray, ready: np.ndarray | int, closing: np.ndarray | int, early: int) -> np.ndarray:
        """Return the watermark at which each cell fires next, or one before if any greater makes it; `NEVER`: at none.

        It is the same whether other partitions were there when its number was complete.

        Args:
            cells: the cells.
            ready: the watermark at which the number of each fires without further rules; all in us.
            closing: the one that closes it.
            early: the next one at which cells fire early.
        """
        has_new, first = self._of_cells[NEW_COLUMN][cells] > 0, ~self._of_cells[COMPLETE_COLUMN][cells]
        again = ready if self._refire is _NOT_BY_RULE else closing
        as_first = np.where(has_new, np.minimum(ready, early), NEVER if self._begins_anew else ready)
        return np.where(first, as_first, np.where(has_new, again, NEVER))

    def _set_clock(self, begins: np.ndarray, now: int) -> None:
        """Set when cells fire by the clock that have their first new rows now."""
        first, due = self._of_cells[FIRST_COLUMN], self._of_cells[DUE_COLUMN]
        first[begins] = np.minimum(first[begins], now)
        for rule, some in zip((self._early, self._refire), self._by_phase(begins), strict=True):
            if rule.period_us is not None:
                due[begins[some]] = next_instant(first[begins[some]], rule.period_us, now)
        self._note_due(distinct(self._numbers[begins]).tolist())

    def due(self, now: int, codes: np.ndarray | None = None) -> list[tuple[int, np.ndarray]]:
        """Return the cells that are due by the clock, of all partitions or of these, by number: (number, cells)."""
        due_cells = []
        for number in sorted(number for number, due in self._record.unfired.items() if due <= now):
            cells = self.unfired(number)
            cells = cells[self._of_cells[DUE_COLUMN][cells] <= now]
            if codes is not None:
                cells = cells[np.isin(self._codes[cells], codes)]
            if len(cells):
                due_cells.append((number, cells))
        return due_cells

    def of(self, number: int) -> np.ndarray:
        """Return all cells of a number, by code."""
        self._load(np.array([number]))
        cells = np.flatnonzero(self._numbers == number)
        return cells[np.argsort(self._codes[cells], kind="stable")]

    def all_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the cells of these numbers, which are ascending, in no order."""
        self._load(numbers)
        return np.flatnonzero(np.isin(self._numbers, numbers))

    def unfired(self, number: int) -> np.ndarray:
        """Return the cells of a number that have new rows, by code."""
        cells = self.of(number)
        unfired: np.ndarray = cells[self._of_cells[NEW_COLUMN][cells] > 0]
        return unfired

    def by_number(self, cells: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return distinct cells by their numbers, both ascending, those of a number by code: (number, cells)."""
        numbers = self._numbers[cells]
        return [
            (number, cells[at[np.argsort(self._codes[cells[at]], kind="stable")]])
            for number in distinct(numbers).tolist()
            for at in [np.flatnonzero(numbers == number)]
        ]

    def past(self, cells: np.ndarray) -> PastFirings:
        """Return what these cells have fired."""
        due = self._of_cells.get(DUE_COLUMN)
        return PastFirings(
            codes=self._codes[cells],
            fired=self._of_cells[COUNT_COLUMN][cells],
            complete=self._of_cells[COMPLETE_COLUMN][cells],
            new=self._of_cells[NEW_COLUMN][cells],
            due_us=np.full(len(cells), NEVER) if due is None else due[cells],
        )

    def numbers(self, cells: np.ndarray) -> np.ndarray:
        """Return the number of each cell."""
        numbers: np.ndarray = self._numbers[cells]
        return numbers

    def rows_to_fire(self, cells: np.ndarray) -> np.ndarray:
        """Return after how many further rows each cell fires; `NONE`: after none."""
        every = self._every_of(cells)
        return np.where(every > 0, every - self._of_cells[NEW_COLUMN][cells], NONE)

    def note_firing(self, number: int, cells: np.ndarray, *, complete: bool) -> None:
        """Note that cells of a number fire, with all that they hold."""
        self._of_cells[COUNT_COLUMN][cells] += 1
        self._of_cells[NEW_COLUMN][cells] = 0
        self._of_cells[COMPLETE_COLUMN][cells] |= complete
        if DUE_COLUMN in self._of_cells:
            self._of_cells[DUE_COLUMN][cells] = NEVER
        self._changed = distinct(np.append(self._changed, number))

    def retain(self, numbers: np.ndarray) -> None:
        """Remove all cells but those of these numbers, which are ascending."""
        self._storage.retain(numbers)
        for number in [number for number in self._record.unfired if number not in self._record.panes]:
            del self._record.unfired[number]
        keep = np.isin(self._numbers, numbers)
        self._codes, self._numbers = self._codes[keep], self._numbers[keep]
        self._of_cells = {name: values[keep] for name, values in self._of_cells.items()}
        self._changed = self._changed[np.isin(self._changed, numbers)]

    def save(self) -> None:
        """Write the cells of the numbers that changed, and note which of these have rows that have not fired."""
        if not len(self._changed):
            return
        for number in self._changed.tolist():
            self._record.unfired.pop(number, None)
        self._note_due(distinct(self._numbers[self._of_cells[NEW_COLUMN] > 0]).tolist())
        self._storage.write(self._changed, self._numbers, self._stored_cells)
        self._changed = self._changed[:0]

    def _note_due(self, numbers: Iterable[int]) -> None:
        """Note when the clock next makes one of the cells of each number fire, of those with new rows."""
        for number in numbers:
            due = self._of_cells.get(DUE_COLUMN)
            self._record.unfired[number] = NEVER if due is None else int(due[self._numbers == number].min())

    def _by_phase(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return whether new rows of each cell are early, before the end of its number; and whether they are late.

        They are neither if the cell has not fired as complete by then, which the next watermark makes it do.
        """
        is_complete = self._ends(self._numbers[cells]) <= self._record.watermark
        return ~is_complete, is_complete & self._of_cells[COMPLETE_COLUMN][cells]

    def _stored_cells(self, at: np.ndarray) -> pa.Table:
        own = {PANE_COLUMN: self._numbers[at]} | {name: values[at] for name, values in self._of_cells.items()}
        return with_keys(pa.table(own), self._keys, self._codes[at])

    def _load(self, numbers: np.ndarray) -> None:
        """Load the cells that are stored with these numbers; none that belong to a closed one."""
        for stored in self._storage.read(numbers):
            is_open = np.isin(stored.column(PANE_COLUMN).to_numpy(), np.fromiter(self._record.panes, dtype=np.int64))
            table = stored.filter(pa.array(is_open))
            self._codes = np.concatenate([self._codes, self._keys.encode(table)])
            self._numbers = np.concatenate([self._numbers, table.column(PANE_COLUMN).to_numpy()])
            for name, values in self._of_cells.items():
                self._of_cells[name] = np.concatenate([values, table.column(name).to_numpy()])
