"""Small commits leave tables to Spark whose files have times that the library would misread."""

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

from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.framework.engine.sink.library_table import LibraryTable

APP = "readings/view@0123456789ab#0"
TIME = pa.timestamp("us", tz="UTC")
NEAR, FAR, EARLY = datetime(2024, 1, 1, tzinfo=UTC), datetime(2999, 12, 31, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)


def by_spark(folder: Path, rows: pa.Table, *, int96: bool = True, stats: bool = True) -> LibraryTable:
    """A table with a file as Spark writes it."""
    table = DeltaTable.create(folder, schema=rows.schema)
    pq.write_table(rows, folder / "a.parquet", use_deprecated_int96_timestamps=int96)
    known: dict[str, Any] = {"numRecords": rows.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for field in rows.schema:
        values = [one for one in rows.column(field.name).to_pylist() if one is not None]
        known["nullCount"][field.name] = rows.num_rows - len(values)
        if values and not pa.types.is_nested(field.type) and pa.types.is_temporal(field.type):
            form = "%04Y-%m-%dT%H:%M:%S.000Z" if pa.types.is_timestamp(field.type) else "%04Y-%m-%d"
            known["minValues"][field.name] = min(values).strftime(form)
            known["maxValues"][field.name] = max(values).strftime(form)
    size = (folder / "a.parquet").stat().st_size
    text = json.dumps(known) if stats else "{}"
    table.create_write_transaction([AddAction("a.parquet", size, {}, 0, True, text)], "append", rows.schema)
    return LibraryTable(str(folder))


def rows_of(key: str, time: Any, kind: pa.DataType = TIME) -> pa.Table:
    """One row of a view."""
    columns = [pa.array([key]), pa.array([time], kind), pa.array([1], pa.int32())]
    return pa.table(columns, names=["key", "time", "refinement"])


def merge(table: LibraryTable, rows: pa.Table) -> None:
    """Replace the row with the key, or add one."""
    table.merge(rows, APP, 1, keys=["key"], newer_by="refinement")


@pytest.mark.parametrize("time", [FAR, EARLY])
def test_times_far_from_now_as_spark_writes_them_are_left_to_it(tmp_path: Path, time: datetime) -> None:
    """A merge would write other times to the rows beside those that it changes, and find no row by such a key."""
    with pytest.raises(UnsupportedTable, match=r"a\.parquet may hold times that the library misreads: INT96"):
        merge(by_spark(tmp_path / "view", rows_of("a", time)), rows_of("b", NEAR))


@pytest.mark.parametrize(
    ("time", "kind"), [(date(1200, 1, 1), pa.date32()), (EARLY, TIME), ([date(2024, 1, 1)], pa.list_(pa.date32()))]
)
def test_days_of_another_calendar_are_left_to_spark(tmp_path: Path, time: Any, kind: pa.DataType) -> None:
    """A session of somebody else has written them (`datetimeRebaseModeInWrite=LEGACY`); only Spark knows how."""
    rows = rows_of("a", time, kind)
    legacy = rows.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    with pytest.raises(UnsupportedTable, match="another calendar"):
        merge(by_spark(tmp_path / "legacy", legacy, int96=False), rows)
    merge(by_spark(tmp_path / "view", rows, int96=False), rows)


@pytest.mark.parametrize("values", ["within lists", "without statistics"])
def test_what_the_statistics_do_not_show_is_left_to_spark(tmp_path: Path, values: str) -> None:
    """They have no limits of what is within an array or a map."""
    kind = pa.list_(TIME) if values == "within lists" else TIME
    time = [NEAR] if values == "within lists" else NEAR
    table = by_spark(tmp_path / "view", rows_of("a", time, kind), stats=values == "within lists")
    with pytest.raises(UnsupportedTable, match="the library misreads"):
        merge(table, rows_of("b", time, kind))


@pytest.mark.parametrize(
    ("time", "kind", "int96"),
    [(NEAR, TIME, True), (None, TIME, True), (FAR, TIME, False), ([FAR], pa.list_(TIME), False)],
)
def test_other_files_of_spark_are_merged_into(tmp_path: Path, time: Any, kind: pa.DataType, *, int96: bool) -> None:
    """Those with times near now, and those in microseconds."""
    table = by_spark(tmp_path / "view", rows_of("a", time, kind), int96=int96)
    merge(table, rows_of("b", time, kind))
    assert DeltaTable(tmp_path / "view").to_pyarrow_table().sort_by("key").column("time").to_pylist() == [time, time]


def test_files_of_the_library_itself_are_merged_into(tmp_path: Path) -> None:
    """Whatever the times, and however often the table is opened."""
    DeltaTable.create(tmp_path / "view", schema=rows_of("a", FAR).schema)
    table = LibraryTable(str(tmp_path / "view"))
    for number, key in enumerate("aba"):
        table.merge(rows_of(key, FAR), APP, number, keys=["key"], newer_by="refinement")
        table.reopen()
    assert DeltaTable(tmp_path / "view").to_pyarrow_table().column("time").to_pylist() == [FAR, FAR]
