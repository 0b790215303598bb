"""One batch of a time-interval window: load what it needs, process the steps, write what changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator, bind_guarded
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.panes.fills import Fills
from panekeeper.framework.core.panes.firing_rules import CellFirings
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.last_results import LastResults
from panekeeper.framework.core.panes.output import (
    AggregatePaneOutput,
    OperatorPaneOutput,
    PaneResults,
    RowAggregateSource,
)
from panekeeper.framework.core.panes.refinements import FiringCounts
from panekeeper.framework.core.panes.row_buffer import PaneRowBuffer
from panekeeper.framework.core.panes.slice_aggregates import CONDITION_NUMBER, SliceAggregates
from panekeeper.framework.core.panes.window import PaneContents, PaneOutput, TimeIntervalWindow
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import Quarantine
from panekeeper.framework.core.state_handlers import NoPartitionControl
from panekeeper.framework.core.steps import BatchEnd, BatchOutcome, Flush, PartialRows, PortStep, Rows, Tick, Watermark
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.records import NO_WATERMARK, IntervalRecord
from panekeeper.state.store import KeyGroupStore


@dataclass(frozen=True)
class PaneParts:
    """What the contents of panes and their output are made from."""

    spec: JobSpec
    store: KeyGroupStore
    record: IntervalRecord
    keys: PartitionKeys
    geometry: Geometry
    results: PaneResults
    last: LastResults | None
    fills: Fills | None


class TimeIntervalBatch:
    """The window of one port for one batch: loaded when it is made, stored by `save`."""

    def __init__(
        self,
        spec: JobSpec,
        store: KeyGroupStore,
        make: Callable[[PaneParts], tuple[PaneContents, PaneOutput]] | None = None,
    ) -> None:
        """Load it; `make` returns contents and output, if not those of aggregates or an operator."""
        assert isinstance(spec.window, TimeInterval)
        self._store = store
        self._stored_header = store.read_header()
        self._record = IntervalRecord.decode(self._stored_header)
        keys, geometry = PartitionKeys(spec.keys), Geometry.of(spec.window, spec.history.closed)
        self._results = PaneResults(spec, keys, geometry, Quarantine(spec, keys))
        self._last = LastResults(spec.output, keys, store, self._record) if spec.retracts else None
        fills = None
        if spec.window.fill is not None:
            fills = Fills(spec.window, spec.output, keys, geometry, store, self._record)
        parts = PaneParts(spec, store, self._record, keys, geometry, self._results, self._last, fills)
        contents, output = (make or _contents_and_output)(parts)
        counts = FiringCounts(store, keys)
        cells = (
            CellFirings(spec.window, keys, store, self._record, geometry.ends) if spec.window.keeps_firings else None
        )
        self._window = TimeIntervalWindow(
            spec.window, self._record, keys, contents, output, counts, geometry, cells=cells, fills=fills
        )
        self.control = NoPartitionControl(self._results.add_drained)

    def process(self, step: PortStep) -> None:
        """Process one step; marks do not concern a time interval (docs/semantics.md section 6.3)."""
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
            case Flush():
                self._window.on_flush()
            case BatchEnd():
                self._window.on_batch_end()

    def save(self) -> BatchOutcome:
        """Write what changed and return what the batch did."""
        record, window = self._record, self._window
        if self._last is not None:
            self._last.save()
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
            open_panes=len(record.panes),
            watermark=None if record.watermark == NO_WATERMARK else record.watermark,
        )


def _contents_and_output(parts: PaneParts) -> tuple[PaneContents, PaneOutput]:
    spec, store, record = parts.spec, parts.store, parts.record
    keys, geometry, results, last, fills = parts.keys, parts.geometry, parts.results, parts.last, parts.fills
    if spec.aggregates is None:
        if spec.operator is None:
            raise ValueError("a job spec needs aggregates or an operator")
        buffer = PaneRowBuffer(keys, spec.columns, geometry, store, record, spec.history)
        return buffer, OperatorPaneOutput(spec, spec.operator, buffer, keys, geometry, results)
    accumulators = bind_guarded(spec.aggregates, spec.columns, results.quarantine, spec.history)
    if any(aggregate.needs_content for aggregate in spec.aggregates.values()):
        buffer = PaneRowBuffer(keys, spec.columns, geometry, store, record, spec.history)
        return buffer, AggregatePaneOutput(RowAggregateSource(buffer, accumulators, geometry), results, last, fills)
    condition = None
    if spec.fires_when is not None:
        bound = bind(spec.fires_when, spec.columns)
        condition = GuardedAccumulator("fires_when", bound, results.quarantine, number=CONDITION_NUMBER)
    no_rows, by_pane = (
        spec.columns.empty_table(),
        isinstance(spec.window, TimeInterval) and spec.window.keeps_panes_apart,
    )
    slices = SliceAggregates(accumulators, keys, geometry, store, record, no_rows, by_pane=by_pane, condition=condition)
    return slices, AggregatePaneOutput(slices, results, last, fills)
