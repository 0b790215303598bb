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
    SavepointRefused,
    TableVersionLost,
)
from panekeeper.recovery.restore.confirmed_tables import unchanged_tables
from panekeeper.recovery.restore.former_epochs import last_known_epochs
from panekeeper.recovery.restore.intent import RestoreIntent
from panekeeper.recovery.restore.superseded import checkpoints_with_same_tables
from panekeeper.recovery.savepoint.checkpoint_reader import read_checkpoint
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.delta_log import newest_version, was_restored_last
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import files_at
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.job_record import MAX_EPOCH, read_record
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
        replaces: whether a checkpoint is there, which is removed.
        batch: the batch after which the job resumes.
        forgotten: first and last of the committed batches that are discarded, and run again if the sources still hold
            their rows; None if there are none, or the present checkpoint cannot be read.
        files: how many files are written.
        bytes: their size.
        tables: role -> its versions.
        epoch: the new one.
        unconfirmed: paths of tables that only the manifest names; the restore is refused until the caller names them.
        superseded: full names of other checkpoints from which no job starts any more.
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
    superseded: tuple[str, ...] = ()


def preview_restore(
    manifest: Manifest,
    checkpoint: Files,
    *,
    epoch: int | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None,
    interrupted: RestoreIntent | None = None,
) -> RestorePreview:
    """Return what a restore into `checkpoint` would change.

    Args:
        manifest: the savepoint.
        checkpoint: where its copy is written.
        epoch: the new epoch, or a later one, if a restore was interrupted, which may have left any part of a checkpoint
            there; None: it follows the one that is there.
        s3: how S3 is reached.
        spark: the session that reads the tables; a new one if not given.
        interrupted: the restore that this one completes, which may have restored some tables, or all: the versions of
            these are needed no more.

    Raises:
        SavepointRefused: the folder holds something else than a checkpoint of this job.
        TableVersionLost: a table no longer holds the version of the savepoint.
        DamagedSavepoint: its epoch is beyond all bounds.
    """
    if epoch is None:
        epoch = max(manifest.epoch, _current_epoch(manifest, checkpoint)) + 1
    if interrupted is None:  # else the copy has it already
        others = checkpoints_with_same_tables(manifest, checkpoint, s3)
        # The checkpoint may be an older copy: no epoch is used twice that a table knows.
        epoch = max(epoch, 1 + max(last_known_epochs({}, checkpoint, manifest, others, s3).values()))
    if epoch > MAX_EPOCH:
        raise DamagedSavepoint(
            f"the restored job would have epoch {epoch}, and no savepoint of it could be made: no job is reset or "
            f"restored {MAX_EPOCH} times. Savepoint {manifest.name!r}, or {checkpoint.root}, is not what Panekeeper "
            "writes; use another one, or another folder"
        )
    return RestorePreview(
        name=manifest.name,
        checkpoint=checkpoint.root,
        replaces=checkpoint.exists(),
        batch=manifest.batch,
        forgotten=_discarded_batches(manifest, checkpoint),
        files=len(manifest.files),
        bytes=manifest.size,
        tables=_table_changes(
            manifest,
            s3,
            spark,
            tables_are_back=interrupted is not None and interrupted.has_done("tables"),
            is_completed=interrupted is not None,
        ),
        epoch=epoch,
    )


def _current_epoch(manifest: Manifest, checkpoint: Files) -> int:
    if not checkpoint.sizes():
        return 0
    try:
        record = read_record(checkpoint)
    except StateError:
        return 0  # damaged, which is a reason to restore; the copy gets a job id of its own
    if record is None:
        raise SavepointRefused(f"{checkpoint.root} holds files and no checkpoint of Panekeeper; name another folder")
    if record.name != manifest.job:
        raise SavepointRefused(
            f"{checkpoint.root} is the checkpoint of job {record.name!r}, the savepoint is of {manifest.job!r}; "
            "name another folder"
        )
    return record.epoch


def _discarded_batches(manifest: Manifest, checkpoint: Files) -> tuple[int, int] | None:
    try:
        present = read_checkpoint(checkpoint)
    except ArchiveError:
        raise
    except (SavepointError, StateError, OSError, ValueError):
        return None
    return (manifest.batch + 1, present.batch) if present.batch > manifest.batch else None


def has_table_versions(manifest: Manifest, s3: S3Options | None, spark: SparkSession | None) -> bool:
    """Return whether the tables of a savepoint, whose restore was interrupted, still have its versions."""
    try:
        _table_changes(manifest, s3, spark, is_completed=True)
    except TableVersionLost:
        return False
    return True


def _table_changes(
    manifest: Manifest,
    s3: S3Options | None,
    spark: SparkSession | None,
    *,
    tables_are_back: bool = False,
    is_completed: bool = False,
) -> dict[str, TableVersionChange]:
    if not manifest.tables:
        return {}
    from panekeeper.recovery.storage.delta_tables import require_version, session_for, version_of

    paths = [table.path for table in manifest.tables.values()]
    session = cache(lambda: session_for(paths, spark, s3))  # none is started if the library can read all tables
    unchanged = unchanged_tables(manifest, s3)
    changes = {}
    for role, table in manifest.tables.items():
        files = files_at(table.path, s3)
        is_back = is_completed and files is not None and was_restored_last(files, table.version)
        # With the commit of a RESTORE Delta may have cleaned up the log, and the version in it.
        if not (tables_are_back or is_back or table.path in unchanged):
            require_version(session, table, s3)
        old = version_of(session(), table.path) if files is None else newest_version(files)
        new = old if table.path in unchanged else table.version
        changes[role] = TableVersionChange(path=table.path, old=old, new=new)
    return changes
