"""`PartitionAge`, `PartitionCount`, `TupleCount`: when partitions are evicted (docs/semantics.md section 4.1)."""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import RunningPolicy
from panekeeper.framework.declarations.policies import PartitionAge, PartitionCount, TupleCount


class PartitionAgePolicy(RunningPolicy):
    """Evict partitions by the clock; how is in `panekeeper.framework.core.arrival.window`."""

    def __init__(self, declared: PartitionAge) -> None:
        self.partition_age_us = declared.us


class PartitionCountPolicy(RunningPolicy):
    """Keep at most n partitions: evict those least recently inserted into."""

    def __init__(self, declared: PartitionCount) -> None:
        self._size = declared.size

    def rows_within_limit(self, codes: np.ndarray, begin: int, partitions: Partitions) -> int:
        """Return the position after the first row that creates a partition too many."""
        room = max(self._size - int(np.count_nonzero(partitions.live)), 0)
        distinct, first = np.unique(codes[begin:], return_index=True)
        creating = np.sort(first[~partitions.live[distinct]])
        return len(codes) if len(creating) <= room else begin + int(creating[room]) + 1

    def partitions_over_limit(self, partitions: Partitions) -> np.ndarray:
        """Return the excess; and all empty ones older than the first with rows, even if they are more than that."""
        oldest = partitions.by_newest_row
        excess = len(oldest) - self._size
        leading = int(np.argmax(np.append(partitions.size[oldest] > 0, True)))
        return oldest[: max(excess, leading)] if excess > 0 else oldest[:0]


class TupleCountPolicy(RunningPolicy):
    """Keep at most n rows: evict the partitions least recently inserted into, until no more are left."""

    def __init__(self, declared: TupleCount) -> None:
        self._size = declared.size

    def rows_within_limit(self, codes: np.ndarray, begin: int, partitions: Partitions) -> int:
        """Return the position after the first row too many."""
        room = max(self._size - int(partitions.size[partitions.live].sum()), 0)
        return min(len(codes), begin + room + 1)

    def partitions_over_limit(self, partitions: Partitions) -> np.ndarray:
        """Return the oldest partitions, as few as are needed."""
        oldest = partitions.by_newest_row
        rows = partitions.size[oldest]
        left = rows.sum() - np.cumsum(rows)
        return oldest[: int(np.argmax(left <= self._size)) + 1] if rows.sum() > self._size else oldest[:0]
