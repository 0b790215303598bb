"""A table goes back to an earlier version without Spark, or is left to Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.framework.engine.sink.table_restore import restore_by_library, restore_table
from panekeeper.state.checkpoint.folder import LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAVED = 2


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose version n has the rows 0 to n, saved at version 2 of 4."""
    for number in range(5):
        append(tmp_path / "log", number)
    return tmp_path / "log"


def append(folder: Path, number: int, *, column: str = "n") -> None:
    """Commit a row, as a batch of a job does."""
    once = CommitProperties(app_transactions=[Transaction("job", number)])
    rows = pa.table({column: [number]})
    write_deltalake(folder, rows, mode="append", schema_mode="merge", commit_properties=once)


def no_spark() -> SparkSession:
    """The library is enough."""
    raise AssertionError("Spark is not needed")


def rows_of(table: Path) -> list[int]:
    """Return what the table has."""
    return sorted(DeltaTable(table).to_pyarrow_table().column("n").to_pylist())


def test_the_rows_of_the_version_are_back_and_the_transactions_of_later_ones_stay(table: Path) -> None:
    """As after a RESTORE by Spark: that is why a restore begins a new epoch."""
    restore_by_library(LocalFolder(table), SAVED)
    assert rows_of(table) == [0, 1, 2]
    assert DeltaTable(table).transaction_version("job") == 4


def test_a_batch_that_comes_between_the_last_check_and_the_restore_is_kept(table: Path) -> None:
    """As of a job that runs by now: this process was paused just there until another restore was done."""
    with pytest.raises(UnsupportedTable, match="cannot restore it"):
        restore_by_library(LocalFolder(table), SAVED, require_held=lambda: append(table, 5))
    assert rows_of(table) == [0, 1, 2, 3, 4, 5]


def test_files_that_a_later_version_removed_are_in_the_table_again(table: Path) -> None:
    """Rows that were deleted since are back."""
    DeltaTable(table).delete("n < 4")
    assert rows_of(table) == [4]
    restore_by_library(LocalFolder(table), SAVED)
    assert rows_of(table) == [0, 1, 2]


def test_columns_are_those_of_the_version(table: Path) -> None:
    """A column that was added since is gone."""
    append(table, 5, column="added")
    restore_by_library(LocalFolder(table), SAVED)
    assert DeltaTable(table).to_pyarrow_table().column_names == ["n"]


def test_a_restore_that_is_done_again_commits_nothing(table: Path) -> None:
    """A restore that was killed repeats this step."""
    restore_by_library(LocalFolder(table), SAVED)
    once = DeltaTable(table).version()
    restore_table(no_spark, str(table), SAVED, LocalFolder(table))
    assert DeltaTable(table).version() == once


def test_a_restore_removes_no_commit_from_the_log_however_old_it_is(table: Path) -> None:
    """If it is killed before the next table is back, it is done again; and other savepoints need their versions."""
    DeltaTable(table).create_checkpoint()
    append(table, 5)
    for file in Path(table, "_delta_log").iterdir():
        os.utime(file, (0, 0))
    restore_by_library(LocalFolder(table), SAVED)
    assert DeltaTable(table, version=SAVED).to_pyarrow_table().num_rows == 3


def test_a_table_at_its_version_gets_no_commit(table: Path) -> None:
    """Nothing happens if the version is the newest one."""
    restore_table(no_spark, str(table), 4, LocalFolder(table))
    assert DeltaTable(table).version() == 4


def test_what_the_library_cannot_restore_is_left_to_spark(table: Path) -> None:
    """A file that must come back is gone: Spark says so in words of its own."""
    gone = DeltaTable(table, version=0).file_uris()[0]
    DeltaTable(table).delete("n = 0")
    Path(gone.removeprefix("file://")).unlink()
    with pytest.raises(UnsupportedTable, match="the library cannot restore it"):
        restore_by_library(LocalFolder(table), SAVED)
    assert rows_of(table) == [1, 2, 3, 4]


@pytest.mark.parametrize("at", [1, 5], ids=["at the saved version", "at the newest version"])
def test_a_property_of_either_version_that_the_library_does_not_follow_leaves_the_table_to_spark(
    tmp_path: Path, at: int
) -> None:
    """Both versions must be of a kind that the library writes."""
    table = tmp_path / "log"
    for number in range(6):
        append(tmp_path / "log", number)
        if number == at:
            set_properties(tmp_path / "log", number, {"delta.enableRowTracking": "true"})
        if number == at + SAVED:
            set_properties(tmp_path / "log", number, {})
    with pytest.raises(UnsupportedTable, match="enableRowTracking"):
        restore_by_library(LocalFolder(table), SAVED)
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
