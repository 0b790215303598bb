"""Packed rows: what a key group gets of a micro-batch. Rows as Arrow segments, and the time, marks and commands.

Spark hands Python state one row at a time; a few large segments cost some hundred times less. A packed row is
`(g, port, kind, lot, part, pos, n, body)`:

    g     representative id of the key group (`state/key_groups.py`)
    port  number of the input port, 0 if there is one; 0 for the control stream, which is for all ports
    kind  "rows" | "partial" | "partial:<window>" | "rejected" | "arrived" | "reached" | "watermark" | "resume" |
          "tick" | "clock" | "evict" | "mark:window" | "mark:final" | "flush"
    lot   the input file, where the end of each file is a mark: files then come whole and in the order of their age
    part  input partition, pos: position in it. (lot, part, pos) is the order of arrival inside a micro-batch
    n     number of rows, which those of the first of several windows have if they are partial; for "arrived",
          "reached", "watermark", "resume", "tick" and "clock" the time, us
    body  an Arrow IPC stream; of a mark its text, or null; of "arrived" a second time; of "reached" null, or a JSON
          object: "at", the time of the batch, where ports may be idle; "parts", the time of each source partition

In Spark they are rows of Spark's with these fields, elsewhere a `PackedRow`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

PACKED_SCHEMA = "g int, port int, kind string, lot string, part int, pos bigint, n bigint, body binary"
PACKED = pa.schema(
    [
        pa.field("g", pa.int32()),
        pa.field("port", pa.int32()),
        pa.field("kind", pa.string()),
        pa.field("lot", pa.string()),
        pa.field("part", pa.int32()),
        pa.field("pos", pa.int64()),
        pa.field("n", pa.int64()),
        pa.field("body", pa.binary()),
    ]
)

PARTIAL_KIND = "partial"
"""Kind of the packed rows that were folded; of several windows the name of one follows a colon."""
PROGRESS_KIND = "reached"
"""Kind of the packed rows with the progress of event time on a port."""
REFUSED_KIND = "rejected"
"""Kind of the packed rows that the intake has refused: they are on their way to the quarantine."""

BEFORE_ALL_PARTITIONS, AFTER_ALL_PARTITIONS = -1, 2**31 - 1
"""The input partition of a control row, which orders it before or after all rows of its batch."""


class PackedRow(NamedTuple):
    """A packed row in memory, with the fields of `PACKED`, where Spark does not carry it."""

    g: int
    port: int
    kind: str
    lot: str | None
    part: int
    pos: int
    n: int
    body: bytes | None

    @classmethod
    def each(cls, packed: pa.Table | pa.RecordBatch) -> list[PackedRow]:
        """Return the rows of a table in the schema `PACKED`."""
        return [cls(**row) for row in packed.to_pylist()]


def has_rows(kind: str) -> bool:
    """Return whether a packed row of this kind has good rows of the stream, or stands for some."""
    return kind == "rows" or kind.startswith(PARTIAL_KIND)


def is_control(row: Any) -> bool:
    """Return whether a packed row is of the control stream. Marks in a stream are of the same kinds."""
    return row.part in (BEFORE_ALL_PARTITIONS, AFTER_ALL_PARTITIONS)


def input_counts(packed: Iterable[Any]) -> dict[str, int]:
    """Return how many rows of the stream packed rows stand for, and how many of these the intake has refused."""
    refused = good = 0
    for row in packed:
        if row.kind == REFUSED_KIND:
            refused += row.n
        elif has_rows(row.kind):
            good += row.n
    return {"rows_in": refused + good, "quarantined": refused}


def to_segment(table: pa.Table) -> bytes:
    """Return a table as one Arrow IPC stream: what crosses between Python and the JVM."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_segment(body: bytes) -> pa.Table:
    """Return the table that `to_segment` wrote."""
    return pa.ipc.open_stream(pa.py_buffer(body)).read_all()
