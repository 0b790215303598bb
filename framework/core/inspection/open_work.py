"""What is open in a key group, whatever its window is."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from panekeeper.framework.core.inspection.arrivals import live_partitions, partition_schema
from panekeeper.framework.core.inspection.panes import open_panes, pane_schema
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.inspection.sessions import open_sessions
from panekeeper.state.records import HORIZON, HorizonRecord
from panekeeper.state.store import KeyGroupStore, MemoryStore, PortStore

Entry = tuple[str, int, int]


def schema_of(port: RecordedPort) -> pa.Schema:
    """Return the columns of `open_work`; times are us since the epoch."""
    return partition_schema(port) if port.is_arrival else pane_schema(port)


def open_work(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each partition in each open pane or session; or for each live partition, in arrival order."""
    own = PortStore(store, port.number) if port.number else store
    if port.is_arrival:
        return live_partitions(port, own)
    return open_sessions(port, own) if port.is_session else open_panes(port, own)


def horizon(store: KeyGroupStore) -> HorizonRecord | None:
    """Return how far event time has come in each source, as the key group knows it; None if Spark keeps that."""
    stored = store.find(HORIZON, 0, 0)
    return None if stored is None else HorizonRecord.decode(stored)


def store_of(header: bytes | None, entries: Mapping[Entry, bytes]) -> MemoryStore:
    """Return a store with what was read of one."""
    store = MemoryStore()
    store.header, store.entries = header, dict(entries)
    return store
