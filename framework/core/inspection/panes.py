"""Which panes are open for which partition, and what does each wait for? One entry for a partition in a pane.

What is stored are cells of slices, or rows; which firings a partition had follows from what `refinements.py`, or
`firing_rules.py`, keep. The rules are those of `window.py` and are not applied here, only told.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.panes.firing_rules import (
    COMPLETE_COLUMN,
    DUE_COLUMN,
    FIRINGS_KIND,
    NEW_COLUMN,
)
from panekeeper.framework.core.panes.folding import SLICE_COLUMN
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.panes.refinements import (
    BEFORE_COLUMN,
    COUNT_COLUMN,
    FIRED_KIND,
    PANE_COLUMN,
)
from panekeeper.framework.core.panes.storage import RowStorage, SliceStorage
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.framework.core.stable_order import gather_ranges
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.codec import decode_table, with_columns
from panekeeper.state.history import History
from panekeeper.state.records import NEVER, NO_WATERMARK, IntervalRecord
from panekeeper.state.store import KeyGroupStore

OPEN, LATE, OVERDUE = "open", "late", "overdue"
"""It waits for its end; it is complete and takes late rows; it fires at the next watermark that is greater."""
FIRE, REFIRE, CLOSE = "fire", "refire", "close"
NONE = -1
"""In the place of a number of rows that is not known, or never comes."""


@dataclass
class OpenColumns:
    """What each partition has in each open pane, or session; one entry each, times in us.

    Attributes:
        codes: the partition.
        pane_start: the first instant.
        pane_end: the first instant after it.
        rows: how many rows it has; `NONE` where only partial results are kept that do not count them.
        firings: how often it has fired.
        unfired: whether it has rows that no firing had, or has not fired as complete.
        is_complete: whether it has fired as complete.
        fires_at: the watermark at which it fires next; `NEVER` if none makes it.
        closes_at: the watermark that closes it.
        next_clock: when it fires by the wall clock; `NEVER` if it does not.
        next_rows: after how many further rows it fires; `NONE` if it does not.
    """

    codes: np.ndarray
    pane_start: np.ndarray
    pane_end: np.ndarray
    rows: np.ndarray
    firings: np.ndarray
    unfired: np.ndarray
    is_complete: np.ndarray
    fires_at: np.ndarray
    closes_at: np.ndarray
    next_clock: np.ndarray
    next_rows: np.ndarray


TIMES = ("pane_start", "pane_end", "fires_at", "closes_at", "next_clock", "watermark")
"""The columns of `open_panes` that are times, in us since the epoch; null where there is none."""


def pane_schema(port: RecordedPort) -> pa.Schema:
    """Return the columns of `open_panes`."""
    own = {
        "pane_start": pa.int64(),
        "pane_end": pa.int64(),
        "rows": pa.int64(),
        "state": pa.string(),
        "firings": pa.int32(),
        "unfired": pa.bool_(),
        "next": pa.string(),
        "fires_at": pa.int64(),
        "closes_at": pa.int64(),
        "next_clock": pa.int64(),
        "next_rows": pa.int64(),
        "watermark": pa.int64(),
    }
    return pa.schema([*port.keys, *(pa.field(name, kind) for name, kind in own.items())])


def as_table(port: RecordedPort, keys: PartitionKeys, watermark: int, found: OpenColumns) -> pa.Table:
    """Return what is open as a table, with what comes next and when."""
    state = np.where(found.is_complete, LATE, OPEN)
    state = np.where((found.fires_at == watermark + 1) & (found.pane_end <= watermark), OVERDUE, state)
    after = np.where(found.firings > 0, REFIRE, FIRE)
    columns = {one.name: getattr(found, one.name) for one in fields(found) if one.name not in ("codes", "is_complete")}
    columns |= {"state": state, "next": np.where(found.fires_at == NEVER, CLOSE, after)}
    columns |= {"watermark": np.full(len(state), watermark)}
    nothing = {"rows": NONE, "next_rows": NONE, "fires_at": NEVER, "next_clock": NEVER, "watermark": NO_WATERMARK}
    arrays = {
        name: pa.array(values, mask=values == nothing[name] if name in nothing else None)
        for name, values in columns.items()
    }
    return with_columns(with_keys(pa.table(arrays), keys, found.codes), pane_schema(port))


def open_panes(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each partition in each open pane of a key group, in no order."""
    window, keys, record = port.panes, PartitionKeys(port.keys), IntervalRecord.decode(store.read_header())
    assert window is not None
    geometry = Geometry.of(window, port.history)
    codes, panes, rows = _content(port, window, keys, record, geometry, store)
    if window.keeps_firings:
        found = _with_firings(window, keys, record, geometry, store, (codes, panes, rows))
    else:
        found = _without_firings(window, keys, record, geometry, store, (codes, panes, rows))
    return as_table(port, keys, record.watermark, found)


