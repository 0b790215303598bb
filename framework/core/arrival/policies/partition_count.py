"""`PartitionCount`: a number of partitions (docs/semantics.md section 4.1)."""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import RunningPolicy
from panekeeper.framework.declarations.policies import PartitionCount


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
