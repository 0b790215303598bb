"""Snapshots of Spark's state: do the names in one stay within the folder that Spark unpacks it to?

A snapshot is a zip file, `state/<operator>/<partition>/<version>_<id>.zip`. Its entry `metadata` says under which local
name Spark copies each file of the state, and Spark does not check these names: `../../x` is a file anywhere, with
whatever content. A savepoint may be somebody else's, so this is checked before Spark reads a copy of it. The commit of
a batch has the ids in the names of its snapshots.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any

_PLAIN = re.compile(r"(?!\.\.?$)[\w.-]+", re.ASCII)
_PIECE = 65_536
_MAX_METADATA = 64 * 2**20

_HEADER = struct.Struct("<4s5H3I2H")
_BEGINS, _DESCRIPTOR = b"PK\x03\x04", b"PK\x07\x08"
_HAS_DESCRIPTOR = 8
_DEFLATED = 8


def require_plain_names_in_snapshot(snapshot: IO[bytes]) -> None:
    """Check the names in a snapshot. What Spark cannot unpack, or read, has none.

    Args:
        snapshot: the zip file, which is read as Java reads it: from its beginning, whatever the directory at its end
            says.

    Raises:
        ValueError: a name is a path, or they are not what Spark writes.
    """
    for content in _metadata(snapshot):
        _require_plain(content.partition(b"\n")[2].decode())


def require_plain_ids(commit: bytes) -> None:
    """Check the ids of snapshots in a commit of Spark's. A line that Spark cannot read has none.

    Raises:
        ValueError: one of them is a path.
    """
    for line in commit.decode().splitlines()[1:]:
        _require_plain(line)


def _require_plain(text: str) -> None:
    """Check the JSON at the beginning of a text; like Spark, look at nothing behind it."""
    try:
        _ = _DECODER.raw_decode(text.lstrip())
    except json.JSONDecodeError:
        return
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _plain_object(pairs: list[tuple[str, Any]]) -> None:
    """Check an object of JSON, also a name that is there twice."""
    for _, value in pairs:
        for text in _texts(value):
            if _PLAIN.fullmatch(text) is None:
                raise ValueError(f"{text[:200]!r} is no name of a file")


_DECODER = json.JSONDecoder(object_pairs_hook=_plain_object)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _metadata(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of each entry that Spark takes for the metadata."""
    while len(header := file.read(_HEADER.size)) == _HEADER.size and header[:4] == _BEGINS:
        _, _, flags, method, _, _, _, packed, _, name_size, extra_size = _HEADER.unpack(header)
        is_metadata = file.read(name_size).endswith(b"metadata")
        file.read(extra_size)
        content = bytearray()
        for piece in _inflated(file) if method == _DEFLATED else _stored(file, packed):
            if is_metadata:
                content += piece
            if len(content) > _MAX_METADATA:
                raise ValueError("the metadata are too large")
        if is_metadata:
            yield bytes(content)
        if flags & _HAS_DESCRIPTOR:
            file.read(12 if file.read(4) == _DESCRIPTOR else 8)


def _stored(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (piece := file.read(min(size, _PIECE))):
        size -= len(piece)
        yield piece


def _inflated(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what a deflated entry holds, and leave the file at its end; nothing more where it is damaged."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    data = b""
    try:
        while not inflate.eof and (data or (data := file.read(_PIECE))):
            yield inflate.decompress(data, _PIECE)
            data = inflate.unconsumed_tail
    except zlib.error:
        return
    file.seek(-len(inflate.unused_data), 1)
