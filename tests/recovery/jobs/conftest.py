"""The checkpoint of a job as `panekeeper status` and `drain` find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from panekeeper.state.checkpoint.epochs import Pointer, create_pointer, epoch_folder
from panekeeper.state.checkpoint.folder import JOB_FILE, LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord

RECORD = JobRecord(name="readings", id="7f", declaration={}, group_ids=(3,), versions={})


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalFolder:
    """The only epoch in the checkpoint of a job that has finished batch 1 and begun batch 2."""
    root = LocalFolder(tmp_path)
    create_pointer(root, Pointer(name=RECORD.name, id=RECORD.id, epoch=0))
    folder = epoch_folder(root, 0)
    folder.write_json(JOB_FILE, RECORD.to_json())
    folder.write_json("metadata", {"id": "7"})
    for log, batches in (("offsets", (0, 1, 2)), ("commits", (0, 1))):
        for batch in batches:
            log_file(folder, log, str(batch))
    log_file(folder, "offsets", ".99.crc")
    log_file(folder, "offsets", ".98.5e0c.tmp")
    log_file(folder, "commits", "97.tmp")
    return folder


def whole(epoch: LocalFolder) -> LocalFolder:
    """Return the checkpoint of an epoch."""
    return LocalFolder(Path(epoch.root))


def log_file(folder: LocalFolder, log: str, name: str) -> None:
    """Put a file into one of Spark's logs."""
    (folder.path / log).mkdir(exist_ok=True)
    (folder.path / log / name).write_text("v1\n{}" if log == "commits" else 'v1\n{"conf":{}}\n-')
