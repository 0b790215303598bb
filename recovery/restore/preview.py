"""Step 1 of a restore: what it would change, and whether it may. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from panekeeper.recovery.errors import (
    ArchiveError,
    DamagedSavepoint,
    SavepointError,
)
from panekeeper.recovery.restore.confirmed_tables import unchanged_tables
from panekeeper.recovery.restore.target import Target, epochs_in_tables
from panekeeper.recovery.savepoint.checkpoint_reader import read_checkpoint
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.delta_log import newest_version
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import files_at
from panekeeper.state.checkpoint.epochs import next_epoch
from panekeeper.state.checkpoint.job_record import MAX_EPOCH
from panekeeper.state.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class TableVersionChange:
    """The versions of a table before and after a restore.

    Attributes:
        path: the table's path or URL.
        old: its newest version before.
        new: the version it is restored to; the same one if it does not go back, as only other jobs have written to it.
    """

    path: str
    old: int
    new: int


@dataclass(frozen=True, kw_only=True)
class RestorePreview:
    """What a restore changes, or would change.

    Attributes:
        name: of the savepoint.
        checkpoint: full name of the folder that is written.
        replaces: whether a checkpoint is there; the folder of its epoch stays, and is not current any more.
        batch: the batch after which the job resumes.
        forgotten: first and last of the committed batches that are discarded, and run again if the sources still hold
            their rows; None if there are none, or the present checkpoint cannot be read.
        files: how many files are written.
        bytes: their size.
        tables: role -> its versions.
        epoch: the new one.
        unconfirmed: paths of tables that only the manifest names; the restore is refused until the caller names them.
    """

    name: str
    checkpoint: str
    replaces: bool
    batch: int
    forgotten: tuple[int, int] | None
    files: int
    bytes: int
    tables: Mapping[str, TableVersionChange]
    epoch: int
    unconfirmed: tuple[str, ...] = ()


def preview_restore(
    manifest: Manifest,
    target: Target,
    *,
    spark: SparkSession | None,
    tables_are_back: bool = False,
) -> RestorePreview:
    """Return what a restore would change.

    Args:
        manifest: the savepoint.
        target: where it is restored to.
        spark: the session that reads the tables; a new one if not given.
        tables_are_back: the current epoch is that of this restore, and some tables, or all, may be back already: their
            versions are needed no more.

    Raises:
        TableVersionLost: a table no longer holds the version of the savepoint.
        DamagedSavepoint: its epoch is beyond all bounds.
    """
    # The checkpoint may be an older copy: no epoch is used twice that a table knows.
    epoch = next_epoch(target.root, epochs_in_tables(manifest, target).values())
    if tables_are_back and target.pointer is not None:
        epoch = target.pointer.epoch
    if epoch > MAX_EPOCH:
        raise DamagedSavepoint(
            f"the restored job would have epoch {epoch}, and no savepoint of it could be made: no job is reset or "
            f"restored {MAX_EPOCH} times. Savepoint {manifest.name!r}, or {target.root.root}, is not what Panekeeper "
            "writes; use another one, or another folder"
        )
    return RestorePreview(
        name=manifest.name,
        checkpoint=target.root.root,
        replaces=target.content is not None,
        batch=manifest.batch,
        forgotten=None if target.current is None else _discarded_batches(manifest, target.current),
        files=len(manifest.files),
        bytes=manifest.size,
        tables=_table_changes(manifest, target, spark, tables_are_back=tables_are_back),
        epoch=epoch,
    )


def _discarded_batches(manifest: Manifest, checkpoint: Files) -> tuple[int, int] | None:
    try:
        present = read_checkpoint(checkpoint)
    except ArchiveError:
        raise
    except (SavepointError, StateError, OSError, ValueError):
        return None
    return (manifest.batch + 1, present.batch) if present.batch > manifest.batch else None


def _table_changes(
    manifest: Manifest,
    target: Target,
    spark: SparkSession | None,
    *,
    tables_are_back: bool,
) -> dict[str, TableVersionChange]:
    if not manifest.tables:
        return {}
    from panekeeper.recovery.storage.delta_tables import require_version, session_for, version_of

    paths = [table.path for table in manifest.tables.values()]
    # None is started if the library can read all tables.
    session = cache(lambda: session_for(paths, spark, target.root.s3))
    unchanged = unchanged_tables(manifest, target)
    changes = {}
    for role, table in manifest.tables.items():
        files = files_at(table.path, target.root.s3)
        # With the commit of a RESTORE Delta may have cleaned up the log, and the version in it.
        if not (tables_are_back or table.path in unchanged):
            require_version(session, table, files)
        old = version_of(session(), table.path) if files is None else newest_version(files)
        new = old if table.path in unchanged else table.version
        changes[role] = TableVersionChange(path=table.path, old=old, new=new)
    return changes
