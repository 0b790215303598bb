"""Which sessions are open, and what does each wait for? As the times of sessions say (`sessions/times.py`)."""

from __future__ import annotations

import pyarrow as pa

from panekeeper.framework.core.inspection.panes import as_table
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.sessions.open_table import OpenSessions
from panekeeper.framework.core.sessions.storage import stored_sessions
from panekeeper.framework.core.sessions.times import SessionTimes
from panekeeper.framework.declarations.windows import Session
from panekeeper.state.records import SessionRecord
from panekeeper.state.store import KeyGroupStore


def open_sessions(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each open session of a key group, as `open_panes` does for panes; in no order."""
    window, keys, record = port.declared, PartitionKeys(port.keys), SessionRecord.decode(store.read_header())
    assert isinstance(window, Session)
    sessions = OpenSessions(keys, fires_by_clock=window.fires_by_clock)
    if tables := stored_sessions(record, store):
        sessions.add_stored(tables)
    return as_table(port, keys, record.watermark, SessionTimes(window, sessions.columns, record.watermark).outlook())
