"""What is read of a table without Spark: its rows of some times, and the file of each; or nothing at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from panekeeper.diagnostics.tables import rows
from panekeeper.diagnostics.tables.rows import read_plain_files, read_plain_table

START = datetime(2024, 5, 1, tzinfo=UTC)


def us(time: datetime) -> int:
    """A time in us since the epoch."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def at(time: datetime) -> tuple[int, int]:
    """The bounds of one time."""
    return us(time), us(time)


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table of three commits, each with two rows of two panes; a time is finer than a millisecond."""
    for number in range(3):
        starts = [START + timedelta(minutes=number, microseconds=number * 7), START + timedelta(hours=1)]
        write_deltalake(str(tmp_path), pa.table({"pane_start": starts, "n": [number, number + 10]}), mode="append")
    return str(tmp_path)


def test_the_rows_of_a_time_are_read_with_their_files(table: str) -> None:
    """From the files that may have such, all of a time that several have, and all rows without one."""
    found = read_plain_table(table, {"pane_start": at(START + timedelta(minutes=2, microseconds=14))})
    assert found is not None
    assert found.column("n").to_pylist() == [2]
    assert found.column("file")[0].as_py() in {Path(one).name for one in DeltaTable(table).file_uris()}
    later = read_plain_table(table, {"pane_start": at(START + timedelta(hours=1))})
    assert later is not None
    assert sorted(later.column("n").to_pylist()) == [10, 11, 12]
    between = read_plain_table(table, {"pane_start": (us(START) + 1, us(START + timedelta(minutes=2)) + 13)})
    assert between is not None
    assert between.column("n").to_pylist() == [1]
    never = read_plain_table(table, {"pane_start": at(START + timedelta(days=9))})
    assert never is not None
    assert (never.num_rows, never.column_names) == (0, ["pane_start", "n", "file"])
    everything = read_plain_table(f"file:{table}", {})
    assert everything is not None
    assert everything.num_rows == 6


def test_files_are_read_by_their_names_also_after_the_table_has_others(table: str) -> None:
    """As long as they are there; not those of a table elsewhere, nor files that are gone."""
    names = [Path(one).name for one in DeltaTable(table).file_uris()]
    DeltaTable(table).optimize.compact()
    write_deltalake(table, pa.table({"more": [1]}), mode="append", schema_mode="merge")
    found = read_plain_files(table, names[:1])
    assert found is not None
    assert {name: rows.num_rows for name, rows in found.items()} == {names[0]: 2}
    assert found[names[0]].column("more").to_pylist() == [None, None]
    assert read_plain_files(table, ["gone.parquet"]) is None
    assert read_plain_files("s3a://bucket/log", names) is None


def test_what_spark_must_read_is_left_to_it(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table on S3, one that is none, one with many files, and one whose rows are not those of its files."""
    assert read_plain_table("s3a://bucket/log", {}) is None
    assert read_plain_table(str(tmp_path / "none"), {}) is None
    with monkeypatch.context() as patch:
        patch.setattr(rows, "_MOST_FILES", 2)
        assert read_plain_table(table, {}) is None
    DeltaTable(table).alter.set_table_properties({"delta.enableDeletionVectors": "true"}, raise_if_not_exists=False)
    if DeltaTable(table).protocol().min_reader_version > 1:
        assert read_plain_table(table, {}) is None
