"""One batch of a join of panes: both ports are one window, whose rows say which port they are of.

So a pane completes, fires again for late rows of either port, and closes as any pane does. A firing of a partition has
all that its rows make together then (docs/semantics.md section 16.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import NO_ROW, take
from panekeeper.framework.core.job_spec import EVENT_TIME, REST, JobSpec
from panekeeper.framework.core.joins.matching import UNEQUAL, matches
from panekeeper.framework.core.panes.batch import PaneParts, TimeIntervalBatch
from panekeeper.framework.core.panes.output import PaneResults, firings_of
from panekeeper.framework.core.panes.protocol import PaneContents, PaneOutput, PaneTransition
from panekeeper.framework.core.panes.row_firings import FiringRows
from panekeeper.framework.core.panes.rows import PaneRows
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import Quarantine
from panekeeper.framework.core.steps import BatchOutcome, Flush, PortStep, Rows, Watermark, of_all_ports
from panekeeper.state.store import KeyGroupStore

_PORT = "_port"


def stored_key(place: int) -> str:
    """Return what a column that must be equal is called in the rows of both ports."""
    return f"k/{place}"


class BothPorts:
    """The rows of both ports as those of one window, and back. Its columns have names of their own."""

    def __init__(self, spec: JobSpec) -> None:
        assert spec.join is not None
        self.join, self._ports = spec.join, spec.ports
        equal = [stored_key(place) for place in range(len(self.join.equal[0]))]
        types = [spec.columns.field(name).type for name in self.join.equal[0]]
        fields = [pa.field(name, kind) for name, kind in zip(equal, types, strict=True)]
        self.keys, self.also_equal = pa.schema(fields[: len(spec.keys)]), pa.schema(fields[len(spec.keys) :])
        self._names = [
            {**dict(zip(own, equal, strict=True)), EVENT_TIME: EVENT_TIME, REST: REST} for own in self.join.equal
        ]
        for port, names in zip(self._ports, self._names, strict=True):
            names |= {name: f"{port.port}/{name}" for name in port.columns.names if name not in names}
        kept = [
            pa.field(self._names[port.port][name], port.columns.field(name).type)
            for port in self._ports
            for name in self.join.columns[port.port]
        ]
        self.kept = [[self._names[port][name] for name in columns] for port, columns in enumerate(self.join.columns)]
        """The columns of each port that results have, beside those that are equal."""
        window_columns = pa.schema([*fields, pa.field(_PORT, pa.int8()), *kept])
        self.spec = replace(spec, keys=self.keys, columns=window_columns, other_ports=())
        """Of the one window."""

    def together(self, table: pa.Table, port: int) -> pa.Table:
        """Return rows of a port as rows of the window."""
        table = table.rename_columns([self._names[port][name] for name in table.column_names])
        table = PartitionKeys(self.also_equal).with_normal_keys(table)
        for field in self.spec.columns:
            if field.name == _PORT:
                column = pa.array(np.full(table.num_rows, port, np.int8))
            elif field.name in table.column_names:
                continue
            else:
                column = pa.nulls(table.num_rows, field.type)
            table = table.append_column(field, column)
        return table

    def apart(self, table: pa.Table) -> tuple[pa.Table, int]:
        """Return rows of the window, all of one port, as they came, and the port."""
        port = int(table.column(_PORT)[0].as_py())
        back = {name: own for own, name in self._names[port].items() if name in table.column_names}
        return table.select([*back]).rename_columns([*back.values()]), port


class JoinedPaneOutput:
    """Joins the rows of each partition and pane that fires."""

    has_ordered_drops = False

    def __init__(self, both: BothPorts, buffer: PaneRows, results: PaneResults, quarantines: list[Quarantine]) -> None:
        self._both, self._buffer, self._results, self._quarantines = both, buffer, results, quarantines

    def on_insert(self, table: pa.Table, codes: np.ndarray, oldest: np.ndarray, newest: np.ndarray) -> None:
        """Do nothing: the rows are in the buffer."""

    def on_firing_rows(self, rows: FiringRows) -> None:
        """Refuse it: no rule makes a join fire at rows."""
        raise TypeError("a join of panes fires at watermarks only")

    def on_drop(self, table: pa.Table, codes: np.ndarray, detail: Callable[[int | None], str]) -> None:
        """Give late rows to the quarantine, as they came."""
        rows, port = self._both.apart(table)
        self._quarantines[port].add_late(rows, detail)

    def on_transitions(self, transitions: list[PaneTransition]) -> None:
        """Emit what the rows of each partition and pane that fires make together."""
        fired = firings_of(transitions, self._buffer.pairs)
        if fired is None:
            return
        rows, offsets = self._buffer.content(fired.codes, fired.panes)
        cells = np.repeat(np.arange(len(fired.codes)), np.diff(offsets))
        left, right = self._pairs(rows, cells)
        cells = cells[np.where(left == NO_ROW, right, left)]
        if self._both.join.how == "anti":  # what an earlier firing had is not there any more
            gone = np.setdiff1d(np.flatnonzero(fired.refinements), cells)
            cells = np.concatenate([cells, gone])
            left, right = (np.concatenate([some, np.full(len(gone), NO_ROW)]) for some in (left, right))
        if not len(cells):
            return
        order = np.argsort(cells, kind="stable")
        cells, left, right = cells[order], left[order], right[order]
        either = np.where(left == NO_ROW, right, left)
        columns = [take(rows.column(name), either) for name in self._both.also_equal.names]
        for names, at in zip(self._both.kept, (left, right), strict=True):
            columns += [take(rows.column(name), at) for name in names]
        of_cells = pa.array(cells)
        self._results.add(
            fired.codes[cells],
            fired.panes[cells],
            columns,
            pa.array(fired.refinements[cells], pa.int32()),
            fired.finals.take(of_cells),
            fired.reasons.take(of_cells),
        )

    def _pairs(self, rows: pa.Table, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the row of port 0 and of that of port 1 for each result."""
        codes, ports = self._codes(rows, cells), rows.column(_PORT).to_numpy()
        left, right = np.flatnonzero(ports == 0), np.flatnonzero(ports == 1)
        now, then = np.zeros(len(left), dtype=np.int64), np.zeros(len(right), dtype=np.int64)
        own, other = matches(codes[left], now, now, codes[right], then)
        is_met, is_other_met = np.zeros(len(left), dtype=bool), np.zeros(len(right), dtype=bool)
        is_met[own], is_other_met[other] = True, True
        join, paired = self._both.join, self._both.join.how not in ("semi", "anti")
        pairs = (left[own], right[other]) if paired else (left[:0], right[:0])
        alone = [left[is_met]] if join.how == "semi" else [left[~is_met]] if join.goes_out_alone(0) else []
        others_alone = [right[~is_other_met]] if join.goes_out_alone(1) else []
        nobody, no_other = (np.full(sum(map(len, some)), NO_ROW) for some in (others_alone, alone))
        return np.concatenate([pairs[0], *alone, nobody]), np.concatenate([pairs[1], no_other, *others_alone])

    def _codes(self, rows: pa.Table, cells: np.ndarray) -> np.ndarray:
        """Number partitions, panes and other columns that must be equal; `UNEQUAL` where one is null."""
        also = PartitionKeys(self._both.also_equal)
        codes = also.encode(rows)
        codes = cells * (int(codes.max(initial=0)) + 1) + codes
        for field in (*self._both.keys, *self._both.also_equal):
            column = rows.column(field.name)
            if column.null_count:
                codes = np.where(column.is_null().to_numpy(), UNEQUAL, codes)
        return codes


