"""A copy of a checkpoint: how the files of a savepoint are written into a new folder.

Anyone may have written a savepoint, so each file is checked on the way: Spark would open and write what its files name.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from panekeeper.recovery.errors import DamagedSavepoint
from panekeeper.recovery.savepoint.checkpoint_snapshot import files_ahead
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import ProgressCallback, SavedFile, TransferProgress, download
from panekeeper.recovery.storage.files import Files, LocalFiles, map_parallel
from panekeeper.state.checkpoint import folder as layout
from panekeeper.state.checkpoint.folder import local_path
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.errors import StateError
from panekeeper.state.own_paths import follow, is_description, quoted, spellings
from panekeeper.state.snapshots import require_plain_ids, require_plain_names_in_snapshot, require_schemas_within

_IN_MEMORY = 2**20
"""How many bytes of a file that is checked are held in memory."""


def write_checkpoint(
    archive: Archive, manifest: Manifest, *, into: Files, progress: ProgressCallback | None = None
) -> None:
    """Write the files of a savepoint into a new folder; first the one that says which job it is of.

    Raises `DamagedSavepoint` if a file is missing or altered, or has content that Panekeeper never writes; what was
    written so far stays there.
    """
    done = 0
    first = [file for file in manifest.files if file.path == layout.JOB_FILE]
    for files in (first, [file for file in manifest.files if file not in first]):
        for file, _ in map_parallel(lambda file: _write(archive, file, into), files):
            done += file.size
            if progress is not None:
                progress(TransferProgress(sent=done, reused=0, total=manifest.size))
    for path in files_ahead(into, manifest.batch):
        raise _never_written(path, "no batch of it has read this file, and a start would")
    # The record may have been written late, over that of those who ran on (`state/prepared.py`); a copy has no batches.
    with suppress(StateError):  # who needs it says what is wrong with it
        record = read_record(into)
        if record is not None and record.declaration != manifest.declaration:
            right = replace(record, declaration=manifest.declaration)
            into.put_bytes(layout.JOB_FILE, json.dumps(right.to_json()).encode())
    # Let Spark's files name the folder that they are in now, and no file outside of it: Spark would read or write it.
    follow(into)
    for path in filter(is_description, into.sizes(f"{layout.STATE_FOLDER}/")):
        if path.rpartition("/")[2].startswith("."):
            continue  # Hadoop's checksums are no text
        try:
            require_schemas_within(into.read(path), partial(_is_within, into.place))
        except ValueError as error:
            raise _never_written(path, str(error)) from error


def read_saved_record(archive: Archive, manifest: Manifest) -> JobRecord:
    """Return what a savepoint has of its job. Raises `DamagedSavepoint`, or as `read_record`."""
    with tempfile.TemporaryDirectory(prefix="panekeeper-record-") as scratch:
        folder = LocalFiles(Path(scratch))
        for file in manifest.files:
            if file.path == layout.JOB_FILE:
                _write(archive, file, folder)
        record = read_record(folder)
    if record is None:
        raise DamagedSavepoint(f"{layout.JOB_FILE} of savepoint {manifest.name!r} is empty; use another savepoint")
    return record


@contextmanager
def temporary_copy(archive: Archive, manifest: Manifest) -> Iterator[str]:
    """Provide the full name of a folder on this host with a savepoint's checkpoint, while the block lasts."""
    with tempfile.TemporaryDirectory(prefix="panekeeper-copy-") as scratch:
        folder = str(Path(scratch).resolve() / "checkpoint")
        write_checkpoint(archive, manifest, into=LocalFiles(Path(folder)))
        yield folder


@contextmanager
def checked_copy(archive: Archive, manifest: Manifest, progress: ProgressCallback | None = None) -> Iterator[Files]:
    """Do all that `write_checkpoint` does and raise what it raises, and keep nothing after the block.

    Of the state, which may be large, each file is read and checked, and its content is not kept meanwhile.
    """
    with tempfile.TemporaryDirectory(prefix="panekeeper-check-") as scratch:
        folder = _WithoutState(Path(scratch).resolve() / "checkpoint")
        write_checkpoint(archive, manifest, into=folder, progress=progress)
        yield folder


class _WithoutState(LocalFiles):
    """A folder that stores no state, but for the files that describe it."""

    def child(self, name: str) -> _WithoutState:
        return _WithoutState(self.path / name, s3=self.s3)

    def open_new(self, name: str) -> AbstractContextManager[BinaryIO]:
        if not name.startswith(f"{layout.STATE_FOLDER}/") or is_description(name):
            return super().open_new(name)
        return Path(os.devnull).open("wb")


def _write(archive: Archive, file: SavedFile, into: Files) -> None:
    """Write a file, and check what was written before it gets its name."""
    check = _check_of(PurePosixPath(file.path))
    with into.open_new(file.path) as target:
        if check is None:
            download(archive, file, target)
            return
        with tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="panekeeper-") as copy:
            download(archive, file, target, copy)
            copy.seek(0)
            try:
                check(copy)
            except ValueError as error:
                raise _never_written(file.path, str(error)) from error


def _check_of(path: PurePosixPath) -> Callable[[IO[bytes]], None] | None:
    """Return the check of a file by whose content Spark opens and writes others: commits, snapshots of the state."""
    if path.parts[0] == layout.COMMITS_FOLDER:
        return lambda file: require_plain_ids(file.read())
    return require_plain_names_in_snapshot if path.parts[0] == layout.STATE_FOLDER and path.suffix == ".zip" else None


def _is_within(folder: str, file: str) -> bool:
    """Return whether a full name is one of a file in a folder, which a job may name by a link to it."""
    spelled = [spelling for name in (folder, quoted(folder)) for spelling in spellings(name).values()]
    if any(file.startswith(f"{spelling}/") for spelling in spelled):
        return True
    place, target = local_path(folder), local_path(file)
    if place is None or target is None:
        return False
    return os.path.realpath(target).startswith(f"{os.path.realpath(place)}/")


def _never_written(path: str, why: str) -> DamagedSavepoint:
    return DamagedSavepoint(
        f"{path} in the savepoint has content that Spark never writes ({why}); do not use this savepoint, and find out "
        "who can write to its location"
    )
