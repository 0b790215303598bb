"""What is known of each open session that is in memory, as columns; what it holds is in `cells` or `rows`."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.core.past_firings import PastFirings
from panekeeper.framework.core.sessions.standing import STANDING_COLUMN, Standing, StandingResults
from panekeeper.framework.core.stable_order import ranked, stable_order
from panekeeper.state.codec import with_columns
from panekeeper.state.records import NEVER

FIRST_COLUMN = "_first"
LAST_COLUMN = "_last"
END_COLUMN = "_end"
FIRED_COLUMN = "_fired"
NEW_COLUMN = "_new"
ARRIVED_COLUMN = "_arrived"
DUE_COLUMN = "_due"
COMPLETE_COLUMN = "_complete"
FULL_COLUMN = "_full"

_STORED = pa.schema(
    [
        pa.field(FIRST_COLUMN, pa.int64()),
        pa.field(LAST_COLUMN, pa.int64()),
        pa.field(END_COLUMN, pa.int64()),
        pa.field(FIRED_COLUMN, pa.int32()),
        pa.field(NEW_COLUMN, pa.int64()),
        pa.field(COMPLETE_COLUMN, pa.bool_()),
        pa.field(FULL_COLUMN, pa.bool_()),
        pa.field(ARRIVED_COLUMN, pa.int64()),
        pa.field(DUE_COLUMN, pa.int64()),
    ]
)
SESSION_COLUMNS = (*_STORED.names, STANDING_COLUMN)


@dataclass
class SessionColumns:
    """Some sessions, one entry of each column a session; times in us.

    Attributes:
        codes: the partition.
        first: time of the first row.
        last: time of the last row.
        end: the greatest time + gap of its rows.
        fired: how often it, or the one that had fired most often of those that became it, has fired.
        new: how many rows it has that no firing had.
        complete: whether it has fired as complete, and has the same end still, or one that the watermark had reached.
        full: whether it, or one that became part of it, has ever fired as complete.
        arrived: when its first row arrived; `NEVER` where nothing fires by the clock.
        due: when it next fires by the clock; `NEVER` if it does not.
    """

    codes: np.ndarray
    first: np.ndarray
    last: np.ndarray
    end: np.ndarray
    fired: np.ndarray
    new: np.ndarray
    complete: np.ndarray
    full: np.ndarray
    arrived: np.ndarray
    due: np.ndarray

    @classmethod
    def of_rows(
        cls,
        codes: np.ndarray,
        first: np.ndarray,
        last: np.ndarray,
        end: np.ndarray,
        numbers: np.ndarray | None = None,
        arrived: int = NEVER,
    ) -> SessionColumns:
        """Return rows as sessions that have not fired; `numbers` says how many each entry stands for, one if None."""
        not_yet, never = np.zeros(len(codes), dtype=np.bool_), np.full(len(codes), NEVER)
        numbers = np.ones(len(codes), dtype=np.int64) if numbers is None else numbers
        at = np.full(len(codes), arrived)
        return cls(codes, first, last, end, not_yet.astype(np.int32), numbers, not_yet, not_yet, at, never)

    @classmethod
    def none(cls) -> SessionColumns:
        """Return no sessions."""
        none = np.empty(0, dtype=np.int64)
        return cls.of_rows(none, none, none, none)

    def take(self, at: np.ndarray) -> SessionColumns:
        """Return those at these positions, or of a mask."""
        return SessionColumns(*(getattr(self, column.name)[at] for column in fields(self)))

    def plus(self, others: SessionColumns) -> SessionColumns:
        """Return these, and others behind them."""
        pairs = ((getattr(self, column.name), getattr(others, column.name)) for column in fields(self))
        return SessionColumns(*(np.concatenate(pair) for pair in pairs))

    @property
    def past(self) -> PastFirings:
        """What they have fired."""
        return PastFirings(codes=self.codes, fired=self.fired, complete=self.complete, new=self.new, due_us=self.due)

    def __len__(self) -> int:
        return len(self.codes)


class OpenSessions:
    """The open sessions in memory, and the results of theirs that stand."""

    def __init__(
        self, keys: PartitionKeys, *, fires_by_clock: bool = False, taken_back: pa.Schema | None = None
    ) -> None:
        """Begin with none; `taken_back` are the result columns, where a firing takes back the results before."""
        self._keys = keys
        left_out = () if fires_by_clock else (ARRIVED_COLUMN, DUE_COLUMN)
        self._stored = pa.schema([field for field in _STORED if field.name not in left_out])
        self.columns = SessionColumns.none()
        self._standing = StandingResults(taken_back)

    def __len__(self) -> int:
        return len(self.columns)

    def add_stored(self, tables: list[pa.Table]) -> None:
        """Add sessions as `stored` returned them."""
        schema = pa.schema([*self._keys.schema, *self._stored])
        table = pa.concat_tables([with_columns(stored, schema) for stored in tables]).combine_chunks()
        codes = self._keys.encode(table)
        values = [table.column(name).to_numpy() for name in self._stored.names]
        values += [np.full(len(codes), NEVER)] * (len(_STORED) - len(self._stored))
        self._standing.add_stored(tables, len(self))
        self.columns = self.columns.plus(SessionColumns(codes, *values))

    def stored(self, at: np.ndarray) -> pa.Table:
        """Return the sessions at these positions as they are stored."""
        some = self.columns.take(at)
        columns = [some.first, some.last, some.end, some.fired, some.new, some.complete, some.full]
        columns += [some.arrived, some.due] if DUE_COLUMN in self._stored.names else []
        schema = pa.schema([*self._stored, *self._standing.stored])
        table = pa.table([*map(pa.array, columns), *self.standing(at).as_lists(len(at))], schema=schema)
        return with_keys(table, self._keys, some.codes)

    def standing(self, at: np.ndarray) -> Standing:
        """Return the standing results of the sessions at these positions."""
        return self._standing.of(at, len(self))

    def join(self, at: np.ndarray, rows: SessionColumns, labels: np.ndarray) -> np.ndarray:
        """Make one session of all that has one label; sessions that no row has joined stay as they are.

        Return where the session of each row is.

        Args:
            at: positions of sessions.
            rows: intervals that join them, or begin one.
            labels: of the sessions at `at`, then of `rows`.
        """
        distinct_labels, group = ranked(labels)
        has_rows = np.zeros(len(distinct_labels), dtype=np.bool_)
        has_rows[group[len(at) :]] = True
        touched = has_rows[group[: len(at)]]
        renumbered = np.cumsum(has_rows) - 1
        at, group = at[touched], renumbered[np.concatenate([group[: len(at)][touched], group[len(at) :]])]
        parts = self.columns.take(at).plus(rows)
        order = stable_order(group)
        begins = np.searchsorted(group[order], np.arange(int(has_rows.sum())))
        parts = parts.take(order)
        made = SessionColumns(
            parts.codes[begins],
            np.minimum.reduceat(parts.first, begins),
            np.maximum.reduceat(parts.last, begins),
            np.maximum.reduceat(parts.end, begins),
            np.maximum.reduceat(parts.fired, begins),
            np.add.reduceat(parts.new, begins),
            np.logical_or.reduceat(parts.complete, begins),
            np.logical_or.reduceat(parts.full, begins),
            np.minimum.reduceat(parts.arrived, begins),
            np.minimum.reduceat(parts.due, begins),
        )
        kept = np.ones(len(self), dtype=np.bool_)
        kept[at] = False
        moved = np.cumsum(kept) - 1
        moved[at] = int(kept.sum()) + group[: len(at)]
        self.columns = self.columns.take(kept).plus(made)
        self._standing.move(moved)
        joined: np.ndarray = int(kept.sum()) + group[len(at) :]
        return joined

    def fire(self, at: np.ndarray, *, complete: np.ndarray, shown: list[pa.Array]) -> None:
        """Take note of a firing of the sessions at these positions: of their results, the one by their start stands.

        Args:
            at: the positions.
            complete: whether each fires as complete.
            shown: what the results have, where the next firing takes them back (`Standing`); else empty.
        """
        self.columns.fired[at] += 1
        self.columns.new[at] = 0
        self.columns.due[at] = NEVER
        self.columns.complete[at] |= complete
        self.columns.full[at] |= complete
        self._standing.replace(at, self.columns.first[at], shown, len(self))

    def remove(self, gone: np.ndarray) -> None:
        """Remove the sessions of a mask."""
        self._standing.remove(gone)
        self.columns = self.columns.take(~gone)