def _content(
    port: RecordedPort,
    window: TimeInterval,
    keys: PartitionKeys,
    record: IntervalRecord,
    geometry: Geometry,
    store: KeyGroupStore,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return partition and pane of each pair that holds something, and how many rows; each pair once."""
    columns = pa.schema([*keys.schema, pa.field(SLICE_COLUMN, pa.int64())])
    slices = SliceStorage(store, dict(record.segments))
    tables = slices.read(np.array(sorted(record.segments), dtype=np.int64))
    stored = RowStorage(store, dict(record.row_runs), columns, History())
    stored.read(np.array(sorted({first for first, _ in record.row_runs}), dtype=np.int64))
    counted = port.counted_by is not None and all(port.counted_by in one.column_names for one in tables)
    counts = [one.column(port.counted_by).to_numpy() for one in tables] if counted else []
    if not tables:
        counted, tables = True, stored.tables
        counts = [np.ones(one.num_rows, dtype=np.int64) for one in tables]
    if not tables:
        return _NO_ONE, _NO_ONE, _NO_ONE
    cells = pa.concat_tables([with_columns(one, columns) for one in tables])
    codes, of_cells = keys.encode(cells), cells.column(SLICE_COLUMN).to_numpy()
    rows = np.concatenate(counts) if counted else np.zeros(len(codes), dtype=np.int64)
    if window.keeps_panes_apart:
        place, panes = np.arange(len(codes)), of_cells
    else:
        oldest, newest = geometry.oldest_pane(of_cells), geometry.newest_pane(of_cells)
        panes, offsets = gather_ranges(oldest, np.maximum(newest + 1, oldest))
        place = np.repeat(np.arange(len(codes)), np.diff(offsets))
    is_open = np.isin(panes, np.fromiter(record.panes, dtype=np.int64))
    place, panes = place[is_open], panes[is_open]
    pairs, codes, panes = number_cells(codes[place], panes)
    total = np.bincount(pairs, rows[place], len(codes)).astype(np.int64)
    return codes, panes, total if counted else np.full(len(codes), NONE)


_NO_ONE = np.empty(0, dtype=np.int64)


def _without_firings(
    window: TimeInterval,
    keys: PartitionKeys,
    record: IntervalRecord,
    geometry: Geometry,
    store: KeyGroupStore,
    content: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> OpenColumns:
    codes, panes, rows = content
    is_complete = _is_complete(record, panes)
    firings, pending = is_complete.astype(np.int32), ~is_complete
    refined = _places(keys, codes, panes, record.pending)
    if record.pending is not None:
        pending[refined] = True
        firings[refined] = record.pending.column(BEFORE_COLUMN).to_numpy(zero_copy_only=False)
    for pane in [pane for pane, one in record.panes.items() if one.has_counts]:
        counts = decode_table(store.read(FIRED_KIND, pane, 0))
        counts = counts.append_column(PANE_COLUMN, pa.array(np.full(counts.num_rows, pane)))
        firings[_places(keys, codes, panes, counts)] = counts.column(COUNT_COLUMN).to_numpy()
    ends, closes = _ends_and_closes(geometry, panes)
    ready = closes if window.emit == "on_close" else ends
    waits = np.where(is_complete, record.watermark + 1, np.maximum(ready, record.watermark + 1))
    never = np.full(len(codes), NEVER)
    return OpenColumns(
        codes=codes,
        pane_start=geometry.starts(panes),
        pane_end=ends,
        rows=rows,
        firings=firings,
        unfired=pending,
        is_complete=is_complete & (firings > 0),
        fires_at=np.where(pending, waits, never),
        closes_at=np.maximum(closes, record.watermark + 1),
        next_clock=never,
        next_rows=np.full(len(codes), NONE),
    )


def _is_complete(record: IntervalRecord, panes: np.ndarray) -> np.ndarray:
    return np.isin(panes, np.array([pane for pane, one in record.panes.items() if one.complete], dtype=np.int64))


def _places(keys: PartitionKeys, codes: np.ndarray, panes: np.ndarray, stored: pa.Table | None) -> np.ndarray:
    """Return where the pairs of a stored table are among these; each of them is there."""
    if stored is None:
        return _NO_ONE
    own, count = keys.encode(stored), len(codes)
    both = np.concatenate([codes, own]), np.concatenate([panes, stored.column(PANE_COLUMN).to_numpy()])
    return number_cells(*both)[0][count:]


def _ends_and_closes(geometry: Geometry, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the end of each pane, and the watermark that closes it."""
    some, place = np.unique(panes, return_inverse=True)
    closes = np.array([geometry.closing_watermark(pane) for pane in some.tolist()], dtype=np.int64)
    return geometry.ends(panes), closes[place]


def _with_firings(
    window: TimeInterval,
    keys: PartitionKeys,
    record: IntervalRecord,
    geometry: Geometry,
    store: KeyGroupStore,
    content: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> OpenColumns:
    """Return what is open where each cell has a record of its firings."""
    cells = SliceStorage(store, dict(record.firing_runs), FIRINGS_KIND)
    tables = cells.read(np.array(sorted(record.firing_runs), dtype=np.int64))
    tables = [one.filter(pa.array(np.isin(one.column(PANE_COLUMN).to_numpy(), list(record.panes)))) for one in tables]
    if not tables:
        empty = IntervalRecord(watermark=record.watermark)
        return _without_firings(window, keys, empty, geometry, store, (_NO_ONE, _NO_ONE, _NO_ONE))
    table = pa.concat_tables(tables).combine_chunks()
    codes, panes = keys.encode(table), table.column(PANE_COLUMN).to_numpy()
    rows = np.full(len(codes), 0 if (content[2] != NONE).all() else NONE)
    both = (np.concatenate([own, held]) for own, held in zip((codes, panes), content[:2], strict=True))
    place = number_cells(*both)[0][len(codes) :]
    known = place < len(codes)
    rows[place[known]] = content[2][known]
    new, fired = (table.column(name).to_numpy() for name in (NEW_COLUMN, COUNT_COLUMN))
    complete = table.column(COMPLETE_COLUMN).to_numpy(zero_copy_only=False)
    never = np.full(len(codes), NEVER)
    due = table.column(DUE_COLUMN).to_numpy() if DUE_COLUMN in table.column_names else never
    ends, closes = _ends_and_closes(geometry, panes)
    closes, after = np.maximum(closes, record.watermark + 1), record.watermark + 1
    ready = np.maximum(closes if window.emit == "on_close" else ends, after)
    fires = np.where(complete | ((new == 0) & (window.then is not None)), NEVER, ready)
    again = closes if window.refire is not None else np.full(len(codes), after)
    fires = np.where(complete & (new > 0), again, fires)
    if window.early is not None and window.early.event_time_us is not None and record.watermark != NO_WATERMARK:
        period = window.early.event_time_us
        multiple = (record.watermark // period + 1) * period
        fires = np.where(~complete & (new > 0), np.minimum(fires, multiple), fires)
    early = 0 if window.early is None else window.early.rows or 0
    late = 0 if window.refire is None else window.refire.rows or 0
    every = np.where(ends > record.watermark, early, np.where(complete, late, 0))
    return OpenColumns(
        codes=codes,
        pane_start=geometry.starts(panes),
        pane_end=ends,
        rows=rows,
        firings=fired.astype(np.int32),
        unfired=(new > 0) | ~complete,
        is_complete=complete,
        fires_at=fires,
        closes_at=closes,
        next_clock=due,
        next_rows=np.where(every > 0, every - new, NONE),
    )
