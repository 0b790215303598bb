# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""How windows by row become result rows, of aggregates: computed from the rows, which are sorted for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.by_row.protocol import Windows
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator
from panekeeper.framework.core.quarantine import FiringPlace
from panekeeper.framework.core.result_rows import ResultRows
from panekeeper.framework.declarations.events import Reason


class ByRowResults(ResultRows):
    """The result rows of a batch, and its quarantine."""

    def add(self, windows: Windows, starts: np.ndarray, columns: list[pa.Array], reason: Reason) -> None:
        """Add a result row for each window that fires; `starts` (us) are their first instants."""
        self._add(
            windows.codes,
            [pa.array(edge).cast(self._spec.pane_time) for edge in (starts, windows.lasts)],
            columns,
            [
                pa.array(windows.fired, pa.int32()),
                pa.array(np.asarray(windows.closes)),
                pa.array([reason.value] * len(windows.codes)),
            ],
        )


class AggregateByRowOutput:
    """Computes the declared aggregates, for all windows that fire at once."""

    def __init__(self, accumulators: list[GuardedAccumulator], difference_us: int, results: ByRowResults) -> None:
        self._accumulators = accumulators
        self._difference = difference_us
        self._results = results

    def on_drop(self, table: pa.Table, detail: Callable[[int | None], str]) -> None:
        self._results.quarantine.add_late(table, detail)

    def on_transitions(self, windows: Windows, reason: Reason) -> None:
        """Emit one row for every window that fires."""
        starts = windows.lasts - self._difference

        def place(at: int) -> FiringPlace:
            times = {"pane_start": int(starts[at]), "pane_end": int(windows.lasts[at])}
            return FiringPlace(int(windows.codes[at]), times)

        columns = [
            accumulator.from_rows(windows.rows.rows, windows.low, windows.high, place)
            for accumulator in self._accumulators
        ]
        self._results.add(windows, starts, columns, reason)
