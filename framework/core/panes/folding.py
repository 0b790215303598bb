"""Rows that were folded before they reached their key group: one partial row for each partition and slice.

Many rows of a batch fall into few cells, and every row costs on its way to the state. So rows are folded first, by the
accumulators that fold them in the key group, where that changes nothing: each aggregate merges partial results to the
last bit (docs/decisions/0006-sums-do-not-depend-on-batches.md), and every row of the slice is kept at the watermark of
the batch. Late rows stay rows: they go to the quarantine as they came.

A partial row has the partition columns, its slice, how many rows it stands for, and the partial results as slices
store them (`cells.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.aggregates.columns import combine
from panekeeper.framework.core.aggregates.protocol import Accumulator, State
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.late_rows import assign
from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.declarations.firing import FiringOptions
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.history import History
from panekeeper.state.records import NO_WATERMARK

SLICE_COLUMN = "_slice"
NUMBER_COLUMN = "_pk_number"
"""How many rows a partial row stands for. No column of the user's has such a name."""

_SAMPLE = 4096
"""Number of rows, at most, by which the number of cells is estimated."""


@dataclass(frozen=True)
class FoldedRows:
    """What was folded, and what was not.

    Attributes:
        table: the partial rows.
        first: the position among the input rows of the first row of each.
        rest: the positions of the input rows that stay rows.
    """

    table: pa.Table
    first: np.ndarray
    rest: np.ndarray

    @property
    def numbers(self) -> np.ndarray:
        """How many rows each partial row stands for."""
        numbers: np.ndarray = self.table.column(NUMBER_COLUMN).to_numpy()
        return numbers


@dataclass(frozen=True)
class PaneFolding:
    """Folds the rows of a window on their way to the key groups. Picklable; sent to the workers.

    Attributes:
        window: the declared window.
        keys: the partition columns.
        accumulators: those of its aggregates, in order.
        history: what earlier declarations have left.
        least_gain: rows are folded if there are at least as many times more of them than cells.
    """

    window: TimeInterval
    keys: pa.Schema
    accumulators: tuple[Accumulator, ...]
    history: History
    least_gain: int = 2

    @classmethod
    def of(cls, spec: JobSpec) -> PaneFolding | None:
        """Return the folding of a job's rows; None if something needs the rows themselves, or their order."""
        accumulators = exact_accumulators(spec)
        if accumulators is None or not isinstance(spec.window, TimeInterval):
            return None
        return cls(spec.window, spec.keys, accumulators, spec.history)

    def stay(self, rows: pa.Table, watermark: int) -> np.ndarray:
        """Return which rows stay rows at this watermark: those that are not kept."""
        geometry = Geometry.of(self.window, self.history)
        stays: np.ndarray = ~assign(self.window, geometry, rows.column(EVENT_TIME).to_numpy(), watermark).kept
        return stays

    def refine(self, rows: pa.Table, watermark: int) -> np.ndarray:
        """Return which of the rows that are kept come when all their panes are complete."""
        geometry = Geometry.of(self.window, self.history)
        if watermark == NO_WATERMARK:
            return np.zeros(rows.num_rows, dtype=np.bool_)
        assigned = assign(self.window, geometry, rows.column(EVENT_TIME).to_numpy(), watermark)
        refines: np.ndarray = geometry.ends(assigned.oldest) <= watermark
        return refines

    def fold(self, rows: pa.Table, watermark: int) -> FoldedRows | None:
        """Fold the rows that are kept at this watermark; None if that would not make them much fewer."""
        geometry = Geometry.of(self.window, self.history)
        assigned = assign(self.window, geometry, rows.column(EVENT_TIME).to_numpy(), watermark)
        kept = np.flatnonzero(assigned.kept)
        if len(kept) < len(assigned.kept):
            rows = rows.take(pa.array(kept))
        if not len(kept):
            return None
        slices = assigned.slices[kept]
        if not gains(rows, slices, self.keys, self.least_gain):
            return None
        table, cells = fold_cells(rows, slices, self.keys, self.accumulators)
        first = np.empty(table.num_rows, dtype=np.int64)
        first[cells[::-1]] = kept[::-1]  # where a cell repeats, the last assignment stays
        return FoldedRows(table, first, np.flatnonzero(~assigned.kept))


def exact_accumulators(spec: JobSpec) -> tuple[Accumulator, ...] | None:
    """Return the accumulators of a job whose rows may be folded: nothing needs the rows themselves, or their order."""
    if spec.aggregates is None or spec.handlers or spec.other_ports or SLICE_COLUMN in spec.keys.names:
        return None
    if isinstance(spec.window, FiringOptions) and (spec.window.fires_by_clock or spec.window.fires_at_rows):
        return None
    accumulators = tuple(bind(aggregate, spec.columns) for aggregate in spec.aggregates.values())
    return accumulators if all(accumulator.merges_exactly for accumulator in accumulators) else None


def fold_cells(
    rows: pa.Table, slices: np.ndarray, keys: pa.Schema, accumulators: Sequence[Accumulator]
) -> tuple[pa.Table, np.ndarray]:
    """Return one partial row for each partition and slice, and the number of that of each row."""
    partitions = PartitionKeys(keys)
    rows = partitions.with_normal_keys(rows)
    cells, codes, cell_slices = number_cells(partitions.encode(rows), slices)
    columns = {
        SLICE_COLUMN: pa.array(cell_slices),
        NUMBER_COLUMN: pa.array(np.bincount(cells, minlength=len(codes))),
    }
    table = with_keys(pa.table(columns), partitions, codes)
    arrived = np.arange(rows.num_rows, dtype=np.int64)
    return append_states(
        table, [accumulator.fold([], cells, len(codes), rows, arrived) for accumulator in accumulators]
    ), cells


def gains(rows: pa.Table, slices: np.ndarray, keys: pa.Schema, least_gain: int = 2) -> bool:
    """Return whether there are enough rows for each cell, by the equal pairs in a sample of them."""
    step = -(-len(slices) // _SAMPLE)
    sample, slices = rows.take(pa.array(np.arange(0, len(slices), step))), slices[::step]
    _, codes, _ = number_cells(PartitionKeys(keys).encode(sample), slices)
    if step == 1:
        return len(codes) * least_gain <= len(slices)
    pairs = len(slices) * (len(slices) - 1) // 2
    return pairs * least_gain <= (len(slices) - len(codes)) * int(rows.num_rows)


def is_partial(table: pa.Table) -> bool:
    """Return whether these are partial rows."""
    return NUMBER_COLUMN in table.column_names


def append_states(table: pa.Table, states: list[State], numbers: Sequence[int] | None = None) -> pa.Table:
    """Return the table with the partial results of each aggregate as columns; by `numbers`, or as they stand."""
    for number, state in zip(numbers or range(len(states)), states, strict=True):
        for part, column in enumerate(state):
            table = table.append_column(f"{number}.{part}", column)
    return table


def states_of(table: pa.Table, like: list[State]) -> list[State]:
    """Return the partial results in a table; `like` are others, with the same columns."""
    return [
        [combine(table.column(f"{number}.{part}")) for part in range(len(state))] for number, state in enumerate(like)
    ]
