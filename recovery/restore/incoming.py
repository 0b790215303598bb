"""Steps 2 and 6 of a restore: the savepoint's copy, under a new epoch, is written and becomes the checkpoint.

It is written to a folder in `<checkpoint>.incoming`.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Collection
from dataclasses import replace

from panekeeper.recovery.errors import DamagedSavepoint, SavepointRefused
from panekeeper.recovery.restore.former_epochs import last_known_epochs
from panekeeper.recovery.restore.intent import COPY_NAME, RestoreIntent, moved_aside, write_intent
from panekeeper.recovery.restore.interrupted import is_copy, read_record_or_none
from panekeeper.recovery.restore.last_commit import record_last_commit
from panekeeper.recovery.restore.superseded import checkpoints_with_same_tables
from panekeeper.recovery.savepoint.checkpoint_copy import rewrite_paths, write_checkpoint
from panekeeper.recovery.savepoint.checkpoint_reader import COPIED
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import ProgressCallback
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.claims import read_unaccounted, unaccounted_files
from panekeeper.state.checkpoint.job_record import read_record, read_tables
from panekeeper.state.checkpoint.last_savepoint import read_last_savepoint, write_last_savepoint
from panekeeper.state.checkpoint.layout import (
    CLAIMS_FOLDER,
    JOB_FILE,
    RUNNING_FILE,
    TABLES_FILE,
)

Transform = Callable[[Files], None]
"""Changes a copy before it replaces the checkpoint; called with its files."""


def require_free_for_copy(paths: RestorePaths, manifest: Manifest) -> None:
    """Refuse to write the copy to a folder that is somebody else's: all that is there is removed first.

    Args:
        paths: of the checkpoint, of which no restore was interrupted after its copy was complete.
        manifest: the savepoint.

    Raises:
        SavepointRefused: the folder holds more than what an earlier restore of the job has left.
    """
    place = paths.incoming
    if not place.sizes():
        return
    names = place.names("")
    are_copies = names == place.folders() and all(map(COPY_NAME.fullmatch, names))
    for copy in map(place.child, names) if are_copies else [place]:
        why = _why_not_ours(copy, manifest, may_be_a_part=are_copies)
        if why is not None:
            raise SavepointRefused(
                f"{copy.root} is there, and a restore of {paths.checkpoint.root} writes its copy to {place.root}: "
                f"{why}. Move it to another place, or, if it is what an earlier restore has left, remove it; then run "
                "the same restore again"
            )


def _why_not_ours(copy: Files, manifest: Manifest, *, may_be_a_part: bool) -> str | None:
    record = read_record_or_none(copy)
    if (record is None and not may_be_a_part) or not set(copy.names("")) <= {*COPIED}:
        return "it holds other files"
    if record is not None and record.name != manifest.job:
        return f"it is the checkpoint of job {record.name!r}"
    return "a job has run on it" if copy.exists(RUNNING_FILE) or copy.names(CLAIMS_FOLDER) else None


def write_incoming(
    archive: Archive,
    manifest: Manifest,
    paths: RestorePaths,
    *,
    epoch: int,
    progress: ProgressCallback | None,
    transform: Transform | None,
    s3: S3Options | None,
    require_lease: Callable[[], None],
) -> RestoreIntent:
    """Write the copy, and return the intent of the restore that will use it.

    Args:
        archive: where the savepoint is.
        manifest: the savepoint.
        paths: of the checkpoint that it will replace.
        epoch: the new epoch.
        progress: called after each file.
        transform: changes the copy.
        s3: how S3 is reached.
        require_lease: raises if another restore has taken the place of this one.

    Raises:
        DamagedSavepoint: a file is missing or altered.
        CheckpointInUse: another restore has taken the place of this one.
    """
    require_lease()
    paths.incoming.clear()
    copy = paths.copy(name := uuid.uuid4().hex[:12])
    # A transformation lets Spark write to the copy, so until then it must be a checkpoint of its own folder.
    checkpoint_path = paths.checkpoint.root if transform is None else copy.root
    write_checkpoint(archive, manifest, into=copy, checkpoint_path=checkpoint_path, progress=progress)
    require_lease()
    _require_consistent(copy, manifest)
    if transform is not None:
        transform(copy)
        rewrite_paths(copy, old=copy.root, new=paths.checkpoint.root)
    require_lease()
    _write_epoch(paths, copy, manifest, epoch, s3)
    _keep_notes(paths, copy, archive, manifest)
    os.sync()  # the copy must be on the disk before an intent relies on it
    files = copy.sizes()
    if transform is None:
        _require_whole(copy, files, manifest)
    return RestoreIntent(
        location=archive.location,
        name=manifest.name,
        made_at=manifest.made_at.isoformat(),
        epoch=epoch,
        replaces=paths.checkpoint.exists(),
        files=len(files),
        copy=name,
        tables=tuple(table.path for table in manifest.tables.values()),
    )


def move_copy(paths: RestorePaths, intent: RestoreIntent, require_lease: Callable[[], None]) -> None:
    """Let the copy become the checkpoint, whose place is free.

    Args:
        paths: of the checkpoint.
        intent: of the restore.
        require_lease: called before each change; what it raises ends the move.

    Raises:
        SavepointRefused: other files are there, too. The same restore makes the copy again then.
    """
    require_lease()
    paths.copy(intent.copy).move_to(paths.folder, require_lease)
    if is_copy(paths.checkpoint, intent):
        return
    require_lease()
    write_intent(paths, replace(intent, spoiled=True))
    raise SavepointRefused(
        f"files were written to {paths.checkpoint.root} during its restore; make sure that no job runs there, and run "
        "the same restore again"
    )


def _require_whole(copy: Files, files: Collection[str], manifest: Manifest) -> None:
    """Refuse a copy that lacks files, as another restore that was paused may clear the folder of all copies late."""
    missing = {file.path for file in manifest.files}.difference(files)
    if missing:
        raise SavepointRefused(
            f"{min(missing)} in {copy.root} was removed while the copy was made; make sure that no other restore of "
            "the checkpoint runs, and run the same restore again"
        )


def _keep_notes(paths: RestorePaths, copy: Files, archive: Archive, manifest: Manifest) -> None:
    """Write to the copy what is to be said of the checkpoint that it replaces, and which savepoint is the newest.

    An interrupted restore, whose place this one takes, may have moved the checkpoint aside.
    `panekeeper maintain` keeps the files of those in its location. A savepoint has no such record, so it would be gone;
    and one that was made after it is still there.
    """
    folders = (paths.checkpoint, *moved_aside(paths))
    replaced = next((folder for folder in folders if folder.exists(JOB_FILE)), paths.checkpoint)
    for file in unaccounted_files(replaced):
        copy.write_json(file, read_unaccounted(replaced, file))
    restored, before = manifest.noted(archive.location), read_last_savepoint(replaced)
    newest = restored if before is None or before.at < restored.at else before
    write_last_savepoint(copy, newest)


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


def _write_epoch(paths: RestorePaths, copy: Files, manifest: Manifest, epoch: int, s3: S3Options | None) -> None:
    record = read_record(copy)
    assert record is not None  # the copy of a savepoint has one
    others = checkpoints_with_same_tables(manifest, paths.checkpoint, s3)
    former = last_known_epochs(record.former, paths.checkpoint, manifest, others, s3)
    if not _is_same_job(paths.checkpoint, manifest):
        record = replace(record, id=uuid.uuid4().hex[:12])
    former.pop(record.id, None)
    new = replace(record, former=former, epoch=epoch)
    copy.put_bytes(JOB_FILE, json.dumps(new.to_json()).encode())
    record_last_commit(copy, new)


def _is_same_job(checkpoint: Files, manifest: Manifest) -> bool:
    """Return whether the checkpoint that is replaced shows which epochs were used under the savepoint's job id.

    If it is gone, or has another id, they are not known; then a new id makes sure that no transaction id is used twice.
    """
    record = read_record_or_none(checkpoint)
    return record is not None and record.id == manifest.job_id
