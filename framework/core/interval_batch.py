"""One batch of a time-interval window: load what it needs, take the steps, write what changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from framework.core.answers import Aggregated, ContentSource, Outputs
from framework.core.geometry import Geometry
from framework.core.interval import Answer, Contents, IntervalWindow
from framework.core.keys import Keys
from framework.core.lifecycle import IntervalControl, Lifecycle
from framework.core.machine import Outcome
from framework.core.operating import Operating
from framework.core.pending import Firings
from framework.core.plan import Plan
from framework.core.rowlog import RowLog
from framework.core.slices import Slices
from framework.core.steps import Flush, Rows, Step, Watermark
from framework.windows import TimeInterval
from state.records import NO_WATERMARK, IntervalRecord
from state.store import GroupStore


def run_interval(plan: Plan, store: GroupStore, steps: Iterable[Step], lifecycle: Lifecycle | None = None) -> Outcome:
    """Do one batch of a time-interval window."""
    assert isinstance(plan.window, TimeInterval)
    before = store.read_header()
    record = IntervalRecord.decode(before)
    keys, geometry = Keys(plan.keys), Geometry.of(plan.window)
    outputs = Outputs(plan, keys, geometry)
    contents, answer = _parts(plan, store, record, keys, geometry, outputs)
    window = IntervalWindow(plan.window, record, keys, contents, answer, Firings(store, keys))
    if lifecycle is not None:
        lifecycle.begin(IntervalControl())
    for step in steps:
        _take(window, step)
    if lifecycle is not None:
        lifecycle.cut()
    header = window.save().encode()
    if header != before:
        store.write_header(header)
    return Outcome(
        results=outputs.results,
        rejected=outputs.rejected,
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
        return log, Operating(plan.operator, plan.output, log, keys, geometry, outputs)
    accumulators = [aggregate.bind(plan.columns) for aggregate in plan.aggregates.values()]
    if any(aggregate.needs_content for aggregate in plan.aggregates.values()):
        log = RowLog(keys, geometry, store, record)
        return log, Aggregated(ContentSource(log, accumulators), outputs)
    slices = Slices(accumulators, keys, geometry, store, record)
    return slices, Aggregated(slices, outputs)


def _take(window: IntervalWindow, step: Step) -> None:
    """Do one step. A time interval knows neither the wall clock nor punctuation [semantics 6.3]."""
    match step:
        case Rows(table):
            if table.num_rows:
                window.on_rows(table)
        case Watermark(us):
            window.on_watermark(us)
        case Flush():
            window.on_flush()
