"""Which partitions must fire again, and how often each has fired: what refinements are computed from.

A complete pane fires again only for the partitions that got late rows since (docs/semantics.md section 6.2). What must
persist is small: the pending pairs of pane and partition, and the counts of each pane that was ever refined. A
partition without a count has fired once if it had rows when its first late row came, and never otherwise.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.state.codec import decode_table, encode_table
from panekeeper.state.store import KeyGroupStore

PANE_COLUMN = "_pane"
BEFORE_COLUMN = "_before"
COUNT_COLUMN = "_count"
FIRED_KIND = "fired"


class PendingRefinements:
    """Partitions with late rows, by pane: code -> whether it had rows in the pane before."""

    def __init__(self) -> None:
        self._panes: dict[int, dict[int, bool]] = {}

    @classmethod
    def restore(cls, table: pa.Table | None, keys: PartitionKeys) -> PendingRefinements:
        """Return what `store` wrote."""
        pending = cls()
        if table is not None:
            codes = keys.encode(table).tolist()
            rows = zip(
                table.column(PANE_COLUMN).to_pylist(), codes, table.column(BEFORE_COLUMN).to_pylist(), strict=True
            )
            for pane, code, before in rows:
                pending._panes.setdefault(pane, {})[code] = before
        return pending

    def store(self, keys: PartitionKeys) -> pa.Table | None:
        """Return the pairs as a table with the partitions by value, or None if nothing is pending."""
        rows = [(pane, code, before) for pane, codes in self._panes.items() for code, before in codes.items()]
        if not rows:
            return None
        panes, codes, before = zip(*rows, strict=True)
        own = pa.table({PANE_COLUMN: pa.array(panes, pa.int64()), BEFORE_COLUMN: pa.array(before)})
        return with_keys(own, keys, np.array(codes, dtype=np.int64))

    def __bool__(self) -> bool:
        return bool(self._panes)

    def has(self, pane: int) -> bool:
        """Return whether any partition of the pane is pending."""
        return pane in self._panes

    def have(self, codes: np.ndarray, panes: np.ndarray) -> np.ndarray:
        """Return whether the partition is pending in the pane, pair by pair."""
        pairs = zip(codes.tolist(), panes.tolist(), strict=True)
        return np.array([code in self._panes.get(pane, ()) for code, pane in pairs], dtype=bool)

    def add(self, codes: np.ndarray, panes: np.ndarray, before: np.ndarray) -> None:
        """Note partitions that must fire again, pair by pair."""
        for code, pane, had_rows in zip(codes.tolist(), panes.tolist(), before.tolist(), strict=True):
            self._panes.setdefault(pane, {})[code] = had_rows

    def of(self, pane: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the pending codes of a pane, ascending, and whether each had rows before."""
        pairs = sorted(self._panes[pane].items())
        return np.array([c for c, _ in pairs], dtype=np.int64), np.array([b for _, b in pairs], dtype=bool)

    def clear(self, pane: int) -> None:
        """Remove the pairs of a pane: it has fired."""
        self._panes.pop(pane, None)


class FiringCounts:
    """How often refined partitions have fired: one segment a pane, read only if that pane fires again."""

    def __init__(self, store: KeyGroupStore, keys: PartitionKeys) -> None:
        self._store = store
        self._keys = keys

    def read(self, pane: int, codes: np.ndarray, before: np.ndarray, *, has_counts: bool) -> np.ndarray:
        """Return how often each partition fired; `has_counts` says whether the pane has stored counts."""
        counts = before.astype(np.int32)
        stored = self._read(pane) if has_counts else {}
        return np.array([stored.get(c, n) for c, n in zip(codes.tolist(), counts.tolist(), strict=True)], np.int32)

    def write(self, pane: int, codes: np.ndarray, counts: np.ndarray, *, has_counts: bool) -> None:
        """Write the new numbers of firings of some partitions of a pane."""
        stored = self._read(pane) if has_counts else {}
        stored.update(zip(codes.tolist(), counts.tolist(), strict=True))
        own = pa.table({COUNT_COLUMN: pa.array(list(stored.values()), pa.int32())})
        self._store.write(FIRED_KIND, pane, 0, encode_table(with_keys(own, self._keys, np.fromiter(stored, np.int64))))

    def remove(self, pane: int) -> None:
        """Remove the counts of a closed pane."""
        self._store.remove(FIRED_KIND, pane, 0)

    def _read(self, pane: int) -> dict[int, int]:
        table = decode_table(self._store.read(FIRED_KIND, pane, 0))
        return dict(zip(self._keys.encode(table).tolist(), table.column(COUNT_COLUMN).to_pylist(), strict=True))
