"""A restore takes a table back to the version that the savepoint saw, and to no other version of that number."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.recovery.errors import DamagedSavepoint, TableVersionLost
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import show
from panekeeper.recovery.savepoint.manifest import Manifest
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.savepoint.test_manifest_fuzz import with_checksum
from tests.recovery.storage.memory_archive import MemoryArchive

OTHER = r"version 2 of the Delta table \S+log is not that of this savepoint: the table was made again, or put back"


def append(table: Path, *numbers: int) -> None:
    """Commit a row for each number."""
    for number in numbers:
        write_deltalake(table, pa.table({"n": [number]}), mode="append")


@pytest.fixture
def saved(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> Path:
    """A log of three rows, each in a commit, and savepoint "one" of it."""
    append(tmp_path / "log", 0, 1, 2)
    job.tables(log=str(tmp_path / "log"), view=None)
    savepoint(job.folder, "one", to=archive)
    return tmp_path / "log"


def test_a_table_that_was_made_again_is_not_taken_back(
    job: FakeCheckpoint, archive: MemoryArchive, saved: Path
) -> None:
    """Its version of the same number has other batches, which the restored job would run again. Nothing is changed."""
    shutil.rmtree(saved)
    append(saved, 0, 1, 2, 3, 4)
    before = (job.contents(), DeltaTable(saved).version())
    for dry_run in (True, False):
        with pytest.raises(TableVersionLost, match=OTHER):
            restore(archive, "one", dry_run=dry_run)
    assert (job.contents(), DeltaTable(saved).version()) == before


def test_a_backup_that_was_written_to_is_another_table(archive: MemoryArchive, saved: Path) -> None:
    """It has the id of the table, and from the backup on other commits."""
    backup = saved.with_name("backup")
    shutil.copytree(saved, backup)
    (backup / "_delta_log" / f"{2:020d}.json").unlink()
    shutil.rmtree(saved)
    backup.rename(saved)
    append(saved, 7, 8)
    with pytest.raises(TableVersionLost, match=OTHER):
        restore(archive, "one", dry_run=True)


def test_a_table_that_went_on_and_one_that_was_put_back_from_a_copy_are_taken_back(
    archive: MemoryArchive, saved: Path
) -> None:
    """What counts is the commit of the version, and not what came later, or when the files were written."""
    shutil.copytree(saved, saved.with_name("backup"), copy_function=shutil.copyfile)
    append(saved, 3)
    assert restore(archive, "one", dry_run=True).tables["log"].old == 3
    shutil.rmtree(saved)
    saved.with_name("backup").rename(saved)
    assert restore(archive, "one", dry_run=True).tables["log"].old == 2


@pytest.mark.parametrize("checksum", [7, "", "AB" * 32, "ab" * 31], ids=["a number", "empty", "capitals", "short"])
def test_a_checksum_that_is_none_is_refused(archive: MemoryArchive, saved: Path, checksum: object) -> None:
    """As any field that was never written so."""
    content = json.loads(show(archive, "one").encode())["content"]
    content["tables"]["log"]["sha256"] = checksum
    with pytest.raises(DamagedSavepoint, match="sha256 of the commit of table log is not 64"):
        Manifest.decode(with_checksum(content), "one")
    assert saved.exists()


def settle(table: Path, number: int, *rows: int) -> None:
    """Commit results as a settlement does."""
    once = CommitProperties(app_transactions=[Transaction("readings@0123456789ab#0#settled", number)])
    write_deltalake(table, pa.table({"n": [*rows]}), mode="append", commit_properties=once)


def test_results_of_settlements_that_go_with_the_log_are_counted(
    job: FakeCheckpoint, archive: MemoryArchive, saved: Path
) -> None:
    """Those since the savepoint that are in the log by now, with the command that makes them again."""
    settle(saved, 0, 7, 8)
    savepoint(job.folder, "two", to=archive)
    settle(saved, 1, 9, 10, 11)
    append(saved, 5)
    settle(saved, 2, 12)
    one, two = (restore(archive, name, dry_run=True) for name in ("one", "two"))
    assert (one.settled, two.settled) == (6, 4)
    again = f"`panekeeper settle {job.folder} --job JOB.PY` can be run again"
    assert f"6 results of settlements would be taken back, too; {again}" in str(one).splitlines()
    done = replace(two, dry_run=False, settled=1)
    assert f"1 result of a settlement was taken back, too; {again}" in str(done).splitlines()
    assert f"the results of settlements are taken back, too; {again}" in str(replace(done, settled=None)).splitlines()
    DeltaTable(saved).restore(two.tables["log"].new)
    one, two = (restore(archive, name, dry_run=True) for name in ("one", "two"))
    assert (one.settled, two.settled) == (2, 0)
    assert "panekeeper settle" not in str(two)
