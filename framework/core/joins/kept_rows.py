"""Rows that are kept by their event time, such as those of one port that wait for partners; and which have had one.

Rows lie in slots of event time, as those of panes do (`panes/storage.py`): a batch reads the slots in which partners
of new rows may be, and writes the new rows only. Slots go when the watermark says that no partner can come any more.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.job_spec import ARRIVAL_NUMBER, EVENT_TIME
from panekeeper.framework.core.panes.storage import RowStorage
from panekeeper.framework.core.stable_order import distinct, gather_ranges, ranked
from panekeeper.state.codec import decode_table, encode_table, that_may_be_null, with_columns
from panekeeper.state.history import History
from panekeeper.state.records import KeptRowsRecord
from panekeeper.state.store import KeyGroupStore

MATCHED_KIND = "matched"
_SLOTS_A_RANGE = 8
"""Partners of a row are read from about this many slots: fewer would have many rows out of reach."""
_MOST_SLOTS = 256
"""About this many slots at most for all that late rows may reach."""
_LEAST_US = 1_000_000
"""A slot of less time would have few rows, whatever the range."""
_BLOCK = 16
"""The numbers of matched rows are stored together for so many slots."""


class KeptRows:
    """The rows of one port in one batch: those of the slots that were read, and the new ones."""

    def __init__(
        self,
        columns: pa.Schema,
        record: KeptRowsRecord,
        store: KeyGroupStore,
        history: History,
        *,
        reach: int,
        age: int,
        goes_out_alone: bool = False,
    ) -> None:
        """Read nothing yet; `record` is kept up to date.

        Args:
            columns: those of the rows.
            record: what is kept.
            store: where.
            history: what earlier declarations of the job have left.
            reach: how long the time is in which a row meets others, us.
            age: how much longer it may be kept, us.
            goes_out_alone: whether rows may be given up.
        """
        self._goes_out_alone = goes_out_alone
        added = (EVENT_TIME, ARRIVAL_NUMBER)
        self._schema = pa.schema([*that_may_be_null(columns), *(pa.field(name, pa.int64()) for name in added)])
        self._record = record
        self._store = store
        # What is stored keeps its slots, also if the declared times change.
        record.slot_us = record.slot_us or max(reach // _SLOTS_A_RANGE, (reach + age) // _MOST_SLOTS, _LEAST_US)
        self._slot_us = record.slot_us
        self._storage = RowStorage(store, record.row_runs, self._schema, history)
        self._new = self._schema.empty_table()
        self._read = np.empty(0, dtype=np.int64)
        """The slots that are in memory, ascending."""
        self._matched: dict[int, np.ndarray] = {}
        """Block of slots -> the numbers of matched rows, of the blocks that were read."""
        self._changed: set[int] = set()
        self._rows: pa.Table | None = None

    def add(self, rows: pa.Table) -> None:
        """Keep rows."""
        numbers = self._record.next_number + np.arange(rows.num_rows, dtype=np.int64)
        self._record.next_number += rows.num_rows
        rows = with_columns(rows.append_column(ARRIVAL_NUMBER, pa.array(numbers)), self._schema)
        self._new = pa.concat_tables([self._new, rows])
        times = rows.column(EVENT_TIME).to_numpy()
        slots, places = ranked(times // self._slot_us)
        counts = np.bincount(places, minlength=len(slots))
        firsts = (slots + 1) * self._slot_us  # nothing is given up but the slot as a whole
        if self._goes_out_alone:
            np.minimum.at(firsts, places, times)
        for slot, count, first in zip(slots.tolist(), counts.tolist(), firsts.tolist(), strict=True):
            before, known = self._record.slots.get(slot, (0, first))
            self._record.slots[slot] = (before + count, min(known, first))
        self._forget()

    def read_between(self, earliest: np.ndarray, latest: np.ndarray) -> None:
        """Read the rows at times in any of these ranges; `rows` has them then, and perhaps others."""
        firsts = distinct(earliest // self._slot_us)
        slots = int((latest - earliest).max(initial=0)) // self._slot_us + 2  # of the longest range, wherever it begins
        self._read_slots(distinct(gather_ranges(firsts, firsts + slots)[0]))

    def read_from_to(self, start: int, end: int) -> None:
        """Read the rows at times in `[start, end)`, however long that is."""
        low, high = start // self._slot_us, (end - 1) // self._slot_us
        self._read_slots(np.array(sorted(s for s in self._record.slots if low <= s <= high), dtype=np.int64))

    @property
    def rows(self) -> pa.Table:
        """What is in memory."""
        if self._rows is None:
            self._rows = pa.concat_tables([*self._storage.tables, self._new]).combine_chunks()
        return self._rows

    @property
    def times(self) -> np.ndarray:
        """The event times of `rows`."""
        times: np.ndarray = self.rows.column(EVENT_TIME).to_numpy()
        return times

    def mark_matched(self, positions: np.ndarray) -> None:
        """Note that these rows have had a partner, by their places in `rows`."""
        is_met = np.zeros(self.rows.num_rows, dtype=bool)
        is_met[positions] = True
        positions = np.flatnonzero(is_met)
        numbers, blocks = self._numbers[positions], self._slots_of(self.rows)[positions] // _BLOCK
        for block in distinct(blocks).tolist():
            known = self._matched_in(block)
            now = distinct(np.concatenate([known, numbers[blocks == block]]))
            if len(now) > len(known):
                self._matched[block] = now
                self._changed.add(block)

    def give_up(self, start: int, end: int) -> np.ndarray:
        """Return the places in `rows` of those in `[start, end)` that have had no partner."""
        self.read_from_to(start, end)
        slot = end // self._slot_us
        if slot in self._record.slots and self._record.slots[slot][1] < end:
            later = self.times[self._alone(end, (slot + 1) * self._slot_us)]
            first = int(later.min(initial=(slot + 1) * self._slot_us))
            self._record.slots[slot] = (self._record.slots[slot][0], first)
        return self._alone(start, end)

    def _alone(self, start: int, end: int) -> np.ndarray:
        at = np.flatnonzero((self.times >= start) & (self.times < end))
        for block in distinct(self._slots_of(self.rows)[at] // _BLOCK).tolist():
            at = at[~np.isin(self._numbers[at], self._matched_in(block))]
        return at

    def drop_before(self, time: int) -> None:
        """Remove the rows before this time, slot by slot."""
        first = time // self._slot_us
        gone = [slot for slot in self._record.slots if slot < first]
        for slot in gone:
            del self._record.slots[slot]
        if not gone:
            return
        self._storage.retain(np.array(sorted(self._record.slots), dtype=np.int64))
        self._new = self._new.filter(pa.array(self._slots_of(self._new) >= first))
        for block in [block for block in self._record.matched if block < first // _BLOCK]:
            self._store.remove(MATCHED_KIND, block, 0)
            self._record.matched.remove(block)
        for block in [block for block in self._matched if block < first // _BLOCK]:
            del self._matched[block]
            self._changed.discard(block)
        self._forget()

    def spans(self) -> list[tuple[int, int]]:
        """Return of each slot with rows the least time of those that may be given up, and its last instant."""
        return [(first, (slot + 1) * self._slot_us - 1) for slot, (_, first) in self._record.slots.items()]

    @property
    def number(self) -> int:
        """How many rows are kept."""
        return sum(rows for rows, _ in self._record.slots.values())

    def first_time(self) -> int | None:
        """Return the event time of the row that is the next to be given up, or a bit earlier; None if none is kept."""
        return min((first for _, first in self._record.slots.values()), default=None)

    def save(self) -> None:
        """Write what is new."""
        if self._new.num_rows:
            self._storage.write(self._new, min(self._record.slots), self._slots_of)
            self._new = self._new.slice(0, 0)
        for block in sorted(self._changed):
            self._store.write(MATCHED_KIND, block, 0, encode_table(pa.table({ARRIVAL_NUMBER: self._matched[block]})))
            self._record.matched.add(block)
        self._changed.clear()

    @property
    def _numbers(self) -> np.ndarray:
        numbers: np.ndarray = self.rows.column(ARRIVAL_NUMBER).to_numpy()
        return numbers

    def _matched_in(self, block: int) -> np.ndarray:
        if block not in self._matched:
            self._matched[block] = np.empty(0, dtype=np.int64)
            if block in self._record.matched:
                stored = decode_table(self._store.read(MATCHED_KIND, block, 0))
                self._matched[block] = stored.column(ARRIVAL_NUMBER).to_numpy()
        return self._matched[block]

    def _read_slots(self, slots: np.ndarray) -> None:
        slots = slots[~np.isin(slots, self._read)]
        if len(slots):
            self._storage.read(slots)
            self._read = distinct(np.concatenate([self._read, slots]))
            self._forget()

    def _slots_of(self, rows: pa.Table) -> np.ndarray:
        slots: np.ndarray = rows.column(EVENT_TIME).to_numpy() // self._slot_us
        return slots

    def _forget(self) -> None:
        """Put the rows in memory together anew when they are asked for."""
        self._rows = None
