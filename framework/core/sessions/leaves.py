"""In which stored values the sessions of a partition are: leaves of a tree over a hash of the partition.

A value holds some hundred sessions, so a batch reads and writes those that it touches, however many are kept. One that
grows beyond is split by one more bit of the hash; two that have become small, and are in memory, become one again.
Where a batch changes many of the sessions of a leaf, small ones would only cost round trips: such leaves become one up
to some thousand sessions, until batches change few of them. The header lists the leaves, with the watermark at which
each has something to do.

Sessions that only wait until they close may be many times as many as those that rows still join. So where a leaf has
enough of them they go to an archive of their own, which is read when a row comes so late, or when one of them is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.aggregates.approx_distinct import is_hashable, stable_hashes
from panekeeper.framework.core.aggregates.columns import combine
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.stable_order import gather_ranges, ranked, stable_order
from panekeeper.state.records import ARCHIVES, CLOCK, DUE, NEVER, SESSIONS, SessionRecord

ROOT = 1
"""The leaf of all partitions. Leaf 2**d + b has those whose hash ends with the d bits b."""
_LEAST = 64
"""A leaf has so many sessions at most. Where there are very many, leaves are larger, or the header would be."""
_MOST = 2048
"""A leaf of which batches change many sessions has so many at most."""
_LEAST_ARCHIVE = 1024
"""An archive has so many at most. Where there are very many, archives are larger, too."""
_MANY, _FEW = 16, 64
"""Many sessions are one in so many, and few are less than one in so many; in between leaves stay as they are."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_DEEPEST = 40


