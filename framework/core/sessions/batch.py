"""One batch of a session window: load what it needs, process the steps, write what changed."""

from __future__ import annotations

from dataclasses import asdict

from panekeeper.framework.core.guarded_aggregates import bind_guarded
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import Quarantine
from panekeeper.framework.core.sessions.cells import SessionCells
from panekeeper.framework.core.sessions.leaves import Leaves
from panekeeper.framework.core.sessions.output import AggregateSessionOutput, OperatorSessionOutput, SessionResults
from panekeeper.framework.core.sessions.rows import SessionRows
from panekeeper.framework.core.sessions.storage import SessionContents
from panekeeper.framework.core.sessions.window import SessionOutput, SessionWindow
from panekeeper.framework.core.state_handlers import NoPartitionControl
from panekeeper.framework.core.steps import BatchEnd, BatchOutcome, Flush, PartialRows, PortStep, Rows, Tick, Watermark
from panekeeper.framework.declarations.windows import Session
from panekeeper.state.records import NO_WATERMARK, SessionRecord
from panekeeper.state.store import KeyGroupStore


class SessionBatch:
    """The session window of one port for one batch: loaded when it is made, stored by `save`."""

    def __init__(self, spec: JobSpec, store: KeyGroupStore) -> None:
        assert isinstance(spec.window, Session)
        self._store = store
        self._stored_header = store.read_header()
        self._record = SessionRecord.decode(self._stored_header)
        keys = PartitionKeys(spec.keys)
        leaves = Leaves(self._record, keys)
        self._results = SessionResults(spec, spec.window, keys, Quarantine(spec, keys))
        contents, output = _contents_and_output(spec, spec.window, store, keys, leaves, self._results)
        self._window = SessionWindow(spec.window, self._record, keys, store, leaves, contents, output)
        self.control = NoPartitionControl(self._results.add_drained)

    def process(self, step: PortStep) -> None:
        """Process one step; marks do not concern sessions in event time."""
        match step:
            case Rows(table):
                if table.num_rows:
                    self._window.on_rows(table)
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

    def save(self) -> BatchOutcome:
        """Write what changed and return what the batch did."""
        record, window = self._record, self._window
        header = window.save().encode()
        if header != self._stored_header:
            self._store.write_header(header)
        return BatchOutcome(
            results=self._results.table,
            rejected=self._results.quarantine.table,
            errors=self._results.quarantine.errors,
            counts=asdict(window.counts),
            due_watermark_us=window.due(),
            due_us=window.due_by_clock(),
            open_panes=window.count,
            watermark=None if record.watermark == NO_WATERMARK else record.watermark,
        )


def _contents_and_output(
    spec: JobSpec,
    window: Session,
    store: KeyGroupStore,
    keys: PartitionKeys,
    leaves: Leaves,
    results: SessionResults,
) -> tuple[SessionContents, SessionOutput]:
    if spec.aggregates is None:
        if spec.operator is None:
            raise ValueError("a job spec needs aggregates or an operator")
        rows = SessionRows(keys, spec.columns, store, leaves, spec.history, [])
        return rows, OperatorSessionOutput(spec, spec.operator, rows, keys, results)
    accumulators = bind_guarded(spec.aggregates, spec.columns, results.quarantine, spec.history)
    if window.gap_us is None or window.needs_rows or any(one.needs_content for one in accumulators):
        rows = SessionRows(keys, spec.columns, store, leaves, spec.history, accumulators)
        return rows, AggregateSessionOutput(rows, results)
    cells = SessionCells(accumulators, keys, window.gap_us)
    return cells, AggregateSessionOutput(cells, results)
