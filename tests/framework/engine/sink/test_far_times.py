"""Merges leave tables to Spark in which others have written times that the library would misread."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from panekeeper.framework.engine.sink.library_table import UnsupportedTable
from panekeeper.framework.engine.sink.small_commits import SmallCommits

APP = "readings/view@0123456789ab#0"
TIME = pa.timestamp("us", tz="UTC")
NEAR, FAR, EARLY = datetime(2024, 1, 1, tzinfo=UTC), datetime(2999, 12, 31, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)


def by_spark(folder: Path, rows: pa.Table) -> SmallCommits:
    """A table with a file as an OPTIMIZE by Spark writes it: times as INT96, under a name with a dot before the c."""
    table = DeltaTable.create(folder, schema=rows.schema)
    name = "part-00000-5b1bd1d6-0cbd-4f2c-8cd3-fe6b5dd1ae3d.c000.snappy.parquet"
    pq.write_table(rows, folder / name, use_deprecated_int96_timestamps=True)
    known: dict[str, Any] = {"numRecords": rows.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for field in rows.schema:
        values = [one for one in rows.column(field.name).to_pylist() if one is not None]
        known["nullCount"][field.name] = rows.num_rows - len(values)
        if values and not pa.types.is_nested(field.type) and pa.types.is_temporal(field.type):
            form = "%04Y-%m-%dT%H:%M:%S.000Z" if pa.types.is_timestamp(field.type) else "%04Y-%m-%d"
            known["minValues"][field.name] = min(values).strftime(form)
            known["maxValues"][field.name] = max(values).strftime(form)
    added = AddAction(name, (folder / name).stat().st_size, {}, 0, True, json.dumps(known))
    table.create_write_transaction([added], "append", rows.schema)
    return SmallCommits(str(folder))


def rows_of(key: str, time: Any, kind: pa.DataType = TIME) -> pa.Table:
    """One row of a view."""
    columns = [pa.array([key]), pa.array([time], kind), pa.array([1], pa.int32())]
    return pa.table(columns, names=["key", "time", "refinement"])


def merge(table: SmallCommits, rows: pa.Table) -> None:
    """Replace the row with the key, or add one."""
    table.merge(rows, APP, 1, keys=["key"], newer_by="refinement")


@pytest.mark.parametrize(
    ("time", "kind"), [(FAR, TIME), (EARLY, TIME), (date(1200, 1, 1), pa.date32()), ([NEAR], pa.list_(TIME))]
)
def test_a_file_of_spark_with_times_that_may_be_far_is_left_to_it(tmp_path: Path, time: Any, kind: pa.DataType) -> None:
    """A merge would write other times to the rows beside those that it changes, and find no row by such a key."""
    with pytest.raises(UnsupportedTable, match=r"'time' may hold times that the library misreads"):
        merge(by_spark(tmp_path / "view", rows_of("a", time, kind)), rows_of("b", time, kind))


@pytest.mark.parametrize("time", [NEAR, None])
def test_a_file_of_spark_with_near_times_is_merged_into(tmp_path: Path, time: Any) -> None:
    """As its statistics say."""
    merge(by_spark(tmp_path / "view", rows_of("a", time)), rows_of("b", time))
    assert DeltaTable(tmp_path / "view").to_pyarrow_table().sort_by("key").column("time").to_pylist() == [time, time]


@pytest.mark.parametrize(("time", "kind"), [(FAR, TIME), ([FAR], pa.list_(TIME))])
def test_files_of_the_library_itself_are_merged_into(tmp_path: Path, time: Any, kind: pa.DataType) -> None:
    """Whatever the times, and however often the table is opened: it is known by their names."""
    DeltaTable.create(tmp_path / "view", schema=rows_of("a", time, kind).schema)
    table = SmallCommits(str(tmp_path / "view"))
    for number, key in enumerate("aba"):
        table.merge(rows_of(key, time, kind), APP, number, keys=["key"], newer_by="refinement")
        table.reopen()
    assert DeltaTable(tmp_path / "view").to_pyarrow_table().column("time").to_pylist() == [time, time]
