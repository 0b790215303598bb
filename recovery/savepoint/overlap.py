"""A checkpoint and a place for savepoints must not lie within one another: what is done to one harms the other."""

from __future__ import annotations

from recovery.errors import SavepointRefused
from recovery.savepoint.restore_paths import RestorePaths
from recovery.storage.archive import Archive
from recovery.storage.files import Files
from recovery.storage.locations import files_at
from recovery.storage.s3_options import S3Options

_ARCHIVE_FOLDERS = ("savepoints", "blobs", "working")
"""All that a location holds; other files in its folder are never touched."""


def require_no_overlap(archive: Archive, checkpoint: Files, s3: S3Options | None) -> None:
    """Refuse a location that a restore of this checkpoint would remove, or a checkpoint that a prune would.

    Raises:
        SavepointRefused: the location is the checkpoint's folder or lies within it, or the other way round.
    """
    paths = RestorePaths(checkpoint=checkpoint)
    if any(folder.contains(archive.location) for folder in (paths.folder, paths.incoming)):
        raise SavepointRefused(
            f"the location {archive.location} lies in {checkpoint.root}, and a restore replaces that folder with all "
            "in it; move the savepoints to a place outside, and name that"
        )
    location = files_at(archive.location, s3)
    if location is not None and any(location.child(part).contains(paths.folder.location) for part in _ARCHIVE_FOLDERS):
        raise SavepointRefused(
            f"the checkpoint {checkpoint.root} lies among the files of the location {archive.location}, and a prune "
            "removes what no savepoint needs there; name another location or another folder"
        )
