"""A folder of files on a local disk or on S3: what a checkpoint or a Delta table needs of the place where it is.

An archive (`archive.py`) and the small files of a checkpoint (`state/checkpoint/folder.py`) need less; every `Files`
serves for both. No method starts Spark. `locations.py` says which class serves which path or URL.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol, Self

from panekeeper.recovery.storage.archive import Archive
from panekeeper.state.checkpoint.folder import CheckpointFolder


class Files(Archive, CheckpointFolder, Protocol):
    """Files by relative name. Every method raises `ArchiveError` if the place cannot be used."""

    @property
    def name(self) -> str:
        """The last part of the folder's name."""
        ...

    def exists(self, name: str = "") -> bool:
        """Return whether there is a file or folder of that name; without one, whether this folder is there."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none."""
        ...

    def parent(self) -> Self:
        """Return the folder that contains this one.

        Raises:
            SavepointRefused: this is a whole bucket.
        """
        ...

    def child(self, name: str) -> Self:
        """Return a folder in this one, which need not be there."""
        ...

    def part(self, name: str) -> Self:
        """Return a folder in this one that messages call by the name of this one."""
        ...

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        """Write a small file, whole or not at all. Raises `FileExistsError` if it is there, unless `replace`."""
        ...

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        """Replace a small file if its content is still the old one. Raises `FileExistsError` if it is another."""
        ...

    def folders(self) -> list[str]:
        """Return the names of the folders in this one, sorted, without hidden ones."""
        ...

    def resolved(self) -> Self:
        """Return the folder that a link leads to; this folder if it is no link."""
        ...

    def is_mount_point(self) -> bool:
        """Return whether another disk begins at this folder, so that it cannot be renamed."""
        ...

    def contains(self, location: str) -> bool:
        """Return whether a location, spelled as by `location`, is this folder or lies within it."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a small file.

        Raises:
            FileNotFoundError: there is no file of that name.
        """
        ...

    def require_within(self, name: str) -> None:
        """Check that a file of that name would be stored in this folder, and not where a link leads to.

        Raises:
            SavepointRefused: this folder, or one between it and the file, is a link.
        """
        ...

    def open_new(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for writing; it is stored when the block ends without an error."""
        ...

    def local_copy(self, name: str) -> AbstractContextManager[Path]:
        """Provide the file, or a copy of it, on this host while the block lasts.

        Raises:
            FileNotFoundError: there is no file of that name.
        """
        ...

    def clear(self) -> None:
        """Remove the folder and all in it; nothing happens if it is not there."""
        ...

    def move_to(self, target: Self, before_change: Callable[[], None]) -> None:
        """Rename the folder; nothing happens if it is not there. On S3 its files are added to those of `target`.

        After a kill at any point, the same call completes it.

        Args:
            target: the folder's new name.
            before_change: called before each request that renames or removes; what it raises ends the move.

        Raises:
            SavepointRefused: a local `target` is there.
        """
        ...
