"""One batch of a session window: load what it needs, process the steps, write what changed."""

from __future__ import annotations

from panekeeper.framework.core.event_time_batch import EventTimeBatch
from panekeeper.framework.core.guarded_aggregates import bind_guarded
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import Quarantine
from panekeeper.framework.core.sessions.cells import SessionCells
from panekeeper.framework.core.sessions.leaves import Leaves
from panekeeper.framework.core.sessions.output import AggregateSessionOutput, OperatorSessionOutput, SessionResults
from panekeeper.framework.core.sessions.protocol import SessionContents, SessionOutput
from panekeeper.framework.core.sessions.rows import SessionRows
from panekeeper.framework.core.sessions.window import SessionWindow
from panekeeper.framework.core.state_handlers import NoPartitionControl
from panekeeper.framework.declarations.windows import Session
from panekeeper.state.records import SessionRecord
from panekeeper.state.store import KeyGroupStore, StoredHeader


class SessionBatch(EventTimeBatch):
    """The session window of one port for one batch: loaded when it is made, stored by `save`."""

    def __init__(self, spec: JobSpec, store: KeyGroupStore) -> None:
        assert isinstance(spec.window, Session)
        header = StoredHeader(store)
        record, keys = SessionRecord.decode(header.value), PartitionKeys(spec.keys)
        leaves = Leaves(record, keys)
        results = SessionResults(spec, spec.window, keys, Quarantine(spec, keys))
        contents, output = _contents_and_output(spec, spec.window, store, keys, leaves, results)
        taken_back = spec.output if spec.retracts else None
        window = SessionWindow(spec.window, record, keys, store, leaves, contents, output, taken_back)
        super().__init__(header, window, results, NoPartitionControl(results.add_drained))


def _contents_and_output(
    spec: JobSpec,
    window: Session,
    store: KeyGroupStore,
    keys: PartitionKeys,
    leaves: Leaves,
    results: SessionResults,
) -> tuple[SessionContents, SessionOutput]:
    if spec.aggregates is None:
        assert spec.operator is not None
        rows = SessionRows(keys, spec.columns, store, leaves, spec.history, [])
        return rows, OperatorSessionOutput(spec, spec.operator, rows, keys, results)
    accumulators = bind_guarded(spec.aggregates, spec.columns, results.quarantine, spec.history)
    if window.gap_us is None or window.needs_rows or any(accumulator.needs_content for accumulator in accumulators):
        rows = SessionRows(keys, spec.columns, store, leaves, spec.history, accumulators)
        return rows, AggregateSessionOutput(rows, results)
    if spec.discards:
        accumulators += bind_guarded(spec.aggregates, spec.columns, results.quarantine, spec.history, is_of_all=True)
    cells = SessionCells(accumulators, keys, window.gap_us, spec.columns.empty_table())
    return cells, AggregateSessionOutput(cells, results)
