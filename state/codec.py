"""Durable bytes: how a table and a header are written, and how damage is noticed.

Every value starts with a frame: magic, state version, length and CRC-32 of the body. A table is an Arrow IPC
stream with zstd buffers (reading back costs by stored byte, so small is fast); a header is one JSON object
followed by named tables. What the fields mean is in `panekeeper.state.records`.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import pyarrow as pa

from panekeeper.state.errors import CorruptState, StateVersionError

STATE_VERSION = 1
"""Raised by one whenever stored bytes change meaning; another version is refused by its number."""

_MAGIC = b"PKS"
_FRAME = struct.Struct("<3sBII")  # magic, version, body length, CRC-32 of the body
_LENGTH = struct.Struct("<I")
# No threads: each task has its core, and to hand over a small table costs a third of compressing it.
_ZSTD = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
_PLAIN = pa.ipc.IpcWriteOptions()
_READ = pa.ipc.IpcReadOptions(use_threads=False)
_DECLARATION = b"panekeeper.declaration"  # of rows: the number of the one by which they are stored, unless it is 0
_SMALL = 4096  # below this, compressing costs more than it saves


Column = TypeVar("Column", pa.Array, pa.ChunkedArray)


def encode_table(table: pa.Table) -> bytes:
    """Return a table as framed bytes; column order, types and null-ness are kept."""
    return _frame(_ipc(table))


def decode_table(value: bytes) -> pa.Table:
    """Return the table that `encode_table` wrote. Raises `CorruptState` or `StateVersionError`."""
    return _read_ipc(_unframe(value))


def encode_rows(rows: pa.Table, declaration: int) -> bytes:
    """Return rows of a window as framed bytes, with the number of the declaration by which they are stored."""
    return encode_table(rows.replace_schema_metadata({_DECLARATION: str(declaration)} if declaration else None))


def decode_rows(value: bytes, columns: pa.Schema, carried_since: Mapping[str, int]) -> pa.Table:
    """Return stored rows with these columns, in this order: null where they were stored without one, and as wide.

    A declaration that carries other columns than the one before reads the rows that are stored this way. Any column may
    be null, whatever was declared when the rows were stored: tables of several declarations are joined.

    A column that was not carried for a while is null in the rows from before, too: whether they still have it depends
    on how often they were stored anew meanwhile, and it may have had another type. `carried_since` has the number of
    the declaration by which a column came, or came back; none for one of the first.
    """
    table = decode_table(value)
    stored_by = int((table.schema.metadata or {}).get(_DECLARATION, 0))
    arrays = []
    for field in columns:
        place = table.schema.get_field_index(field.name) if carried_since.get(field.name, 0) <= stored_by else -1
        arrays.append(of_type(table.column(place), field.type) if place >= 0 else pa.nulls(table.num_rows, field.type))
    return pa.table(arrays, schema=that_may_be_null(columns))


def with_columns(table: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return the columns of a schema, in its order, each of its type, of a table that has them."""
    if not len(columns):
        return table.select([])
    return pa.table([of_type(table.column(field.name), field.type) for field in columns], schema=columns)


def of_type(column: Column, kind: pa.DataType) -> Column:
    """Return a column as one of this type; what is stored may be narrower (`compatibility.is_wider`)."""
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        # Arrow refuses a struct that is null where its fields are NOT NULL, as Spark's `struct(lit(1))` has them.
        if "viewed as non-nullable" not in str(error):
            raise
        values = pa.array(column.to_pylist(), kind)
        return values if isinstance(column, pa.Array) else pa.chunked_array([values])


def nullable_inside(kind: pa.DataType) -> pa.DataType:
    """Return a type with whatever is in it nullable: the fields of structs, values of lists and maps."""
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct(
            [pa.field(field.name, nullable_inside(field.type), metadata=field.metadata) for field in fields]
        )
    if pa.types.is_map(kind):
        return pa.map_(nullable_inside(kind.key_type), nullable_inside(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(nullable_inside(kind.value_type))
    return kind


def that_may_be_null(columns: pa.Schema) -> pa.Schema:
    """Return columns as rows are stored with them: a stream may declare otherwise, and tomorrow not."""
    return pa.schema([field.with_nullable(True) for field in columns])


def encode_header(fields: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> bytes:
    """Return a header: JSON-able fields and named tables, in one framed value."""
    blobs = {name: _ipc(table) for name, table in tables.items()}
    index = json.dumps({"fields": fields, "tables": {n: len(b) for n, b in blobs.items()}}).encode()
    return _frame(_LENGTH.pack(len(index)) + index + b"".join(blobs.values()))


def decode_header(value: bytes) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """Return the fields and tables that `encode_header` wrote. Raises `CorruptState` or `StateVersionError`."""
    body = _unframe(value)
    (size,) = _LENGTH.unpack_from(body)
    at = _LENGTH.size + size
    index = json.loads(body[_LENGTH.size : at])
    tables = {}
    for name, length in index["tables"].items():
        tables[name] = _read_ipc(body[at : at + length])
        at += length
    return index["fields"], tables


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = _PLAIN if table.nbytes < _SMALL else _ZSTD
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _read_ipc(body: bytes) -> pa.Table:
    try:
        return pa.ipc.open_stream(pa.py_buffer(body), options=_READ).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(f"its Arrow table cannot be read ({error})") from error


def _frame(body: bytes) -> bytes:
    return _FRAME.pack(_MAGIC, STATE_VERSION, len(body), zlib.crc32(body)) + body


def _unframe(value: bytes) -> bytes:
    if len(value) < _FRAME.size:
        raise _damaged(f"it has {len(value)} bytes, fewer than a frame")
    magic, version, length, checksum = _FRAME.unpack_from(value)
    if magic != _MAGIC:
        raise _damaged(f"it starts with {magic!r}, not with {_MAGIC!r}")
    if version != STATE_VERSION:
        raise StateVersionError(
            f"stored state has version {version}, this Panekeeper reads version {STATE_VERSION}; "
            "run the version that wrote it, or flush the job there and start with a new checkpoint folder"
        )
    body = bytes(value[_FRAME.size :])
    if len(body) != length or zlib.crc32(body) != checksum:
        raise _damaged(f"its checksum fails ({len(body)} bytes of {length})")
    return body


def _damaged(why: str) -> CorruptState:
    return CorruptState(
        f"a stored value is damaged: {why}; restore this checkpoint from a savepoint, "
        "or start with a new checkpoint folder"
    )
