"""Snapshots of Spark's state: do the names in one stay within the folder that Spark unpacks it to?

A snapshot is a zip file, `state/<operator>/<partition>/<version>_<id>.zip`. Its entry `metadata` says under which local
name Spark copies each file of the state, and Spark does not check these names: `../../x` is a file anywhere, with
whatever content. A savepoint may be somebody else's, so this is checked before Spark reads a copy of it. The commit of
a batch has the ids in the names of its snapshots, and the description of an operator the full names of the files with
the schemas of its state.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

from panekeeper.state.spark_logs import LINE_END

_PLAIN = re.compile(r"(?!\.\.?$)[\w.-]+", re.ASCII)
_PIECE = 65_536
_MAX_METADATA = 64 * 2**20
_MAX_ENTRY = 2**30
"""Packed or not: none of Spark's is as large, and behind more than 4 GB Java looks for the next one elsewhere."""

_HEADER = struct.Struct("<4s5H3I2H")
_BEGINS, _DESCRIPTOR = b"PK\x03\x04", b"PK\x07\x08"
_HAS_DESCRIPTOR = 8
_STORED, _DEFLATED = 0, 8


def require_plain_names_in_snapshot(snapshot: IO[bytes]) -> None:
    """Check the names in a snapshot. What Spark cannot unpack, or read, has none.

    It is read as Java reads it: from its beginning, whatever the directory at its end says. What Java and others might
    read differently, and Spark never writes, is refused. Raises `ValueError`.
    """
    for content in _metadata(snapshot):
        for text in LINE_END.split(content.decode(), maxsplit=1)[1:]:
            _require_plain(text)


def require_plain_ids(commit: bytes) -> None:
    """Check the ids of snapshots in a commit of Spark: a line that it cannot read has none. Raises `ValueError`."""
    for line in LINE_END.split(commit.decode())[1:]:
        _require_plain(line)


def require_schemas_within(description: bytes, is_within: Callable[[str], bool]) -> None:
    """Check the files with schemas that the description of an operator names, `state/<operator>/_metadata/...`.

    Raises `ValueError` if one of them is not in the checkpoint (`is_within`), or it is not what Spark writes.
    """
    if len(description) > _MAX_METADATA:
        raise ValueError(f"it has more than {_MAX_METADATA} bytes")

    def check(pairs: list[tuple[str, Any]]) -> None:
        for name, value in pairs:
            for text in _texts(value) if name == "stateSchemaFilePaths" else ():
                if ".." in text.split("/") or not is_within(text):
                    raise ValueError(f"it names {text[:200]!r}, which is not in the checkpoint")

    try:
        for text in LINE_END.split(description.decode(), maxsplit=1)[1:]:
            json.JSONDecoder(object_pairs_hook=check).raw_decode(text.lstrip())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


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
            _require_name(text)


def _require_name(text: str) -> None:
    if _PLAIN.fullmatch(text) is None:
        raise ValueError(f"{text[:200]!r} is no name of a file")


_DECODER = json.JSONDecoder(object_pairs_hook=_plain_object)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _metadata(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of each entry that Spark takes for the metadata."""
    while len(header := file.read(_HEADER.size)) == _HEADER.size and header[:4] == _BEGINS:
        _, _, flags, method, _, _, _, _, _, name_size, extra_size = _HEADER.unpack(header)
        name = file.read(name_size).decode(errors="replace")
        if len(file.read(extra_size)) < extra_size or not name:
            return  # cut short
        _require_name(name)
        if method == _STORED:  # Java goes by the size that is not the packed one, or by that in an extra field
            raise ValueError(f"{name[:200]!r} is not deflated")
        if method != _DEFLATED:
            return  # Java reads no further
        is_metadata = name.lower() == "metadata"
        content = _content(file, _MAX_METADATA if is_metadata else _MAX_ENTRY, is_kept=is_metadata)
        if is_metadata:
            yield content
        if flags & _HAS_DESCRIPTOR:
            file.read(12 if file.read(4) == _DESCRIPTOR else 8)


def _content(file: IO[bytes], limit: int, *, is_kept: bool) -> bytes:
    """Read a deflated entry to its end, and return what it holds if that is to be kept."""
    content, size = bytearray(), 0
    for piece in _inflated(file):
        size += len(piece)
        if size > limit:
            raise ValueError(f"an entry has more than {limit} bytes and is too large")
        if is_kept:
            content += piece
    return bytes(content)


def _inflated(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what a deflated entry holds, and leave the file at its end; nothing more where it is damaged."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    packed = 0
    try:
        while not inflate.eof:
            data = inflate.unconsumed_tail or file.read(_PIECE)
            piece = inflate.decompress(data, _PIECE)  # also at the end of the file: a piece may be held back
            if not data and not piece:
                return
            packed += len(data) - len(inflate.unconsumed_tail)
            if packed > _MAX_ENTRY:
                raise ValueError(f"an entry has more than {_MAX_ENTRY} packed bytes and is too large")
            yield piece
    except zlib.error:
        return
    file.seek(-len(inflate.unused_data), 1)
