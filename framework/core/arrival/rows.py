"""The rows that are still needed, of all partitions of a key group, sorted by partition and arrival.

New rows are stored once, as one segment ("rows", 0, n) a batch. If most rows of the stored segments are no longer
needed, the others are written as one segment; a segment without a needed row is removed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.job_spec import ARRIVAL_NUMBER, ARRIVAL_TIME
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.stable_order import distinct, stable_order
from panekeeper.state.codec import decode_rows, encode_rows, that_may_be_null, with_columns
from panekeeper.state.history import History
from panekeeper.state.records import SequenceRecord
from panekeeper.state.store import KeyGroupStore

ROWS_KIND = "rows"
_SEGMENT_COLUMN = "_piece"
_NOT_STORED = -1
_REWRITE_FACTOR = 2
"""The stored rows are written again if there are more than this many times as many as needed ones."""


class ArrivalRows:
    """The needed rows; `codes` (partition of each row) and `at` (arrival time, us) are parallel to `rows`."""

    def __init__(
        self, keys: PartitionKeys, columns: pa.Schema, store: KeyGroupStore, record: SequenceRecord, history: History
    ) -> None:
        self._keys = keys
        self._history = history
        self._store = store
        self._record = record
        fields = [
            *that_may_be_null(columns),
            pa.field(ARRIVAL_TIME, pa.int64()),
            pa.field(ARRIVAL_NUMBER, pa.int64()),
            pa.field(_SEGMENT_COLUMN, pa.int64()),
        ]
        self._schema = pa.schema(fields)
        self.rows = self._schema.empty_table()
        self.codes = np.empty(0, dtype=np.int64)

    def load(self) -> None:
        """Read every stored segment, with rows that are no longer needed: `retain_newest` must follow."""
        tables, columns = [], self._schema.remove(len(self._schema) - 1)
        for segment in sorted(self._record.pieces):
            stored = self._store.read(ROWS_KIND, 0, segment)
            table = decode_rows(stored, columns, self._history.carried_since)
            tables.append(table.append_column(_SEGMENT_COLUMN, pa.array(np.full(table.num_rows, segment))))
        if tables:
            rows = pa.concat_tables(tables)
            self._sort(rows, self._keys.encode(rows))

    def retain_newest(self, sizes: np.ndarray) -> None:
        """Keep the newest `sizes[code]` rows of each partition: the stored rows that are still needed."""
        ends = self.offsets(len(sizes))[1:]
        self.retain(ends[self.codes] - np.arange(len(self.codes)) <= sizes[self.codes])

    @property
    def at(self) -> np.ndarray:
        """Arrival time of each row, us."""
        return self.column(ARRIVAL_TIME)

    def append(self, table: pa.Table, at: np.ndarray, seq: np.ndarray) -> None:
        """Add new rows, in arrival order."""
        fresh = table.append_column(ARRIVAL_TIME, pa.array(at)).append_column(ARRIVAL_NUMBER, pa.array(seq))
        fresh = fresh.append_column(_SEGMENT_COLUMN, pa.array(np.full(table.num_rows, _NOT_STORED)))
        fresh = with_columns(fresh, self._schema)
        self._sort(pa.concat_tables([self.rows, fresh]), np.concatenate([self.codes, self._keys.encode(fresh)]))

    def cap_arrival_times(self, now: int) -> bool:
        """Set arrival times later than `now` (us) to `now`; return whether there were any."""
        if not len(self.codes) or int(self.at.max()) <= now:
            return False
        place = self.rows.column_names.index(ARRIVAL_TIME)
        self.rows = self.rows.set_column(place, ARRIVAL_TIME, pa.array(np.minimum(self.at, now)))
        return True

    def retain(self, needed: np.ndarray) -> None:
        """Keep the rows for which `needed` is True, and remove the others."""
        if not needed.all():
            self.rows, self.codes = self.rows.filter(pa.array(needed)), self.codes[needed]

    def offsets(self, count: int) -> np.ndarray:
        """Return where the rows of each partition 0..count-1 begin; one more at the end."""
        return np.searchsorted(self.codes, np.arange(count + 1))

    def column(self, name: str) -> np.ndarray:
        """Return a column of the needed rows."""
        values: np.ndarray = self.rows.column(name).to_numpy()
        return values

    def take(self, positions: np.ndarray) -> pa.Table:
        """Return rows without the columns that Panekeeper adds."""
        plain: pa.Table = (
            self.rows.drop_columns([ARRIVAL_TIME, ARRIVAL_NUMBER, _SEGMENT_COLUMN])
            .take(pa.array(positions))
            .combine_chunks()
        )
        return plain

    def save(self, *, rewrite: bool) -> None:
        """Store the new rows and remove segments without a needed row.

        All needed rows are written as one segment if they are few of the stored ones, and if `rewrite`: the needed rows
        of a partition are not its newest, or have changed, which the next batch could not find out.
        """
        segment = self.column(_SEGMENT_COLUMN)
        needed = set(distinct(segment).tolist())
        for number in [n for n in self._record.pieces if n not in needed]:
            self._remove_segment(number)
        stored = sum(self._record.pieces.values())
        live = int(np.count_nonzero(segment != _NOT_STORED))
        if rewrite or stored > _REWRITE_FACTOR * live + 1000:
            for number in list(self._record.pieces):
                self._remove_segment(number)
            if self.rows.num_rows:
                self._write(self.rows)
        elif live < len(segment):
            self._write(self.rows.filter(pa.array(segment == _NOT_STORED)))

    def _sort(self, rows: pa.Table, codes: np.ndarray) -> None:
        """Sort rows that are in arrival order within each partition: so are a segment, and segments in their order."""
        order = stable_order(codes)
        self.rows, self.codes = rows.take(pa.array(order)).combine_chunks(), codes[order]

    def _write(self, rows: pa.Table) -> None:
        number = self._record.next_piece
        value = encode_rows(rows.drop_columns([_SEGMENT_COLUMN]), self._history.declaration)
        self._store.write(ROWS_KIND, 0, number, value)
        self._record.pieces[number] = rows.num_rows
        self._record.next_piece += 1

    def _remove_segment(self, number: int) -> None:
        self._store.remove(ROWS_KIND, 0, number)
        del self._record.pieces[number]
