# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""`where=` of an aggregate: it gets the rows for which a condition holds, which is a boolean column of the rows.

Spark evaluates the condition before rows are packed, so here it is a value like others, and the same for every replay.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import Bools, Ints, combine
from panekeeper.framework.core.aggregates.protocol import Accumulator, PartRows, State
from panekeeper.framework.core.stable_order import bounds


@dataclass(frozen=True, kw_only=True)
class OfSomeRows(Accumulator):
    """Another accumulator, of the rows for which the column `condition` is true. Its state is that of the other."""

    of: Accumulator
    condition: str

    @classmethod
    def wrap(cls, accumulator: Accumulator, condition: str) -> OfSomeRows:
        """Return the accumulator of some rows."""
        return cls(inputs=accumulator.inputs, output=accumulator.output, of=accumulator, condition=condition)

    @property
    def needs_content(self) -> bool:
        return self.of.needs_content

    @property
    def runs_user_code(self) -> bool:
        return self.of.runs_user_code

    @property
    def reason(self) -> str:
        return self.of.reason

    @property
    def merges_exactly(self) -> bool:
        return self.of.merges_exactly

    def state_types(self) -> list[pa.DataType]:
        return self.of.state_types()

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        holds = self._holds(rows)
        return self.of.fold(state, cells[holds], n_cells, rows.filter(pa.array(holds)), seq[holds])

    def fold_parts(self, begun: State, offsets: Ints, rows: PartRows) -> State:
        return self.of.fold_parts(begun, offsets, rows.only(self._holds(rows.table)))

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        return self.of.merge_ranges(state, lo, hi)

    def merge(self, state: State, later: State, cells: Ints, n_cells: int) -> State:
        return self.of.merge(state, later, cells, n_cells)

    def finish(self, state: State) -> pa.Array:
        return self.of.finish(state)

    def from_content(self, rows: pa.Table, offsets: Ints) -> pa.Array:
        holds = self._holds(rows)
        return self.of.from_content(rows.filter(pa.array(holds)), bounds(holds)[offsets])

    def from_ranges(self, rows: pa.Table, lo: Ints, hi: Ints) -> pa.Array:
        holds = self._holds(rows)
        before = bounds(holds)
        return self.of.from_ranges(rows.filter(pa.array(holds)), before[lo], before[hi])

    def _holds(self, rows: pa.Table) -> Bools:
        holds: Bools = combine(rows.column(self.condition)).fill_null(False).to_numpy(zero_copy_only=False)
        return holds
