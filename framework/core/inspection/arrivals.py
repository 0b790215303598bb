"""What has each partition of a window in arrival order, and when does it fire? The rules are told, not applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.state.codec import with_columns
from panekeeper.state.records import NEVER, SequenceRecord
from panekeeper.state.store import KeyGroupStore

PARTITION_TIMES = ("last_row", "next_clock", "evicted_at")
"""The columns of `live_partitions` that are times, in us since the epoch; null where there is none."""


def partition_schema(port: RecordedPort) -> pa.Schema:
    """Return the columns of `live_partitions`."""
    names = ("rows", "waiting", "since_fired", "last_row", "next_rows", "next_clock", "evicted_at")
    return pa.schema([*port.keys, *(pa.field(name, pa.int64()) for name in names)])


def live_partitions(port: RecordedPort, store: KeyGroupStore) -> pa.Table:
    """Return a row for each live partition of a key group.

    `rows` in the window, `waiting` for the next batch, `since_fired` since it fired last; after `next_rows` more rows
    it fires, and by the clock at `next_clock`: null where no number of rows, or no instant, makes it. `evicted_at`:
    when the partition leaves if no row comes.
    """
    table, schema = SequenceRecord.decode(store.read_header()).partitions, partition_schema(port)
    if table is None:
        return schema.empty_table()
    inside, waiting, since = (table.column(name) for name in ("_inside", "_waiting", "_since"))
    due, last = table.column("_due"), table.column("_last_at")
    size, age = _rows_to_fire(port.fields), port.fields.get("partition_eviction.size_us")
    begun = {"tumbling": inside, "sliding": since, "batched": waiting}[port.kind]
    columns = {
        "rows": inside,
        "waiting": waiting,
        "since_fired": since,
        "last_row": pc.if_else(pc.greater(table.column("_last_seq"), -1), last, None),
        "next_rows": pa.nulls(table.num_rows) if size is None else _left(size, begun),
        "next_clock": pc.if_else(pc.equal(due, NEVER), None, due),
        "evicted_at": pa.nulls(table.num_rows) if age is None else pc.add(last, age),
    }
    if port.fields.get("when_full") and (full := _rows_to_be_full(port.fields)) is not None:
        empty = pc.subtract(full, inside)
        is_full = table.column("_full")
        columns["next_rows"] = pc.if_else(is_full, columns["next_rows"], pc.max_element_wise(empty, 1))
    own = [table.column(name) for name in port.keys.names]
    return with_columns(pa.table([*own, *columns.values()], names=schema.names), schema)


def _left(size: int, begun: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return how many rows lack until their number is a multiple; a smaller size may have come with a new program."""
    return pc.subtract(size, pc.subtract(begun, pc.multiply(pc.divide(begun, size), size)))


def _rows_to_fire(fields: Mapping[str, Any]) -> int | None:
    """Return at every how many rows the window fires; None: not by their number."""
    if fields["kind"] == "batched":
        return None if fields["within_us"] is not None else int(fields["every"])
    return _rows_of(fields, "evict" if fields["kind"] == "tumbling" else "trigger")


def _rows_to_be_full(fields: Mapping[str, Any]) -> int | None:
    return _rows_of(fields, "evict")


def _rows_of(fields: Mapping[str, Any], role: str) -> int | None:
    """Return the number of rows in a policy; None if it has none."""
    kind = fields.get(f"{role}.policy")
    found = fields.get(f"{role}.size" if kind == "count" else f"{role}.rows")
    return None if found is None else int(found)
