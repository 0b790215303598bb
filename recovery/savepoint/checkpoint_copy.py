"""Turns a savepoint back into a checkpoint, each file checked on its way."""

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
    """Write the checkpoint's files into the new folder `into`, as they must be for a job whose folder is `runs_at`.

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
    """Give a folder on this machine with the checkpoint's files, to be read by Spark while the block lasts.

    Raises:
        DamagedSavepoint: a file is missing or altered.
    """
    with tempfile.TemporaryDirectory(prefix="panekeeper-copy-") as scratch:
        folder = str(Path(scratch).resolve() / "checkpoint")
        write_checkpoint(archive, manifest, into=LocalFiles(Path(folder)), checkpoint_path=folder)
        yield folder


def rewrite_paths(folder: Files, *, old: str, new: str) -> None:
    """Write `new` for `old` in the files of a checkpoint into which Spark writes its full name."""
    for name in folder.sizes():
        if contains_absolute_path(name) and not name.rpartition("/")[2].startswith("."):
            content = with_new_path(name, folder.read(name), old=old, new=new)
            folder.remove(name)  # with Hadoop's checksum of what stood there
            folder.put_bytes(name, content)


def _write(archive: Archive, file: SavedFile, into: Files, old: str, new: str) -> None:
    if contains_absolute_path(file.path):
        data = io.BytesIO()
        download(archive, file, data)
        into.put_bytes(file.path, with_new_path(file.path, data.getvalue(), old=old, new=new))
    else:
        with into.open_new(file.path) as target:
            download(archive, file, target)
