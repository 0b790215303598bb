"""What is known of a Delta table at an earlier version, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.recovery.storage.delta_tables import (
    SavedTable,
    has_version,
    missing_files,
    table_metadata,
    transactions_of,
)
from panekeeper.recovery.storage.files import LocalFiles

SAVED = 2


@pytest.fixture
def table(tmp_path: Path) -> SavedTable:
    """A table whose version n has the rows 0 to n, saved at version 2 of 4."""
    for number in range(5):
        once = CommitProperties(app_transactions=[Transaction("job", number)])
        write_deltalake(tmp_path / "log", pa.table({"n": [number]}), mode="append", commit_properties=once)
    return SavedTable(path=str(tmp_path / "log"), version=SAVED)


def folder_of(table: SavedTable) -> LocalFiles:
    """Return the folder of a table."""
    return LocalFiles(Path(table.path))


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
