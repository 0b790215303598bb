"""What is open in a key group, whatever its window is."""

from __future__ import annotations

import pyarrow as pa

from panekeeper.framework.core.inspection.arrivals import live_partitions, partition_schema
from panekeeper.framework.core.inspection.kept_rows import kept_partitions, kept_schema, open_windows
from panekeeper.framework.core.inspection.panes import open_panes, pane_schema
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.inspection.sessions import open_sessions
from panekeeper.framework.core.joins.kept_rows import MATCHED_KIND
from panekeeper.state.records import HORIZON, HorizonRecord
from panekeeper.state.store import HEADER, KeyGroupStore

_KINDS = (HEADER, "slices", "rows", "fired", "firings", "sessions", MATCHED_KIND)
"""The stored values that say what is open; the others hold what it is computed from."""


def stored_kinds(port: RecordedPort) -> list[str]:
    """Return the kinds of the stored values that `open_work` needs, beside the header of the key group."""
    if port.is_arrival and not port.part:
        return []
    return [f"{port.part}{kind}" for kind in _KINDS]


def schema_of(port: RecordedPort, *, by_partition: bool = False) -> pa.Schema:
    """Return the columns of `open_work`; times are us since the epoch."""
    if port.is_arrival:
        return partition_schema(port)
    return kept_schema(port) if by_partition or port.is_within else pane_schema(port)


def open_work(port: RecordedPort, store: KeyGroupStore, *, by_partition: bool = False) -> pa.Table:
    """Return a row for each partition in each open pane, session or window by row; or for each live partition.

    That is where there are no panes, and of windows by row if it is asked for.
    """
    if port.is_arrival:
        return live_partitions(port, port.own(store))
    if port.is_within or by_partition:
        return kept_partitions(port, store)
    if port.is_by_row:
        return open_windows(port, store)
    return (open_sessions if port.is_session else open_panes)(port, port.own(store))


def horizon(store: KeyGroupStore) -> HorizonRecord | None:
    """Return how far event time has come in each source, as the key group knows it; None if Spark keeps that."""
    stored = store.find(HORIZON, 0, 0)
    return None if stored is None else HorizonRecord.decode(stored)