class Leaves:
    """The leaves of a key group; `records` are those in the header, kept up to date. A leaf without sessions has none.

    Without any record there is the root alone.
    """

    def __init__(self, record: SessionRecord, keys: PartitionKeys) -> None:
        self._keys = keys
        self.records = record.leaves
        self.archives = record.archives
        self._hashes = np.empty(0, dtype=np.int64)
        self._known = np.empty(0, dtype=np.int64)
        self._depths: list[int] | None = None

    def of(self, codes: np.ndarray) -> np.ndarray:
        """Return the leaf of each partition."""
        hashes = self._hash_of_each()[codes]
        leaves = np.full(len(codes), ROOT, dtype=np.int64)
        if self._depths is None:
            self._depths = sorted({depth_of(leaf) for leaf in self.records})
            self._known = np.array(sorted(self.records), dtype=np.int64)
        for depth in self._depths if len(self._known) > 1 else ():
            here = (1 << depth) | (hashes & ((1 << depth) - 1))
            place = np.minimum(np.searchsorted(self._known, here), len(self._known) - 1)
            leaves = np.where(self._known[place] == here, here, leaves)
        return leaves

    def archives_touched(self, codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[int]:
        """Return the archives that may have a session of one of these partitions which touches the interval."""
        if not self.archives or not len(codes):
            return []
        hashes, touched = self._hash_of_each()[codes], []
        numbers = np.fromiter(self.archives, dtype=np.int64)
        leaves, lows, highs = np.array(list(self.archives.values()), dtype=np.int64)[:, -3:].T
        for depth in {depth_of(leaf) for leaf in set(leaves.tolist())}:
            here, place = ranked((1 << depth) | (hashes & ((1 << depth) - 1)))
            first, last = np.full(len(here), NEVER), np.full(len(here), -NEVER)
            np.minimum.at(first, place, low)
            np.maximum.at(last, place, high)
            at = np.minimum(np.searchsorted(here, leaves), len(here) - 1)
            touched += numbers[(here[at] == leaves) & (lows <= last[at]) & (highs >= first[at])].tolist()
        return touched

    def places(self, codes: np.ndarray, leaves: list[int]) -> tuple[np.ndarray, list[int]]:
        """Return (positions, bounds): where the partitions of each of these leaves, ascending, are among `codes`.

        Those of the n-th leaf are `positions[bounds[n]:bounds[n + 1]]`, in their order.
        """
        leaf_of_each = self.of(codes)
        order = stable_order(leaf_of_each)
        ascending = leaf_of_each[order]
        low = np.searchsorted(ascending, leaves)
        positions, offsets = gather_ranges(low, np.searchsorted(ascending, leaves, side="right"))
        return order[positions.astype(np.int64)], offsets.astype(np.int64).tolist()

    @property
    def capacity(self) -> int:
        """How many sessions a leaf has at most of which batches change few, unless they are of one partition."""
        return max(_LEAST, isqrt(self.sessions) // 2)

    @property
    def archive_capacity(self) -> int:
        """How many sessions an archive has at most: it is written once, and the header lists them all."""
        return max(_LEAST_ARCHIVE, isqrt(self.all_sessions))

    def is_large(self, sessions: int, changed: int) -> bool:
        """Return whether a leaf with so many sessions is to be split, if a batch changes so many of them."""
        return sessions > self.capacity and (sessions > _MOST or changed * _FEW < sessions)

    def is_small(self, sessions: int, changed: int) -> bool:
        """Return whether two leaves that have so many sessions together are to become one."""
        return sessions <= self.capacity // 2 or (sessions <= _MOST // 2 and changed * _MANY >= sessions)

    @property
    def sessions(self) -> int:
        """Number of open sessions, as far as the records know."""
        return sum([record[SESSIONS] for record in self.records.values()])

    @property
    def all_sessions(self) -> int:
        """Number of open sessions, those in archives too."""
        return self.sessions + sum([record[SESSIONS] for record in self.archives.values()])

    @property
    def due(self) -> int | None:
        """The least watermark, us, at which a session has something to do; None: none is open."""
        due = [record[DUE] for record in self.records.values() if record[SESSIONS]]
        return min(due + [record[DUE] for record in self.archives.values()], default=None)

    @property
    def due_by_clock(self) -> int | None:
        """When the wall clock next makes a session fire, us; None: never."""
        return min([record[CLOCK] for record in self.records.values() if record[CLOCK] >= 0], default=None)

    def known(self, leaf: int) -> list[int]:
        """Return the record of a leaf, or of the archive that is stored as one."""
        record = self.archives.get(leaf - ARCHIVES) if leaf >= ARCHIVES else self.records.get(leaf)
        return no_sessions() if record is None else record

    def split(self, leaf: int) -> tuple[int, int]:
        """Put two leaves in the place of one, and return them."""
        depth = depth_of(leaf)
        self.records.pop(leaf, None)
        self._depths = None
        low, high = (1 << (depth + 1)) | (leaf - (1 << depth)), (1 << (depth + 1)) | leaf
        self.records[low], self.records[high] = no_sessions(), no_sessions()
        return low, high

    def can_split(self, leaf: int, codes: np.ndarray) -> bool:
        """Return whether partitions of a leaf have hashes that differ in further bits."""
        hashes = self._hash_of_each()[codes] >> depth_of(leaf)
        return bool(depth_of(leaf) < _DEEPEST and (hashes != hashes[0]).any())

    def small_pair(self, leaf: int, loaded: set[int], changed: Mapping[int, int]) -> tuple[int, int] | None:
        """Return a leaf and its sibling, if both are known and small; else None. `changed`: leaf -> changed ones."""
        other = leaf ^ (1 << (depth_of(leaf) - 1)) if leaf > ROOT else ROOT
        pair = (leaf, other)
        if other == leaf or other not in self.records or leaf not in self.records:
            return None
        is_known = all(leaf in loaded or not self.records[leaf][SESSIONS] for leaf in pair)
        sessions, new = (
            sum(numbers)
            for numbers in zip(*((self.records[leaf][SESSIONS], changed.get(leaf, 0)) for leaf in pair), strict=True)
        )
        return pair if is_known and self.is_small(sessions, new) else None

    def join(self, leaf: int, other: int) -> int:
        """Put one leaf in the place of two siblings, and return it."""
        self._depths = None
        both = self.records.pop(leaf)[SESSIONS] + self.records.pop(other)[SESSIONS]
        depth = depth_of(leaf) - 1
        parent = (1 << depth) | (leaf & ((1 << depth) - 1))
        self.records[parent] = [both, *no_sessions()[1:]]
        return parent

    def _hash_of_each(self) -> np.ndarray:
        """Return a hash of each partition that has a code, below 2**62."""
        count, known = self._keys.count, len(self._hashes)
        if count > known:
            hashes = np.zeros(count - known, dtype=np.uint64)
            for column in self._keys.take(np.arange(known, count)).columns:
                hashes = hashes * _FACTOR + _hashes(combine(column))
            self._hashes = np.concatenate([self._hashes, (hashes >> np.uint64(2)).astype(np.int64)])
        return self._hashes


def no_sessions() -> list[int]:
    """Return the record of a leaf without sessions."""
    return [0, 0, 0, -1]


def depth_of(leaf: int) -> int:
    """Return by how many bits of the hash a leaf is known.

    >>> depth_of(ROOT), depth_of(6)
    (0, 2)
    """
    return leaf.bit_length() - 1


def _hashes(column: pa.Array) -> np.ndarray:
    """Return a stored hash of each value; null is one of them."""
    hashes = np.zeros(len(column), dtype=np.uint64)
    valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
    values = column.drop_null()
    if not is_hashable(values.type):
        values = pa.array([str(value) for value in values.to_pylist()], pa.string())
    hashes[valid] = stable_hashes(values)
    return hashes
