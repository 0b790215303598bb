"""One batch of a time-interval window: load what it needs, process the steps, write what changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.event_time_batch import EventTimeBatch
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator, bind_guarded
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.panes.cells import CONDITION_NUMBER, PaneCells
from panekeeper.framework.core.panes.fills import Fills
from panekeeper.framework.core.panes.fires_at_end import FiresAtEnd
from panekeeper.framework.core.panes.fires_by_rules import FiresByRules
from panekeeper.framework.core.panes.firing_rules import CellFirings
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.last_results import LastResults
from panekeeper.framework.core.panes.open_panes import OpenPanes
from panekeeper.framework.core.panes.output import (
    AggregatePaneOutput,
    OperatorPaneOutput,
    PaneResults,
    RowSource,
)
from panekeeper.framework.core.panes.protocol import PaneContents, PaneFirings, PaneOutput
from panekeeper.framework.core.panes.refinements import Refinements
from panekeeper.framework.core.panes.rows import PaneRows
from panekeeper.framework.core.panes.window import TimeIntervalWindow
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import Quarantine
from panekeeper.framework.core.state_handlers import NoPartitionControl
from panekeeper.framework.core.steps import BatchOutcome
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.records import IntervalRecord
from panekeeper.state.store import KeyGroupStore, StoredHeader


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


class TimeIntervalBatch(EventTimeBatch):
    """The window of one port for one batch: loaded when it is made, stored by `save`."""

    def __init__(
        self,
        spec: JobSpec,
        store: KeyGroupStore,
        make: Callable[[PaneParts], tuple[PaneContents, PaneOutput]] | None = None,
    ) -> None:
        """Load it; `make` returns contents and output, if not those of aggregates or an operator."""
        assert isinstance(spec.window, TimeInterval)
        header = StoredHeader(store)
        record = IntervalRecord.decode(header.value)
        keys, geometry = PartitionKeys(spec.keys), Geometry.of(spec.window, spec.history)
        results = PaneResults(spec, keys, geometry, Quarantine(spec, keys))
        self._last = LastResults(spec.output, keys, store, record) if spec.retracts else None
        fills = None
        if spec.window.fill is not None:
            fills = Fills(spec.window, spec.output, keys, geometry, store, record)
        contents, output = (make or _contents_and_output)(
            PaneParts(spec, store, record, keys, geometry, results, self._last, fills)
        )
        panes = OpenPanes(spec.window, record, geometry, contents, output)
        firings: PaneFirings = FiresAtEnd(panes, Refinements(keys, store, record))
        if spec.window.keeps_firings:
            firings = FiresByRules(panes, CellFirings(spec.window, keys, store, record, geometry.ends), fills)
        self.window = TimeIntervalWindow(spec.window, record, keys, panes, firings)
        super().__init__(header, self.window, results, NoPartitionControl(results.add_drained))

    def save(self) -> BatchOutcome:
        """Write what changed and return what the batch did."""
        if self._last is not None:
            self._last.save()
        return super().save()


def _contents_and_output(parts: PaneParts) -> tuple[PaneContents, PaneOutput]:
    spec, store, record = parts.spec, parts.store, parts.record
    keys, geometry, results, last, fills = parts.keys, parts.geometry, parts.results, parts.last, parts.fills
    if spec.aggregates is None:
        assert spec.operator is not None
        buffer = PaneRows(keys, spec.columns, geometry, store, record, spec.history)
        return buffer, OperatorPaneOutput(spec, spec.operator, buffer, keys, geometry, results)
    accumulators = bind_guarded(spec.aggregates, spec.columns, results.quarantine, spec.history)
    if any(aggregate.needs_content for aggregate in spec.aggregates.values()):
        buffer = PaneRows(keys, spec.columns, geometry, store, record, spec.history)
        return buffer, AggregatePaneOutput(RowSource(buffer, accumulators, geometry), results, last, fills)
    condition = None
    if spec.fires_when is not None:
        bound = bind(spec.fires_when, spec.columns)
        condition = GuardedAccumulator("fires_when", bound, results.quarantine, number=CONDITION_NUMBER)
    assert isinstance(spec.window, TimeInterval)
    no_rows = spec.columns.empty_table()
    if spec.discards:
        accumulators += bind_guarded(spec.aggregates, spec.columns, results.quarantine, spec.history, is_of_all=True)
    slices = PaneCells(accumulators, keys, geometry, store, record, no_rows, window=spec.window, condition=condition)
    return slices, AggregatePaneOutput(slices, results, last, fills, discards=spec.discards)
