"""What an outage did to the windows of a key group: the difference between before the first tick and after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from framework.core.arrival.partitions import Partitions
from state.records import NO_WATERMARK, SequenceRecord


@dataclass(frozen=True)
class OutageCounts:
    """How much there is, at one moment."""

    clock: int
    firings: int
    partitions: int
    tuples: int

    @classmethod
    def of(cls, record: SequenceRecord, partitions: Partitions) -> OutageCounts:
        """Count."""
        live = partitions.live
        return cls(record.clock, record.firings, int(np.count_nonzero(live)), int(partitions.size[live].sum()))

    def difference_to(self, before: OutageCounts, *, overdue: int, now: int) -> dict[str, int]:
        """Return what happened since, at the instant `now`; `overdue` timers had come meanwhile.

        `timers` overdue, `results` they led to, `tuples` that left and `partitions` that went, `back_us` by which the
        clock has gone back.
        """
        return {
            "timers": overdue,
            "results": self.firings - before.firings,
            "tuples": before.tuples - self.tuples,
            "partitions": before.partitions - self.partitions,
            "back_us": 0 if before.clock == NO_WATERMARK else max(0, before.clock - now),
        }
