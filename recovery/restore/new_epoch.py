"""Step 3 of a restore: the savepoint's copy in the folder of a new epoch, which is not current yet."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from panekeeper.recovery.errors import ArchiveError, DamagedSavepoint
from panekeeper.recovery.restore.last_commit import record_last_commit
from panekeeper.recovery.restore.target import Target, epochs_in_tables
from panekeeper.recovery.savepoint.checkpoint_copy import write_checkpoint
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import ProgressCallback
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.epochs import Begin, make_epoch, write_begin
from panekeeper.state.checkpoint.folder import JOB_FILE, TABLES_FILE
from panekeeper.state.checkpoint.job_record import (
    JobRecord,
    last_batches,
    read_last_savepoint,
    read_record,
    read_tables,
    write_last_savepoint,
)

Transform = Callable[[Files], None]
"""Changes a copy before it becomes current; called with its files."""


def write_epoch(
    archive: Archive,
    manifest: Manifest,
    target: Target,
    *,
    epoch: int,
    versions: Mapping[str, int],
    progress: ProgressCallback | None,
    transform: Transform | None,
) -> tuple[Files, JobRecord]:
    """Write the copy of a savepoint into the folder of a new epoch; return the folder, and the record of its job.

    Args:
        archive: where the savepoint is.
        manifest: the savepoint.
        target: the checkpoint.
        epoch: the new epoch.
        versions: role -> version to which a table goes back.
        progress: called after each file.
        transform: changes the copy.

    Raises:
        DamagedSavepoint: a file is missing or altered.
        CheckpointError: another process makes the same epoch.
    """
    tables = {role: table.path for role, table in manifest.tables.items()}
    begin = Begin(
        kind="restore",
        savepoint=manifest.name,
        location=archive.location,
        made_at=manifest.made_at.isoformat(),
        tables=tables,
        versions=versions,
    )
    copy = make_epoch(target.root, epoch, begin)
    try:
        write_checkpoint(archive, manifest, into=copy, progress=progress)
        _require_consistent(copy, manifest)
        if transform is not None:
            transform(copy)
        record = _give_epoch(copy, manifest, target, epoch)
        write_begin(copy, replace(begin, batch=last_batches(copy)[1]))
        _keep_notes(target, copy, archive, manifest)
        os.sync()  # the copy must be on the disk before it becomes current
    except Exception:
        with suppress(OSError, ArchiveError):
            copy.clear()  # it never becomes current
        raise
    return copy, record


def _require_consistent(copy: Files, manifest: Manifest) -> None:
    """Refuse a copy of another job or with other tables than the manifest: later restores rely on what it names."""
    record = read_record(copy)
    if record is None or (record.name, record.id, record.epoch) != (manifest.job, manifest.job_id, manifest.epoch):
        raise _inconsistent(JOB_FILE, manifest)
    if read_tables(copy) != {role: table.path for role, table in manifest.tables.items()}:
        raise _inconsistent(TABLES_FILE, manifest)


def _inconsistent(file: str, manifest: Manifest) -> DamagedSavepoint:
    return DamagedSavepoint(
        f"{file} of savepoint {manifest.name!r} does not fit its manifest; do not use this savepoint, and find out who "
        "can write to its location"
    )


def _give_epoch(copy: Files, manifest: Manifest, target: Target, epoch: int) -> JobRecord:
    """Let the copy be the checkpoint in its new epoch. Its id is that of the folder; a new folder gets one."""
    record, former = read_record(copy), epochs_in_tables(manifest, target)
    assert record is not None, "the copy of a savepoint has one"
    own = uuid.uuid4().hex[:12] if target.pointer is None else target.pointer.id
    former.pop(own, None)
    new = replace(record, id=own, former=former, epoch=epoch)
    copy.put_bytes(JOB_FILE, json.dumps(new.to_json()).encode())
    record_last_commit(copy, new)
    return new


def _keep_notes(target: Target, copy: Files, archive: Archive, manifest: Manifest) -> None:
    """Write to the copy which savepoint is the newest: `panekeeper maintain` keeps the files of those in its location.

    A savepoint has no such record, so it would be gone; and one that was made after it is still there.
    """
    restored = manifest.noted(archive.location)
    before = None if target.current is None else read_last_savepoint(target.current)
    write_last_savepoint(copy, restored if before is None or before.at < restored.at else before)
