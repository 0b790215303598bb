"""Which rows are in which window: rows by partition and time, so that those of a window are one range."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.job_spec import ARRIVAL_NUMBER, EVENT_TIME
from panekeeper.framework.core.panes.pane_index import SlicePlaces
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.stable_order import stable_order


class OrderedRows:
    """Rows in the order of their partitions, their times, and their arrival.

    Attributes:
        rows: the rows.
        codes: the partition of each.
        times: the event time of each, us.
        numbers: the arrival number of each.
    """

    def __init__(self, rows: pa.Table, keys: PartitionKeys) -> None:
        codes, times = keys.encode(rows), rows.column(EVENT_TIME).to_numpy()
        numbers = rows.column(ARRIVAL_NUMBER).to_numpy()
        self._places = SlicePlaces(times)
        placed = codes * self._places.span + self._places.of(times)
        order = stable_order(numbers, placed)
        self._placed = placed[order]
        self.rows = rows.take(pa.array(order)).combine_chunks()
        self.codes, self.times, self.numbers = codes[order], times[order], numbers[order]

    def between(self, codes: np.ndarray, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (low, high): the range of rows that each partition has at these times, both ends included."""
        base = codes * self._places.span
        low = np.searchsorted(self._placed, base + self._places.of(first))
        return low, np.searchsorted(self._placed, base + self._places.of(last + 1))
