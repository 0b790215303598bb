"""What has a batch changed in a partition of the store? Spark logs it in blocks of LZ4, each with a checksum.

Version 4, which a store with format 2 and column families writes: after it come the snapshot and the versions since
that the changes are for, and then the changes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import xxhash

from panekeeper.state.spark_files.cursor import Cursor, NotReadable
from panekeeper.state.spark_files.sorted_table import unpack_lz4

_MAGIC = b"LZ4Block"
_BLOCK = struct.Struct("<8sBiiI")  # magic, method and size, compressed and whole length, checksum
_RAW, _LZ4 = 0x10, 0x20
_METHOD = 0xF0
_SEED, _CHECKSUM = 0x9747B28C, 0x0FFFFFFF
_VERSION = "v4"
_END, _PUT, _REMOVE = 0x00, 0x01, 0x10
_NO_VALUE = -1


@dataclass(frozen=True)
class Changelog:
    """The changes of a version.

    Attributes:
        lineage: version -> its unique id, from the last snapshot on, of what the changes are for.
        changes: the keys and what was stored under each, in this order; None: it was removed.
    """

    lineage: dict[int, str]
    changes: list[tuple[bytes, bytes | None]]


def read_changelog(name: str, content: bytes) -> Changelog:
    """Return what a log of changes has. Raises `NotReadable`."""
    cursor = Cursor(b"".join(_blocks(Cursor(content, name))), name)
    if (version := cursor.java_text()) != _VERSION:
        raise NotReadable(f"{name} is a log of changes of version {version!r}")
    try:
        lineage = {
            int(ancestor["version"]): str(ancestor["checkpointUniqueId"]) for ancestor in json.loads(cursor.java_text())
        }
    except (ValueError, TypeError, KeyError) as error:
        raise NotReadable(f"{name} does not name the versions before it") from error
    return Changelog(lineage, [*_changes(cursor)])


def _changes(cursor: Cursor) -> Iterator[tuple[bytes, bytes | None]]:
    while (kind := cursor.byte()) != _END:
        if kind not in (_PUT, _REMOVE):
            raise NotReadable(f"{cursor.name} has a change of kind {kind}")
        key, length = cursor.take(cursor.java_int()), cursor.java_int()
        if kind == _REMOVE and length != _NO_VALUE:
            raise NotReadable(f"{cursor.name} removes a key with a value")
        yield key, cursor.take(length) if kind == _PUT else None
    if cursor:
        raise NotReadable(f"{cursor.name} goes on after its end")


def _blocks(cursor: Cursor) -> Iterator[bytes]:
    while True:
        magic, token, packed, length, checksum = _BLOCK.unpack(cursor.take(_BLOCK.size))
        method = token & _METHOD
        if magic != _MAGIC or method not in (_RAW, _LZ4):
            raise NotReadable(f"{cursor.name} is not compressed by Spark's LZ4")
        body = cursor.take(packed)
        if not length:
            break
        whole = body if method == _RAW else unpack_lz4(body, length, cursor.name)
        if len(whole) != length or xxhash.xxh32_intdigest(whole, _SEED) & _CHECKSUM != checksum:
            raise NotReadable(f"{cursor.name} is damaged: the checksum of a block fails")
        yield whole
    if cursor or packed:
        raise NotReadable(f"{cursor.name} goes on after its last block")
