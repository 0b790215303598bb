"""Makes a savepoint: a verified copy of a stopped job's checkpoint, with the versions of its tables.

    1  The checkpoint is read as of its last committed batch, and so are the versions of the tables.
    2  Its files are stored as blobs, named by their checksum; what the archive holds already is not sent again.
    3  Every blob is read back and compared. One that another savepoint left damaged is sent once more.
    4  The manifest is written.

A kill before 4 leaves blobs that the next savepoint uses, or `prune` removes; a savepoint without a manifest does not
exist. Do not prune while a savepoint is being made: its blobs belong to no manifest yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from framework.engine.folder import local_path
from recovery.archive import Archive, S3Options, archive_at
from recovery.blobs import Listener, describe, is_sound, send, unsound
from recovery.checkpoint_folder import Checkpoint, local_folder, read_checkpoint
from recovery.delta_log import newest_version, versions_after_batch
from recovery.errors import DamagedSavepoint, SavepointError, SavepointRefused
from recovery.lease import require_stopped
from recovery.manifest import Manifest, SavedFile, SavedTable, checked_name, manifest_file
from state.job_record import RESTORING_SUFFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Savepoint:
    """What was made: the manifest, where, and what it cost. Bytes are those of distinct contents."""

    location: str
    manifest: Manifest
    bytes_sent: int
    bytes_reused: int


def savepoint(
    checkpoint: str | os.PathLike[str],
    name: str,
    *,
    to: str | os.PathLike[str] | Archive,
    s3: S3Options | None = None,
    progress: Listener | None = None,
    paused: bool = False,
    made_at: datetime | None = None,
    spark: SparkSession | None = None,
) -> Savepoint:
    """Make a savepoint of a stopped job.

    If a batch was begun and never committed, the savepoint is as of the batch before it; the manifest says so.

    Args:
        checkpoint: the job's checkpoint, a local folder.
        name: letters, digits, `.`, `_` and `-`; new in this location.
        to: a folder, `s3://bucket/prefix`, or an archive. Savepoints that share it share what they have in common.
        s3: how to reach S3.
        progress: called after each file.
        paused: the caller itself runs the job and holds it still between two batches.
        made_at: when; now, if not given.
        spark: needed only for tables that are on no local disk.

    Raises:
        SavepointRefused: the job is running, a restore of it was interrupted, or the name is taken or cannot be one.
        SavepointError: there is nothing to save, or a table is gone.
        ArchiveError: the location cannot be used.
        StateError: the checkpoint's record is damaged.
    """
    checked_name(name)
    archive = opened(to, s3)
    folder = local_folder(checkpoint)
    if not paused:
        require_stopped(folder)
    if folder.with_name(folder.name + RESTORING_SUFFIX).exists():
        raise SavepointRefused(f"a restore of {folder} was interrupted; run the same restore again first")
    if archive.exists(manifest_file(name)):
        raise SavepointRefused(f"there is a savepoint {name!r} in {archive.location} already; choose another name")
    with _still(folder):
        found = read_checkpoint(folder)  # 1
        tables = _tables(found, spark)
        files = [describe(folder, path) for path in found.files()]
        cost = send(archive, folder, files, progress)  # 2
        _prove(archive, folder, files)  # 3
    manifest = _manifest(found, name, made_at or datetime.now(UTC), tables, files)
    archive.put_bytes(manifest_file(name), manifest.encode())  # 4
    return Savepoint(location=archive.location, manifest=manifest, bytes_sent=cost.sent, bytes_reused=cost.reused)


def opened(place: str | os.PathLike[str] | Archive, s3: S3Options | None) -> Archive:
    """Return the archive that a caller named."""
    return archive_at(place, s3) if isinstance(place, str | os.PathLike) else place


@contextmanager
def _still(folder: Path) -> Iterator[None]:
    """Say what it means if a file of the checkpoint goes away while it is read."""
    try:
        yield
    except FileNotFoundError as error:
        raise SavepointError(
            f"{error.filename} went away while it was copied: a job works on {folder}; stop it first"
        ) from error


def _prove(archive: Archive, folder: Path, files: list[SavedFile]) -> None:
    for file in unsound(archive, files):
        archive.put_file(file.blob, folder / file.path)
        if not is_sound(archive, file):
            raise DamagedSavepoint(
                f"{file.path} was stored in {archive.location} and came back altered; either {archive.location} is not "
                f"to be trusted, or a job works on {folder}"
            )


def _tables(found: Checkpoint, spark: SparkSession | None) -> dict[str, SavedTable]:
    local = {role: folder for role, path in found.tables.items() if (folder := local_path(path)) is not None}
    if len(local) == len(found.tables):
        if found.unfinished is None:
            versions = {role: newest_version(folder) for role, folder in local.items()}
        else:
            ids = {role: found.record.transaction(role) for role in local}
            versions = versions_after_batch(local, ids, found.batch)
    elif found.unfinished is not None:
        raise SavepointRefused(
            f"batch {found.unfinished} was begun and may stand in some tables; start the job, stop it and try again"
        )
    else:
        versions = _versions_by_spark(found, spark)
    return {role: SavedTable(path=path, version=versions[role]) for role, path in found.tables.items()}


def _versions_by_spark(found: Checkpoint, spark: SparkSession | None) -> dict[str, int]:
    from framework.engine.session import session
    from recovery.delta_tables import version_of

    running = spark or session("panekeeper savepoint")
    return {role: version_of(running, path) for role, path in found.tables.items()}


def _manifest(
    found: Checkpoint, name: str, made_at: datetime, tables: dict[str, SavedTable], files: list[SavedFile]
) -> Manifest:
    record = found.record
    return Manifest(
        name=name,
        made_at=made_at,
        checkpoint=str(found.folder),
        job=record.name,
        job_id=record.id,
        epoch=record.epoch,
        state_version=record.state_version,
        declaration=record.declaration,
        batch=found.batch,
        unfinished=found.unfinished,
        settings=found.settings,
        versions=record.versions,
        tables=tables,
        files=tuple(files),
    )