class JoinedPanesBatch:
    """A join of panes for one batch: loaded when it is made, stored by `save`."""

    def __init__(self, spec: JobSpec, store: KeyGroupStore) -> None:
        self._spec, self._both = spec, BothPorts(spec)
        self._quarantines = [Quarantine(port, PartitionKeys(port.keys)) for port in spec.ports]
        self._window = TimeIntervalBatch(self._both.spec, store, self._contents_and_output)

    @property
    def watermark(self) -> int:
        """The largest watermark acted on, us."""
        return self._window.watermark

    def takes(self, table: pa.Table) -> np.ndarray:
        """Return whether each row joins a pane."""
        return self._window.takes(table)

    def process(self, step: PortStep) -> None:
        """Process one step; the wall clock and marks do not concern a join."""
        match step:
            case Rows(table, port):
                self._window.process(Rows(self._both.together(table, port)))
            case Watermark() | Flush():
                self._window.process(step)

    def save(self) -> BatchOutcome:
        """Write what changed and return what the batch did."""
        outcome = self._window.save()
        names, rejected = self._spec.results_schema.names, [quarantine.table for quarantine in self._quarantines]
        return replace(
            outcome,
            results=None if outcome.results is None else outcome.results.rename_columns(names),
            rejected=of_all_ports(self._spec.rejected_schema, rejected, keys=[]),
        )

    def _contents_and_output(self, parts: PaneParts) -> tuple[PaneContents, PaneOutput]:
        spec = self._both.spec
        buffer = PaneRows(parts.keys, spec.columns, parts.geometry, parts.store, parts.record, spec.history)
        return buffer, JoinedPaneOutput(self._both, buffer, parts.results, self._quarantines)
