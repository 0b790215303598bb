"""One batch of windows by row: load what it needs, process the steps, write what changed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.by_row.window import SlidingByRowWindow, Windows
from panekeeper.framework.core.event_time_batch import EventTimeBatch
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator, bind_guarded
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.joins.kept_rows import KeptRows
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import FiringPlace, Quarantine
from panekeeper.framework.core.result_rows import ResultRows
from panekeeper.framework.core.state_handlers import NoPartitionControl
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.windows import SlidingByRow
from panekeeper.state.records import ByRowRecord
from panekeeper.state.store import KeyGroupStore


class SlidingByRowBatch(EventTimeBatch):
    """The windows by row of one port for one batch: loaded when it is made, stored by `save`."""

    def __init__(self, spec: JobSpec, store: KeyGroupStore) -> None:
        window = spec.window
        assert isinstance(window, SlidingByRow)
        assert spec.aggregates is not None
        header = store.read_header()
        record, keys = ByRowRecord.decode(header), PartitionKeys(spec.keys)
        reach, age = 2 * window.difference_us, window.reach_us
        kept = KeptRows(spec.columns, record.kept, store, spec.history, reach=reach, age=age, goes_out_alone=True)
        quarantine = Quarantine(spec, keys)
        accumulators = bind_guarded(spec.aggregates, spec.columns, quarantine, spec.history)
        results = ByRowResults(spec, keys, quarantine, accumulators)
        running = SlidingByRowWindow(window, record, keys, kept, results.add, quarantine.add_late)
        super().__init__(store, header, running, results, NoPartitionControl())


class ByRowResults(ResultRows):
    """The result rows of a batch, and its quarantine."""

    def __init__(
        self, spec: JobSpec, keys: PartitionKeys, quarantine: Quarantine, accumulators: list[GuardedAccumulator]
    ) -> None:
        super().__init__(spec, keys, quarantine)
        assert isinstance(spec.window, SlidingByRow)
        self._difference = spec.window.difference_us
        self._accumulators = accumulators

    def add(self, windows: Windows, reason: Reason) -> None:
        """Add a result row for each window that fires."""
        starts = windows.lasts - self._difference

        def place(at: int) -> FiringPlace:
            times = {"pane_start": int(starts[at]), "pane_end": int(windows.lasts[at])}
            return FiringPlace(int(windows.codes[at]), times)

        columns = [one.from_rows(windows.rows.rows, windows.low, windows.high, place) for one in self._accumulators]
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
