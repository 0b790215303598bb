"""What is open where rows are kept and no panes: windows by row, and the sides of an interval join.

Which windows fire at the next watermark is asked of the windows themselves, which are loaded and not stored again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.by_row.protocol import Windows
from panekeeper.framework.core.by_row.rows import OrderedRows
from panekeeper.framework.core.by_row.window import FIRST, LAST, SlidingByRowWindow
from panekeeper.framework.core.inspection.one_key import Values, is_of
from panekeeper.framework.core.inspection.panes import NONE, OpenColumns, as_table
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.joins.kept_rows import KeptRows
from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.panes.storage import RowStorage
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.joins import Join, Within
from panekeeper.framework.declarations.windows import SlidingByRow
from panekeeper.state.codec import with_columns
from panekeeper.state.history import History
from panekeeper.state.records import NEVER, NO_WATERMARK, ByRowRecord, IntervalRecord, JoinRecord, KeptRowsRecord
from panekeeper.state.store import KeyGroupStore

KEPT_TIMES = ("first_row", "last_row", "fires_at", "leaves_at", "watermark")
"""The columns of `kept_partitions` that are times, in us since the epoch; null where there is none."""


def kept_schema(port: RecordedPort) -> pa.Schema:
    """Return the columns of `kept_partitions`."""
    names = ("rows", "first_row", "last_row", "waiting", "fires_at", "leaves_at", "watermark")
    return pa.schema([*port.keys, *(pa.field(name, pa.int64()) for name in names)])


def kept_partitions(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each partition that has rows which may still be of use, of a port.

    Windows by row: `waiting` are the rows whose own window the watermark has not passed yet, or not closed where that
    makes it fire, and at `fires_at` a window fires. An interval join: `waiting` are the rows without a partner that go
    out alone if none comes, and at `fires_at` the first of them does; null where rows never go out alone. At
    `leaves_at` the first row leaves.
    """
    if not port.is_within:
        opened = _ByRow(port, port.own(store))
        now, rows, windows = opened.record.watermark, opened.rows, opened.windows()
        fires, waits = (windows.codes, windows.fires_at), rows.times + opened.waits_us >= now
        return _table(port, opened.keys, now, (rows.codes, rows.times, waits), fires, opened.window.reach_us)
    keys, record = PartitionKeys(port.keys), JoinRecord.decode(store.read_header())
    kept, now, hold = kept_side(port, store, record), record.watermark, hold_of(port)
    codes, times = keys.encode(kept.rows), kept.times
    waits = np.zeros(len(codes), dtype=bool)
    waits[kept.give_up(NO_WATERMARK, NEVER)] = goes_out_alone(port)
    is_kept = times >= now - hold
    codes, times, waits = codes[is_kept], times[is_kept], waits[is_kept]
    found = _table(port, keys, now, (codes, times, waits), (codes[waits], times[waits] + hold + 1), hold)
    if goes_out_alone(port):
        return found
    place = found.column_names.index("waiting")
    return found.set_column(place, found.schema.field(place), pa.nulls(found.num_rows, pa.int64()))


def has_row(port: RecordedPort, store: KeyGroupStore, key: Values, at: int) -> bool | None:
    """Return whether a row of a partition with this event time (us) is kept; None: only partial results are.

    Not for a side of an interval join, which `partners.row_facts` tells of.
    """
    if port.is_by_row:
        opened = _ByRow(port, port.own(store))
        rows = opened.rows.rows
        return bool(np.any(opened.rows.times[_are_of(rows, key)] == at))
    if port.panes is None:
        return None
    own = port.own(store)
    record = IntervalRecord.decode(own.read_header())
    if not record.row_runs:
        return None if record.segments else False
    columns = pa.schema([*port.keys, pa.field(EVENT_TIME, pa.int64())])
    stored = RowStorage(own, dict(record.row_runs), columns, History())
    stored.read(np.array(sorted({first for first, _ in record.row_runs}), dtype=np.int64))
    times = [one.column(EVENT_TIME).to_numpy()[_are_of(one, key)] for one in stored.tables]
    return any(bool(np.any(one == at)) for one in times)


def _are_of(rows: pa.Table, key: Values) -> np.ndarray:
    found: np.ndarray = is_of(rows, key).to_numpy(zero_copy_only=False)
    return found


