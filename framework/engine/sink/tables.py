"""The Delta tables of a job: which there are, what columns they have, and whether they can take results.

They are made before the query starts: a reader finds them at once, and a folder that cannot be written, or that
holds something else, is an error before the first row is read. All that is there is checked before the first is made.

A table is refused here only where results would be lost, doubled or changed silently. A rule by which Delta
refuses rows (a constraint, an append-only view) is left to Delta, whose message says which; once it is gone, the batch
is completed as it is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.declarations.errors import OutputNotWritable, SchemaMismatch, SinkError
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.settings import TIME_ZONE, is_same_zone
from panekeeper.framework.engine.session.spark_errors import all_said, first_line
from panekeeper.framework.engine.sink.batch_output import ROW_COUNT_COLUMNS
from panekeeper.framework.engine.sink.delta_log import LOG
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.framework.engine.sink.downtime import DOWNTIME
from panekeeper.framework.engine.sink.gone_tables import is_gone, what_to_do
from panekeeper.framework.engine.sink.library_rules import NEW_TABLE
from panekeeper.framework.engine.sink.spark_table import is_delta_table
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
from panekeeper.state.checkpoint.folder import place_of
from panekeeper.state.table_roles import has_results, is_owned, kind_of, window_of

if TYPE_CHECKING:
    from delta.tables import DeltaTableBuilder
    from pyspark.sql import SparkSession

    from panekeeper.state.checkpoint.folder import CheckpointFolder

METRICS = StructType(
    [
        StructField("batch", LongType()),
        StructField("batch_time", TimestampType()),
        *[StructField(name, LongType()) for name in ROW_COUNT_COLUMNS],
        StructField("balanced", BooleanType()),
        StructField("watermark", TimestampType()),
        StructField("open_panes", LongType()),
        StructField("state_bytes", LongType()),
        StructField("firings", LongType()),
        StructField("late_ms", LongType()),
        StructField("seconds", DoubleType()),
        StructField("errors", MapType(StringType(), LongType())),
        StructField("missed_panes", LongType()),
    ]
)
"""One row a batch: what it did. `open_panes` is null in one that was run again after a crash; `state_bytes` is the size
of the state on disk as the batch began, null in the first one of a run and where it is not known. `batch_time` and
`seconds` are read from the driver's clock; `late_ms`: how long after its instant the most overdue wall-clock work was
done; `errors`: how many rows, results and firings could not be computed, by the reason that the quarantine gives;
`missed_panes`: how often a row that was kept came too late for one of its panes, once for each pane."""
LATER_METRICS = ("missed_panes",)
"""Columns of `METRICS` that tables of earlier versions lack: a start adds them (`job/table_checks.py`)."""

QUARANTINED = (StructField("batch", LongType()), StructField("quarantined_at", TimestampType()))
"""Columns that rows of the quarantine get as they are written: their batch, and its `batch_time` in the metrics."""
_PROBE = ".panekeeper-can-write"


@dataclass(frozen=True)
class Tables:
    """Where a job's tables are.

    Attributes:
        by_role: role (`state/table_roles.py`) -> path. `log`: every firing, append only. `view`: the newest refinement
            of each pane, by MERGE; None if not wanted. `quarantine`: rows that joined no window, with the reason.
            `metrics`: one row a batch. `downtime`: one row for each start after the first.
    """

    by_role: Mapping[str, str | None]

    def schemas(self, spec: JobSpec) -> dict[str, StructType]:
        """Return path -> columns."""
        columns = {
            "quarantine": StructType([*stored_schema(spark_schema(spec.rejected_schema)), *QUARANTINED]),
            "metrics": METRICS,
            "downtime": DOWNTIME,
        }
        results = {name: stored_schema(spark_schema(part.results_schema)) for name, part in spec.parts.items()}
        return {
            path: results[window_of(role)] if has_results(role) else columns[role]
            for role, path in self.by_role.items()
            if path is not None
        }


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """How the log and the view are created.

    Attributes:
        properties: of Delta, such as `delta.logRetentionDuration`.
        cluster_by: columns by which OPTIMIZE clusters the files.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    cluster_by: Sequence[str] = ()


def new_table(spark: SparkSession, role: str, schema: StructType, layout: TableLayout) -> DeltaTableBuilder:
    """Return a table that Spark is to create: all but its name or location."""
    table = DeltaTable.createIfNotExists(spark).addColumns(schema)
    if layout.cluster_by and has_results(role):
        table = table.clusterBy(*layout.cluster_by)
    for name, value in _properties(role, layout).items():
        table = table.property(name, value)
    return table


def _properties(role: str, layout: TableLayout) -> dict[str, str]:
    return NEW_TABLE | dict(layout.properties) if has_results(role) else NEW_TABLE


