"""What a restore would change, and whether it may: looked at before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from framework.engine.folder import local_path
from recovery.checkpoint_folder import read_checkpoint, read_record
from recovery.delta_log import newest_version
from recovery.errors import SavepointError, SavepointRefused
from recovery.manifest import Manifest
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
        checkpoint: the folder that is written.
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
    checkpoint: Path
    replaces: bool
    batch: int
    forgotten: tuple[int, int] | None
    files: int
    bytes: int
    tables: Mapping[str, TableMove]
    epoch: int


def plan_restore(manifest: Manifest, checkpoint: Path, *, spark: SparkSession | None) -> Plan:
    """Return what a restore into `checkpoint` would change.

    Raises:
        SavepointRefused: the folder holds something else than a checkpoint of this job.
        TableVersionLost: a table no longer holds the recorded version.
    """
    epoch = max(manifest.epoch, _present_epoch(manifest, checkpoint)) + 1
    return Plan(
        name=manifest.name,
        checkpoint=checkpoint,
        replaces=checkpoint.exists(),
        batch=manifest.batch,
        forgotten=_forgotten(manifest, checkpoint),
        files=len(manifest.files),
        bytes=manifest.size,
        tables=_moves(manifest, spark),
        epoch=epoch,
    )


def _present_epoch(manifest: Manifest, checkpoint: Path) -> int:
    if not checkpoint.exists() or not any(checkpoint.iterdir()):
        return 0
    try:
        record = read_record(checkpoint)
    except StateError:
        return 0  # damaged: what a restore is for; the copy gets an id of its own
    if record is None:
        raise SavepointRefused(f"{checkpoint} holds files and no checkpoint of Panekeeper's; name another folder")
    if record.name != manifest.job:
        raise SavepointRefused(
            f"{checkpoint} is the checkpoint of job {record.name!r}, the savepoint is of {manifest.job!r}; "
            "name another folder"
        )
    return record.epoch


def _forgotten(manifest: Manifest, checkpoint: Path) -> tuple[int, int] | None:
    try:
        present = read_checkpoint(checkpoint)
    except (SavepointError, StateError, OSError, ValueError):
        return None
    return (manifest.batch + 1, present.batch) if present.batch > manifest.batch else None


def _moves(manifest: Manifest, spark: SparkSession | None) -> dict[str, TableMove]:
    if not manifest.tables:
        return {}
    from recovery.delta_tables import require_version, session_for, version_of

    running = session_for((table.path for table in manifest.tables.values()), spark)
    moves = {}
    for role, table in manifest.tables.items():
        require_version(running, table)
        folder = local_path(table.path)
        old = version_of(running, table.path) if folder is None else newest_version(folder)
        moves[role] = TableMove(path=table.path, old=old, new=table.version)
    return moves
