"""Rows of sessions that were folded before they reached their key group: one partial row for each partition and slice.

A slice is as long as the gap, so its rows are in one session. They are folded where that changes nothing: each
aggregate merges partial results to the last bit, and none of the rows that come together is too late by itself. Of
those that are, which rows came before them decides, so they stay rows, and all others with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.protocol import Accumulator
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.panes.partial_rows import (
    FoldedRows,
    exact_accumulators,
    fold_cells,
    gains,
)
from panekeeper.framework.declarations.windows import Session

FIRST_TIME_COLUMN = "_first"
LAST_TIME_COLUMN = "_last"
"""Times of the first and of the last row that a partial row stands for, us."""


@dataclass(frozen=True)
class SessionFolding:
    """Folds the rows of sessions on their way to the key groups. Picklable; sent to the workers.

    Attributes:
        window: the declared window, of one gap.
        keys: the partition columns.
        accumulators: those of its aggregates, in order.
    """

    window: Session
    keys: pa.Schema
    accumulators: tuple[Accumulator, ...]

    @classmethod
    def of(cls, spec: JobSpec) -> SessionFolding | None:
        """Return the folding of a job's rows; None if something needs the rows themselves, or their order."""
        accumulators = exact_accumulators(spec)
        if accumulators is None or not isinstance(spec.window, Session) or spec.window.needs_rows:
            return None
        return cls(spec.window, spec.keys, accumulators)

    def fold(self, rows: pa.Table, watermark: int) -> FoldedRows | None:
        """Fold rows; None if one is too late by itself at this watermark, or that would not make them much fewer."""
        gap, times = self.window.gap_us, rows.column(EVENT_TIME).to_numpy()
        assert gap is not None
        if not len(times) or int(times.min()) + gap + self.window.age_us <= watermark:
            return None
        slices = times // gap
        if not gains(rows, slices, self.keys):
            return None
        folded, cells = fold_cells(rows, slices, self.keys, self.accumulators)
        first = np.full(folded.num_rows, np.iinfo(np.int64).max)
        last = np.full(folded.num_rows, np.iinfo(np.int64).min)
        np.minimum.at(first, cells, times)
        np.maximum.at(last, cells, times)
        place = np.empty(folded.num_rows, dtype=np.int64)
        place[cells[::-1]] = np.arange(len(cells))[::-1]  # where a cell repeats, the last assignment stays
        table = folded.append_column(FIRST_TIME_COLUMN, pa.array(first)).append_column(LAST_TIME_COLUMN, pa.array(last))
        return FoldedRows(table, place, np.empty(0, dtype=np.int64))