def check_tables(
    spark: SparkSession,
    tables: Tables,
    spec: JobSpec,
    opened: DeltaTables,
    *,
    fresh: bool,
    written: Collection[str],
    former: Collection[str],
    checkpoint: CheckpointFolder,
) -> dict[str, TableAtVersion]:
    """Check the tables that are there, and the folders of those that are not; return the former by their roles.

    Makes nothing: a start that is refused leaves no table.

    Args:
        spark: the session that reaches the tables.
        tables: where they are.
        spec: what the job writes.
        opened: the tables that are open already.
        fresh: the checkpoint has run no batch in this epoch yet.
        written: paths of the tables that earlier runs on this checkpoint have made; they are never made again.
        former: paths of others that are never made again: those of before a reset, and what the last batch has written.
        checkpoint: the folder of the epoch.
    """
    existing_tables = dict[str, TableAtVersion]()
    roles = {path: role for role, path in tables.by_role.items()}
    own, ever = {place_of(path) for path in written}, {place_of(path) for path in (*written, *former)}
    missing = [path for path in roles if path is not None and not is_delta_table(spark, path)]
    if gone := {roles[path]: path for path in missing if place_of(path) in ever}:
        raise SinkError(what_to_do(gone, checkpoint))
    for path, schema in tables.schemas(spec).items():
        role, files, exists = roles[path], CheckpointFiles(spark, path), path not in missing
        if not exists and files.exists() and not is_free(files):
            raise OutputNotWritable(f"{path} holds files but is no Delta table; choose another folder, or empty it")
        if not exists:
            continue
        _require_writable(files)
        existing_tables[role] = table = opened.read(spark, path)
        columns, is_own = columns_of(table), place_of(path) in own
        wanted = schema
        if is_own and has_results(role):
            wanted = without_missing(schema, columns, spec.parts[window_of(role)])
        elif role == "metrics":
            wanted = without_later_metrics(schema, columns)
        if lines := column_differences(columns, wanted):
            way_back = "It holds the results of this checkpoint. Change its columns back, or restore a savepoint."
            raise SchemaMismatch(
                f"the Delta table {path} has other columns than the results:\n"
                + "".join(f"  {line}\n" for line in lines)
                + (way_back if is_own else "Choose another folder.")
            )
        require_usable_settings(role, table, schema.names, str(spark.conf.get(TIME_ZONE)))
    if fresh:
        _require_no_rows(spark, {role: table.path for role, table in existing_tables.items()}, opened)
    return existing_tables


def create_tables(
    spark: SparkSession,
    tables: Tables,
    spec: JobSpec,
    opened: DeltaTables,
    *,
    there: Collection[str],
    layout: TableLayout | None = None,
) -> dict[str, TableAtVersion]:
    """Make the tables of the roles that are not `there`, and return them. All folders can be written, or none is made.

    `layout` is that of tables that are made.
    """
    roles, made = {path: role for role, path in tables.by_role.items()}, dict[str, TableAtVersion]()
    wanted = {path: schema for path, schema in tables.schemas(spec).items() if roles[path] not in there}
    for path in wanted:
        _require_writable(CheckpointFiles(spark, path))
    for path, schema in wanted.items():
        role = roles[path]
        made[role] = _create(spark, path, role, schema, layout or TableLayout(), opened)
        require_usable_settings(role, made[role], schema.names, str(spark.conf.get(TIME_ZONE)))
    return made


def _require_writable(files: CheckpointFiles) -> None:
    try:
        files.write_json(_PROBE, {}, replace=True)
        files.remove(_PROBE)
    except Exception as error:
        raise OutputNotWritable(
            f"{files.root} cannot be written: {first_line(error)}; make it writable, or choose another folder"
        ) from error


def _create(
    spark: SparkSession, path: str, role: str, schema: StructType, layout: TableLayout, opened: DeltaTables
) -> TableAtVersion:
    """Create a table and return it: Spark would need longer to read it than the library to create it."""
    is_clustered = layout.cluster_by and has_results(role)
    made = None if is_clustered else opened.create(spark, path, schema, _properties(role, layout))
    if made is not None:
        return made
    try:
        new_table(spark, role, schema, layout).location(path).execute()
    except (AnalysisException, IllegalArgumentException) as error:
        what = "change the names of columns, or properties=, as Delta says"
        raise OutputNotWritable(f"the {role} {path} cannot be created; {what}:\n{all_said(error)}") from error
    return opened.read(spark, path)


def columns_of(table: TableAtVersion) -> StructType:
    """Return the columns of a table."""
    return StructType.fromJson(json.loads(table.columns))


def without_missing(wanted: StructType, table_columns: StructType, spec: JobSpec) -> StructType:
    """Return the columns of the results without those that a table of an earlier declaration lacks."""
    may_lack = spec.history.added_columns()
    return StructType(
        [column for column in wanted if column.name in table_columns.names or column.name not in may_lack]
    )


def without_later_metrics(wanted: StructType, table_columns: StructType) -> StructType:
    """Return the columns of the metrics without those that a table of an earlier version lacks."""
    return StructType(
        [column for column in wanted if column.name in table_columns.names or column.name not in LATER_METRICS]
    )


