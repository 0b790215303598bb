"""A restore of one job takes back no row that another job has written to a table that they share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.job.roll_forward import roll_forward
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.restore.checks import SharedTables, target_at, unconfirmed_tables
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import show
from panekeeper.state.checkpoint.epochs import read_begin, write_begin
from panekeeper.state.checkpoint.job_record import read_record
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN, OTHER = "readings/quarantine@0123456789ab#0", "flights/quarantine@ba9876543210#2"


def refuse(folder: Path, transaction: str, number: int) -> None:
    """Commit a row that a job refused."""
    once = CommitProperties(app_transactions=[Transaction(transaction, number)])
    write_deltalake(folder, pa.table({"row": [f"{transaction} {number}"]}), mode="append", commit_properties=once)


@pytest.fixture
def shared(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> Path:
    """A quarantine of two jobs, both of which have written to it before savepoint "one" of the first."""
    refuse(tmp_path / "quarantine", OTHER, 1)
    refuse(tmp_path / "quarantine", OWN, 2)
    job.tables(quarantine=str(tmp_path / "quarantine"))
    savepoint(job.folder, "one", to=archive)
    return tmp_path / "quarantine"


def shared_tables(job: FakeCheckpoint, archive: MemoryArchive, name: str = "one") -> SharedTables:
    """What a restore of a savepoint finds in the logs."""
    return SharedTables.of(show(archive, name), target_at(job.top, "readings"))


def unconfirmed(job: FakeCheckpoint, archive: MemoryArchive, *tables: Path) -> tuple[str, ...]:
    """Tables that the caller must name."""
    return unconfirmed_tables(shared_tables(job, archive), tables)


def test_a_restore_that_would_remove_rows_of_another_job_is_refused(
    job: FakeCheckpoint, archive: MemoryArchive, shared: Path
) -> None:
    """They would be in no table, and that job would not notice. Nothing is changed until the caller names the table."""
    refuse(shared, OWN, 3)
    refuse(shared, OTHER, 2)
    before = (job.contents(), DeltaTable(shared).version())
    with pytest.raises(SavepointRefused, match=r"quarantine has rows of 'flights'.*--table \S+quarantine$"):
        restore(archive, "one")
    with pytest.raises(SavepointRefused, match=r"quarantine has rows of 'flights'.*--table \S+quarantine$"):
        restore(archive, "one", dry_run=True)
    assert (job.contents(), DeltaTable(shared).version()) == before
    assert unconfirmed(job, archive, shared) == ()


def test_a_table_that_others_alone_have_written_to_since_stays(
    job: FakeCheckpoint, archive: MemoryArchive, shared: Path
) -> None:
    """There is nothing to take back. What the job writes there later is."""
    refuse(shared, OTHER, 2)
    DeltaTable(shared).optimize.compact()
    preview = restore(archive, "one", dry_run=True)
    assert preview.tables["quarantine"].old == preview.tables["quarantine"].new
    assert shared_tables(job, archive).not_of_this_job() == {str(shared)}
    refuse(shared, OWN.replace("#0", "#1"), 3)
    assert shared_tables(job, archive).not_of_this_job() == set()


@pytest.mark.parametrize("change", ["DELETE", "another program", "another id"])
def test_a_table_that_may_have_lost_or_got_rows_of_the_job_goes_back(
    job: FakeCheckpoint, archive: MemoryArchive, shared: Path, change: str
) -> None:
    """The rows of a job of its name may be its own, from a folder to which it was restored and which is lost."""
    if change == "DELETE":
        DeltaTable(shared).delete(f"row = '{OWN} 2'")
    else:
        refuse(shared, "loads/of/somebody" if change == "another program" else OWN.replace("0123", "4567"), 1)
    refuse(shared, OTHER, 2)
    assert unconfirmed(job, archive) == (str(shared),)


def test_a_table_that_others_have_not_written_to_since_goes_back(
    job: FakeCheckpoint, archive: MemoryArchive, shared: Path
) -> None:
    """Commits of the job itself, of its earlier and later epochs, and those without rows do not count."""
    refuse(shared, OWN, 3)
    refuse(shared, OWN.replace("#0", "#7"), 3)
    nothing = CommitProperties(app_transactions=[Transaction(OTHER, 2**62)])
    table = DeltaTable(shared)
    table.create_write_transaction([], "append", table.schema(), commit_properties=nothing)
    refuse(shared, "loads/of/somebody", 1)
    table = DeltaTable(shared)
    table.optimize.compact()
    assert unconfirmed(job, archive) == ()


def test_rows_that_the_job_has_written_under_another_id_are_its_own(
    job: FakeCheckpoint, archive: MemoryArchive, shared: Path, tmp_path: Path
) -> None:
    """It was restored to another folder and ran there; only the job itself writes to its log."""
    refuse(tmp_path / "log", OWN.replace("quarantine", "log"), 2)
    job.tables(quarantine=str(shared), log=str(tmp_path / "log"))
    savepoint(job.folder, "two", to=archive)
    elsewhere = "readings/{}@aaaaaaaaaaaa#1"
    refuse(tmp_path / "log", elsewhere.format("log"), 3)
    refuse(shared, elsewhere.format("quarantine"), 3)
    assert shared_tables(job, archive, "two").other_jobs() == {}
    refuse(shared, OTHER, 4)
    assert shared_tables(job, archive, "two").other_jobs() == {str(shared): ["flights"]}


def test_rows_that_are_gone_already_do_not_count(job: FakeCheckpoint, archive: MemoryArchive, shared: Path) -> None:
    """A restore has discarded them. Those that it has kept, and later ones, do."""
    refuse(shared, OTHER, 2)
    DeltaTable(shared).restore(1)
    assert unconfirmed(job, archive) == ()
    refuse(shared, OWN, 3)
    refuse(shared, OTHER, 3)
    kept = DeltaTable(shared).version()
    refuse(shared, OWN, 4)
    DeltaTable(shared).restore(kept)
    assert shared_tables(job, archive).other_jobs() == {str(shared): ["flights"]}


def test_rows_that_a_restore_of_the_other_job_has_discarded_do_not_come_back(
    job: FakeCheckpoint, archive: MemoryArchive, shared: Path
) -> None:
    """That job runs these batches again, and would have them twice.

    version   0           1       2 = "two"   3              4
    commit    flights 1   own 2   flights 3   RESTORE to 1   own 3
    """
    savepoint(job.folder, "none", to=archive)
    refuse(shared, OTHER, 3)
    savepoint(job.folder, "two", to=archive)
    DeltaTable(shared).restore(1)
    refuse(shared, OWN, 3)
    with pytest.raises(
        SavepointRefused, match=r"would change what other jobs .* has rows of 'flights'.*--table \S+quarantine$"
    ):
        restore(archive, "two")
    assert unconfirmed(job, archive) == ()


def test_what_a_restore_to_a_time_has_discarded_counts(
    job: FakeCheckpoint, archive: MemoryArchive, shared: Path
) -> None:
    """The log does not say to which version it went: the rows of the other job may still be in the table."""
    refuse(shared, OTHER, 2)
    kept = DeltaTable(shared).version()
    DeltaTable(shared).delete()
    DeltaTable(shared).restore(kept)
    commit = shared / "_delta_log" / f"{kept + 2:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    info = next(one["commitInfo"] for one in actions if "commitInfo" in one)
    assert info["operation"] == "RESTORE"
    info["operationParameters"] = {"version": None, "timestamp": "2026-01-01 10:00:00.0"}  # as Spark writes it
    commit.write_text("\n".join(map(json.dumps, actions)))
    assert unconfirmed(job, archive) == (str(shared),)


def test_the_tables_of_a_lost_job_are_confirmed_with_those_that_others_share(
    job: FakeCheckpoint, archive: MemoryArchive, shared: Path, tmp_path: Path
) -> None:
    """The error says whose rows would be gone, and that the tables of the job are not known; its command has both."""
    refuse(tmp_path / "log", OWN.replace("quarantine", "log"), 2)
    job.tables(log=str(tmp_path / "log"), quarantine=str(shared))
    savepoint(job.folder, "two", to=archive)
    refuse(shared, OWN, 3)
    refuse(shared, OTHER, 2)
    job.top.clear()
    with pytest.raises(SavepointRefused, match=r"there is no checkpoint .*quarantine has rows of 'flights'") as lost:
        restore(archive, "two")
    command = f"--checkpoint {job.root} --table {tmp_path / 'log'} --table {shared}"
    assert str(lost.value).endswith(command)
    with pytest.raises(SavepointRefused, match="quarantine has rows of 'flights'") as others:
        restore(archive, "two", checkpoint=job.root, tables=[tmp_path / "log"])
    assert str(others.value).endswith(command)


def test_a_start_takes_back_no_row_that_another_job_wrote_after_the_restore_was_killed(
    job: FakeCheckpoint, archive: MemoryArchive, shared: Path
) -> None:
    """Only the caller of a restore can confirm that. The start says which command does the rest."""
    refuse(shared, OWN, 3)

    def kill(step: str) -> None:
        if step == "current":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(archive, "one", on_step=kill)
    refuse(shared, OTHER, 2)
    record, begin = read_record(job.files), read_begin(job.files)
    assert record is not None
    assert begin is not None
    write_begin(job.files, begin.after("fenced"))
    before = DeltaTable(shared).version()
    with pytest.raises(SinkError, match=r"has rows of 'flights' since version 1, .* Run the same command again"):
        roll_forward(job.files, record, no_spark, lambda: None)
    with pytest.raises(SavepointRefused, match=r"quarantine has rows of 'flights'.*--table \S+quarantine$"):
        restore(archive, "one")
    assert DeltaTable(shared).version() == before


def no_spark() -> SparkSession:
    """No table goes back."""
    raise AssertionError("Spark is not needed")
