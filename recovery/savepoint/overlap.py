"""Refuses a location within a checkpoint or a table, and the other way round.

A prune, or Delta's VACUUM, would destroy what lies within. Links are followed; `file:` and `s3a:` are other
spellings of the same folders.
"""

from __future__ import annotations

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import files_at
from panekeeper.state.checkpoint.epochs import current_epoch
from panekeeper.state.checkpoint.job_record import read_tables
from panekeeper.state.errors import CheckpointError, StateError

_ARCHIVE_FOLDERS = ("savepoints", "blobs", "working")
"""Where the files of a location are; others in its folder are never changed."""


def require_no_overlap(archive: Archive, checkpoint: Files) -> None:
    """Refuse a location that a restore of the checkpoint would remove, or a checkpoint or table that a prune would.

    Args:
        archive: the location.
        checkpoint: the checkpoint, which names its tables.

    Raises:
        SavepointRefused: the location is the folder of the checkpoint or of a table or lies within it, or the other way
            round.
    """
    if checkpoint.contains(archive.location):
        raise SavepointRefused(
            f"the location {archive.location} lies in {checkpoint.root}, which belongs to its job alone; "
            "move the savepoints to a folder outside of it, and name that one"
        )
    location = files_at(archive.location, checkpoint.s3)
    if location is not None and any(location.child(part).contains(checkpoint.location) for part in _ARCHIVE_FOLDERS):
        raise SavepointRefused(
            f"the checkpoint {checkpoint.root} is in the folder of the location {archive.location}, and a prune "
            "removes files there that no savepoint needs; name another location or another folder"
        )
    for path in _tables_of(checkpoint):
        table = files_at(path, checkpoint.s3)
        if table is not None and table.contains(archive.location):
            raise SavepointRefused(
                f"the location {archive.location} lies in the table {path}, and Delta's VACUUM removes all unknown "
                "files from that folder; move the savepoints to a folder outside of it, and name that one"
            )
        inside = [] if table is None or location is None else map(location.child, _ARCHIVE_FOLDERS)
        if table is not None and any(folder.contains(table.location) for folder in inside):
            raise SavepointRefused(
                f"the table {path} lies among the files of the location {archive.location}, and a prune removes files "
                "there that no savepoint needs; name another location"
            )


def _tables_of(checkpoint: Files) -> list[str]:
    try:
        folder = current_epoch(checkpoint)
        return [] if folder is None else [*read_tables(folder).values()]
    except (CheckpointError, StateError, OSError):
        return []  # a restore is the way out
