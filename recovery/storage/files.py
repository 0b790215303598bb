"""A folder of files, on a local disk or on S3: what is asked of the place where a checkpoint or a table lies.

A place for savepoints (`archive.py`) and the small files that a job leaves (`state/checkpoint/folder.py`) ask for less,
and each `Files` will do for both. None of them needs Spark.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol, Self

from recovery.errors import SavepointRefused
from recovery.storage.archive import Archive, S3Options
from state.checkpoint.folder import CheckpointFolder, local_path

_S3 = ("s3://", "s3a://")


class Files(Archive, CheckpointFolder, Protocol):
    """Files by relative name. Every method raises `ArchiveError` if the place cannot be used."""

    @property
    def name(self) -> str:
        """The last part of the folder's name."""
        ...

    def exists(self, name: str = "") -> bool:
        """Say whether a file or folder is there."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if it is not there."""
        ...

    def parent(self) -> Self:
        """Return the folder that holds this one. Raises `SavepointRefused` if it is a whole bucket."""
        ...

    def child(self, name: str) -> Self:
        """Return a folder in this one."""
        ...

    def resolved(self) -> Self:
        """Return the folder to which this leads, if it is a link; else itself."""
        ...

    def is_mount_point(self) -> bool:
        """Say whether another disk begins at this folder: then it can have no other name."""
        ...

    def holds(self, location: str) -> bool:
        """Say whether a place, in the words of `location`, is this folder or lies within it."""
        ...

    def read(self, name: str) -> bytes:
        """Return a small file's bytes. Raises `FileNotFoundError` if it is not there."""
        ...

    def new(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Give a file to write, which is stored when the block ends without an error."""
        ...

    def local(self, name: str) -> AbstractContextManager[Path]:
        """Give the file, or a copy of it, on this machine while the block lasts. Raises `FileNotFoundError`."""
        ...

    def clear(self) -> None:
        """Remove the folder and all in it; nothing happens if it is not there."""
        ...

    def carry_to(self, target: Self) -> None:
        """Give the folder another name. Nothing happens if it is not there; on S3 what is there adds to `target`.

        Killed at any moment, the same call completes it. Raises `SavepointRefused` if a local `target` is there.
        """
        ...


def files_at(place: str | os.PathLike[str], s3: S3Options | None = None) -> Files | None:
    """Return the files at a path or URL, None for a file system that only Spark reaches. Nothing is looked at yet.

    Raises:
        ArchiveError: a URL of S3 that names no bucket, or boto3 is missing.
    """
    name = os.fspath(place)
    if name.startswith(_S3):
        from recovery.storage.s3_files import S3Files

        return S3Files.at(name, s3 or S3Options())
    from recovery.storage.local_files import LocalFiles

    local = local_path(name)
    # resolve() would follow links, and Spark does not
    return None if local is None else LocalFiles(Path(os.path.abspath(local)))  # noqa: PTH100


def checkpoint_at(checkpoint: str | os.PathLike[str], s3: S3Options | None = None) -> Files:
    """Return a checkpoint's files. Raises `SavepointRefused` if it is neither on a local disk nor a folder on S3."""
    files = files_at(checkpoint, s3)
    if files is None:
        raise SavepointRefused(
            f"the checkpoint {os.fspath(checkpoint)} is neither on a local disk nor on S3; savepoints are made of, and "
            "restored to, folders there"
        )
    files.parent()  # word of a restore stands beside it
    return files
