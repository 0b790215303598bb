"""Which key group, kind, slot and number is a stored key of the map of `spark_store.py`, and which bytes a value?

Spark stores rows as it has them in memory: a word of bits for what is null, a word for each field, and then texts,
bytes and structs, of which the field has the place and length. A map's key is that of the group and the user's, one
after the other.
"""

from __future__ import annotations

import struct

from panekeeper.state.spark_files.cursor import NotReadable

_WORD = 8
_ENCODING = 0
"""Version of how rows become bytes."""
_FAMILY = struct.Struct("<H")
_KEY = struct.Struct(
    "<Hi"  # column family; length of the group's part
    "BQIIQq"  # encoding; nulls, length and place of a struct; in it: nulls, the group
    "BQII"  # the user's part: encoding; nulls, length and place of a struct
    "QIIqq"  # in it: nulls, length and place of the kind, slot, number
)
_VALUE = struct.Struct("<BQII")  # encoding; nulls, length and place of the bytes
_GROUP_PART = 1 + 4 * _WORD
_STRUCT = 2 * _WORD
"""Where the struct of a row of one field begins."""
_FIELDS = 4 * _WORD
"""What stands before the text in the user's key."""

StoredKey = tuple[int, str, int, int]
"""Key group, kind, slot and number."""


def family_prefix(family: int) -> bytes:
    """Return what the keys of a column family begin with."""
    return _FAMILY.pack(family)


def stored_key(key: bytes, name: str) -> StoredKey:
    """Return what a key says. Raises `NotReadable`, with the name of the file."""
    if len(key) < _KEY.size:
        raise NotReadable(f"{name} has a key of {len(key)} bytes")
    _, part, group_encoding, *group_row, encoding, nulls, size, place, own_nulls, length, at, slot, number = (
        _KEY.unpack_from(key)
    )
    group = group_row[-1]
    kind = key[_KEY.size : _KEY.size + length]
    is_known = (
        (part, group_encoding, *group_row[:-1]) == (_GROUP_PART, _ENCODING, 0, _STRUCT, _STRUCT, 0)
        and (encoding, nulls, place, own_nulls, at) == (_ENCODING, 0, _STRUCT, 0, _FIELDS)
        and size == _FIELDS + _padded(length)
        and len(key) == _KEY.size + _padded(length)
        and not any(key[_KEY.size + length :])
    )
    try:
        if is_known:
            return group, kind.decode(), slot, number
    except UnicodeDecodeError:
        pass
    raise NotReadable(f"{name} has a key that is none of Panekeeper's map: {key[:80]!r}")


def stored_body(value: bytes, name: str) -> bytes:
    """Return the bytes that a value holds. Raises `NotReadable`, with the name of the file."""
    if len(value) >= _VALUE.size:
        encoding, nulls, length, place = _VALUE.unpack_from(value)
        end = _VALUE.size + length
        is_known = (encoding, nulls, place) == (_ENCODING, 0, _STRUCT)
        if is_known and len(value) == _VALUE.size + _padded(length) and not any(value[end:]):
            return value[_VALUE.size : end]
    raise NotReadable(f"{name} has a value that is none of Panekeeper's map: {value[:40]!r}")


def _padded(length: int) -> int:
    return -(-length // _WORD) * _WORD
