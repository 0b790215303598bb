"""What a path or URL names: the archive of savepoints, the checkpoint or the table that is there."""

from __future__ import annotations

import os
from pathlib import Path

from panekeeper.recovery.errors import ArchiveError, SavepointRefused
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.files import Files, LocalFiles
from panekeeper.recovery.storage.s3 import S3Files, S3Options
from panekeeper.state.checkpoint.folder import local_path

Location = str | os.PathLike[str]
LocationOrArchive = Location | Archive
"""Where savepoints are: a folder, a URL, or an archive that was opened already."""

_S3 = ("s3://", "s3a://")


def open_archive(location: LocationOrArchive, s3: S3Options | None = None) -> Archive:
    """Return the archive at a folder or `s3://bucket/prefix`, or the archive given. Raises `ArchiveError`."""
    if not isinstance(location, str | os.PathLike):
        return location
    files = files_at(location, s3)
    if files is None:
        scheme = os.fspath(location).partition(":")[0]
        raise ArchiveError(f"savepoints cannot be kept in {scheme}://...; use a local folder or s3://bucket/prefix")
    return files


def files_at(place: Location, s3: S3Options | None = None) -> Files | None:
    """Return the files at a path, `file:`, `s3://` or `s3a://`; None for a file system that only Spark reaches.

    Nothing is read yet. Raises `ArchiveError` for an empty path, one with "~", a URL without a bucket, or no boto3.
    """
    name = os.fspath(place)
    if not name:
        raise ArchiveError("the path is empty; give a folder, as ./checkpoint, or a URL")
    if name.startswith("~"):
        raise ArchiveError(f"{name} begins with '~', which no shell has expanded: write {os.path.expanduser(name)}")  # noqa: PTH111 -- a path of the user's stays as it is
    if name.startswith(_S3):
        return S3Files.at(name, s3 or S3Options())
    local = local_path(name)
    # resolve() would follow links, and Spark does not
    return None if local is None else LocalFiles(Path(os.path.abspath(local)), s3=s3 or S3Options())  # noqa: PTH100


def place_of(path: str) -> str:
    """Return one spelling of a path or URL, as a user, Spark or a manifest spells it: two of a place are equal."""
    files = files_at(path)
    return path.rstrip("/") if files is None else files.location


def checkpoint_at(checkpoint: Location, s3: S3Options | None = None) -> Files:
    """Return the files of a checkpoint; raises `SavepointRefused` unless it is on a local disk or on S3."""
    advice = "only the commands `status` and `drain` work on it. Move it to one of them to use the others"
    return _on_disk_or_s3("checkpoint", checkpoint, s3, advice)


def table_at(path: str, s3: S3Options | None = None) -> Files:
    """Return the files of a Delta table; raises `SavepointRefused` unless it is on a local disk or on S3."""
    return _on_disk_or_s3("table", path, s3, "no savepoint can have it. Declare it there to make savepoints of the job")


def scratch_at(place: Location, s3: S3Options | None = None) -> Files:
    """Return the files of a scratch folder; raises `SavepointRefused` unless it is on a local disk or on S3."""
    return _on_disk_or_s3("scratch folder", place, s3, "it cannot be removed afterwards. Name another one")


def _on_disk_or_s3(what: str, place: Location, s3: S3Options | None, advice: str) -> Files:
    files = files_at(place, s3)
    if files is None:
        raise SavepointRefused(f"the {what} {os.fspath(place)} is neither on a local disk nor on S3, so {advice}")
    return files
