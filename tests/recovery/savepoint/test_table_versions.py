"""At which versions a savepoint has the tables, and which versions a log still has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from panekeeper.framework.engine.sink.delta_log import has_version, newest_version
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint import create
from panekeeper.recovery.savepoint.catalog import savepoints
from panekeeper.recovery.savepoint.checkpoint_snapshot import read_checkpoint
from panekeeper.recovery.savepoint.create import table_versions
from panekeeper.recovery.storage.delta_tables import SavedTable
from panekeeper.recovery.storage.files import LocalFiles
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive


def commit(
    table: Path, version: int, *, at: int, batch: int | None = None, role: str = "log", restores: int | None = None
) -> None:
    """Write one commit into a Delta log; one that restores a version, if that is given."""
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": at, "operation": "WRITE"}}]
    if restores is not None:
        of_it = {"version": str(restores), "timestamp": None}
        actions = [{"commitInfo": {"timestamp": at, "operation": "RESTORE", "operationParameters": of_it}}]
    if batch is not None:
        actions.append({"txn": {"appId": f"readings/{role}@0123456789ab#0", "version": batch}})
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))


def test_the_tables_of_a_clean_stop_are_saved_at_their_newest_versions(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """No batch after the savepoint's can be in them."""
    for version in range(4):
        commit(tmp_path / "log", version, at=version)
    job.tables(log=str(tmp_path / "log"), view=None)
    made = savepoint(job.folder, "one", to=archive)
    assert {role: table.version for role, table in made.manifest.tables.items()} == {"log": 3}


def test_tables_that_hold_part_of_an_uncommitted_batch_are_saved_as_before_it(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Batch 3 is in the log and the view, not yet in the metrics; it is run again and must not be there twice.

    time      10    20       21       22          30       31
    log       0     1 (b2)                        2 (b3)
    view      0              1 (b2)                        2 (b3)
    metrics   0                       1 (b2)
    """
    commit(tmp_path / "log", 0, at=10)
    commit(tmp_path / "log", 1, at=20, batch=2)
    commit(tmp_path / "log", 2, at=30, batch=3)
    commit(tmp_path / "view", 0, at=10)
    commit(tmp_path / "view", 1, at=21, batch=2, role="view")
    commit(tmp_path / "view", 2, at=31, batch=3, role="view")
    commit(tmp_path / "metrics", 0, at=10)
    commit(tmp_path / "metrics", 1, at=22, batch=2, role="metrics")
    job.begin()
    job.tables(**{role: str(tmp_path / role) for role in ("log", "view", "metrics")})
    made = savepoint(job.folder, "one", to=archive)
    assert {role: table.version for role, table in made.manifest.tables.items()} == {"log": 1, "view": 1, "metrics": 1}


@pytest.mark.parametrize("view_at", [(5, 6), (40, 41)], ids=["back", "forward"])
def test_the_view_is_saved_as_of_its_batch_whatever_the_clock_did(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path, view_at: tuple[int, int]
) -> None:
    """The clock jumped between the commits of a batch: the merges say their batch, and their times do not count."""
    for role, times in (("log", (20, 30)), ("view", view_at), ("metrics", (22, 32))):
        commit(tmp_path / role, 0, at=1)
        commit(tmp_path / role, 1, at=times[0], batch=2, role=role)
        commit(tmp_path / role, 2, at=times[1], batch=3, role=role)
    job.begin()
    job.tables(**{role: str(tmp_path / role) for role in ("log", "view", "metrics")})
    made = savepoint(job.folder, "one", to=archive)
    assert {role: table.version for role, table in made.manifest.tables.items()} == {"log": 1, "view": 1, "metrics": 1}


@pytest.mark.parametrize(("restores", "saved"), [(2, 1), (1, 4)], ids=["with the batch", "without it"])
def test_an_uncommitted_batch_is_left_out_also_where_somebody_has_restored_the_tables(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path, restores: int, saved: int
) -> None:
    """Batch 3 is run again, and is in the version that a deletion by mistake was taken back to, or is not."""
    for role in ("log", "view", "metrics"):
        commit(tmp_path / role, 0, at=10)
        commit(tmp_path / role, 1, at=20, batch=2, role=role)
        commit(tmp_path / role, 2, at=30, batch=3, role=role)
        commit(tmp_path / role, 3, at=40)
        commit(tmp_path / role, 4, at=50, restores=restores)
    job.begin()
    job.tables(**{role: str(tmp_path / role) for role in ("log", "view", "metrics")})
    made = savepoint(job.folder, "one", to=archive)
    assert {table.version for table in made.manifest.tables.values()} == {saved}


def test_a_job_that_is_started_while_its_tables_are_looked_up_adds_nothing_to_them(
    job: FakeCheckpoint, tmp_path: Path
) -> None:
    """The checkpoint was read as that of a stopped job; batch 3 would be there twice after a restore."""
    commit(tmp_path / "log", 0, at=1)
    commit(tmp_path / "log", 1, at=20, batch=2)
    job.tables(log=str(tmp_path / "log"), view=None)
    found = read_checkpoint(job.files)
    job.begin()
    commit(tmp_path / "log", 2, at=30, batch=3)
    assert table_versions(found)["log"].version == 1


def test_a_log_that_was_cleaned_up_no_longer_has_its_old_versions(tmp_path: Path) -> None:
    """A version needs a checkpoint of the log at or before it, and every commit from there on."""
    for version in range(6):
        commit(tmp_path, version, at=version)
    assert all(has_version(LocalFiles(tmp_path), version) for version in range(6))
    for version in range(3):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    (tmp_path / "_delta_log" / f"{4:020d}.checkpoint.parquet").touch()
    assert [version for version in range(7) if has_version(LocalFiles(tmp_path), version)] == [4, 5]


def test_a_restore_that_begins_while_the_tables_are_looked_at_is_noticed(
    job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a reset: the savepoint would have the state of one epoch, and the tables of the next one."""
    savepoint(job.folder, "one", to=archive)

    def versions_meanwhile(*_: object) -> dict[str, SavedTable]:
        restore(archive, "one")
        return {}

    monkeypatch.setattr(create, "table_versions", versions_meanwhile)
    with pytest.raises(SavepointRefused, match="was restored or reset meanwhile"):
        savepoint(job.folder, "two", to=archive)
    assert list(savepoints(archive)) == ["one"]


def test_a_savepoint_amid_a_settlement_has_no_view_that_is_ahead_of_its_log(
    job: FakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits to the log and then to the view; a later settlement writes nothing that the view has already.

    A log that is ahead is completed by it. Both commits come between the two looks, of each of several windows.
    """
    roles = ("log", "view", "log_day", "view_day")
    for role in roles:
        commit(tmp_path / role, 0, at=1)
        commit(tmp_path / role, 1, at=2, batch=2, role=role)
    job.tables(**{role: str(tmp_path / role) for role in roles})
    looks = list[int]()

    def settle_after(table: LocalFiles) -> int:
        looks.append(newest_version(table))
        for role in roles:
            commit(tmp_path / role, 1 + len(looks), at=3)
        return looks[-1]

    monkeypatch.setattr(create, "newest_version", settle_after)
    found = {role: table.version for role, table in table_versions(read_checkpoint(job.files)).items()}
    assert list(found) == [*roles]
    assert found["view"] < found["log"]
    assert found["view_day"] < found["log_day"]
