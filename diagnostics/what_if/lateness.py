"""How late are rows, and how many of them does a watermark delay have in time? Counted, without Spark.

The watermark of a batch is the greatest event time of the batches before it, less the delay. So a row is in time if the
delay is at least as long as the row is behind that greatest time: its lateness. It is counted in whole milliseconds, as
Spark counts, by which it is exact: a row of lateness `n` is in time with a delay of `n` milliseconds, and late with
`n - 1`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

_NONE = np.empty(0, dtype=np.int64)


def lateness_ms(times_us: np.ndarray, latest_us: int | None) -> np.ndarray:
    """Return how late rows are, ms, by their event times and the greatest one of the batches before; 0 without one.

    >>> lateness_ms(np.array([1_000_000, 2_000_999, 3_000_000]), 2_001_000)
    array([1001,    1,    0])
    """
    if latest_us is None:
        return np.zeros(len(times_us), dtype=np.int64)
    late: np.ndarray = np.maximum(latest_us // 1000 - times_us // 1000, 0)
    return late


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """How many rows have which lateness.

    Attributes:
        values: each lateness that rows have, ms, in rising order.
        counts: how many rows have it.
    """

    values: np.ndarray = field(default_factory=_NONE.copy)
    counts: np.ndarray = field(default_factory=_NONE.copy)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.counts.sum())

    def with_rows(self, late_ms: np.ndarray) -> Lateness:
        """Return it with more rows."""
        values, places = np.unique(np.concatenate([self.values, late_ms]), return_inverse=True)
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, places, np.concatenate([self.counts, np.ones(len(late_ms), dtype=np.int64)]))
        return Lateness(values=values, counts=counts)

    def smallest_delay_ms(self, share: Fraction) -> int:
        """Return the smallest delay, ms, with which at least this share of the rows is in time; 0 without rows."""
        if not self.rows:
            return 0
        needed = -(-self.rows * share.numerator // share.denominator)
        in_time = np.cumsum(self.counts)
        return int(self.values[min(int(np.searchsorted(in_time, needed)), len(self.values) - 1)]) if needed > 0 else 0

    def late_rows(self, delay_ms: int) -> int:
        """Return how many rows are behind the watermark with a delay."""
        return int(self.counts[self.values > delay_ms].sum())
