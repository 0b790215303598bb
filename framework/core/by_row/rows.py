"""The rows of windows by row, sorted so that those of each window are one range. They are kept as those of joins."""

from __future__ import annotations

import pyarrow as pa

from panekeeper.framework.core.job_spec import ARRIVAL_NUMBER, EVENT_TIME
from panekeeper.framework.core.panes.pane_index import SortedCells
from panekeeper.framework.core.partition_keys import PartitionKeys


class OrderedRows(SortedCells):
    """Rows in the order of their partitions, their times, and their arrival: those of a window are one range.

    Attributes:
        rows: the rows.
        codes: the partition of each.
        times: the event time of each, us.
        numbers: the arrival number of each.
    """

    def __init__(self, rows: pa.Table, keys: PartitionKeys) -> None:
        codes, times = keys.encode(rows), rows.column(EVENT_TIME).to_numpy()
        numbers = rows.column(ARRIVAL_NUMBER).to_numpy()
        super().__init__(codes, times, numbers)
        self.rows = rows.take(pa.array(self.order)).combine_chunks()
        self.codes, self.times, self.numbers = codes[self.order], times[self.order], numbers[self.order]
