"""A table goes back to an earlier version without Spark, or is left to Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.recovery.storage.delta_tables import (
    SavedTable,
    has_version,
    missing_files,
    restore_by_library,
    table_metadata,
    transactions_of,
)
from panekeeper.recovery.storage.files import LocalFiles

SAVED = 2


@pytest.fixture
def table(tmp_path: Path) -> SavedTable:
    """A table whose version n has the rows 0 to n, saved at version 2 of 4."""
    for number in range(5):
        append(tmp_path / "log", number)
    return SavedTable(path=str(tmp_path / "log"), version=SAVED)


def append(folder: Path, number: int, *, column: str = "n") -> None:
    """Commit a row, as a batch of a job does."""
    once = CommitProperties(app_transactions=[Transaction("job", number)])
    rows = pa.table({column: [number]})
    write_deltalake(folder, rows, mode="append", schema_mode="merge", commit_properties=once)


def folder_of(table: SavedTable) -> LocalFiles:
    """Return the folder of a table."""
    return LocalFiles(Path(table.path))


def rows_of(table: SavedTable) -> list[int]:
    """Return what the table has."""
    return sorted(DeltaTable(table.path).to_pyarrow_table().column("n").to_pylist())


def test_the_rows_of_the_version_are_back_and_the_transactions_of_later_ones_stay(table: SavedTable) -> None:
    """As after a RESTORE by Spark: that is why a restore begins a new epoch."""
    restore_by_library(folder_of(table), table)
    assert rows_of(table) == [0, 1, 2]
    assert DeltaTable(table.path).transaction_version("job") == 4


def test_a_batch_that_comes_between_the_last_check_and_the_restore_is_kept(table: SavedTable) -> None:
    """As of a job that runs by now: this process was paused just there until another restore was done."""
    with pytest.raises(UnsupportedTable, match="cannot restore it"):
        restore_by_library(folder_of(table), table, before_commit=lambda: append(Path(table.path), 5))
    assert rows_of(table) == [0, 1, 2, 3, 4, 5]


def test_files_that_a_later_version_removed_are_in_the_table_again(table: SavedTable) -> None:
    """Rows that were deleted since are back."""
    DeltaTable(table.path).delete("n < 4")
    assert rows_of(table) == [4]
    restore_by_library(folder_of(table), table)
    assert rows_of(table) == [0, 1, 2]


def test_columns_are_those_of_the_version(table: SavedTable) -> None:
    """A column that was added since is gone."""
    append(Path(table.path), 5, column="added")
    restore_by_library(folder_of(table), table)
    assert DeltaTable(table.path).to_pyarrow_table().column_names == ["n"]


def test_a_restore_that_is_done_again_commits_nothing(table: SavedTable) -> None:
    """A restore that was killed repeats this step."""
    restore_by_library(folder_of(table), table)
    once = DeltaTable(table.path).version()
    restore_by_library(folder_of(table), table)
    assert DeltaTable(table.path).version() == once


def test_a_restore_removes_no_commit_from_the_log_however_old_it_is(table: SavedTable) -> None:
    """If it is killed before the next table is back, it is done again; and other savepoints need their versions."""
    DeltaTable(table.path).create_checkpoint()
    append(Path(table.path), 5)
    for file in Path(table.path, "_delta_log").iterdir():
        os.utime(file, (0, 0))
    restore_by_library(folder_of(table), table)
    assert has_version(folder_of(table), table.version)
    assert missing_files(folder_of(table), table) == (3, 0)


def test_a_table_at_its_version_gets_no_commit(table: SavedTable) -> None:
    """Nothing happens if the version is the newest one."""
    newest = SavedTable(path=table.path, version=4)
    restore_by_library(folder_of(newest), newest)
    assert DeltaTable(table.path).version() == 4


def test_files_that_are_gone_are_counted(table: SavedTable) -> None:
    """A vacuumed file is named as a loss before anything is changed."""
    assert missing_files(folder_of(table), table) == (3, 0)
    file = Path(DeltaTable(table.path, version=0).file_uris()[0].removeprefix("file://"))
    file.write_bytes(file.read_bytes()[:100])
    assert missing_files(folder_of(table), table) == (3, 1)
    file.unlink()
    assert missing_files(folder_of(table), table) == (3, 1)


def test_a_table_without_files_misses_none(tmp_path: Path) -> None:
    """A table that is empty at its version can be restored."""
    DeltaTable.create(tmp_path / "log", pa.schema([("n", pa.int64())]))
    assert missing_files(LocalFiles(tmp_path / "log"), SavedTable(path=str(tmp_path / "log"), version=0)) == (0, 0)


def test_what_the_library_cannot_restore_is_left_to_spark(table: SavedTable) -> None:
    """A file that must come back is gone: Spark says so in words of its own."""
    gone = DeltaTable(table.path, version=0).file_uris()[0]
    DeltaTable(table.path).delete("n = 0")
    Path(gone.removeprefix("file://")).unlink()
    with pytest.raises(UnsupportedTable, match="the library cannot restore it"):
        restore_by_library(folder_of(table), table)
    assert rows_of(table) == [1, 2, 3, 4]


@pytest.mark.parametrize("at", [1, 5], ids=["at the saved version", "at the newest version"])
def test_a_property_of_either_version_that_the_library_does_not_follow_leaves_the_table_to_spark(
    tmp_path: Path, at: int
) -> None:
    """Both versions must be of a kind that the library writes."""
    table = SavedTable(path=str(tmp_path / "log"), version=SAVED)
    for number in range(6):
        append(tmp_path / "log", number)
        if number == at:
            set_properties(tmp_path / "log", number, {"delta.enableRowTracking": "true"})
        if number == at + SAVED:
            set_properties(tmp_path / "log", number, {})
    with pytest.raises(UnsupportedTable, match="enableRowTracking"):
        restore_by_library(folder_of(table), table)
    assert rows_of(table) == [0, 1, 2, 3, 4, 5]


def set_properties(folder: Path, version: int, properties: dict[str, str]) -> None:
    """Write them into a commit, as another writer would have set them with it."""
    file = folder / f"_delta_log/{version:020d}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    metadata = DeltaTable(folder).metadata()
    schema = json.loads(DeltaTable(folder).schema().to_json())
    kept = {"id": str(metadata.id), "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    new = {"metaData": kept | {"schemaString": json.dumps(schema), "configuration": properties, "createdTime": 0}}
    lines = [json.dumps(one) for one in (*(a for a in actions if "metaData" not in a), new)]
    file.write_text("\n".join(lines) + "\n")


def test_a_checkpoint_of_the_log_as_a_list_has_what_the_commits_before_it_said(table: SavedTable) -> None:
    """It is JSON where Spark writes it by the newer policy, and the commits may be cleaned up."""
    folder = folder_of(table)
    listed: list[dict[str, Any]] = []
    for version in range(4):
        commit = Path(table.path) / f"_delta_log/{version:020d}.json"
        listed += [json.loads(line) for line in commit.read_text().splitlines()]
        commit.unlink() if version < 3 else None
    assert not has_version(folder, 4)
    name = f"_delta_log/{3:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    newest = {one["txn"]["appId"]: one for one in listed if "txn" in one}
    others = [*newest.values(), next(one for one in listed if "metaData" in one)]
    (Path(table.path) / name).write_text("".join(f"{json.dumps(one)}\n" for one in others))
    assert has_version(folder, 4)
    (Path(table.path) / f"_delta_log/{4:020d}.json").unlink()
    assert transactions_of(folder) == {"job": 3}
    metadata = table_metadata(folder)
    assert metadata is not None
    assert [one["name"] for one in json.loads(metadata["schemaString"])["fields"]] == ["n"]
