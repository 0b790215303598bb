"""Refuses a location within a checkpoint, and a checkpoint within a location: a restore or a prune would destroy it."""

from __future__ import annotations

from recovery.errors import SavepointRefused
from recovery.savepoint.restore_paths import RestorePaths
from recovery.storage.archive import Archive
from recovery.storage.files import Files
from recovery.storage.locations import files_at
from recovery.storage.s3_options import S3Options

_ARCHIVE_FOLDERS = ("savepoints", "blobs", "working")
"""Where the files of a location are; others in its folder are never changed."""


def require_no_overlap(archive: Archive, checkpoint: Files, s3: S3Options | None) -> None:
    """Refuse a location that a restore of the checkpoint would remove, or a checkpoint that a prune would.

    Args:
        archive: the location.
        checkpoint: the checkpoint.
        s3: how S3 is reached.

    Raises:
        SavepointRefused: the location is the checkpoint's folder or lies within it, or the other way round.
    """
    paths = RestorePaths(checkpoint=checkpoint)
    if any(folder.contains(archive.location) for folder in (paths.folder, paths.incoming)):
        raise SavepointRefused(
            f"the location {archive.location} lies in {checkpoint.root}, and a restore replaces that folder with all "
            "in it; move the savepoints to a folder outside of it, and name that one"
        )
    location = files_at(archive.location, s3)
    if location is not None and any(location.child(part).contains(paths.folder.location) for part in _ARCHIVE_FOLDERS):
        raise SavepointRefused(
            f"the checkpoint {checkpoint.root} lies among the files of the location {archive.location}, and a prune "
            "removes files there that no savepoint needs; name another location or another folder"
        )
