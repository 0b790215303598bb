# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""Rows, each kept once: what sessions hold for an operator, or for aggregates if one of them needs the rows.

Aggregates are computed from rows, too, if sessions are cut, or if each row has its own gap. The
sessions of a partition are apart in time, so the rows of one are found by their times, whatever became one since.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator, PlaceOf
from panekeeper.framework.core.job_spec import ARRIVAL_NUMBER, EVENT_TIME
from panekeeper.framework.core.panes.pane_index import SortedCells
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.sessions.leaves import Leaves
from panekeeper.framework.core.sessions.open_table import SessionColumns
from panekeeper.framework.core.stable_order import gather_ranges, stable_order
from panekeeper.state.codec import decode_rows, encode_rows, that_may_be_null, with_columns
from panekeeper.state.history import History
from panekeeper.state.records import ROW_VALUES
from panekeeper.state.store import KeyGroupStore

ROWS_KIND = "rows"
_CROWD = 16
"""The rows of a leaf that are in so many values are stored anew, as one."""


class SessionRows:
    """The rows of the leaves that this batch needs. A leaf has its rows in values that are written once."""

    def __init__(
        self,
        keys: PartitionKeys,
        columns: pa.Schema,
        store: KeyGroupStore,
        leaves: Leaves,
        history: History,
        accumulators: list[GuardedAccumulator],
    ) -> None:
        """Load nothing yet; `accumulators` compute from the rows of a session, if not an operator does."""
        self._keys = keys
        added = (pa.field(EVENT_TIME, pa.int64()), pa.field(ARRIVAL_NUMBER, pa.int64()))
        self._schema = pa.schema([*that_may_be_null(columns), *added])
        self._store = store
        self._leaves = leaves
        self._history = history
        self._accumulators = accumulators
        self._new = self._schema.empty_table()
        self._loaded: dict[int, pa.Table] = {}
        """The stored rows of leaves that have been read."""

    def load(self, tables: list[pa.Table]) -> None:
        """Do nothing: the rows of a leaf are read when a session of it fires or closes."""

    def insert(self, table: pa.Table, codes: np.ndarray, times: np.ndarray, seq: np.ndarray) -> None:
        """Add rows; their codes are computed again from the key columns."""
        table = table.append_column(ARRIVAL_NUMBER, pa.array(seq))
        self._new = pa.concat_tables([self._new, with_columns(table, self._schema)])

    def absorb(self, leaf: int) -> None:
        self._read(leaf)
        record = self._leaves.known(leaf)
        for number in range(record[ROW_VALUES]):
            self._store.remove(ROWS_KIND, leaf, number)
        record[ROW_VALUES] = 0
        self._new = pa.concat_tables([self._loaded.pop(leaf, self._schema.empty_table()), self._new])

    def content(self, sessions: SessionColumns) -> tuple[pa.Table, np.ndarray]:
        """Return (rows, offsets): the rows of the sessions end to end, those of each in arrival order."""
        for leaf in set(self._leaves.of(sessions.codes).tolist()):
            self._read(leaf)
        rows = pa.concat_tables([*self._loaded.values(), self._new]).combine_chunks()
        rows, low, high = _ranges(rows, self._keys, sessions)
        at, offsets = gather_ranges(low, high)
        arrival = rows.column(ARRIVAL_NUMBER).to_numpy()[at]
        at = at[stable_order(arrival, np.repeat(np.arange(len(sessions)), np.diff(offsets)))]
        return rows.drop_columns([ARRIVAL_NUMBER]).take(pa.array(at)).combine_chunks(), offsets

    def results(self, sessions: SessionColumns, place: PlaceOf) -> list[pa.Array]:
        """Return the finished aggregates of each session."""
        rows, offsets = self.content(sessions)
        return [accumulator.from_content(rows, offsets, place) for accumulator in self._accumulators]

    def remove(self, sessions: SessionColumns) -> None:
        self._absorb_leaves(sessions)
        rows, low, high = _ranges(self._new, self._keys, sessions)
        edges = np.bincount(low, minlength=rows.num_rows + 1) - np.bincount(high, minlength=rows.num_rows + 1)
        self._new = rows.filter(pa.array(np.cumsum(edges)[:-1] == 0))

    def forget(self, sessions: SessionColumns) -> None:
        raise TypeError("rows are kept for as long as their session is open")

    def save(self, leaves: list[int], sessions: SessionColumns, bounds: list[int]) -> list[pa.Table | None]:
        for leaf in leaves:
            if self._leaves.records[leaf][ROW_VALUES] >= _CROWD:
                self.absorb(leaf)
        at, edges = self._leaves.places(self._keys.encode(self._new), leaves)
        rows = self._new.take(pa.array(at)).combine_chunks()
        for leaf, begin, end in zip(leaves, edges, edges[1:], strict=False):
            record = self._leaves.records[leaf]
            if end > begin:
                self._write(leaf, record[ROW_VALUES], rows.slice(begin, end - begin))
                record[ROW_VALUES] += 1
        return [None] * len(leaves)

    def archive(self, leaves: list[int], sessions: SessionColumns, bounds: list[int]) -> list[pa.Table | None]:
        self._absorb_leaves(sessions)
        rows, low, high = _ranges(self._new, self._keys, sessions)
        at, offsets = gather_ranges(low, high)
        table, ends = rows.take(pa.array(at.astype(np.int64))), offsets.astype(np.int64)[bounds].tolist()
        for leaf, (begin, end) in zip(leaves, pairwise(ends), strict=True):
            self._write(leaf, 0, table.slice(begin, end - begin))
        self.remove(sessions)
        return [None] * len(leaves)

    def _absorb_leaves(self, sessions: SessionColumns) -> None:
        for leaf in set(self._leaves.of(sessions.codes).tolist()):
            self.absorb(leaf)

    def _write(self, leaf: int, number: int, rows: pa.Table) -> None:
        self._store.write(ROWS_KIND, leaf, number, encode_rows(rows.combine_chunks(), self._history.declaration))

    def _read(self, leaf: int) -> None:
        """Read the stored rows of a leaf, unless they are in memory."""
        record = self._leaves.known(leaf)
        if leaf not in self._loaded and record[ROW_VALUES]:
            values = (self._store.read(ROWS_KIND, leaf, number) for number in range(record[ROW_VALUES]))
            known = self._history.carried_since
            self._loaded[leaf] = pa.concat_tables([decode_rows(value, self._schema, known) for value in values])


def _ranges(rows: pa.Table, keys: PartitionKeys, sessions: SessionColumns) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """Return (rows, low, high): the rows by partition and time, and the range of them that each session has."""
    by_time = SortedCells(keys.encode(rows), rows.column(EVENT_TIME).to_numpy())
    return rows.take(pa.array(by_time.order)), *by_time.between(sessions.codes, sessions.first, sessions.last + 1)
