"""`TupleCount`: a number of rows in all partitions together (docs/semantics.md section 4.1)."""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import RunningPolicy
from panekeeper.framework.declarations.policies import TupleCount


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
