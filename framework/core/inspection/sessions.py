"""Which sessions are open, and what does each wait for? The rules are those of `sessions.window`, only told."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.inspection.panes import NONE, OpenColumns, as_table
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.sessions.open_table import OpenSessions
from panekeeper.framework.core.sessions.storage import stored_sessions
from panekeeper.state.records import NEVER, NO_WATERMARK, SessionRecord
from panekeeper.state.store import KeyGroupStore


def open_sessions(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each open session of a key group, as `open_panes` does for panes; in no order."""
    keys, record = PartitionKeys(port.keys), SessionRecord.decode(store.read_header())
    early, refire = port.rule("early"), port.rule("refire")
    found = OpenSessions(keys, fires_by_clock="period_us" in early or "period_us" in refire)
    if tables := stored_sessions(record, store):
        found.add_stored(tables)
    one, age, most = found.columns, port.fields["discard_age_us"], port.fields["max_duration_us"]
    ends = one.end if most is None else np.minimum(one.end, one.first + most)
    after = record.watermark + 1
    closes = np.maximum(ends + age, after)
    fires = np.maximum(closes if port.fields.get("emit") == "on_close" else ends, after)
    waits = (one.new > 0) | ~one.complete
    fires = np.where(one.complete, closes, fires) if refire else fires
    if "event_time_us" in early and record.watermark != NO_WATERMARK:
        multiple = (record.watermark // early["event_time_us"] + 1) * early["event_time_us"]
        fires = np.where((one.new > 0) & ~one.complete, np.minimum(fires, multiple), fires)
    every = np.where(ends > record.watermark, early.get("rows", 0), np.where(one.complete, refire.get("rows", 0), 0))
    columns = OpenColumns(
        codes=one.codes,
        pane_start=one.first,
        pane_end=ends,
        rows=np.where(one.fired == 0, one.new, NONE),
        firings=one.fired,
        unfired=waits,
        is_complete=one.complete,
        fires_at=np.where(waits, fires, NEVER),
        closes_at=closes,
        next_clock=one.due,
        next_rows=np.where(every > 0, np.maximum(every - one.new, 1), NONE),
    )
    return as_table(port, keys, record.watermark, columns)
