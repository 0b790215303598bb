"""A checkpoint that was restored under an id of its own names those under which its tables have rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.recovery.restore.clone import clone
from panekeeper.recovery.restore.former_epochs import epochs_to_fence, last_known_epochs
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import show
from panekeeper.recovery.storage.delta_log import transactions_of
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import OWNER, JobRecord, last_epochs, read_record
from panekeeper.state.checkpoint.layout import RESET_FILE
from panekeeper.state.errors import CorruptState
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

ID = "0123456789ab"


def record(folder: Path | str) -> JobRecord:
    """The record of the job in a checkpoint."""
    found = read_record(LocalFolder(Path(folder)))
    assert found is not None
    return found


def commit(table: Path, *transactions: str) -> None:
    """Commit a row under each transaction id."""
    for number, one in enumerate(transactions):
        once = CommitProperties(app_transactions=[Transaction(one, number)])
        write_deltalake(table, pa.table({"n": [number]}), mode="append", commit_properties=once)


def test_a_restore_to_another_folder_names_the_id_that_it_has_taken_the_place_of(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """With the last epoch of it, and each after the other; a clone is another job, and names none."""
    savepoint(job.folder, "zero", to=archive)
    restore(archive, "zero")
    assert record(job.folder).former == {}
    savepoint(job.folder, "one", to=archive)
    restore(archive, "one", checkpoint=tmp_path / "second")
    assert record(tmp_path / "second").former == {ID: 1}
    savepoint(tmp_path / "second", "two", to=archive)
    restore(archive, "two", checkpoint=tmp_path / "third")
    assert record(tmp_path / "third").former == {ID: 1, record(tmp_path / "second").id: 2}
    assert record(clone(archive, "two", into=tmp_path / "clone").checkpoint).former == {}


def test_a_checkpoint_restored_to_the_folder_of_another_one_of_the_job_names_both(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """The one it is a copy of, and the one that it replaces, with the epochs that each had reached."""
    savepoint(job.folder, "one", to=archive)
    restore(archive, "one", checkpoint=tmp_path / "second")
    before = record(tmp_path / "second")
    restore(archive, "one", checkpoint=tmp_path / "second")
    assert record(tmp_path / "second").former == {ID: 0, before.id: before.epoch}


def test_the_epochs_of_a_checkpoint_that_was_lost_are_in_its_tables(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """It was reset or restored since the savepoint; ids that are not this job's are left alone."""
    log = tmp_path / "log"
    commit(log, f"readings/log@{ID}#0")
    job.tables(log=str(log), view=None)
    savepoint(job.folder, "one", to=archive)
    commit(log, f"readings/log@{ID}#4", f"readings/log@{'c' * 12}#7", f"flights/log@{ID}#9", "nightly import")
    shutil.rmtree(job.folder)
    manifest, copy = show(archive, "one"), JobRecord(name="readings", id=ID, declaration={}, group_ids=(), versions={})
    assert last_known_epochs(copy.former, job.files, manifest, [], None) == {ID: 4}
    DeltaTable(log).create_checkpoint()
    assert last_known_epochs(copy.former, job.files, manifest, [], None) == {ID: 4}
    assert last_epochs(transactions_of(LocalFiles(log)), "readings") == {ID: 4, "c" * 12: 7}
    commit(log, f"readings/log@{ID}#5")
    assert last_epochs(transactions_of(LocalFiles(log)), "readings")[ID] == 5


def test_a_restore_begins_an_epoch_that_no_table_knows(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """The folder was put back from a backup of before some restores, so its own record knows less than the tables."""
    log, view = tmp_path / "log", tmp_path / "view"
    commit(log, f"readings/log@{ID}#0")
    job.tables(log=str(log), view=None)
    savepoint(job.folder, "one", to=archive)
    commit(log, f"readings/log@{ID}#4")
    assert restore(archive, "one", dry_run=True).epoch == 5
    commit(view, f"readings/view@{ID}#6")
    job.tables(log=str(log), view=str(view))  # it came after the savepoint
    assert restore(archive, "one", dry_run=True).epoch == 7
    job.put(RESET_FILE, '{"epoch": 9, "view": null}')  # of a reset that was killed
    assert restore(archive, "one", dry_run=True).epoch == 10


def test_the_checkpoint_that_the_tables_belong_to_now_is_known_by_them(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """It is in a folder that nothing leads to, as the one that it had superseded was removed; a job may run there."""
    log, later = tmp_path / "log", "0f0000000002"
    commit(log, f"readings/log@{ID}#0")
    job.tables(log=str(log), view=None)
    savepoint(job.folder, "one", to=archive)
    commit(log, f"flights/log@{'d' * 12}#3")
    joined = Transaction(f"readings/log@{later}#joined", 3)  # it has started in epoch 3, and had no rows since
    owner = CommitProperties(app_transactions=[Transaction(OWNER, int(later, 16)), joined])
    write_deltalake(log, pa.table({"n": [1]}), mode="append", commit_properties=owner)
    copy = JobRecord(name="readings", id=ID, declaration={}, group_ids=(), versions={})
    for _ in range(2):
        assert last_known_epochs(copy.former, job.files, show(archive, "one"), [], None) == {ID: 0, later: 3}
        DeltaTable(log).create_checkpoint()


def test_tables_refuse_each_earlier_epoch_under_each_id(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """The restored epoch is the first in which somebody may commit."""
    savepoint(job.folder, "one", to=archive)
    copy = JobRecord(
        name="readings", id="ba9876543210", declaration={}, group_ids=(), versions={}, epoch=2, former={"f" * 12: 1}
    )
    fenced = epochs_to_fence(copy, job.files, show(archive, "one"), [], None)
    assert [one.transaction("log").partition("@")[2] for one in fenced] == [
        "ba9876543210#0",
        "ba9876543210#1",
        f"{'f' * 12}#0",
        f"{'f' * 12}#1",
        f"{ID}#0",
    ]


@pytest.mark.parametrize("former", [[], {"x": 1}, {ID: -1}, {ID: 1.5}, {ID: True}, {ID: 10**9}])
def test_former_ids_that_are_none_are_damage(job: FakeCheckpoint, former: object) -> None:
    """A start looks for each of these epochs in each table, so there is a bound."""
    fields = json.loads(json.dumps(record(job.folder).to_json()))
    assert "former" not in fields, "older versions read a record without"
    with pytest.raises(CorruptState, match="a field is of another type"):
        JobRecord.from_json({**fields, "former": former})
    assert JobRecord.from_json({**fields, "former": {ID: 3}}).former == {ID: 3}
