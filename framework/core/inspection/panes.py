"""Which panes are open for which partition, and what does each wait for? One entry for a partition in a pane.

The window of the job is loaded, with one aggregate: how many rows there are. What comes next it says itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.inspection.recorded import RecordedPort, that_counts
from panekeeper.framework.core.outlook import NONE, Outlook
from panekeeper.framework.core.panes.batch import PaneParts, TimeIntervalBatch
from panekeeper.framework.core.panes.cells import PaneCells
from panekeeper.framework.core.panes.output import AggregatePaneOutput, RowSource
from panekeeper.framework.core.panes.protocol import PaneContents, PaneOutput, PanePairs
from panekeeper.framework.core.panes.rows import PaneRows
from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.state.codec import with_columns
from panekeeper.state.records import NEVER, NO_WATERMARK, IntervalRecord
from panekeeper.state.store import KeyGroupStore

OPEN, LATE, OVERDUE = "open", "late", "overdue"
"""It waits for its end; it is complete and takes late rows; it fires at the next watermark that is greater."""
FIRE, REFIRE, CLOSE = "fire", "refire", "close"
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


def as_table(port: RecordedPort, keys: PartitionKeys, watermark: int, outlook: Outlook) -> pa.Table:
    """Return what is open as a table, with what comes next and when."""
    past, fires_at = outlook.past, outlook.fires_at
    is_overdue = (fires_at == watermark + 1) & (outlook.end <= watermark)
    columns = {
        "pane_start": outlook.start,
        "pane_end": outlook.end,
        "rows": outlook.rows,
        "state": np.where(is_overdue, OVERDUE, np.where(past.complete, LATE, OPEN)),
        "firings": past.fired,
        "unfired": past.waits,
        "next": np.where(fires_at == NEVER, CLOSE, np.where(past.fired > 0, REFIRE, FIRE)),
        "fires_at": fires_at,
        "closes_at": outlook.closes_at,
        "next_clock": past.due_us,
        "next_rows": outlook.next_rows,
        "watermark": np.full(len(past), watermark),
    }
    nothing = {"rows": NONE, "next_rows": NONE, "fires_at": NEVER, "next_clock": NEVER, "watermark": NO_WATERMARK}
    arrays = {
        name: pa.array(values, mask=values == nothing[name] if name in nothing else None)
        for name, values in columns.items()
    }
    return with_columns(with_keys(pa.table(arrays), keys, past.codes), pane_schema(port))


def open_panes(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each partition in each open pane of a key group, in no order."""
    has_rows = not IntervalRecord.decode(store.read_header()).segments
    window = TimeIntervalBatch(that_counts(port), store, _rows_and_no_results if has_rows else None).window
    pairs = window.open_pairs()
    outlook = replace(window.outlook(pairs), rows=_rows(port, window.panes.contents, pairs))
    return as_table(port, window.keys, window.watermark, outlook)


def _rows_and_no_results(parts: PaneParts) -> tuple[PaneContents, PaneOutput]:
    """Return the rows of panes, where these are kept."""
    spec, geometry = parts.spec, parts.geometry
    rows = PaneRows(parts.keys, spec.columns, geometry, parts.store, parts.record, spec.history)
    return rows, AggregatePaneOutput(RowSource(rows, [], geometry), parts.results)


def _rows(port: RecordedPort, contents: PaneContents, pairs: PanePairs) -> np.ndarray:
    """Return how many rows each pair has; `NONE` where nothing counts them."""
    if isinstance(contents, PaneRows):
        return contents.counts(pairs.codes, pairs.panes)
    if port.counted_by is None:
        return np.full(len(pairs.codes), NONE)
    assert isinstance(contents, PaneCells)
    counted: np.ndarray = contents.results(pairs.codes, pairs.panes)[0].to_numpy()
    return counted
