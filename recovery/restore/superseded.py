"""The other checkpoints of a job whose savepoint goes to another folder. Its tables fit that one only.

A job that was started from one of the others would go on over tables that were taken back, and rows would be missing
from them without a word. So word is left there, and no job starts (`framework.engine.job.startup_checks`).
"""

from __future__ import annotations

import json

from recovery.errors import ArchiveNotFound
from recovery.restore.interrupted import present
from recovery.savepoint.manifest import Manifest
from recovery.storage.archive import S3Options
from recovery.storage.files import Files, checkpoint_at
from state.checkpoint.job_record import MOVED_FILE


def written_from(manifest: Manifest, checkpoint: Files, s3: S3Options | None) -> list[Files]:
    """Return the folders, but `checkpoint`, from which the savepoint's tables may be written.

    That is where the savepoint was made, and where it was moved from there.
    """
    found: dict[str, Files] = {}
    seen: set[str] = {checkpoint.root}
    folder = checkpoint_at(manifest.checkpoint, s3)
    while True:
        try:
            record, moved = present(folder), folder.read_json(MOVED_FILE)
        except ArchiveNotFound:  # in a bucket that is gone no job runs
            break
        if folder.root not in seen and record is not None and record.name == manifest.job:
            found[folder.root] = folder
        seen.add(folder.root)
        if moved is None or moved["to"] in seen:
            break
        folder = checkpoint_at(moved["to"], s3)
    return [*found.values()]


def leave_word(manifest: Manifest, checkpoint: Files, s3: S3Options | None) -> None:
    """Let no job start from the others any more. The last one first: the way to it is told by those before."""
    if manifest.tables:
        for folder in reversed(written_from(manifest, checkpoint, s3)):
            folder.put_bytes(MOVED_FILE, json.dumps({"to": checkpoint.root}).encode())
