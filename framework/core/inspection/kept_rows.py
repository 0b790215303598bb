"""What is open where rows are kept and no panes: windows by row, and the sides of an interval join.

The windows, and the rows of the sides, are loaded and not stored again. What comes next they say themselves.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.by_row.batch import SlidingByRowBatch
from panekeeper.framework.core.by_row.window import SlidingByRowWindow
from panekeeper.framework.core.inspection.one_key import Values, is_of
from panekeeper.framework.core.inspection.panes import as_table
from panekeeper.framework.core.inspection.recorded import RecordedPort, that_counts
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.joins.kept_rows import KeptRows
from panekeeper.framework.core.panes.storage import RowStorage
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.declarations.joins import Join, Within
from panekeeper.state.codec import with_columns
from panekeeper.state.history import History
from panekeeper.state.records import NEVER, NO_WATERMARK, IntervalRecord, JoinRecord, KeptRowsRecord
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
        opened = _opened(port, port.own(store))
        now, rows, windows = opened.watermark, opened.kept_rows, opened.outlook()
        fires, waits = (windows.past.codes, windows.fires_at), opened.times.ready(rows.times) > now
        return _table(port, opened.keys, now, (rows.codes, rows.times, waits), fires, opened.window.reach_us)
    keys, record = PartitionKeys(port.keys), JoinRecord.decode(store.read_header())
    kept, now, hold = kept_side(port, store, record), record.watermark, join_of(port).hold_us(port.number)
    codes, times = keys.encode(kept.rows), kept.times
    waits = np.zeros(len(codes), dtype=bool)
    waits[kept.give_up(NO_WATERMARK, NEVER)] = goes_out_alone(port)
    is_kept = times >= now - hold
    codes, times, waits = codes[is_kept], times[is_kept], waits[is_kept]
    table = _table(port, keys, now, (codes, times, waits), (codes[waits], times[waits] + hold + 1), hold)
    if goes_out_alone(port):
        return table
    place = table.column_names.index("waiting")
    return table.set_column(place, table.schema.field(place), pa.nulls(table.num_rows, pa.int64()))


def has_row(port: RecordedPort, store: KeyGroupStore, key: Values, at: int) -> bool | None:
    """Return whether a row of a partition with this event time (us) is kept; None: only partial results are.

    Not for a side of an interval join, which `partners.row_facts` tells of.
    """
    if port.is_by_row:
        kept = _opened(port, port.own(store)).kept_rows
        return bool(np.any(kept.times[_are_of(kept.rows, key)] == at))
    if port.panes is None:
        return None
    own = port.own(store)
    record = IntervalRecord.decode(own.read_header())
    if not record.row_runs:
        return None if record.segments else False
    columns = pa.schema([*port.keys, pa.field(EVENT_TIME, pa.int64())])
    stored = RowStorage(own, dict(record.row_runs), columns, History())
    stored.read(np.array(sorted({first for first, _ in record.row_runs}), dtype=np.int64))
    times = [table.column(EVENT_TIME).to_numpy()[_are_of(table, key)] for table in stored.tables]
    return any(bool(np.any(table_times == at)) for table_times in times)


def _are_of(rows: pa.Table, key: Values) -> np.ndarray:
    matches: np.ndarray = is_of(rows, key).to_numpy(zero_copy_only=False)
    return matches


def open_windows(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each open window by row, as `open_panes` does for panes; `pane_end` is its last instant."""
    opened = _opened(port, port.own(store))
    return as_table(port, opened.keys, opened.watermark, opened.outlook())


def kept_side(
    port: RecordedPort, store: KeyGroupStore, record: JoinRecord, columns: pa.Schema | None = None
) -> KeptRows:
    """Return all rows that a side of an interval join keeps, with these columns, or those of the key."""
    own, join = record.ports[port.number], join_of(port)
    reach = join.before_us + join.after_us
    kept = KeptRows(columns or port.keys, own, port.own(store), History(), reach=reach, age=join.age_us)
    _read_all(kept, own)
    return kept


def join_of(port: RecordedPort) -> Within:
    """Return the interval join that a port is a side of."""
    assert isinstance(port.declared, Within)
    return port.declared


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


def _opened(port: RecordedPort, store: KeyGroupStore) -> SlidingByRowWindow:
    """Return the windows by row of a key group, with the rows that they are of."""
    return SlidingByRowBatch(that_counts(port), store).window


def _read_all(kept: KeptRows, record: KeptRowsRecord) -> None:
    if record.slots:
        kept.read_from_to(min(record.slots) * record.slot_us, (max(record.slots) + 1) * record.slot_us)
