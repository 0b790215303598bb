"""A restore leaves a record of the last batch: that it is committed, with which offsets, and whether it was a flush."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from panekeeper.recovery.restore.restore import restore
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER
from panekeeper.state.checkpoint.job_record import read_record, write_flushed
from panekeeper.state.prepared import read_prepared
from tests.recovery.conftest import FakeCheckpoint, savepoint

if TYPE_CHECKING:
    from tests.recovery.storage.memory_archive import MemoryArchive


@pytest.mark.parametrize("is_flush", [False, True])
def test_what_a_restore_records_of_the_last_batch(
    job: FakeCheckpoint, archive: MemoryArchive, *, is_flush: bool
) -> None:
    """Without the flush, a job that had lost `flushed.json` after the restore would begin again."""
    if is_flush:
        write_flushed(job.files, job.batch)
    savepoint(job.folder, "one", to=archive)
    restore(archive, "one")
    record = read_record(job.files)
    assert record is not None
    found = read_prepared(job.files, record.epoch, job.batch, job=record.id)
    assert found is not None
    assert found.spark_commit.encode() == job.files.read(f"{COMMITS_FOLDER}/{job.batch}")
    assert found.is_flush is is_flush
