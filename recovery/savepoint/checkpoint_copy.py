"""Writes a savepoint as a checkpoint for any folder, each file checked on the way."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from panekeeper.recovery.errors import DamagedSavepoint
from panekeeper.recovery.savepoint.checkpoint_reader import files_ahead
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.archive import Archive, ByteSink
from panekeeper.recovery.storage.blobs import ProgressCallback, SavedFile, TransferProgress, download
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.recovery.storage.parallel import map_parallel
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, JOB_FILE, STATE_FOLDER, local_path
from panekeeper.state.own_paths import follow, is_description, quoted, spellings
from panekeeper.state.snapshots import require_plain_ids, require_plain_names_in_snapshot, require_schemas_within

_IN_MEMORY = 2**20
"""How many bytes of a file that is checked are held in memory."""


def write_checkpoint(
    archive: Archive, manifest: Manifest, *, into: Files, progress: ProgressCallback | None = None
) -> None:
    """Write the files of a savepoint into a new folder; first the one that says which job it is of.

    Args:
        archive: where the savepoint is.
        manifest: the savepoint.
        into: the new folder.
        progress: called after each file.

    Raises:
        DamagedSavepoint: a file is missing or altered, or has content that Panekeeper never writes; what was written so
            far stays there.
        CorruptState: Spark's logs in it are truncated or altered.
        SavepointRefused: a link leads out of the folder.
    """
    done = 0
    first = [file for file in manifest.files if file.path == JOB_FILE]
    for files in (first, [file for file in manifest.files if file not in first]):
        for file, _ in map_parallel(lambda file: _write(archive, file, into), files):
            done += file.size
            if progress is not None:
                progress(TransferProgress(sent=done, reused=0, total=manifest.size))
    for path in files_ahead(into, manifest.batch):
        raise _never_written(path, "no batch of it has read this file, and a start would")
    settle(into)


@contextmanager
def temporary_copy(archive: Archive, manifest: Manifest) -> Iterator[str]:
    """Provide the full name of a folder on this host with a savepoint's checkpoint, while the block lasts.

    Args:
        archive: where the savepoint's files are.
        manifest: the savepoint.

    Raises:
        DamagedSavepoint: a file is missing or altered.
    """
    with tempfile.TemporaryDirectory(prefix="panekeeper-copy-") as scratch:
        folder = str(Path(scratch).resolve() / "checkpoint")
        write_checkpoint(archive, manifest, into=LocalFiles(Path(folder)))
        yield folder


def settle(folder: Files) -> None:
    """Let Spark's files in a copy name the folder that it is in.

    Raises:
        DamagedSavepoint: one names a file that is not in this folder: Spark would read or write it.
        CorruptState: Spark's logs in it are truncated or altered.
    """
    follow(folder)
    for path in filter(is_description, folder.sizes(f"{STATE_FOLDER}/")):
        if path.rpartition("/")[2].startswith("."):
            continue  # Hadoop's checksums are no text
        try:
            require_schemas_within(folder.read(path), partial(_is_within, folder.place))
        except ValueError as error:
            raise _never_written(path, str(error)) from error


def _write(archive: Archive, file: SavedFile, into: Files) -> None:
    into.require_within(file.path)
    with into.open_new(file.path) as target, _checked(file.path, target) as checked:
        download(archive, file, checked)


@contextmanager
def _checked(path: str, into: ByteSink) -> Iterator[ByteSink]:
    """Provide a sink that writes on to another one, and check what was written, before the file gets its name.

    Spark opens and writes files by the names in a snapshot of the state, and in a commit.
    """
    check = _check_of(PurePosixPath(path))
    if check is None:
        yield into
        return
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="panekeeper-") as copy:
        yield _Both(into, copy)
        copy.seek(0)
        try:
            check(copy)
        except ValueError as error:
            raise _never_written(path, str(error)) from error


def _check_of(path: PurePosixPath) -> Callable[[IO[bytes]], None] | None:
    if path.parts[0] == COMMITS_FOLDER:
        return lambda file: require_plain_ids(file.read())
    if path.parts[0] != STATE_FOLDER:
        return None
    return require_plain_names_in_snapshot if path.suffix == ".zip" else None


def _is_within(folder: str, file: str) -> bool:
    """Return whether a full name is one of a file in a folder, which a job may name by a link to it."""
    spelled = [one for name in (folder, quoted(folder)) for one in spellings(name).values()]
    if any(file.startswith(f"{one}/") for one in spelled):
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


class _Both:
    """A sink that writes on to two others."""

    def __init__(self, first: ByteSink, second: ByteSink) -> None:
        self._first, self._second = first, second

    def write(self, data: bytes, /) -> int:
        """Write the next piece and return its length."""
        self._first.write(data)
        self._second.write(data)
        return len(data)
