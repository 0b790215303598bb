"""Step 3 of a restore to another folder: no job starts from the folders that the same tables were written from.

The restored tables fit one checkpoint only. A job that resumed from another one would continue after rows that the
tables no longer have, and they would be missing for good. So each of these checkpoints is marked as superseded by the
new one, and a start from it is refused (`framework/engine/job/startup_checks.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from panekeeper.recovery.errors import ArchiveNotFound
from panekeeper.recovery.restore.confirmed_tables import own_tables
from panekeeper.recovery.restore.interrupted import read_record_or_none
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import checkpoint_at, resolved_place
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.restore_markers import superseded_by, write_superseded
from panekeeper.state.errors import CorruptState


def checkpoints_with_same_tables(manifest: Manifest, checkpoint: Files, s3: S3Options | None) -> list[Files]:
    """Return the checkpoints, but `checkpoint`, from which a job may write to the tables of a savepoint.

    These are the one the savepoint was made of, and those that superseded it one after the other.

    Args:
        manifest: the savepoint.
        checkpoint: where it is restored to.
        s3: how S3 is reached.
    """
    return [
        folder
        for folder in successors(manifest, checkpoint, s3)
        if (record := read_record_or_none(folder)) is not None
        and record.name == manifest.job
        and _may_share_tables(folder, manifest, s3)
    ]


def successors(manifest: Manifest, checkpoint: Files, s3: S3Options | None) -> Iterator[Files]:
    """Yield the folder a savepoint was made of, and those that took its place, but `checkpoint`.

    One whose restore was interrupted need not be there yet.

    Args:
        manifest: the savepoint.
        checkpoint: where it is restored to.
        s3: how S3 is reached.
    """
    seen: set[str] = set()
    place: str | None = manifest.checkpoint
    with suppress(ArchiveNotFound):  # no job runs in a bucket that is gone
        while place is not None and (folder := checkpoint_at(place, s3)).root not in seen:
            seen.add(folder.root)
            place = _successor(folder)
            if folder.root != checkpoint.root:
                yield folder


def _successor(folder: Files) -> str | None:
    try:
        return superseded_by(folder)
    except CorruptState:
        return None  # a restore to this folder replaces the damaged file


def _may_share_tables(folder: Files, manifest: Manifest, s3: S3Options | None) -> bool:
    """Return False for a checkpoint that names its tables, and none of the savepoint."""
    own = {resolved_place(path, s3) for path in own_tables(folder).values()}
    saved = {resolved_place(table.path, s3) for table in manifest.tables.values()}
    return not own or not saved or not saved.isdisjoint(own)


def mark_superseded(manifest: Manifest, checkpoint: Files, s3: S3Options | None) -> None:
    """Mark the other checkpoints as superseded by `checkpoint`. Without tables, there is nothing to mark.

    Args:
        manifest: the savepoint.
        checkpoint: where it is restored to.
        s3: how S3 is reached.
    """
    if manifest.tables:
        # The last one first: the marks of those before lead to it, also after a kill in between.
        for folder in reversed(checkpoints_with_same_tables(manifest, checkpoint, s3)):
            write_superseded(folder, checkpoint.root)
