"""A folder of files on a local disk or on S3: what a checkpoint or a Delta table needs of the place where it is.

An archive (`archive.py`) and the small files of a checkpoint (`state/checkpoint/folder.py`) need less; every `Files`
serves for both. No method starts Spark. `locations.py` says which class serves which path or URL.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol, Self

from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import CheckpointFolder


class Files(Archive, CheckpointFolder, Protocol):
    """Files by relative name. Every method raises `ArchiveError` if the place cannot be used."""

    @property
    def name(self) -> str:
        """The last part of the folder's name."""
        ...

    @property
    def s3(self) -> S3Options:
        """How S3 is reached: this folder, or tables and savepoints that a checkpoint on a disk names there."""
        ...

    def exists(self, name: str = "") -> bool:
        """Return whether there is a file or folder of that name; without one, whether this folder is there."""
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

    def folders(self) -> list[str]:
        """Return the names of the folders in this one, sorted, without hidden ones."""
        ...

    def contains(self, location: str) -> bool:
        """Return whether a location, spelled as by `location`, is this folder or lies within it."""
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
