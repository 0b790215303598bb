"""What a location of savepoints must do: named, immutable files.

- A file is there whole or not at all: a reader never finds half of it, not even after a crash of the writer.
- What a method has stored or removed, the next `get`, `exists` and `sizes` find so, in any process.
- `put_new` creates: of two processes that store the same name at the same time, exactly one succeeds.
- Methods may be called from several threads at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class ByteSink(Protocol):
    """Where the bytes of a file are written, piece by piece; an open binary file is one."""

    def write(self, data: bytes, /) -> object:
        """Write the next piece."""
        ...


class Archive(Protocol):
    """Files by relative names. Every method raises `ArchiveError` if the place cannot be used."""

    @property
    def location(self) -> str:
        """The location as text; a restore writes it into its intent."""
        ...

    def put_file(self, name: str, path: Path) -> None:
        """Store a copy of a local file, replacing a file of that name."""
        ...

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a small file, replacing a file of that name."""
        ...

    def put_new(self, name: str, data: bytes) -> None:
        """Store a small file under a name that is free. Raises `FileExistsError`."""
        ...

    def get(self, name: str, into: ByteSink) -> None:
        """Write the content of a file into a sink. Raises `FileNotFoundError` if there is none of that name."""
        ...

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return name -> size in bytes of the files whose name begins with `prefix`, sorted by name."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether there is a file of that name."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none."""
        ...