def open_windows(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each open window by row, as `open_panes` does for panes; `pane_end` is its last instant."""
    opened = _ByRow(port, port.own(store))
    return as_table(port, opened.keys, opened.record.watermark, opened.windows())


def kept_side(
    port: RecordedPort, store: KeyGroupStore, record: JoinRecord, columns: pa.Schema | None = None
) -> KeptRows:
    """Return all rows that a side of an interval join keeps, with these columns, or those of the key."""
    own, join = record.ports[port.number], within_of(port.fields)
    reach = join.before_us + join.after_us
    kept = KeptRows(columns or port.keys, own, port.own(store), History(), reach=reach, age=join.age_us)
    _read_all(kept, own)
    return kept


def hold_of(port: RecordedPort) -> int:
    """Return how far behind the watermark the rows of a side of an interval join are of use, us."""
    join = within_of(port.fields)
    return max(join.reach(port.number)[1], 0) + join.age_us


def goes_out_alone(port: RecordedPort) -> bool:
    """Return whether a row of a side of an interval join is a result if no partner comes."""
    return Join(how=port.fields["how"], equal=((), ()), columns=({}, {})).goes_out_alone(port.number)


def _table(
    port: RecordedPort,
    keys: PartitionKeys,
    watermark: int,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    fires: tuple[np.ndarray, np.ndarray],
    reach: int,
) -> pa.Table:
    """Return the rows of a port by partition.

    Args:
        port: the port.
        keys: its partitions.
        watermark: the one that is acted on.
        rows: partition, time, and whether it waits, of each row.
        fires: partition and watermark of what fires then.
        reach: how far behind the watermark rows are of use, us.
    """
    codes, place = np.unique(rows[0], return_inverse=True)
    first, last, next_ = (np.full(len(codes), end) for end in (NEVER, -NEVER, NEVER))
    np.minimum.at(first, place, rows[1])
    np.maximum.at(last, place, rows[1])
    np.minimum.at(next_, np.searchsorted(codes, fires[0]), fires[1])
    columns = {
        "rows": np.bincount(place, minlength=len(codes)),
        "first_row": first,
        "last_row": last,
        "waiting": np.bincount(place, rows[2], minlength=len(codes)).astype(np.int64),
        "fires_at": pa.array(next_, mask=next_ == NEVER),
        "leaves_at": first + reach + 1,
        "watermark": pa.array([None if watermark == NO_WATERMARK else watermark] * len(codes), pa.int64()),
    }
    return with_columns(with_keys(pa.table(columns), keys, codes), kept_schema(port))


def by_row_of(fields: Mapping[str, Any]) -> SlidingByRow:
    """Return the window that has recorded these fields.

    >>> by_row_of(SlidingByRow(60, discard_age=5).declaration()).age_us
    5000000
    """
    difference, age = (timedelta(microseconds=fields[name]) for name in ("difference_us", "discard_age_us"))
    emit = fields.get("emit", "on_complete")
    return SlidingByRow(difference, discard_age=age, right=bool(fields["right"]), emit=emit)


def within_of(fields: Mapping[str, Any]) -> Within:
    """Return the join that has recorded these fields.

    >>> within_of(Within(60, 5).declaration()).reach(1)
    (5000000, 60000000)
    """
    before, after, age = (timedelta(microseconds=fields[name]) for name in ("before_us", "after_us", "discard_age_us"))
    return Within(before, after, discard_age=age)


class _ByRow:
    """The windows by row of a key group."""

    def __init__(self, port: RecordedPort, store: KeyGroupStore) -> None:
        self.window, self.keys = by_row_of(port.fields), PartitionKeys(port.keys)
        self.record = ByRowRecord.decode(store.read_header())
        self._fires: list[Windows] = []
        reach = 2 * self.window.difference_us
        kept = KeptRows(port.keys, self.record.kept, store, History(), reach=reach, age=self.window.reach_us)
        _read_all(kept, self.record.kept)
        self._running = SlidingByRowWindow(self.window, self.record, self.keys, kept, self)
        self.waits_us = self._running.waits_us
        rows = kept.rows.filter(pa.array(kept.times >= self.record.watermark - self.window.reach_us))
        self.rows = OrderedRows(rows, self.keys)

    def on_drop(self, table: pa.Table, detail: Callable[[int | None], str]) -> None:
        """Do nothing: no rows are given."""

    def on_transitions(self, windows: Windows, reason: Reason) -> None:
        """Note which windows fire again."""
        if reason is Reason.LATE:
            self._fires.append(windows)

    def windows(self) -> OpenColumns:
        """Return the open windows."""
        now, age, running = self.record.watermark, self.window.age_us, self._running
        codes, lasts, low, high = running.windows(self.rows, max(now - age, FIRST), LAST)
        is_complete = lasts < now
        firings = running.fired.of(codes, lasts, running.usual(lasts)).astype(np.int32)
        unfired = lasts + self.waits_us >= now
        if self.record.pending:
            running.on_watermark(now + 1)
            for one in self._fires:
                both = np.concatenate([codes, one.codes]), np.concatenate([lasts, one.lasts])
                places = number_cells(*both)[0][len(codes) :]
                firings[places], unfired[places] = one.fired, True
        return OpenColumns(
            codes=codes,
            pane_start=lasts - self.window.difference_us,
            pane_end=lasts,
            rows=high - low,
            firings=firings,
            unfired=unfired,
            is_complete=is_complete & (firings > 0),
            fires_at=np.where(unfired, np.maximum(lasts + self.waits_us, now) + 1, NEVER),
            closes_at=lasts + 1 + age,
            next_clock=np.full(len(codes), NEVER),
            next_rows=np.full(len(codes), NONE),
        )


def _read_all(kept: KeptRows, record: KeptRowsRecord) -> None:
    if record.slots:
        kept.read_from_to(min(record.slots) * record.slot_us, (max(record.slots) + 1) * record.slot_us)
