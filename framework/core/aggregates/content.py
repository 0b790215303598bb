# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""collect: the values themselves, in arrival order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import Ints, combine, valid_mask
from panekeeper.framework.core.aggregates.protocol import Accumulator, State


@dataclass(frozen=True, kw_only=True)
class ContentAggregate(Accumulator):
    """An aggregate without partial results: it is computed from the rows (`from_content`)."""

    needs_content: ClassVar[bool] = True

    def state_types(self) -> list[pa.DataType]:
        self._refuse()

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        self._refuse()

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        self._refuse()

    def finish(self, state: State) -> pa.Array:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} of {self.inputs} has no partial results: use from_content")


@dataclass(frozen=True, kw_only=True)
class Collect(ContentAggregate):
    """The values that are not null, as a list in arrival order; an empty list if there are none."""

    def from_content(self, rows: pa.Table, offsets: Ints) -> pa.Array:
        array = combine(rows.column(self.inputs[0]))
        kept = np.zeros(len(array) + 1, dtype=np.int64)
        np.cumsum(valid_mask(array), out=kept[1:])
        inside = kept[offsets]
        values = array.drop_null().slice(int(inside[0]), int(inside[-1] - inside[0]))
        ends = pa.array((inside - inside[0]).astype(np.int32))
        return pa.ListArray.from_arrays(ends, values, type=self.output)
