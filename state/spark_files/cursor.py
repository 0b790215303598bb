"""Numbers and runs of bytes that stand one after the other in a file; none is read past its end."""

from __future__ import annotations

import struct

_U16, _I32 = struct.Struct(">H"), struct.Struct(">i")
_LONGEST_VARINT = 10


class NotReadable(Exception):
    """A file is of another format than this package knows, or damaged: the message has its name and what is wrong."""


class Cursor:
    """A place in the bytes of a file, which moves on by what is read."""

    def __init__(self, content: bytes, name: str, at: int = 0, end: int | None = None) -> None:
        """Begin at a place; `end`: the first byte that is not read, None for the end of the file."""
        self.content = content
        self.name = name
        self.at = at
        self.end = len(content) if end is None else end

    def __bool__(self) -> bool:
        """Return whether anything is left."""
        return self.at < self.end

    def take(self, length: int) -> bytes:
        """Return the next bytes. Raises `NotReadable` if there are fewer."""
        if not 0 <= length <= self.end - self.at:
            raise NotReadable(f"{self.name} ends within an entry of {length} bytes")
        self.at += length
        return self.content[self.at - length : self.at]

    def varint(self) -> int:
        """Return the next number of variable length, as RocksDB writes one."""
        number = shift = 0
        for place in range(self.at, min(self.at + _LONGEST_VARINT, self.end)):
            byte = self.content[place]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 -- the bit that says that more follow
                self.at = place + 1
                return number
            shift += 7
        raise NotReadable(f"{self.name} ends within a number")

    def byte(self) -> int:
        """Return the next byte."""
        return self.take(1)[0]

    def java_int(self) -> int:
        """Return the next four bytes as Java writes an int."""
        return int(_I32.unpack(self.take(_I32.size))[0])

    def java_text(self) -> str:
        """Return the next text as Java's `writeUTF` writes it, of the characters that Spark writes so."""
        (length,) = _U16.unpack(self.take(_U16.size))
        try:
            return self.take(length).decode("ascii")
        except UnicodeDecodeError as error:
            raise NotReadable(f"{self.name} has a text that is none of Spark's") from error
