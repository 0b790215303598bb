"""Does a file on a local disk agree with the checksum that Hadoop has written beside it?

Hadoop writes one for each file, `.NAME.crc`, and refuses to read a file that does not agree. A power cut may take a
part of either. Without a checksum, or with less than its first bytes, Hadoop reads the file as it is.
"""

from __future__ import annotations

import zlib
from typing import Literal

_MAGIC = b"crc\0"
_HEADER = len(_MAGIC) + 4
"""Then comes how many bytes each sum is of. Hadoop ignores a shorter file."""

_SUM = 4

Agreement = Literal["agrees", "checksum is cut short", "file is cut short", "differs"]


def checksum_of(name: str) -> str:
    """Return the name of the checksum of a file.

    >>> checksum_of("offsets/0"), checksum_of("metadata")
    ('offsets/.0.crc', '.metadata.crc')
    """
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}.{file}.crc"


def agreement(content: bytes, checksum: bytes) -> Agreement:
    """Return whether a file is what was written, by the content of its checksum.

    Args:
        content: of the file.
        checksum: of `.NAME.crc`.
    """
    if len(checksum) < _HEADER or not checksum.startswith(_MAGIC):
        return "agrees"
    sums, right = checksum[_HEADER:], _sums(content, int.from_bytes(checksum[len(_MAGIC) : _HEADER]))
    if sums == right:
        return "agrees"
    if right.startswith(sums):
        return "checksum is cut short"
    return "file is cut short" if sums.startswith(right) else "differs"


def whole_length(checksum: bytes, size: int) -> int | None:
    """Return how many bytes the checksum of a whole file has; None if Hadoop ignores it.

    Args:
        checksum: the content of `.NAME.crc`, or its beginning.
        size: of the file, in bytes.
    """
    if len(checksum) < _HEADER or not checksum.startswith(_MAGIC):
        return None
    return _HEADER + len(range(0, size, max(int.from_bytes(checksum[len(_MAGIC) : _HEADER]), 1))) * _SUM


def _sums(content: bytes, size: int) -> bytes:
    """Return the sum of each part of a file, of so many bytes."""
    parts = (content[at : at + size] for at in range(0, len(content), max(size, 1)))
    return b"".join(zlib.crc32(part).to_bytes(_SUM) for part in parts)
