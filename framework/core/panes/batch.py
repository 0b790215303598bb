"""One batch of a time-interval window: load what it needs, take the steps, write what changed."""

from __future__ import annotations

from dataclasses import asdict

from framework.core.job_spec import Plan
from framework.core.outcome import Outcome
from framework.core.panes.aggregate_output import Aggregated, ContentSource, Outputs
from framework.core.panes.geometry import Geometry
from framework.core.panes.operator_output import Operating
from framework.core.panes.refinements import Firings
from framework.core.panes.row_buffer import RowLog
from framework.core.panes.slice_aggregates import Slices
from framework.core.panes.window import Answer, Contents, IntervalWindow
from framework.core.partition_keys import Keys
from framework.core.state_handlers import IntervalControl
from framework.core.steps import Flush, PortStep, Rows, Watermark
from framework.declarations.windows import TimeInterval
from state.records import NO_WATERMARK, IntervalRecord
from state.store import GroupStore


class IntervalBatch:
    """The window of one port for one batch: restored when made, stored by `save`."""

    def __init__(self, plan: Plan, store: GroupStore) -> None:
        assert isinstance(plan.window, TimeInterval)
        self._store = store
        self._before = store.read_header()
        self._record = IntervalRecord.decode(self._before)
        keys, geometry = Keys(plan.keys), Geometry.of(plan.window)
        self._outputs = Outputs(plan, keys, geometry)
        contents, answer = _parts(plan, store, self._record, keys, geometry, self._outputs)
        self._window = IntervalWindow(plan.window, self._record, keys, contents, answer, Firings(store, keys))
        self.control = IntervalControl()

    def take(self, step: PortStep) -> None:
        """Do one step. A time interval knows neither the wall clock nor punctuation [semantics 6.3]."""
        match step:
            case Rows(table):
                if table.num_rows:
                    self._window.on_rows(table)
            case Watermark(us):
                self._window.on_watermark(us)
            case Flush():
                self._window.on_flush()

    def save(self) -> Outcome:
        """Write what changed and return what the batch did."""
        record, window = self._record, self._window
        header = window.save().encode()
        if header != self._before:
            self._store.write_header(header)
        return Outcome(
            results=self._outputs.results,
            rejected=self._outputs.rejected,
            counts=asdict(window.counts),
            due=window.due(),
            open_panes=len(record.panes),
            watermark=None if record.watermark == NO_WATERMARK else record.watermark,
        )


def _parts(
    plan: Plan, store: GroupStore, record: IntervalRecord, keys: Keys, geometry: Geometry, outputs: Outputs
) -> tuple[Contents, Answer]:
    if plan.aggregates is None:
        if plan.operator is None:
            raise ValueError("a plan needs aggregates or an operator")
        log = RowLog(keys, geometry, store, record)
        return log, Operating(plan, plan.operator, log, keys, geometry, outputs)
    accumulators = [aggregate.bind(plan.columns) for aggregate in plan.aggregates.values()]
    if any(aggregate.needs_content for aggregate in plan.aggregates.values()):
        log = RowLog(keys, geometry, store, record)
        return log, Aggregated(ContentSource(log, accumulators), outputs)
    slices = Slices(accumulators, keys, geometry, store, record)
    return slices, Aggregated(slices, outputs)
