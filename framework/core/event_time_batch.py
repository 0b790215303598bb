"""One batch of a window in event time: its steps go to the window, then what changed is written.

Panes and sessions differ in their window and in what it is made from, and in nothing here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.job_spec import ARRIVAL_TIME
from panekeeper.framework.core.panes.open_runs import Runs
from panekeeper.framework.core.result_rows import ResultRows
from panekeeper.framework.core.state_handlers import NoPartitionControl
from panekeeper.framework.core.steps import BatchEnd, BatchOutcome, Flush, PartialRows, PortStep, Rows, Tick, Watermark
from panekeeper.state.duration_text import rounded_us_text
from panekeeper.state.records import NO_WATERMARK
from panekeeper.state.store import StoredHeader


class RowFate(IntEnum):
    """What becomes of a row in a window. In several windows the greatest one is what becomes of it in the job."""

    DROPPED_LATE = 0
    OUTSIDE = 1
    REFINED_LATE = 2
    ADMITTED = 3


@dataclass
class RowCounts:
    """Where the rows of a batch went: rows_in is the sum of the others."""

    rows_in: int = 0
    admitted: int = 0
    refined_late: int = 0
    dropped_late: int = 0
    outside: int = 0

    def add(self, fates: np.ndarray, numbers: np.ndarray | None = None) -> None:
        """Count rows by their fates; `numbers` says how many each entry stands for, one if not given."""
        sums = np.bincount(fates, numbers, minlength=len(RowFate)).astype(np.int64).tolist()
        self.rows_in += sum(sums)
        self.admitted += sums[RowFate.ADMITTED]
        self.refined_late += sums[RowFate.REFINED_LATE]
        self.dropped_late += sums[RowFate.DROPPED_LATE]
        self.outside += sums[RowFate.OUTSIDE]


def fates_of(kept: np.ndarray, refines: np.ndarray, outside: np.ndarray | None = None) -> np.ndarray:
    """Return the fate of each row: it is `kept`, or `outside`, or late; of those that are kept some `refine`."""
    fates = np.where(kept, np.where(refines, RowFate.REFINED_LATE, RowFate.ADMITTED), RowFate.DROPPED_LATE)
    return fates if outside is None else np.where(outside & ~kept, RowFate.OUTSIDE, fates)


def without_arrival_time(table: pa.Table, clock: int | None) -> tuple[pa.Table, int]:
    """Return rows without the time at which they arrived, and that: the one of their batch, or of the last tick."""
    arrived = clock or 0
    if ARRIVAL_TIME in table.column_names:
        arrived = max(arrived, pc.max(table.column(ARRIVAL_TIME)).as_py())
        table = table.drop_columns([ARRIVAL_TIME])
    return table, arrived


def lateness_text(time: int | None, record: EventTimeRecord, rule: str, noun: str = "windows") -> str:
    """Return why a row of this event time (us) was dropped: after the flush, or by how much it is late by a rule."""
    if record.flushed or time is None:
        return f"the job was flushed; its {noun} take no more rows"
    return f"{rounded_us_text(record.watermark - time)} behind the watermark: {rule}"


def folded_too_early(watermark: int) -> ValueError:
    """Return the error that rows folded on their way are late in the key group, whose watermark (us) is this."""
    return ValueError(
        f"rows were folded at an older watermark than that of their key group, which is {watermark} us: some are late. "
        "Nothing was committed; the checkpoint was changed by something else than its job. Restore it from a savepoint"
    )


class EventTimeRecord(Protocol):
    """The header of one key group."""

    watermark: int
    flushed: bool

    def encode(self) -> bytes:
        """Return it as it is stored."""
        ...


class RunningWindow(Protocol):
    """A window in event time, for one batch of one key group."""

    counts: RowCounts
    missed_panes: int

    @property
    def watermark(self) -> int:
        """The largest watermark acted on, us."""
        ...

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row, by itself, is not too late, and lies in no gap."""
        ...

    @property
    def open_count(self) -> int:
        """How many panes or sessions are open."""
        ...

    @property
    def open_runs(self) -> Runs:
        """Which of these are panes with a number, of which other key groups may have the same."""
        ...

    def on_rows(self, table: pa.Table) -> np.ndarray:
        """Process rows in arrival order, and return the fate of each."""
        ...

    def on_partial_rows(self, table: pa.Table) -> None:
        """Process rows that were folded on their way, as those they stand for."""
        ...

    def on_watermark(self, watermark: int) -> None:
        """Fire and close what is complete."""
        ...

    def on_tick(self, us: int) -> None:
        """Fire what is due by the wall clock."""
        ...

    def on_batch_end(self) -> None:
        """Fire what each micro-batch fires."""
        ...

    def on_flush(self) -> None:
        """Fire what has new rows, and close everything for good."""
        ...

    def due(self) -> int | None:
        """Return the least watermark at which something happens, us; None: nothing is open."""
        ...

    def due_by_clock(self) -> int | None:
        """Return when the wall clock next fires something, us; None: never."""
        ...

    def save(self) -> EventTimeRecord:
        """Write the contents and return the record to be written as the header."""
        ...


class EventTimeBatch:
    """The window of one port for one batch: loaded when it is made, stored by `save`."""

    def __init__(
        self,
        header: StoredHeader,
        window: RunningWindow,
        results: ResultRows,
        control: NoPartitionControl,
    ) -> None:
        """Run this window; `header` is the one that it was made from."""
        self._header = header
        self._window = window
        self._results = results
        self.control = control

    @property
    def watermark(self) -> int:
        """The largest watermark acted on, us."""
        return self._window.watermark

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row, by itself, is not too late, and lies in no gap."""
        return self._window.takes(table)

    def process(self, step: PortStep) -> None:
        """Process one step; marks do not concern windows in event time (docs/semantics.md section 6.3)."""
        match step:
            case Rows(table):
                self.process_rows(table)
            case PartialRows(table):
                self._window.on_partial_rows(table)
            case Watermark(us):
                self._window.on_watermark(us)
            case Tick(us):
                self._window.on_tick(us)
            case BatchEnd():
                self._window.on_batch_end()
            case Flush():
                self._window.on_flush()

    def process_rows(self, table: pa.Table) -> np.ndarray:
        """Process rows in arrival order, count them, and return the fate of each."""
        fates = self._window.on_rows(table) if table.num_rows else np.zeros(0, np.int64)
        self._window.counts.add(fates)
        return fates

    def save(self) -> BatchOutcome:
        """Write what changed and return what the batch did."""
        window, quarantine = self._window, self._results.quarantine
        record = window.save()
        self._header.write(record.encode())
        return BatchOutcome(
            results=self._results.table,
            view=self._results.view_table,
            rejected=quarantine.table,
            errors=quarantine.errors,
            counts=asdict(window.counts),
            missed_panes=window.missed_panes,
            due_watermark_us=window.due(),
            due_us=window.due_by_clock(),
            open_panes=window.open_count,
            open_runs={"": runs} if (runs := window.open_runs) else {},
            watermark=None if record.watermark == NO_WATERMARK else record.watermark,
        )
