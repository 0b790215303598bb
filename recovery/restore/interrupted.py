"""A restore that was interrupted: it is completed by the same call, or another one takes its place.

Another one may do so only if the savepoint of the first is gone, or its copy is: then nobody can complete it. What it
left is told by the epoch it would have had, and by those of others before it that came to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from recovery.errors import ArchiveNotFound, NoSuchSavepoint, SavepointError, SavepointRefused
from recovery.restore.intent import Intent, Places
from recovery.savepoint.catalog import savepoints, show
from recovery.savepoint.checkpoint_reader import read_record
from recovery.savepoint.create import opened
from recovery.savepoint.manifest import Manifest
from recovery.storage.archive import Archive, S3Options
from recovery.storage.files import Files, checkpoint_at
from state.checkpoint.job_record import JobRecord
from state.errors import StateError


def require_none_begun(checkpoint: Files) -> None:
    """Raise `SavepointRefused` if a restore of this checkpoint was interrupted; it says how to complete it."""
    begun = Places(checkpoint=checkpoint).intent()
    if begun is not None:
        raise SavepointRefused(
            f"a restore of {checkpoint.root} was interrupted; complete it first: "
            f"panekeeper restore {begun.location} {begun.name} --checkpoint {checkpoint.root}"
        )


def wanted(archive: Archive, name: str, checkpoint: str | os.PathLike[str] | None, s3: S3Options | None) -> Manifest:
    """Return the savepoint that shall be restored.

    Raises:
        NoSuchSavepoint: there is none of this name; if a restore of it was begun, the message says the way out.
    """
    try:
        return show(archive, name)
    except NoSuchSavepoint as error:
        folder = _begun_in(archive, name, checkpoint, s3)
        if folder is None:
            raise
        raise NoSuchSavepoint(
            f"{error}. A restore of it to {folder} was begun, and cannot be completed without it; restore another "
            f"savepoint of the job, which takes its place: panekeeper restore LOCATION NAME --checkpoint {folder}"
        ) from error


def can_go_on(places: Places, begun: Intent, archive: Archive, manifest: Manifest, s3: S3Options | None) -> bool:
    """Say whether a restore of this savepoint completes what was begun; if not, it takes its place.

    Raises:
        SavepointRefused: another savepoint's restore was begun and can be completed, or it was another job's.
    """
    if (begun.location, begun.name) == (archive.location, manifest.name):
        return begun.has_done("in place") or places.incoming.exists() or is_in_place(places, begun)
    if not _is_gone(begun, archive, s3):
        raise SavepointRefused(
            f"a restore of savepoint {begun.name!r} from {begun.location} was interrupted; run that one again first"
        )
    for folder in (places.checkpoint, places.incoming, *map(places.replaced, begun.epochs)):
        record = present(folder)
        if record is not None and record.name != manifest.job:
            raise SavepointRefused(
                f"a restore of job {record.name!r} to {places.checkpoint.root} was interrupted, and the savepoint is "
                f"of {manifest.job!r}; name another folder"
            )
    return False


def is_in_place(places: Places, begun: Intent) -> bool:
    """Say whether the copy stands where the checkpoint shall be, whole."""
    record = present(places.checkpoint)
    return record is not None and record.epoch == begun.epoch and len(places.folder.sizes()) == begun.files


def present(checkpoint: Files) -> JobRecord | None:
    """Return what a checkpoint says of its job, None if there is none or it cannot be read."""
    try:
        return read_record(checkpoint)
    except (StateError, OSError):
        return None  # damaged or of another version: it tells nothing


def _is_gone(begun: Intent, archive: Archive, s3: S3Options | None) -> bool:
    try:
        show(archive if begun.location == archive.location else opened(begun.location, s3), begun.name)
    except (NoSuchSavepoint, ArchiveNotFound):
        return True
    except SavepointError:
        return False  # damaged, or out of reach just now: this may be mended
    return False


def _begun_in(
    archive: Archive, name: str, checkpoint: str | os.PathLike[str] | None, s3: S3Options | None
) -> str | None:
    """Return the checkpoint to which a restore of this savepoint was begun: the one given, or one of its neighbours."""
    folders: Iterable[str | os.PathLike[str]] = [checkpoint] if checkpoint is not None else _known(archive)
    for folder in folders:
        with suppress(SavepointError, StateError, OSError):  # what is wrong there is not what was asked
            files = checkpoint_at(folder, s3)
            begun = Places(checkpoint=files).intent()
            if begun is not None and (begun.location, begun.name) == (archive.location, name):
                return files.root
    return None


def _known(archive: Archive) -> dict[str, None]:
    """The checkpoints of the savepoints that are there, each once."""
    return dict.fromkeys(one.checkpoint for one in savepoints(archive).values() if isinstance(one, Manifest))
