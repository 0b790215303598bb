"""Computes aggregates of many firings at once; where one cannot be computed, it is null, and the others are there.

Only after an error is the computation repeated on halves, down to the one firing, or row, that raises. What raises
goes to the quarantine (docs/semantics.md section 12).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.aggregates.columns import Ints
from panekeeper.framework.core.aggregates.protocol import Accumulator, PartRows, State, fold_in_rounds
from panekeeper.framework.core.quarantine import USER_ERROR, FiringPlace, Quarantine
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.errors import InputError
from panekeeper.state.history import History

PlaceOf = Callable[[int], FiringPlace]
"""Returns the place of the firing with this index, for the quarantine."""


OF_ALL_NUMBER = 10**7
"""Number of the first aggregate of all rows of a pane, beside those of new rows; no job has so many."""


def bind_guarded(
    aggregates: Mapping[str, Aggregate],
    schema: pa.Schema,
    quarantine: Quarantine,
    history: History | None = None,
    *,
    is_of_all: bool = False,
) -> list[GuardedAccumulator]:
    """Return the accumulators of result columns; what they cannot compute goes to the quarantine.

    `is_of_all`: those of all rows of a pane, beside those of the rows since the last firing.
    """
    known = history or History()
    return [
        GuardedAccumulator(
            name,
            bind(aggregate, schema),
            quarantine,
            number=known.numbers.get(name, place) + OF_ALL_NUMBER * is_of_all,
            begins_us=known.begins.get(name),
            is_of_all=is_of_all,
        )
        for place, (name, aggregate) in enumerate(aggregates.items())
    ]


class GuardedAccumulator:
    """An accumulator whose failures go to the quarantine, each by its result column.

    Attributes:
        number: of the aggregate in the names of the stored columns of its partial results.
        begins_us: start of the first pane that has it, of one that was added to a job; None: all panes have it.
        is_of_all: whether it is of all rows of a pane, beside one of the rows since the last firing.
        needs_content: whether it has no partial results.
    """

    def __init__(
        self,
        column: str,
        accumulator: Accumulator,
        quarantine: Quarantine,
        *,
        number: int = 0,
        begins_us: int | None = None,
        is_of_all: bool = False,
    ) -> None:
        self.number = number
        self.begins_us = begins_us
        self.is_of_all = is_of_all
        self._where = f"the result column {column!r}" + (" of all rows of the pane" if is_of_all else "")
        self._accumulator = accumulator
        self._quarantine = quarantine
        self._caught = Exception if accumulator.runs_user_code else InputError
        self._reason = USER_ERROR if accumulator.runs_user_code else accumulator.reason
        self.needs_content = accumulator.needs_content

    def state_types(self) -> list[pa.DataType]:
        """Return the types of the stored columns."""
        return self._accumulator.state_types()

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        """Add rows to cells; a row that raises is left out, and goes to the quarantine."""
        try:
            return self._accumulator.fold(state, cells, n_cells, rows, seq)
        except self._caught as error:
            if not rows.num_rows:
                raise
            if rows.num_rows == 1:
                if not self.is_of_all:  # the one of the new rows has raised, too
                    self._quarantine.add_row(rows, self._where, error, self._reason)
                return self._accumulator.fold(state, cells[:0], n_cells, rows.slice(0, 0), seq[:0])
        half = rows.num_rows // 2
        state = self.fold(state, cells[:half], n_cells, rows.slice(0, half), seq[:half])
        return self.fold(state, cells[half:], n_cells, rows.slice(half), seq[half:])

    def fold_parts(self, begun: State, offsets: Ints, rows: PartRows) -> State:
        """Return the partial result of each cell after each part of its rows; a row that raises is left out."""
        try:
            return self._accumulator.fold_parts(begun, offsets, rows)
        except self._caught:
            return fold_in_rounds(self.fold, begun, offsets, rows)

    def merge(self, state: State, later: State, cells: Ints, n_cells: int) -> State:
        """Merge partial results of later rows into cells; only of aggregates that cannot fail while they fold."""
        return self._accumulator.merge(state, later, cells, n_cells)

    def empty(self, cells: int, no_rows: pa.Table) -> State:
        """Return the partial results of so many cells without rows; `no_rows` has the columns of the rows."""
        nothing = np.empty(0, dtype=np.int64)
        return self._accumulator.fold([], nothing, cells, no_rows, nothing)

    def nulls(self, n: int) -> pa.Array:
        """Return so many results that are null."""
        return pa.nulls(n, self._accumulator.output)

    def finish(self, state: State, place: PlaceOf) -> pa.Array:
        """Return the result of each cell."""
        n = len(state[0])
        return self._each(n, place, lambda a, b: self._accumulator.finish([c.slice(a, b - a) for c in state]))

    def finish_ranges(self, state: State, lo: Ints, hi: Ints, place: PlaceOf) -> pa.Array:
        """Return the result of cells `lo[j] .. hi[j] - 1` for each j."""
        accumulator = self._accumulator
        return self._each(
            len(lo), place, lambda a, b: accumulator.finish(accumulator.merge_ranges(state, lo[a:b], hi[a:b]))
        )

    def from_content(self, rows: pa.Table, offsets: Ints, place: PlaceOf) -> pa.Array:
        """Return the result of each group of rows `offsets[j] .. offsets[j + 1] - 1`."""

        def compute(a: int, b: int) -> pa.Array:
            first, end = int(offsets[a]), int(offsets[b])
            return self._accumulator.from_content(rows.slice(first, end - first), offsets[a : b + 1] - first)

        return self._each(len(offsets) - 1, place, compute)

    def from_rows(self, rows: pa.Table, lo: Ints, hi: Ints, place: PlaceOf) -> pa.Array:
        """Return the result of rows `lo[j] .. hi[j] - 1` for each j, which may overlap; rows in arrival order."""

        def compute(a: int, b: int) -> pa.Array:
            first, end = int(lo[a:b].min()), int(hi[a:b].max())
            part, low, high = rows.slice(first, end - first), lo[a:b] - first, hi[a:b] - first
            if self.needs_content:
                return self._accumulator.from_ranges(part, low, high)
            cells = np.arange(part.num_rows, dtype=np.int64)
            state = self._accumulator.fold([], cells, len(cells), part, cells + first)
            return self._accumulator.finish(self._accumulator.merge_ranges(state, low, high))

        return self._each(len(lo), place, compute)

    def _each(self, n: int, place: PlaceOf, compute: Callable[[int, int], pa.Array]) -> pa.Array:
        try:
            return compute(0, n)
        except self._caught as error:
            if not n:
                raise
            first_error = error
        return pa.concat_arrays(self._halves(0, n, place, compute, first_error))

    def _halves(
        self, a: int, b: int, place: PlaceOf, compute: Callable[[int, int], pa.Array], error: Exception
    ) -> list[pa.Array]:
        """Return the results of the firings a..b-1, which raised the error when computed together."""
        if b - a == 1:
            self._quarantine.add_firing(place(a), self._where, error, self._reason)
            return [self.nulls(1)]
        results = []
        for low, high in ((a, (a + b) // 2), ((a + b) // 2, b)):
            try:
                results.append(compute(low, high))
            except self._caught as raised:
                results += self._halves(low, high, place, compute, raised)
        return results