def require_no_rows(spark: SparkSession, tables: Tables) -> None:
    """Refuse tables with rows for a new checkpoint, which may be new because its volume is missing."""
    there = {role: path for role, path in tables.by_role.items() if path is not None and is_delta_table(spark, path)}
    opened = DeltaTables()
    for path in there.values():
        opened.read(spark, path)
    _require_no_rows(spark, there, opened)


def _require_no_rows(spark: SparkSession, there: Mapping[str, str], opened: DeltaTables) -> None:
    with_rows = {role: path for role, path in there.items() if is_owned(role) and opened.has_rows(spark, path)}
    if with_rows:
        raise SinkError(why_not_new(with_rows))


def why_not_new(with_rows: Mapping[str, str]) -> str:
    """Return why a new checkpoint does not begin on tables with rows, role -> path, and what to do, in two sentences.

    Others may share a quarantine or a downtime table, so their rows are no reason.
    """
    *most, last = with_rows.values()
    hold = f"each of {', '.join(most)} and {last} holds rows" if most else f"{last} holds rows"
    what = "results would be there twice or mixed"
    if not any(map(has_results, with_rows)):
        what = "batches of two checkpoints, with the same numbers, would be there"
    it = "these folders" if most else "this folder"
    return (
        f"{hold}, and this checkpoint is new: they are of another checkpoint or program, and {what}. Start with the "
        "checkpoint that wrote them (mount its volume, if that is missing, or bring it back from a savepoint with "
        "`panekeeper restore LOCATION NAME`, if it is lost), or choose other folders for the tables; to start over "
        f"without these rows, remove {it}"
    )


def is_free(files: CheckpointFolder) -> bool:
    """Return whether a folder holds nothing, or what a start leaves that was killed before its table was made."""
    names = {name for name in files.names("") if _PROBE not in name}
    return not names or (names == {LOG} and is_gone(files))


def column_differences(table_columns: StructType, wanted: StructType) -> list[str]:
    """Return, in words, which columns of the results a table lacks or has of another type; in no order.

    Columns that others have added are theirs: they are null in new rows.
    """
    old = {field.name: field.dataType.simpleString() for field in table_columns}
    new = {field.name: field.dataType.simpleString() for field in wanted}
    return [
        f"{name}: {old.get(name, 'absent')} in the table, {kind} in the results"
        for name, kind in new.items()
        if old.get(name) != kind
    ]


_PADDED = "__CHAR_VARCHAR_TYPE_STRING"


def require_usable_settings(role: str, table: TableAtVersion, wanted: Collection[str], time_zone: str) -> None:
    """Refuse a table in which results would be doubled, or stored as others, without an error.

    Delta stores times in partition columns as they are in the time zone of the session, without an offset.
    """
    path = table.path
    require_lasting_transactions(table)
    if kind_of(role) == "view" and table.properties.get("delta.appendOnly") == "true":
        raise SinkError(
            f"the {role} {path} is append-only (delta.appendOnly), and its rows are replaced by newer ones. "
            f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('delta.appendOnly'), and start the job again"
        )
    changed = {"binary": "bytes as text"}
    if kind_of(role) == "view":  # a merge would find no row of such a key again
        changed["string"] = "an empty text as NULL"
    if not is_same_zone(time_zone, "UTC"):
        changed["timestamp"] = f"times as those of {time_zone}, where an hour is there twice when summer ends"
    for column in json.loads(table.columns)["fields"]:
        name, kind = column["name"], column["type"]
        if _PADDED in column.get("metadata", {}) and name in wanted:
            raise SinkError(
                f"the column {name!r} of the table {path} is a CHAR or VARCHAR, which pads texts. Give the job a table "
                "of its own, and derive such columns from it"
            )
        if name in table.partition_columns and isinstance(kind, str) and kind in changed:
            raise SinkError(
                f"the {role} {path} is partitioned by {name!r}, of type {kind}, and Delta stores {changed[kind]}: rows "
                "of such keys would be others, and in a view once more in each batch. Give the job a table without "
                "that, such as one made by to_delta(..., cluster_by=...)"
            )


def require_lasting_transactions(table: TableAtVersion) -> None:
    """Refuse a table that forgets which batches it has, before anything is written to it by what it says of them."""
    retention = table.properties.get("delta.setTransactionRetentionDuration")
    if retention is not None:
        raise SinkError(
            f"the table {table.path} records for {retention!r} only which batches it has "
            "(delta.setTransactionRetentionDuration): one that is run again after a longer stop would be there twice. "
            f"ALTER TABLE delta.`{table.path}` UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')"
        )


def stored_schema(schema: StructType) -> StructType:
    """Return the columns of results with nothing NOT NULL within: to Delta a null struct would violate that."""
    return StructType(
        [StructField(column.name, _stored(column.dataType), column.nullable, column.metadata) for column in schema]
    )


def _stored(kind: DataType) -> DataType:
    match kind:
        case ArrayType():
            return ArrayType(_stored(kind.elementType))
        case MapType():
            return MapType(_stored(kind.keyType), _stored(kind.valueType))
        case StructType():
            return StructType([StructField(column.name, _stored(column.dataType)) for column in kind])
    return kind
