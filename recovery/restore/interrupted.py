"""A restore that was interrupted: the same call completes it, or another restore takes its place.

Another one may do so only if the interrupted one cannot be completed: its savepoint or its copy is gone or damaged, or
a table that it was still to restore has lost the version. What it left behind is found by the epoch it would have had,
and by those of the restores that it had taken the place of.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from panekeeper.recovery.errors import (
    ArchiveNotFound,
    DamagedSavepoint,
    ForeignManifest,
    NoSuchSavepoint,
    SavepointError,
    SavepointRefused,
)
from panekeeper.recovery.restore.intent import RestoreIntent, read_intent
from panekeeper.recovery.savepoint.catalog import savepoints, show, show_trusted
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.errors import StateError


def require_no_interrupted_restore(checkpoint: Files) -> None:
    """Refuse a checkpoint whose restore was interrupted.

    Raises:
        SavepointRefused: it was; the message gives the command that completes it.
    """
    interrupted = read_intent(RestorePaths(checkpoint=checkpoint))
    if interrupted is not None:
        raise SavepointRefused(
            f"a restore of {checkpoint.root} was interrupted; complete it first: "
            f"panekeeper restore {interrupted.location} {interrupted.name} --checkpoint {checkpoint.root}"
        )


def find_savepoint(archive: Archive, name: str, checkpoint: Location | None, s3: S3Options | None) -> Manifest:
    """Return the savepoint that is to be restored.

    Args:
        archive: where it is.
        name: of the savepoint.
        checkpoint: where it is restored to; None: where it was made.
        s3: how S3 is reached.

    Raises:
        NoSuchSavepoint: there is none of this name; if a restore of it was interrupted, the message says how to
            recover.
    """
    try:
        return show_trusted(archive, name)
    except NoSuchSavepoint as error:
        folder = _interrupted_restore_of(archive, name, checkpoint, s3)
        if folder is None:
            raise
        raise NoSuchSavepoint(
            f"{error}. A restore of it to {folder} was interrupted and cannot be completed without it; "
            f"restore another savepoint of the job, which takes its place: "
            f"panekeeper restore LOCATION NAME --checkpoint {folder}"
        ) from error


def completes_interrupted(
    paths: RestorePaths,
    interrupted: RestoreIntent,
    archive: Archive,
    manifest: Manifest,
    s3: S3Options | None,
    has_tables: Callable[[Manifest], bool],
) -> bool:
    """Return whether a restore of this savepoint completes the interrupted one; if not, it takes its place.

    Args:
        paths: of the checkpoint.
        interrupted: the intent that is there.
        archive: where the savepoint is.
        manifest: the savepoint.
        s3: how S3 is reached.
        has_tables: returns whether the tables of a savepoint still have its versions.

    Raises:
        SavepointRefused: the interrupted restore is of another savepoint and can be completed, or of another job.
    """
    has_its_name = (interrupted.location, interrupted.name) == (archive.location, manifest.name)
    is_replaced = has_its_name and interrupted.made_at not in ("", manifest.made_at.isoformat())
    folders = (paths.copy(interrupted.copy), paths.checkpoint)
    is_there = with_steps_done(paths, interrupted).has_done("in place")
    has_copy = not interrupted.spoiled and (is_there or any(is_copy(folder, interrupted) for folder in folders))
    if has_its_name and not is_replaced:
        return has_copy
    if not is_replaced and has_copy and _can_be_restored(interrupted, archive, s3, has_tables):
        raise SavepointRefused(
            f"a restore of savepoint {interrupted.name!r} from {interrupted.location} was interrupted; "
            "complete it first: "
            f"panekeeper restore {interrupted.location} {interrupted.name} --checkpoint {paths.checkpoint.root}"
        )
    for folder in (paths.checkpoint, paths.copy(interrupted.copy), *map(paths.replaced, interrupted.epochs)):
        record = read_record_or_none(folder)
        if record is not None and record.name != manifest.job:
            raise SavepointRefused(
                f"a restore of job {record.name!r} to {paths.checkpoint.root} was interrupted, and the savepoint is "
                f"of {manifest.job!r}; name another folder"
            )
    return False


def is_copy(folder: Files, intent: RestoreIntent) -> bool:
    """Return whether a folder holds the whole copy of a restore, and not a part of it, or that of another restore."""
    record = read_record_or_none(folder)
    return record is not None and record.epoch == intent.epoch and len(folder.resolved().sizes()) == intent.files


def with_steps_done(paths: RestorePaths, intent: RestoreIntent) -> RestoreIntent:
    """Return an intent by which the copy has become the checkpoint if it has, whatever step was recorded last.

    A restore that was paused records one late: another one may have completed it, and the job may have run since.
    """
    record = read_record_or_none(paths.checkpoint)
    is_moved = record is not None and record.epoch >= intent.epoch and not paths.copy(intent.copy).sizes()
    return replace(intent, done="in place") if is_moved else intent


def read_record_or_none(checkpoint: Files) -> JobRecord | None:
    """Return the job record of a checkpoint, None if there is none or it cannot be read."""
    try:
        return read_record(checkpoint)
    except (StateError, OSError):
        return None  # damaged or of another version


def _can_be_restored(
    interrupted: RestoreIntent, archive: Archive, s3: S3Options | None, has_tables: Callable[[Manifest], bool]
) -> bool:
    """Return whether the same restore would be completed, or may be once its store is reachable again."""
    same = interrupted.location == archive.location
    try:
        found = show(archive if same else open_archive(interrupted.location, s3), interrupted.name)
    except (NoSuchSavepoint, ArchiveNotFound, DamagedSavepoint, ForeignManifest):
        return False
    except SavepointError:
        return True  # not reachable now, or of a newer version
    return interrupted.has_done("tables") or has_tables(found)


def _interrupted_restore_of(
    archive: Archive, name: str, checkpoint: Location | None, s3: S3Options | None
) -> str | None:
    """Return the checkpoint whose restore from this savepoint was interrupted.

    Without `checkpoint`, it is looked for where the other savepoints of the location were made.
    """
    folders: Iterable[str | os.PathLike[str]] = _checkpoints_in_catalog(archive) if checkpoint is None else [checkpoint]
    for folder in folders:
        with suppress(SavepointError, StateError, OSError):  # the caller reports that the savepoint is not there
            files = checkpoint_at(folder, s3)
            interrupted = read_intent(RestorePaths(checkpoint=files))
            if interrupted is not None and (interrupted.location, interrupted.name) == (archive.location, name):
                return files.root
    return None


def _checkpoints_in_catalog(archive: Archive) -> dict[str, None]:
    """Return the checkpoints of the savepoints in a location, each once, in their order."""
    return dict.fromkeys(one.checkpoint for one in savepoints(archive).values() if isinstance(one, Manifest))
