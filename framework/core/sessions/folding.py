"""Rows of sessions that were folded before they reached their key group: one partial row for those that are together.

Rows of a partition that are within a gap of each other are in one session, whatever comes later. They are folded where
that changes nothing: each aggregate merges partial results to the last bit, and no row of the partition is too late by
itself. Of those that are, which rows came before them decides, so they stay rows, and all others of their partitions.

A partial row is in the cell of its first row (`cells.py`), as all of its rows are in the session of that cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.protocol import Accumulator
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.panes.folding import NUMBER_COLUMN, FoldedRows, append_states, exact_accumulators
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.core.sessions.joins import connected
from panekeeper.framework.declarations.windows import Session
from panekeeper.state.records import NEVER

FIRST_TIME_COLUMN = "_first"
LAST_TIME_COLUMN = "_last"
"""Times of the first and of the last row that a partial row stands for, us."""
REFINING_COLUMN = "_pk_refining"
"""How many of its rows come when a session of their own would be complete."""
_LEAST_GAIN = 2
"""Rows are folded if there are at least as many times more of them than partial rows."""


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

    def _staying(self, keys: PartitionKeys, codes: np.ndarray, times: np.ndarray, watermark: int) -> np.ndarray:
        """Return of which partitions rows stay rows."""
        gap = self.window.gap_us
        assert gap is not None
        stays = np.zeros(keys.count, dtype=np.bool_)
        stays[codes[times + gap + self.window.age_us <= watermark]] = True
        return stays

    def fold(self, rows: pa.Table, watermark: int) -> FoldedRows | None:
        """Fold the rows of partitions of which none is too late by itself at this watermark.

        Return None if that would not make them much fewer.
        """
        gap, times = self.window.gap_us, rows.column(EVENT_TIME).to_numpy()
        assert gap is not None
        if not len(times):
            return None
        keys = PartitionKeys(self.keys)
        rows = keys.with_normal_keys(rows)
        codes = keys.encode(rows)
        stays = self._staying(keys, codes, times, watermark)
        rest, kept = np.empty(0, dtype=np.int64), np.arange(len(times))
        if stays.any():
            rest, kept = np.flatnonzero(stays[codes]), np.flatnonzero(~stays[codes])
            if not len(kept):
                return None
            rows, times, codes = rows.take(pa.array(kept)), times[kept], codes[kept]
        parts = connected(codes, times, times + gap)
        count = int(parts.max()) + 1
        if count * _LEAST_GAIN > len(times):
            return None
        place = np.empty(count, dtype=np.int64)
        place[parts[::-1]] = np.arange(len(parts))[::-1]  # where a part repeats, the last assignment stays
        first, last = np.full(count, NEVER), np.full(count, -NEVER)
        np.minimum.at(first, parts, times)
        np.maximum.at(last, parts, times)
        columns = {
            NUMBER_COLUMN: pa.array(np.bincount(parts)),
            FIRST_TIME_COLUMN: pa.array(first),
            LAST_TIME_COLUMN: pa.array(last),
            REFINING_COLUMN: pa.array(np.bincount(parts[times + gap <= watermark], minlength=count)),
        }
        arrived = np.arange(rows.num_rows, dtype=np.int64)
        states = [accumulator.fold([], parts, count, rows, arrived) for accumulator in self.accumulators]
        table = append_states(with_keys(pa.table(columns), keys, codes[place]), states)
        return FoldedRows(table, kept[place], rest)
