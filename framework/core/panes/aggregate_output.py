"""How a firing becomes result rows of aggregates, for all firing panes at once, column by column.

The result rows of a batch (`PaneResults`) are the same for aggregates and operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.emit_buffer import one_row
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator, PlaceOf
from panekeeper.framework.core.job_spec import TIMESTAMP, JobSpec
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.row_buffer import PaneRowBuffer
from panekeeper.framework.core.panes.window import PaneTransition
from panekeeper.framework.core.partition_keys import PartitionKeys, code_of
from panekeeper.framework.core.quarantine import FiringPlace, Quarantine
from panekeeper.framework.core.stable_order import stable_order
from panekeeper.framework.declarations.events import Reason

NO_PANE = -(2**63)
"""Stands for a pane where there is none: results emitted for rows that were dropped."""


class AggregateSource(Protocol):
    """What can compute the aggregates of (partition, pane) pairs."""

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) of every partition present in each of the panes."""
        ...

    def results(self, codes: np.ndarray, panes: np.ndarray) -> list[pa.Array]:
        """Return the finished aggregates of each pair."""
        ...


def pane_place(geometry: Geometry, code: int, pane: int) -> FiringPlace:
    """Return the place of a partition's pane, for the quarantine."""
    return FiringPlace(code, {"pane_start": geometry.start(pane), "pane_end": geometry.end(pane)})


def place_of(geometry: Geometry, codes: np.ndarray, panes: np.ndarray) -> PlaceOf:
    """Return the function that returns the place of each (partition, pane) pair, for the quarantine."""
    return lambda index: pane_place(geometry, int(codes[index]), int(panes[index]))


class RowAggregateSource:
    """Aggregates computed from rows, if one of them cannot be merged."""

    def __init__(self, buffer: PaneRowBuffer, accumulators: list[GuardedAccumulator], geometry: Geometry) -> None:
        self._buffer = buffer
        self._geometry = geometry
        self._accumulators = accumulators

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) of every partition present in each of the panes."""
        return self._buffer.pairs(panes)

    def results(self, codes: np.ndarray, panes: np.ndarray) -> list[pa.Array]:
        """Return the finished aggregates of each pair."""
        rows, offsets = self._buffer.content(codes, panes)
        place = place_of(self._geometry, codes, panes)
        return [accumulator.from_content(rows, offsets, place) for accumulator in self._accumulators]


class PaneResults:
    """The result rows of a batch, and its quarantine."""

    def __init__(self, spec: JobSpec, keys: PartitionKeys, geometry: Geometry, quarantine: Quarantine) -> None:
        self.quarantine = quarantine
        self._spec = spec
        self._keys = keys
        self._geometry = geometry
        self._tables: list[pa.Table] = []

    def add(
        self,
        codes: np.ndarray,
        panes: np.ndarray,
        columns: list[pa.Array],
        refinements: pa.Array,
        reasons: pa.Array,
    ) -> None:
        """Add result rows; one entry of each argument a row. Rows of `NO_PANE` have null bounds."""
        nowhere = panes == NO_PANE
        starts = self._geometry.starts(np.where(nowhere, 0, panes))
        bounds = [pa.array(edge, mask=nowhere).cast(TIMESTAMP) for edge in (starts, starts + self._geometry.duration)]
        arrays = [
            *self._keys.take(codes).columns,
            *bounds,
            *columns,
            *self._spec.retired_nulls(len(codes)),
            refinements,
            reasons,
        ]
        self._tables.append(pa.table(arrays, schema=self._spec.results_schema))

    def add_drained(self, key: Any, columns: dict[str, Any]) -> None:
        """Add a row that a state handler has emitted in `drain`; it belongs to no pane."""
        code, row = code_of(self._keys, key), one_row(self._spec.output, columns)
        never, reason = pa.array([0], pa.int32()), pa.array([Reason.DRAIN.value])
        self.add(np.array([code]), np.array([NO_PANE]), row.columns, never, reason)

    @property
    def table(self) -> pa.Table | None:
        """All result rows, or None."""
        return pa.concat_tables(self._tables) if self._tables else None


class AggregatePaneOutput:
    """Computes the declared aggregates, for all panes that fire at one watermark at once."""

    has_ordered_drops = False

    def __init__(self, source: AggregateSource, results: PaneResults) -> None:
        self._source = source
        self._results = results

    def on_insert(self, table: pa.Table, codes: np.ndarray, oldest: np.ndarray, newest: np.ndarray) -> None:
        """Do nothing: the rows are in their cells."""

    def on_drop(self, table: pa.Table, codes: np.ndarray, detail: Callable[[int | None], str]) -> None:
        """Add late rows to the quarantine."""
        self._results.quarantine.add_late(table, detail)

    def on_transitions(self, transitions: list[PaneTransition]) -> None:
        """Emit one row for every partition and pane that fires."""
        whole = np.array([t.pane for t in transitions if t.trigger and t.trigger.codes is None], dtype=np.int64)
        codes, panes = self._source.pairs(whole) if len(whole) else (whole, whole)
        refinements = np.zeros(len(codes), dtype=np.int32)
        for transition in transitions:
            if (
                transition.trigger
                and transition.trigger.codes is not None
                and transition.trigger.refinements is not None
            ):
                codes = np.concatenate([codes, transition.trigger.codes])
                panes = np.concatenate([panes, np.full(len(transition.trigger.codes), transition.pane)])
                refinements = np.concatenate([refinements, transition.trigger.refinements])
        if not len(codes):
            return
        order = stable_order(panes)
        codes, panes, refinements = codes[order], panes[order], refinements[order]
        reasons = {t.pane: t.trigger.reason.value for t in transitions if t.trigger}
        columns = self._source.results(codes, panes)
        self._results.add(codes, panes, columns, pa.array(refinements, pa.int32()), _reason_column(panes, reasons))


def _reason_column(panes: np.ndarray, names: dict[int, Any]) -> pa.Array:
    distinct, at = np.unique(panes, return_inverse=True)
    return pa.array([names[pane] for pane in distinct.tolist()], pa.string()).take(pa.array(at))
