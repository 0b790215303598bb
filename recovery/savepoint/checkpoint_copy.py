"""Turns a savepoint back into a checkpoint, each file checked on its way."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recovery.savepoint.checkpoint_reader import moved, names_folder
from recovery.savepoint.manifest import Manifest, SavedFile
from recovery.storage.archive import Archive
from recovery.storage.blobs import Listener, Progress, fetch
from recovery.storage.files import Files
from recovery.storage.local_files import LocalFiles
from recovery.storage.parallel import side_by_side


def materialize(
    archive: Archive, manifest: Manifest, *, into: Files, runs_at: str, progress: Listener | None = None
) -> None:
    """Write the checkpoint's files into the new folder `into`, as they must be for a job whose folder is `runs_at`.

    Raises:
        DamagedSavepoint: a file is missing or altered; what was written so far stays there.
    """
    old, done = manifest.checkpoint, 0
    for file, _ in side_by_side(lambda file: _write(archive, file, into, old, runs_at), manifest.files):
        done += file.size
        if progress is not None:
            progress(Progress(sent=done, reused=0, total=manifest.size))


@contextmanager
def scratch_copy(archive: Archive, manifest: Manifest) -> Iterator[str]:
    """Give a folder on this machine with the checkpoint's files, to be read by Spark while the block lasts.

    Raises:
        DamagedSavepoint: a file is missing or altered.
    """
    with tempfile.TemporaryDirectory(prefix="panekeeper-copy-") as scratch:
        folder = str(Path(scratch).resolve() / "checkpoint")
        materialize(archive, manifest, into=LocalFiles(Path(folder)), runs_at=folder)
        yield folder


def readdress(folder: Files, *, old: str, new: str) -> None:
    """Write `new` for `old` in the files of a checkpoint into which Spark writes its full name."""
    for name in folder.sizes():
        if names_folder(name) and not name.rpartition("/")[2].startswith("."):
            content = moved(name, folder.read(name), old=old, new=new)
            folder.remove(name)  # with Hadoop's checksum of what stood there
            folder.put_bytes(name, content)


def _write(archive: Archive, file: SavedFile, into: Files, old: str, new: str) -> None:
    if names_folder(file.path):
        data = io.BytesIO()
        fetch(archive, file, data)
        into.put_bytes(file.path, moved(file.path, data.getvalue(), old=old, new=new))
    else:
        with into.new(file.path) as target:
            fetch(archive, file, target)
