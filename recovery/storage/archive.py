"""A place for savepoints, as its storage must behave: named, immutable files.

Local folders and S3 are built in. Any other storage is one class that inherits `Archive`; pass an instance of it
wherever a location is expected (`savepoint(..., to=archive)`), or register its URL scheme with
`locations.register_archive`, so that a location can be named as text, as on the command line.

What every archive must guarantee:

- A file is there whole or not at all: a reader never finds half of it, not even after a crash of the writer.
- What a method has stored or removed, the next `get`, `exists` and `sizes` find so, in any process.
- `put_new` creates: of two processes that store the same name at the same time, exactly one succeeds.
- Methods may be called from several threads at once.

`tests/recovery/storage/test_archive.py` checks these rules for an archive in memory and can be copied for another one.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Protocol


class ByteSink(Protocol):
    """Where the bytes of a file are written, piece by piece; an open binary file is one."""

    def write(self, data: bytes, /) -> object:
        """Write the next piece.

        Args:
            data: the bytes that follow those of the call before.
        """
        ...


class Archive(Protocol):
    """Named files. Inherit it to keep savepoints in a storage of your own.

    Names are relative, with `/` between their parts, as `savepoints/monday.json` or `blobs/<sha256>`. Every method
    raises `recovery.errors.ArchiveError`, or one of its subclasses, if the storage cannot be used; the message says
    which one and what to do.
    """

    @property
    @abstractmethod
    def location(self) -> str:
        """The location as text: a restore writes it into its intent, and messages name it.

        For an archive of a registered scheme, `open_archive(location)` returns an archive of the same files.
        """
        ...

    @abstractmethod
    def put_file(self, name: str, path: Path) -> None:
        """Store a copy of a local file, replacing a file of that name.

        Args:
            name: of the stored file.
            path: the local file; may be gone after the call.

        Raises:
            FileNotFoundError: the local file is not there.
        """
        ...

    @abstractmethod
    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a small file, replacing a file of that name.

        Args:
            name: of the stored file.
            data: its content.
        """
        ...

    @abstractmethod
    def put_new(self, name: str, data: bytes) -> None:
        """Store a small file under a name that is free.

        Args:
            name: of the stored file.
            data: its content.

        Raises:
            FileExistsError: a file of that name is there, also if another process stored it at the same time.
        """
        ...

    @abstractmethod
    def get(self, name: str, into: ByteSink) -> None:
        """Write the content of a file into a sink.

        Args:
            name: of the stored file.
            into: where its bytes go, in their order.

        Raises:
            FileNotFoundError: there is no file of that name.
        """
        ...

    @abstractmethod
    def sizes(self, prefix: str = "") -> dict[str, int]:
        """List files.

        Args:
            prefix: what their names begin with; empty for all.

        Returns:
            Name -> size in bytes, sorted by name.
        """
        ...

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether there is a file of that name.

        Args:
            name: of the stored file.
        """
        ...

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none.

        Args:
            name: of the stored file.
        """
        ...
