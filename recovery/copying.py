"""Turns a savepoint back into a checkpoint folder, each file checked on its way."""

from __future__ import annotations

import io
from pathlib import Path

from recovery.archive import Archive
from recovery.blobs import Listener, Progress, fetch, side_by_side
from recovery.checkpoint_folder import moved, names_folder
from recovery.manifest import Manifest, SavedFile


def materialize(
    archive: Archive, manifest: Manifest, *, into: Path, runs_at: Path, progress: Listener | None = None
) -> None:
    """Write the checkpoint's files into the new folder `into`, as they must be for a job whose folder is `runs_at`.

    Raises:
        DamagedSavepoint: a file is missing or altered; what was written so far stays there.
    """
    old, done = Path(manifest.checkpoint), 0
    for file, _ in side_by_side(lambda file: _write(archive, file, into, old, runs_at), manifest.files):
        done += file.size
        if progress is not None:
            progress(Progress(sent=done, reused=0, total=manifest.size))
    for name in ("offsets", "commits", "pulse"):
        (into / name).mkdir(parents=True, exist_ok=True)


def readdress(folder: Path, *, old: Path, new: Path) -> None:
    """Write `new` for `old` in the files of a checkpoint folder into which Spark writes its full name."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not path.name.startswith(".") and names_folder(name):
            path.write_bytes(moved(name, path.read_bytes(), old=old, new=new))
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of what stood there


def _write(archive: Archive, file: SavedFile, into: Path, old: Path, new: Path) -> None:
    path = into / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if names_folder(file.path):
        data = io.BytesIO()
        fetch(archive, file, data)
        path.write_bytes(moved(file.path, data.getvalue(), old=old, new=new))
    else:
        with path.open("wb") as target:
            fetch(archive, file, target)
