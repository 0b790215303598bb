"""Which results of open sessions stand: by which start each is known, and what it has, where it will be taken back.

A session that was merged, or got an earlier first row, has results by other starts than its own. Its next firing puts
one result in the place of all of them (docs/semantics.md section 15.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import combine, lists
from panekeeper.framework.core.panes.last_results import LAST_RESULT
from panekeeper.framework.core.stable_order import stable_order
from panekeeper.state.codec import of_type

STANDING_COLUMN = "_standing"
"""Column of stored sessions: the starts of their standing results."""
_BOUNDS = pa.schema([("shown.end", pa.int64()), ("shown.last_row", pa.int64()), ("shown.refinement", pa.int32())])
"""What is kept of a result that will be taken back, beside its values: the end and the last row, us; refinement. No
partition column has such a name."""


@dataclass(frozen=True)
class Standing:
    """Standing results of some sessions, by these, then by their starts. One entry each.

    Attributes:
        owner: the place of the session among those that were asked for.
        start: the start by which the result is known, us.
        shown: end, last row (us), refinement and values of the result; empty where results are not taken back.
    """

    owner: np.ndarray
    start: np.ndarray
    shown: list[pa.Array]

    def as_lists(self, sessions: int) -> list[pa.ListArray]:
        """Return the starts, and each column of `shown`, as a list for each session."""
        sizes = np.bincount(self.owner, minlength=sessions)
        return [lists(sizes, column, pa.list_(column.type)) for column in (pa.array(self.start), *self.shown)]

    def of(self, sessions: np.ndarray) -> Standing:
        """Return those of the sessions of a mask, which are numbered among themselves then."""
        some_of_them = self.where(sessions[self.owner])
        return Standing((np.cumsum(sessions) - 1)[some_of_them.owner], some_of_them.start, some_of_them.shown)

    def where(self, some: np.ndarray) -> Standing:
        """Return those of a mask."""
        return Standing(self.owner[some], self.start[some], [column.filter(pa.array(some)) for column in self.shown])


class StandingResults:
    """The standing results of the sessions in memory, each by the position of its session."""

    def __init__(self, values: pa.Schema | None = None) -> None:
        """Begin with none; `values` are the result columns of results that will be taken back."""
        kept = [] if values is None else [*_BOUNDS, *(pa.field(LAST_RESULT.format(v.name), v.type) for v in values)]
        self._kept = pa.schema(kept)
        self._owner, self._start = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._shown = [pa.array([], field.type) for field in self._kept]

    @property
    def stored(self) -> pa.Schema:
        """The columns of stored sessions that have them: lists."""
        return pa.schema(
            [
                pa.field(STANDING_COLUMN, pa.list_(pa.int64())),
                *(pa.field(field.name, pa.list_(field.type)) for field in self._kept),
            ]
        )

    def add_stored(self, tables: list[pa.Table], first: int) -> None:
        """Add those of stored sessions, which are at the positions from `first` on; nulls where no value was stored."""
        starts = pa.concat_arrays([combine(table.column(STANDING_COLUMN)) for table in tables])
        counts = np.diff(starts.offsets.to_numpy()) if len(starts) else np.empty(0, dtype=np.int64)
        shown = [pa.concat_arrays([_stored(table, field) for table in tables]) for field in self._kept]
        self._add(first + np.repeat(np.arange(len(counts)), counts), starts.flatten().to_numpy(), shown)

    def of(self, at: np.ndarray, sessions: int) -> Standing:
        """Return those of the sessions at these positions, of so many in memory."""
        place = np.full(sessions, -1, dtype=np.int64)
        place[at] = np.arange(len(at))
        owner = place[self._owner]
        some = np.flatnonzero(owner >= 0)
        some = some[stable_order(self._start[some], owner[some])]
        return Standing(owner[some], self._start[some], [column.take(pa.array(some)) for column in self._shown])

    def replace(self, at: np.ndarray, starts: np.ndarray, shown: list[pa.Array], sessions: int) -> None:
        """Put one result in the place of those of each session at these positions, of so many in memory."""
        fired = np.zeros(sessions, dtype=np.bool_)
        fired[at] = True
        self.keep(~fired[self._owner])
        self._add(at, starts, shown)

    def move(self, moved: np.ndarray) -> None:
        """Take note of where the session at each position is now."""
        self._owner = moved[self._owner]

    def remove(self, gone: np.ndarray) -> None:
        """Remove those of the sessions of a mask; the others move up."""
        self.keep(~gone[self._owner])
        self.move(np.cumsum(~gone) - 1)

    def keep(self, some: np.ndarray) -> None:
        """Forget all but those of a mask."""
        self._owner, self._start = self._owner[some], self._start[some]
        self._shown = [column.filter(pa.array(some)) for column in self._shown]

    def _add(self, owner: np.ndarray, start: np.ndarray, shown: list[pa.Array]) -> None:
        self._owner, self._start = np.concatenate([self._owner, owner]), np.concatenate([self._start, start])
        self._shown = [
            pa.concat_arrays([old, of_type(new, old.type)]) for old, new in zip(self._shown, shown, strict=True)
        ]


def _stored(table: pa.Table, column: pa.Field) -> pa.Array:
    """Return the values of a column of stored sessions, end to end; nulls if it came since, with its aggregate."""
    if column.name in table.column_names:
        return of_type(combine(table.column(column.name)).flatten(), column.type)
    return pa.nulls(len(combine(table.column(STANDING_COLUMN)).flatten()), column.type)
