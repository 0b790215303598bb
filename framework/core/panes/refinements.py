"""Which partitions must fire again, and how often has each fired: what is kept of panes that fire at their ends.

A complete pane fires again only for the partitions that got late rows since (docs/semantics.md section 6.2). What must
persist is small: the pending pairs of pane and partition, and the counts of each pane that was ever refined. A
partition without a count has fired once if it had rows when its first late row came, and never otherwise.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.core.past_firings import SOME, PastFirings
from panekeeper.state.codec import decode_table, encode_table
from panekeeper.state.records import NEVER, IntervalRecord, PaneRecord
from panekeeper.state.store import KeyGroupStore

PANE_COLUMN = "_pane"
BEFORE_COLUMN = "_before"
COUNT_COLUMN = "_count"
FIRED_KIND = "fired"


class Refinements:
    """The partitions of complete panes that late rows have reached.

    Those that wait are in the header; how often refined ones have fired is in one segment a pane, read only if that
    pane fires again.
    """

    def __init__(self, keys: PartitionKeys, store: KeyGroupStore, record: IntervalRecord) -> None:
        """Load those that wait."""
        self._keys = keys
        self._store = store
        self._record = record
        self._pending: dict[int, dict[int, bool]] = {}
        """Pane -> partition with late rows -> whether it had rows in the pane before."""
        if (table := record.pending) is not None:
            columns = (table.column(PANE_COLUMN).to_pylist(), keys.encode(table).tolist())
            for pane, code, before in zip(*columns, table.column(BEFORE_COLUMN).to_pylist(), strict=True):
                self._pending.setdefault(pane, {})[code] = before

    def __bool__(self) -> bool:
        return bool(self._pending)

    def has(self, pane: int) -> bool:
        """Return whether any partition of the pane must fire again."""
        return pane in self._pending

    def have(self, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """Return whether the partition must fire again in the pane, pair by pair."""
        pairs = zip(codes.tolist(), panes.tolist(), strict=True)
        return np.array([code in self._pending.get(pane, ()) for code, pane in pairs], dtype=bool)

    def add(self, codes: np.ndarray, panes: np.ndarray, before: np.ndarray) -> None:
        """Note partitions that must fire again, pair by pair; `before`: it had rows in the pane before."""
        for code, pane, had_rows in zip(codes.tolist(), panes.tolist(), before.tolist(), strict=True):
            self._pending.setdefault(pane, {})[code] = had_rows

    def past(self, pane: int) -> PastFirings:
        """Return what the partitions of a pane that must fire again have fired, by code."""
        codes = np.array(sorted(self._pending.get(pane, {})), dtype=np.int64)
        return self.past_of(codes, np.full(len(codes), pane))

    def past_of(self, codes: np.ndarray, panes: np.ndarray) -> PastFirings:
        """Return what partitions with rows in open panes have fired, those of a pane being neighbours and by code."""
        fired, new = np.zeros(len(codes), dtype=np.int32), np.zeros(len(codes), dtype=np.int64)
        begins = np.flatnonzero(np.diff(panes, prepend=panes[:1] - 1))
        for begin, end in pairwise([*begins.tolist(), len(codes)]):
            pane, own = int(panes[begin]), codes[begin:end]
            state, pending = self._record.panes[pane], self._pending.get(pane, {})
            fired[begin:end] = state.complete
            for some, values in (
                (fired, {code: int(before) for code, before in pending.items()} | self._counts(pane, state)),
                (new, dict.fromkeys(pending, SOME)),
            ):
                known = np.fromiter(values, dtype=np.int64, count=len(values))
                place = np.minimum(np.searchsorted(own, known), len(own) - 1)
                is_there = own[place] == known
                some[begin + place[is_there]] = np.array([*values.values()], dtype=np.int64)[is_there]
        return PastFirings(codes=codes, fired=fired, complete=fired > 0, new=new, due_us=np.full(len(codes), NEVER))

    def note_firing(self, pane: int, past: PastFirings, *, closes: bool) -> None:
        """Note that the partitions of a pane that had to fire again do; `closes`: none of them will once more."""
        del self._pending[pane]
        if closes:
            return
        state = self._record.panes[pane]
        counts = self._counts(pane, state) | dict(zip(past.codes.tolist(), (past.fired + 1).tolist(), strict=True))
        own = pa.table({COUNT_COLUMN: pa.array(list(counts.values()), pa.int32())})
        self._store.write(FIRED_KIND, pane, 0, encode_table(with_keys(own, self._keys, np.fromiter(counts, np.int64))))
        state.has_counts = True

    def remove(self, pane: int, state: PaneRecord) -> None:
        """Remove the counts of a closed pane."""
        if state.has_counts:
            self._store.remove(FIRED_KIND, pane, 0)

    def save(self) -> None:
        """Note in the record which partitions must fire again, by value."""
        rows = [(pane, code, before) for pane, codes in self._pending.items() for code, before in codes.items()]
        self._record.pending = None
        if rows:
            panes, codes, before = zip(*rows, strict=True)
            own = pa.table({PANE_COLUMN: pa.array(panes, pa.int64()), BEFORE_COLUMN: pa.array(before)})
            self._record.pending = with_keys(own, self._keys, np.array(codes, dtype=np.int64))

    def _counts(self, pane: int, state: PaneRecord) -> dict[int, int]:
        """Return partition -> how often it has fired, of those of a pane that were refined."""
        if not state.has_counts:
            return {}
        table = decode_table(self._store.read(FIRED_KIND, pane, 0))
        return dict(zip(self._keys.encode(table).tolist(), table.column(COUNT_COLUMN).to_pylist(), strict=True))
