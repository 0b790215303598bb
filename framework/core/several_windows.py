"""Several windows on the rows of one port, for one batch: each gets every step, and keeps what it would keep alone.

So its results are those of a job with that window only. What they share is the row, read and checked once, and the
watermark. A row is counted once: by the best that becomes of it in any of them (docs/semantics.md section 19).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.event_time_batch import EventTimeBatch, RowCounts, RowFate
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.panes.folding import NUMBER_COLUMN
from panekeeper.framework.core.quarantine import added_up
from panekeeper.framework.core.state_handlers import NoPartitionControl
from panekeeper.framework.core.steps import BatchOutcome, PartialRows, PortStep, Rows, of_window
from panekeeper.state.store import KeyGroupStore, WindowStore


class SeveralWindowsBatch:
    """The windows for one batch: loaded when it is made, stored by `save`."""

    control = NoPartitionControl()

    def __init__(
        self, spec: JobSpec, store: KeyGroupStore, make: Callable[[JobSpec, KeyGroupStore], EventTimeBatch]
    ) -> None:
        """Load each by `make`, from its own part of the store."""
        self._spec = spec
        self._windows = {
            name: make(window_spec, WindowStore(store, name)) for name, window_spec in spec.windows.items()
        }
        self._counts = RowCounts()

    @property
    def watermark(self) -> int:
        """The largest watermark that all of them have acted on, us."""
        return min(window.watermark for window in self._windows.values())

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row, by itself, is not too late for one of them."""
        taken: np.ndarray = np.logical_or.reduce([window.takes(table) for window in self._windows.values()])
        return taken

    def process(self, step: PortStep) -> None:
        """Give one step to each."""
        if isinstance(step, Rows):
            fates = [window.process_rows(self._of(name, step.table)) for name, window in self._windows.items()]
            self._counts.add(np.maximum.reduce(fates))
            return
        if isinstance(step, PartialRows):
            self._windows[step.window].process(step)
            if step.window == next(iter(self._windows)):  # the others have partial rows of the same rows
                numbers = step.table.column(NUMBER_COLUMN).to_numpy()
                self._counts.add(np.full(len(numbers), RowFate.ADMITTED), numbers)
            return
        for window in self._windows.values():
            window.process(step)

    def save(self) -> BatchOutcome:
        """Write what changed and return what the batch did."""
        outcomes = {name: window.save() for name, window in self._windows.items()}
        every, schema = [*outcomes.values()], self._spec.rejected_schema
        rejected = [
            of_window(outcome.rejected, name, schema)
            for name, outcome in outcomes.items()
            if outcome.rejected is not None
        ]
        return BatchOutcome(
            results=None,
            rejected=pa.concat_tables(rejected) if rejected else None,
            counts=asdict(self._counts),
            missed_panes=sum(outcome.missed_panes for outcome in every),
            due_watermark_us=_least([outcome.due_watermark_us for outcome in every]),
            due_us=_least([outcome.due_us for outcome in every]),
            open_panes=sum(outcome.open_panes for outcome in every),
            open_runs={name: runs for name, outcome in outcomes.items() for runs in outcome.open_runs.values()},
            watermark=max((outcome.watermark for outcome in every if outcome.watermark is not None), default=None),
            errors=added_up(kind for outcome in every for kind in outcome.errors),
            windows={name: replace(outcome, rejected=None) for name, outcome in outcomes.items()},
        )

    def _of(self, name: str, table: pa.Table) -> pa.Table:
        """Return rows as the window gets them alone: when they came only where it fires by the wall clock."""
        if ARRIVAL_TIME in table.column_names and not self._spec.windows[name].fires_by_clock:
            return table.drop_columns([ARRIVAL_TIME])
        return table


def _least(instants: list[int | None]) -> int | None:
    return min((us for us in instants if us is not None), default=None)
