"""One batch of windows by row: load what it needs, process the steps, write what changed."""

from __future__ import annotations

from panekeeper.framework.core.by_row.output import AggregateByRowOutput, ByRowResults
from panekeeper.framework.core.by_row.window import SlidingByRowWindow
from panekeeper.framework.core.event_time_batch import EventTimeBatch
from panekeeper.framework.core.guarded_aggregates import bind_guarded
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.joins.kept_rows import KeptRows
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import Quarantine
from panekeeper.framework.core.state_handlers import NoPartitionControl
from panekeeper.framework.declarations.windows import SlidingByRow
from panekeeper.state.records import ByRowRecord
from panekeeper.state.store import KeyGroupStore, StoredHeader


class SlidingByRowBatch(EventTimeBatch):
    """The windows by row of one port for one batch: loaded when it is made, stored by `save`."""

    def __init__(self, spec: JobSpec, store: KeyGroupStore) -> None:
        window = spec.window
        assert isinstance(window, SlidingByRow)
        assert spec.aggregates is not None
        header = StoredHeader(store)
        record, keys = ByRowRecord.decode(header.value), PartitionKeys(spec.keys)
        reach, age = 2 * window.difference_us, window.reach_us
        kept = KeptRows(spec.columns, record.kept, store, spec.history, reach=reach, age=age, goes_out_alone=True)
        quarantine = Quarantine(spec, keys)
        accumulators = bind_guarded(spec.aggregates, spec.columns, quarantine, spec.history)
        results = ByRowResults(spec, keys, quarantine)
        output = AggregateByRowOutput(accumulators, window.difference_us, results)
        self.window = SlidingByRowWindow(window, record, keys, kept, output)
        super().__init__(header, self.window, results, NoPartitionControl())
