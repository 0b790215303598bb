"""A savepoint is refused where checkpoint and tables do not fit together: a restore of it would hide that."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.framework.declarations.errors import CheckpointError, SinkError
from panekeeper.framework.engine.sink.library_table import FENCED, LibraryTable
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.state.checkpoint.folder import (
    INPUTS_FILE,
    TABLES_FILE,
    prepared_file,
)
from panekeeper.state.checkpoint.job_record import OWNER
from panekeeper.state.prepared import PreparedBatch
from tests.recovery.upkeep.conftest import SCHEMA, JobWithTable

ID = "0123456789ab"
WRITER = f"readings/log@{ID}#0"


@pytest.fixture
def tabled(tmp_path: Path) -> JobWithTable:
    """A stopped job of three batches, which its table has."""
    made = JobWithTable(tmp_path)
    made.append(3)
    return made


def note(job: JobWithTable, transaction: str, version: int) -> None:
    """Commit a transaction alone to the table."""
    LibraryTable(str(job.table)).note({transaction: version})


def record_tables(job: JobWithTable, *, batch: int) -> None:
    """Let the record of the last batch say that its table has it."""
    table = {"path": str(job.table), "id": str(DeltaTable(job.table).metadata().id), "batch": batch}
    record = PreparedBatch(number=batch, epoch=0, spark_commit="{}", job=ID, tables={"log": table})
    job.checkpoint.files.put_bytes(prepared_file(0, batch), record.to_bytes())


def test_a_copy_of_the_checkpoint_that_is_older_than_a_table_is_not_saved(tabled: JobWithTable) -> None:
    """Checkpoint 0 1 2, table 0 1 2 3: restored, the job would run batch 3 again, in an epoch that is new to it."""
    tabled.append(to_the_table_only=True)
    with pytest.raises(
        CheckpointError, match=r"is an older copy: it has recorded no batch after 2, and the log .* batch 3"
    ):
        tabled.save("one")
    tabled.checkpoint.begin()
    assert tabled.rows(tabled.save("one").tables["log"].version) == [0, 1, 2]


def test_a_copy_of_the_checkpoint_from_before_a_restore_is_not_saved(tabled: JobWithTable) -> None:
    """The table has taken a fence for this epoch."""
    note(tabled, WRITER, FENCED)
    with pytest.raises(CheckpointError, match="was restored or reset since"):
        tabled.save("one")


def test_a_table_that_was_put_back_from_a_backup_is_not_saved(tabled: JobWithTable) -> None:
    """Checkpoint 0 1 2 3, table 0 1 2: batch 3 would be missing for ever."""
    note(tabled, OWNER, int(ID, 16))
    backup = tabled.table.with_name("backup")
    shutil.copytree(tabled.table, backup)
    tabled.append()
    record_tables(tabled, batch=3)
    assert tabled.rows(tabled.save("whole").tables["log"].version) == [0, 1, 2, 3]
    shutil.rmtree(tabled.table)
    backup.rename(tabled.table)
    with pytest.raises(SinkError, match=r"the log .*log is an older copy: batch 2 is the newest"):
        tabled.save("one")


def test_a_table_that_was_made_again_is_not_saved(tabled: JobWithTable) -> None:
    """It has another id, also where a checkpoint of the log has it alone."""
    record_tables(tabled, batch=2)
    shutil.rmtree(tabled.table)
    DeltaTable.create(tabled.table, schema=SCHEMA)
    with pytest.raises(SinkError, match="is another table than the one that this checkpoint has written to"):
        tabled.save("one")
    DeltaTable(tabled.table).create_checkpoint()
    with pytest.raises(SinkError, match="is another table than the one that this checkpoint has written to"):
        tabled.save("one")


def test_tables_of_another_checkpoint_are_not_saved(tabled: JobWithTable) -> None:
    """The job was restored to another folder, and this one was put back from a backup of before."""
    note(tabled, OWNER, int(ID, 16))
    tabled.save("own")
    other = CommitProperties(app_transactions=[Transaction(OWNER, 0xC)])
    write_deltalake(tabled.table, DeltaTable(tabled.table).to_pyarrow_table(), mode="append", commit_properties=other)
    with pytest.raises(SavepointRefused, match=r"log belongs to another checkpoint \(id 00000000000c\) than .*; give"):
        tabled.save("one")


def test_a_quarantine_may_belong_to_several_jobs(tabled: JobWithTable) -> None:
    """Only log, view and metrics belong to one checkpoint."""
    note(tabled, OWNER, 0xC)
    tabled.checkpoint.tables(quarantine=str(tabled.table))
    tabled.save("one")


def test_a_savepoint_without_the_tables_of_the_job_is_refused(tabled: JobWithTable) -> None:
    """It would be restored without them, and the batches after it would be there twice."""
    tabled.checkpoint.files.remove(TABLES_FILE)
    tabled.checkpoint.put(INPUTS_FILE, "{}")
    with pytest.raises(SavepointRefused, match="is gone, which says which tables belong to the job"):
        tabled.save("one")
