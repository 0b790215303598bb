"""Which columns a job's tables have, and which folders and tables a start refuses for them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.job.table_checks import tables_of_last_batch
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.framework.engine.sink.library_rules import NEW_TABLE, create_table
from panekeeper.framework.engine.sink.library_table import LibraryTable
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
from panekeeper.framework.engine.sink.tables import (
    LATER_METRICS,
    METRICS,
    Tables,
    check_tables,
    column_differences,
    is_free,
    require_usable_settings,
    stored_schema,
    why_not_new,
    without_later_metrics,
)
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord, create_record, write_tables
from panekeeper.state.prepared import PreparedBatch, prepare

NEW_YORK = "America/New_York"
WANTED = ("sensor", "total")
PROBE = ".panekeeper-can-write"
SCHEMA = Schema.from_arrow(pa.schema({"n": pa.int64()}))
FIRST = f"{0:020d}"


def table(
    field: dict[str, Any] | None = None, partition_columns: tuple[str, ...] = (), **properties: str
) -> TableAtVersion:
    """A table of results, with these attributes of its second column."""
    sensor = {"name": "sensor", "type": "string", "nullable": False, "metadata": {}}
    total = {"name": "total", "type": "long", "nullable": True, "metadata": {}} | (field or {})
    said = {
        "schemaString": json.dumps({"fields": [sensor, total]}),
        "configuration": {f"delta.{name.replace('_', '.')}": value for name, value in properties.items()},
        "partitionColumns": partition_columns,
    }
    return TableAtVersion.of_actions("/t", 0, said, {}, lambda _: -1)


def test_a_table_is_usable_where_delta_itself_refuses_what_it_must_not_take() -> None:
    """Rules by which Delta refuses rows are its own business: nothing is lost, doubled or changed by them."""
    for role in ("log", "view", "metrics"):
        require_usable_settings(role, table(checkpointInterval="100"), WANTED, NEW_YORK)
    column = {"nullable": False, "metadata": {"comment": "the sum", "CURRENT_DEFAULT": "0", "delta.invariants": "{}"}}
    rules = table(column, constraints_positive="total > 0", enableChangeDataFeed="true")
    require_usable_settings("view", rules, WANTED, NEW_YORK)
    require_usable_settings("log", table(appendOnly="true"), WANTED, NEW_YORK)
    others = table({"name": "note", "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(6)"}})
    require_usable_settings("view", others, WANTED, NEW_YORK)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (table(setTransactionRetentionDuration="interval 7 days"), r"'interval 7 days'.*UNSET TBLPROPERTIES"),
        (table(appendOnly="true"), r"append-only .*ALTER TABLE delta\.`/t` UNSET TBLPROPERTIES .'delta.appendOnly'"),
        (table({"metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(6)"}}), r"'total' .* is a CHAR or VARCHAR"),
    ],
)
def test_what_repeats_a_batch_changes_a_value_or_keeps_old_ones_is_refused(found: TableAtVersion, message: str) -> None:
    """The message names the table and the way out."""
    with pytest.raises(SinkError, match=message) as refused:
        require_usable_settings("view", found, WANTED, NEW_YORK)
    assert "/t" in str(refused.value)


@pytest.mark.parametrize(
    ("role", "column", "message"),
    [
        ("view", {"name": "sensor"}, "an empty text as NULL"),
        ("log", {"type": "binary"}, "bytes as text"),
        ("log", {"type": "timestamp"}, "times as those of America/New_York"),
    ],
)
def test_a_partition_column_that_delta_stores_as_another_value_is_refused(
    role: str, column: dict[str, str], message: str
) -> None:
    """A merge would not find such a row again. Other columns are exact, and so are times in UTC."""
    with pytest.raises(SinkError, match=message):
        require_usable_settings(role, table(column, (column.get("name", "total"),)), WANTED, NEW_YORK)
    require_usable_settings(role, table(column), WANTED, NEW_YORK)


def test_partition_columns_that_delta_stores_as_they_are_may_be_there() -> None:
    """A log may have texts, of which an empty one is null there: it has been so, and nothing is merged."""
    require_usable_settings("view", table(partition_columns=("total",)), WANTED, NEW_YORK)
    require_usable_settings("log", table(partition_columns=("sensor",)), WANTED, NEW_YORK)
    require_usable_settings("view", table({"type": "timestamp"}, ("total",)), WANTED, "UTC")


def test_columns_of_others_are_no_difference() -> None:
    """What a table lacks, or has of another type, is one."""
    wanted = StructType().add("sensor", StringType()).add("total", LongType())
    added = StructType().add("note", StringType(), nullable=False).add("total", LongType()).add("sensor", StringType())
    assert column_differences(added, wanted) == []
    changed = StructType().add("total", StringType()).add("note", StringType())
    assert column_differences(changed, wanted) == [
        "sensor: absent in the table, string in the results",
        "total: string in the table, bigint in the results",
    ]


@pytest.mark.parametrize(
    ("with_rows", "message"),
    [
        (
            {"log": "/out/log", "view": "/out/now", "metrics": "/out/log_metrics"},
            r"^each of /out/log, /out/now and /out/log_metrics holds rows, .* or mixed\. .* remove these folders$",
        ),
        ({"metrics": "/out/log_metrics"}, r"^/out/log_metrics holds rows, .* batches of two .* remove this folder$"),
    ],
    ids=["all that are in the way", "metrics alone"],
)
def test_a_new_checkpoint_names_all_tables_with_rows_at_once(with_rows: dict[str, str], message: str) -> None:
    """Whoever starts over removes them together; of metrics it does not say that they are results."""
    assert re.search(message, why_not_new(with_rows))


def test_a_start_that_is_refused_makes_no_table(tmp_path: Path) -> None:
    """The view was left out of the last start, and its folder is gone: the last batch knows that it was there."""
    checkpoint = LocalFolder(tmp_path / "checkpoint")
    record = JobRecord(name="readings", id="0123456789ab", declaration={}, group_ids=(0,), versions={})
    create_record(checkpoint, record)
    paths = {role: str(tmp_path / role) for role in ("log", "view")}
    write_tables(checkpoint, {"log": paths["log"], "view": None})
    known = {role: {"path": path, "id": role, "batch": 3} for role, path in paths.items()}
    for name in ("offsets/3", "commits/3"):
        checkpoint.write(name, b"")
    prepare(checkpoint, PreparedBatch(number=4, epoch=0, spark_commit="", tables=known))
    checkpoint.write("offsets/4", b"")
    nothing, no_spark = pa.schema([]), cast("Any", None)
    spec: Any = SimpleNamespace(rejected_schema=nothing, parts={"": SimpleNamespace(results_schema=nothing)})
    former = tables_of_last_batch(checkpoint, record)
    assert former == paths
    with pytest.raises(SinkError, match=rf"the table {tmp_path}/view is gone, .* restore a savepoint that has it, "):
        check_tables(
            no_spark,
            Tables({"log": str(tmp_path / "new"), "view": paths["view"]}),
            spec,
            DeltaTables(),
            fresh=False,
            written=(),
            former=former.values(),
            checkpoint=checkpoint,
        )
    assert [one.name for one in tmp_path.iterdir()] == ["checkpoint"]


def columns(*, strict: bool) -> StructType:
    """Columns with a struct in every place; within them with the rules of the source, or without any."""
    point = StructType([StructField("x", LongType(), nullable=not strict), StructField("y", StringType())])
    listed = ArrayType(point, containsNull=not strict)
    return (
        StructType()
        .add("number", LongType(), nullable=False)
        .add("struct", point)
        .add("list", listed)
        .add("map", MapType(point, listed, valueContainsNull=not strict))
        .add("inner", StructType([StructField("list", listed, nullable=not strict)]))
    )


def test_nothing_within_a_column_is_not_null() -> None:
    """Delta would refuse a table with such a list, and rows whose struct is null; a column keeps its own rule."""
    assert stored_schema(columns(strict=True)) == columns(strict=False)
    assert stored_schema(columns(strict=False)) == columns(strict=False)


class ListedByHadoop(LocalFolder):
    """A folder whose hidden files are listed, too."""

    def names(self, folder: str) -> list[str]:
        """Return all names in a folder."""
        path = self.path / folder
        return sorted(one.name for one in path.iterdir()) if path.is_dir() else []


@pytest.mark.parametrize(
    "names",
    [
        [],
        [PROBE],
        [f".{PROBE}.0a1b.tmp"],
        ["_delta_log/"],
        [PROBE, f"_delta_log/.{FIRST}.json.0a1b.tmp", "_delta_log/_commit_0a1b.json.tmp"],
        [f"_delta_log/{FIRST}.json#1"],
    ],
)
def test_what_a_killed_start_leaves_is_no_reason_to_refuse_a_folder(tmp_path: Path, names: list[str]) -> None:
    """The file by which it found out that it may write, and a log without a commit. A table can be made there."""
    assert is_free(folder(tmp_path, names))
    create_table(str(tmp_path), {}, SCHEMA.to_json(), NEW_TABLE)
    assert LibraryTable(str(tmp_path)).append(pa.table({"n": [1]}), "a", 0)
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pydict() == {"n": [1]}


@pytest.mark.parametrize(
    "names",
    [
        [f"_delta_log/{FIRST}.json"],
        [f"_delta_log/{FIRST}.checkpoint.parquet"],
        ["_delta_log/", "part-0.snappy.parquet"],
        [".hidden"],
        ["rows.csv", PROBE],
    ],
)
def test_anything_else_in_a_folder_is_somebodys(tmp_path: Path, names: list[str]) -> None:
    """A table, files of one, or files of another program."""
    assert not is_free(folder(tmp_path, names))


def folder(path: Path, names: list[str]) -> ListedByHadoop:
    """A folder with these files; a name that ends with a slash is a folder."""
    for name in names:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).mkdir() if name.endswith("/") else (path / name).touch()
    return ListedByHadoop(path)


def test_metrics_of_an_earlier_version_may_lack_what_came_later_and_nothing_else() -> None:
    """The next start adds it; a column that was removed is refused as ever."""
    before = StructType([one for one in METRICS if one.name not in LATER_METRICS])
    assert column_differences(before, without_later_metrics(METRICS, before)) == []
    assert without_later_metrics(METRICS, METRICS) == METRICS
    without_firings = StructType([one for one in before if one.name != "firings"])
    assert column_differences(without_firings, without_later_metrics(METRICS, without_firings)) == [
        "firings: absent in the table, bigint in the results"
    ]
