"""What a restore would change, and whether it may: looked at before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recovery.errors import ArchiveError, SavepointError, SavepointRefused
from recovery.savepoint.checkpoint_reader import read_checkpoint, read_record
from recovery.savepoint.manifest import Manifest
from recovery.storage.archive import S3Options
from recovery.storage.delta_log import newest_version
from recovery.storage.files import Files, files_at
from state.errors import StateError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class TableMove:
    """A table and the versions between which it goes; `old` is its newest."""

    path: str
    old: int
    new: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a restore changes.

    Attributes:
        name: of the savepoint.
        checkpoint: full name of the folder that is written.
        replaces: whether a checkpoint stands there, and is removed.
        batch: the batch after which the job resumes.
        forgotten: numbers of the first and last committed batch that are forgotten, and run again from the sources
            if these still hold the rows; None if there are none, or the present checkpoint cannot be read.
        files: how many files are written.
        bytes: their size.
        tables: role -> versions.
        epoch: the new one.
    """

    name: str
    checkpoint: str
    replaces: bool
    batch: int
    forgotten: tuple[int, int] | None
    files: int
    bytes: int
    tables: Mapping[str, TableMove]
    epoch: int


def plan_restore(
    manifest: Manifest,
    checkpoint: Files,
    *,
    epoch: int | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None,
) -> Plan:
    """Return what a restore into `checkpoint` would change.

    Args:
        manifest: the savepoint.
        checkpoint: where its copy is written.
        epoch: that of a restore which was begun, and may have left any part of a checkpoint there; None if none was.
        s3: how to reach S3.
        spark: the session that looks at the tables; a new one if not given.

    Raises:
        SavepointRefused: the folder holds something else than a checkpoint of this job.
        TableVersionLost: a table no longer holds the recorded version.
    """
    if epoch is None:
        epoch = max(manifest.epoch, _present_epoch(manifest, checkpoint)) + 1
    return Plan(
        name=manifest.name,
        checkpoint=checkpoint.root,
        replaces=checkpoint.exists(),
        batch=manifest.batch,
        forgotten=_forgotten(manifest, checkpoint),
        files=len(manifest.files),
        bytes=manifest.size,
        tables=_moves(manifest, s3, spark),
        epoch=epoch,
    )


def _present_epoch(manifest: Manifest, checkpoint: Files) -> int:
    if not checkpoint.sizes():
        return 0
    try:
        record = read_record(checkpoint)
    except StateError:
        return 0  # damaged: what a restore is for; the copy gets an id of its own
    if record is None:
        raise SavepointRefused(f"{checkpoint.root} holds files and no checkpoint of Panekeeper's; name another folder")
    if record.name != manifest.job:
        raise SavepointRefused(
            f"{checkpoint.root} is the checkpoint of job {record.name!r}, the savepoint is of {manifest.job!r}; "
            "name another folder"
        )
    return record.epoch


def _forgotten(manifest: Manifest, checkpoint: Files) -> tuple[int, int] | None:
    try:
        present = read_checkpoint(checkpoint)
    except ArchiveError:
        raise
    except (SavepointError, StateError, OSError, ValueError):
        return None
    return (manifest.batch + 1, present.batch) if present.batch > manifest.batch else None


def _moves(manifest: Manifest, s3: S3Options | None, spark: SparkSession | None) -> dict[str, TableMove]:
    if not manifest.tables:
        return {}
    from recovery.storage.delta_tables import require_version, session_for, version_of

    running = session_for((table.path for table in manifest.tables.values()), spark, s3)
    moves = {}
    for role, table in manifest.tables.items():
        require_version(running, table, s3)
        files = files_at(table.path, s3)
        old = version_of(running, table.path) if files is None else newest_version(files)
        moves[role] = TableMove(path=table.path, old=old, new=table.version)
    return moves
