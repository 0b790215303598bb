"""Partial aggregates, one for each partition: what is kept of a tumbling window if nothing needs the rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.arrival.policies.protocol import Tumbles
from panekeeper.framework.core.arrival.round import RoundRows
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator
from panekeeper.framework.core.quarantine import FiringPlace
from panekeeper.state.codec import of_type


class ArrivalCells:
    """The partial results of the open windows, one for each partition."""

    def __init__(self, accumulators: list[GuardedAccumulator], no_rows: pa.Table) -> None:
        self._accumulators = accumulators
        self.no_rows = no_rows
        """An empty table of the job spec's columns."""
        self._codes = np.empty(0, dtype=np.int64)
        self._states = [[pa.array([], kind) for kind in a.state_types()] for a in accumulators]

    def load(self, table: pa.Table | None, codes: np.ndarray) -> None:
        """Load the partial results from the columns that `columns` returned."""
        if table is None:
            return
        self._codes = codes
        self._states = [
            [
                of_type(table.column(f"{accumulator.number}.{part}").combine_chunks(), kind)
                for part, kind in enumerate(accumulator.state_types())
            ]
            for accumulator in self._accumulators
        ]

    def fold(
        self, round_rows: RoundRows, tumbles: Tumbles, table: pa.Table, table_position: np.ndarray, seq: np.ndarray
    ) -> list[pa.Array]:
        """Fold the rows of a round, and return the results of its tumbles.

        Args:
            round_rows: the rows, by (code, arrival).
            tumbles: sorted by (code, high).
            table: the rows in arrival order.
            table_position: position in `table` of each row of the round.
            seq: arrival number of each row of `table`.
        """
        count = len(round_rows.old_counts)
        cell_of_code = np.full(count, -1, dtype=np.int64)
        cell_of_code[self._codes] = np.arange(len(self._codes))
        # The open window of a partition keeps its cell; the windows that begin in this round follow.
        new = np.flatnonzero(cell_of_code < 0)
        cell_of_code[new] = len(self._codes) + np.arange(len(new))
        first_tumble = np.searchsorted(tumbles.code, np.arange(count + 1))
        rank = np.arange(len(tumbles.code)) - first_tumble[tumbles.code]
        tumble_cell = np.where(rank == 0, cell_of_code[tumbles.code], count + np.arange(len(tumbles.code)) - 1)
        after = count + np.arange(len(tumbles.code))  # the window that each tumble opens
        tumbled = _tumbles_before_rows(round_rows, tumbles)
        opened = after[first_tumble[round_rows.code] + tumbled - 1] if len(after) else 0
        cell = np.where(tumbled == 0, cell_of_code[round_rows.code], opened)
        cells = np.empty(len(cell), dtype=np.int64)
        cells[table_position] = cell
        total = count + len(tumbles.code)
        states = [
            accumulator.fold(state, cells, total, table, seq)
            for accumulator, state in zip(self._accumulators, self._states, strict=True)
        ]
        picked = pa.array(tumble_cell)
        results = [
            a.finish(
                [c.take(picked) for c in s],
                lambda index: FiringPlace(int(tumbles.code[index]), {"fired_at": int(tumbles.at[index])}),
            )
            for a, s in zip(self._accumulators, states, strict=True)
        ]
        final = cell_of_code.copy()
        final[tumbles.code] = after
        self._codes = np.arange(count)
        self._states = [[c.take(pa.array(final)) for c in state] for state in states]
        return results

    def remove_partitions(self, codes: np.ndarray) -> None:
        """Remove the partial results of these partitions."""
        keep = ~np.isin(self._codes, codes)
        if not keep.all():
            self._codes = self._codes[keep]
            self._states = [[c.filter(pa.array(keep)) for c in state] for state in self._states]

    def columns(self, codes: np.ndarray) -> dict[str, pa.Array]:
        """Return the partial results of these partitions, as columns to be stored; empty ones for those without."""
        missing = np.setdiff1d(codes, self._codes)
        if len(missing):
            self._states = [
                accumulator.fold(state, missing[:0], len(self._codes) + len(missing), self.no_rows, missing[:0])
                for accumulator, state in zip(self._accumulators, self._states, strict=True)
            ]
            self._codes = np.concatenate([self._codes, missing])
        order = np.argsort(self._codes)
        at = pa.array(order[np.searchsorted(self._codes[order], codes)])
        return {
            f"{accumulator.number}.{part}": column.take(at)
            for accumulator, state in zip(self._accumulators, self._states, strict=True)
            for part, column in enumerate(state)
        }


def _tumbles_before_rows(round_rows: RoundRows, tumbles: Tumbles) -> np.ndarray:
    """Return how many tumbles of its partition come before each row: those whose `high` is at most its position."""
    span = int(max(round_rows.position.max(initial=0), tumbles.high.max(initial=0))) + 2
    key = tumbles.code * span + tumbles.high
    begin = np.searchsorted(tumbles.code, round_rows.code)
    tumbled: np.ndarray = np.searchsorted(key, round_rows.code * span + round_rows.position, side="right") - begin
    return tumbled
