"""Writes a savepoint as a checkpoint, each file checked on the way."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recovery.savepoint.checkpoint_reader import contains_absolute_path, with_new_path
from recovery.savepoint.manifest import Manifest
from recovery.storage.archive import Archive
from recovery.storage.blobs import ProgressCallback, SavedFile, TransferProgress, download
from recovery.storage.files import Files
from recovery.storage.local_files import LocalFiles
from recovery.storage.parallel import map_parallel


def write_checkpoint(
    archive: Archive, manifest: Manifest, *, into: Files, checkpoint_path: str, progress: ProgressCallback | None = None
) -> None:
    """Write the files of a savepoint into a new folder.

    Args:
        archive: where the savepoint is.
        manifest: the savepoint.
        into: the new folder.
        checkpoint_path: full name of the folder that the job will run on; it is written into the files in which Spark
            stores that name.
        progress: called after each file.

    Raises:
        DamagedSavepoint: a file is missing or altered; what was written so far stays there.
    """
    old, done = manifest.checkpoint, 0
    for file, _ in map_parallel(lambda file: _write(archive, file, into, old, checkpoint_path), manifest.files):
        done += file.size
        if progress is not None:
            progress(TransferProgress(sent=done, reused=0, total=manifest.size))


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
        write_checkpoint(archive, manifest, into=LocalFiles(Path(folder)), checkpoint_path=folder)
        yield folder


def rewrite_paths(folder: Files, *, old: str, new: str) -> None:
    """Replace the full name of a checkpoint in the files in which Spark stores it.

    Args:
        folder: the files.
        old: the name they have.
        new: the name they get.
    """
    for name in folder.sizes():
        if contains_absolute_path(name) and not name.rpartition("/")[2].startswith("."):
            content = with_new_path(name, folder.read(name), old=old, new=new)
            folder.remove(name)  # with Hadoop's checksum of the old content
            folder.put_bytes(name, content)


def _write(archive: Archive, file: SavedFile, into: Files, old: str, new: str) -> None:
    if contains_absolute_path(file.path):
        data = io.BytesIO()
        download(archive, file, data)
        into.put_bytes(file.path, with_new_path(file.path, data.getvalue(), old=old, new=new))
    else:
        with into.open_new(file.path) as target:
            download(archive, file, target)
