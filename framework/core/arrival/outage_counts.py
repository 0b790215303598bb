"""What an outage did to the windows of a key group: the difference between before the first tick and after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.state.records import NO_WATERMARK, SequenceRecord


@dataclass(frozen=True)
class OutageCounts:
    """What a key group has at one point in time."""

    clock: int
    firings: int
    partitions: int
    kept_rows: int

    @classmethod
    def of(cls, record: SequenceRecord, partitions: Partitions) -> OutageCounts:
        """Return the present counts."""
        live, now = partitions.live, partitions.latest(record.clock)
        return cls(now, record.firings, int(np.count_nonzero(live)), int(partitions.size[live].sum()))

    def difference_to(self, before: OutageCounts, *, overdue: int, now: int) -> dict[str, int]:
        """Return what happened since `before`, at the instant `now` (us); `overdue` timers had become due meanwhile.

        Returns:
            `timers` that were overdue, `results` that they led to, `tuples` (rows) and `partitions` that were evicted,
            and `back_us`, by which the clock went back.
        """
        return {
            "timers": overdue,
            "results": self.firings - before.firings,
            "tuples": before.kept_rows - self.kept_rows,
            "partitions": before.partitions - self.partitions,
            "back_us": 0 if before.clock == NO_WATERMARK else max(0, before.clock - now),
        }
