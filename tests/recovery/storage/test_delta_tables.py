"""What is known of a Delta table at an earlier version, without Spark."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.recovery.errors import TableVersionLost
from panekeeper.recovery.storage.delta_tables import (
    SavedTable,
    commit_checksum,
    missing_files,
    require_version,
)
from panekeeper.recovery.storage.files import LocalFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAVED = 2


def saved_table(path: Path, version: int) -> SavedTable:
    """Return a table as a savepoint has it."""
    return SavedTable(path=str(path), version=version, sha256=commit_checksum(LocalFiles(path), version))


@pytest.fixture
def table(tmp_path: Path) -> SavedTable:
    """A table whose version n has the rows 0 to n, saved at version 2 of 4."""
    for number in range(5):
        once = CommitProperties(app_transactions=[Transaction("job", number)])
        write_deltalake(tmp_path / "log", pa.table({"n": [number]}), mode="append", commit_properties=once)
    return saved_table(tmp_path / "log", SAVED)


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
    assert missing_files(LocalFiles(tmp_path / "log"), saved_table(tmp_path / "log", 0)) == (0, 0)


VECTOR = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
SECOND_ROW = (
    *(struct.pack("<IQI", 1681511377, 1, 0), struct.pack("<II", 12346, 1), struct.pack("<HHI", 0, 0, 16)),
    struct.pack("<H", 1),
)
"""The row numbers {1}, as Delta writes them: its own magic number, one bitmap, one container."""


def delete_the_second_row(folder: Path) -> None:
    """Commit a deletion vector, as Spark does for a table with that feature; the library writes none."""
    commit = folder / "_delta_log" / f"{0:020d}.json"
    add = next(one["add"] for one in map(json.loads, commit.read_text().splitlines()) if "add" in one)
    rows = b"".join(SECOND_ROW)
    (folder / "ab").mkdir()
    content = b"\x01" + struct.pack(">I", len(rows)) + rows + struct.pack(">I", zlib.crc32(rows))
    (folder / "ab" / VECTOR).write_bytes(content)
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "cardinality": 1}
    feature = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **feature}},
        {"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": {**add, "deletionVector": {**vector, "sizeInBytes": len(rows)}}},
    ]
    (folder / "_delta_log" / f"{1:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def test_a_version_whose_deletion_vector_is_gone_cannot_be_restored(tmp_path: Path) -> None:
    """All data files are there after a VACUUM that came too late, and no row of the version can be read."""
    write_deltalake(tmp_path / "log", pa.table({"n": [1, 2, 3]}))
    delete_the_second_row(tmp_path / "log")
    saved = saved_table(tmp_path / "log", 1)
    require_version(no_spark, saved, folder_of(saved))
    (tmp_path / "log/ab" / VECTOR).unlink()
    with pytest.raises(TableVersionLost, match=rf"version 1 .* a deletion vector cannot be read\..*\n.*{VECTOR}"):
        require_version(no_spark, saved, folder_of(saved))


def no_spark() -> SparkSession:
    """The library is enough."""
    raise AssertionError("Spark is not needed")
