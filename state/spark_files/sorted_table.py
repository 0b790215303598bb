"""What is in a file of RocksDB: the sorted keys of a part of a store, in blocks, each with a checksum.

Format version 5, which Spark pins for the life of a checkpoint: a footer leads to the index, of one level, and to the
properties. A key ends with its sequence number, which grows with each write to the store, and with what was done.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import pyarrow as pa
import xxhash

from panekeeper.state.spark_files.cursor import Cursor, NotReadable

_MAGIC = 0x88E241B785F4CFF7
_VERSION = 5
_XXH3 = 4
"""Number of the checksum that RocksDB takes by itself."""
_LAST_BYTE = 0x6B9083D9
"""By this the kind of compression goes into the checksum."""
_U32 = struct.Struct("<I")
_FOOTER = struct.Struct("<B40sIQ")  # checksum, places of index of parts and index, version, magic
_TRAILER = struct.Struct("<BI")  # compression, checksum
_TAIL = struct.Struct("<Q")  # of a key: what was done, and above it the sequence number
_REMOVED, _WRITTEN = 0, 1
_PLAIN, _LZ4 = 0, 4
_lz4 = pa.Codec("lz4_raw")

_PROPERTIES = b"rocksdb.properties"
_EXPECTED = {
    b"rocksdb.comparator": b"leveldb.BytewiseComparator",
    b"rocksdb.block.based.table.index.type": bytes(4),  # of one level
    b"rocksdb.index.key.is.user.key": b"\1",
    b"rocksdb.index.value.is.delta.encoded": b"\1",
    b"rocksdb.num.range-deletions": b"\0",
}
_UNKNOWN = frozenset({b"rocksdb.external_sst_file.version", b"rocksdb.external_sst_file.global_seqno"})

Entry = tuple[bytes, int, bytes | None]
"""A key, the number of its write, and the value; None: it was removed."""


def newest(files: Iterable[tuple[str, bytes]], prefix: bytes) -> dict[bytes, tuple[str, bytes]]:
    """Return the keys that begin with `prefix` -> the file that has the value, and this: what was written last."""
    last_writes: dict[bytes, tuple[int, str, bytes | None]] = {}
    for name, content in files:
        for key, number, value in entries(name, content, prefix):
            before = last_writes.get(key)
            if before is not None and before[0] == number:
                raise NotReadable(f"{name} has a key with the number of another write of it")
            if before is None or before[0] < number:
                last_writes[key] = number, name, value
    return {key: (name, value) for key, (_, name, value) in last_writes.items() if value is not None}


def entries(name: str, content: bytes, prefix: bytes) -> Iterator[Entry]:
    """Yield each write of a key that begins with `prefix`. Raises `NotReadable`."""
    table = _Table(name, content)
    count, last = 0, (b"", 0)
    for block in table.blocks():
        for key, value in table.rows(block):
            user_key, (tail,) = key[: -_TAIL.size], _TAIL.unpack(key[-_TAIL.size :])
            if count and (user_key, -tail) <= last:
                raise NotReadable(f"{name}: its keys are not in order")
            count, last = count + 1, (user_key, -tail)
            if not user_key.startswith(prefix):
                continue
            done, number = tail & 0xFF, tail >> 8
            if done not in (_REMOVED, _WRITTEN):
                raise NotReadable(f"{name} has an entry of kind {done}")
            yield user_key, number, value if done == _WRITTEN else None
    if count != table.number(b"rocksdb.num.entries"):
        raise NotReadable(f"{name} has {count} entries, and says that there are others")


class _Table:
    def __init__(self, name: str, content: bytes) -> None:
        self.name, self.content = name, content
        if len(content) < _FOOTER.size:
            raise NotReadable(f"{name} has {len(content)} bytes, fewer than a footer")
        checksum, places, version, magic = _FOOTER.unpack_from(content, len(content) - _FOOTER.size)
        if (magic, version, checksum) != (_MAGIC, _VERSION, _XXH3):
            raise NotReadable(f"{name} is of format {version} with checksums of kind {checksum}, or no file of RocksDB")
        cursor = Cursor(places, name)
        parts = self._block(cursor.varint(), cursor.varint())
        self._index = self._block(cursor.varint(), cursor.varint())
        known = dict(self.rows(parts, keys_end=0))
        if _PROPERTIES not in known:
            raise NotReadable(f"{name} has no properties")
        cursor = Cursor(known[_PROPERTIES], name)
        self._properties = dict(self.rows(self._block(cursor.varint(), cursor.varint()), keys_end=0))
        for property_name, value in _EXPECTED.items():
            if self._properties.get(property_name) != value:
                raise NotReadable(f"{name} has {property_name.decode()}={self._properties.get(property_name)!r}")
        if not _UNKNOWN.isdisjoint(self._properties) or b"rocksdb.range_del" in known:
            raise NotReadable(f"{name} was not written by a store alone, or removes ranges of keys")

    def number(self, name: bytes) -> int:
        """Return a property that is a number."""
        return Cursor(self._properties.get(name, b""), self.name).varint()

    def blocks(self) -> Iterator[bytes]:
        """Yield the blocks of entries: they fill the file from its begin, as the index has them."""
        cursor, end = self._entries_of(self._index), 0
        while cursor:
            if cursor.varint():  # its keys are whole, and so are the places of blocks
                raise NotReadable(f"{self.name} has an index that shares keys")
            cursor.take(cursor.varint())
            at, size = cursor.varint(), cursor.varint()
            if at != end:
                raise NotReadable(f"{self.name} has a block at {at}, where {end} was expected")
            end = at + size + _TRAILER.size
            yield self._block(at, size)
        if end != self.number(b"rocksdb.data.size"):
            raise NotReadable(f"{self.name} has {end} bytes of entries, and says that there are others")

    def rows(self, block: bytes, keys_end: int = _TAIL.size) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys of a block, and what they stand for; a key has the begin of the one before it not again."""
        cursor, key = self._entries_of(block), b""
        while cursor:
            shared, own, length = cursor.varint(), cursor.varint(), cursor.varint()
            if shared > len(key):
                raise NotReadable(f"{self.name} has a key that shares more than there is")
            key = key[:shared] + cursor.take(own)
            if len(key) < keys_end:
                raise NotReadable(f"{self.name} has a key of {len(key)} bytes")
            yield key, cursor.take(length)

    def _entries_of(self, block: bytes) -> Cursor:
        """Return the entries of a block, without the places at its end from which it may be searched."""
        if len(block) < _U32.size:
            raise NotReadable(f"{self.name} has a block of {len(block)} bytes")
        (places,) = _U32.unpack_from(block, len(block) - _U32.size)
        end = len(block) - _U32.size * (places + 1)
        if end < 0:
            raise NotReadable(f"{self.name} has a block with {places} places for a search")
        return Cursor(block, self.name, end=end)

    def _block(self, at: int, size: int) -> bytes:
        """Return a block, checked and not compressed any more."""
        cursor = Cursor(self.content, self.name, min(at, len(self.content)))
        body, (kind, checksum) = cursor.take(size), _TRAILER.unpack(cursor.take(_TRAILER.size))
        expected = xxhash.xxh3_64_intdigest(body) ^ kind * _LAST_BYTE
        if expected & 0xFFFFFFFF != checksum:
            raise NotReadable(f"{self.name} is damaged: the checksum of its block at {at} fails")
        if kind == _PLAIN:
            return body
        if kind != _LZ4:
            raise NotReadable(f"{self.name} is compressed by method {kind}")
        packed = Cursor(body, self.name)
        length = packed.varint()
        return unpack_lz4(packed.take(packed.end - packed.at), length, self.name)


def unpack_lz4(packed: bytes, length: int, name: str) -> bytes:
    """Return what LZ4 has compressed, of this length. Raises `NotReadable`."""
    try:
        unpacked = _lz4.decompress(packed, decompressed_size=length, asbytes=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise NotReadable(f"{name} is damaged: {error}") from error
    return unpacked  # type: ignore[no-any-return]
