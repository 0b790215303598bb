"""The Delta tables of a job: which there are, what columns they have, and whether they can take results.

They are made before the query starts: a reader finds them at once, and a folder that cannot be written, or that
holds something else, is an error before the first row is read.

Only what the results themselves decide may be refused by a table. A rule that somebody added later would fail a batch
with results that are right, and fail it again at each start.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StructField,
    StructType,
    TimestampType,
)

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.declarations.errors import OutputNotWritable, SchemaMismatch, SinkError
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import TIME_ZONE
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.downtime import DOWNTIME
from panekeeper.framework.engine.sink.library_table import NEW_TABLE
from panekeeper.framework.engine.sink.small_commits import SmallTables
from panekeeper.framework.engine.sink.spark_table import is_delta_table, table_metadata, unreadable_table
from panekeeper.state.checkpoint.folder import place_of

if TYPE_CHECKING:
    from delta.tables import DeltaTableBuilder
    from pyspark.sql import SparkSession

    from panekeeper.state.checkpoint.folder import CheckpointFolder

ROW_COUNT_COLUMNS = ("rows_in", "admitted", "refined_late", "dropped_late", "outside", "quarantined")
"""Where the rows of a batch went: the first is the sum of the others."""

METRICS = StructType(
    [
        StructField("batch", LongType()),
        StructField("batch_time", TimestampType()),
        *[StructField(name, LongType()) for name in ROW_COUNT_COLUMNS],
        StructField("balanced", BooleanType()),
        StructField("watermark", TimestampType()),
        StructField("open_panes", LongType()),
        StructField("firings", LongType()),
        StructField("late_ms", LongType()),
        StructField("seconds", DoubleType()),
    ]
)
"""One row a batch: what it did. `open_panes` is null in one that was run again after a crash. `batch_time`, `seconds`
are read from the driver's clock; `late_ms`: how long after its instant the most overdue wall-clock work was done."""

_RESULTS = ("log", "view")
_PROBE = ".panekeeper-can-write"


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Paths of a job's tables.

    Attributes:
        log: every firing, append only.
        view: the newest refinement of each pane, by MERGE; None if not wanted.
        quarantine: rows that joined no window, with the reason.
        metrics: one row a batch.
        downtime: one row for each start after the first.
    """

    log: str
    view: str | None = None
    quarantine: str
    metrics: str
    downtime: str

    def schemas(self, spec: JobSpec) -> dict[str, StructType]:
        """Return path -> columns."""
        columns = {
            "log": stored_schema(spark_schema(spec.results_schema)),
            "view": stored_schema(spark_schema(spec.results_schema)),
            "quarantine": stored_schema(spark_schema(spec.rejected_schema)),
            "metrics": METRICS,
            "downtime": DOWNTIME,
        }
        return {path: columns[role] for role, path in asdict(self).items() if path is not None}


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
    if layout.cluster_by and role in _RESULTS:
        table = table.clusterBy(*layout.cluster_by)
    for name, value in _properties(role, layout).items():
        table = table.property(name, value)
    return table


def _properties(role: str, layout: TableLayout) -> dict[str, str]:
    return NEW_TABLE | dict(layout.properties) if role in _RESULTS else NEW_TABLE


def _create(
    spark: SparkSession, path: str, role: str, schema: StructType, layout: TableLayout, small: SmallTables
) -> Mapping[str, Any]:
    """Create a table and return its metadata: Spark would need longer to read it than the library to create it."""
    is_clustered = layout.cluster_by and role in _RESULTS
    made = None if is_clustered else small.create(spark, path, schema, _properties(role, layout))
    if made is not None:
        return made
    try:
        new_table(spark, role, schema, layout).location(path).execute()
    except (AnalysisException, IllegalArgumentException) as error:
        what = "Change the names of columns, or properties=, as that says"
        raise OutputNotWritable(f"the {role} {path} cannot be created: {first_line(error)}. {what}") from error
    return _metadata(spark, path)


def create_or_check(
    spark: SparkSession,
    tables: Tables,
    spec: JobSpec,
    *,
    fresh: bool,
    written: Collection[str] = (),
    made: Mapping[str, str] | None = None,
    layout: TableLayout | None = None,
    small: SmallTables | None = None,
) -> dict[str, Mapping[str, Any]]:
    """Make the tables that are not there and check those that are; return role -> metadata, as the log has it.

    Args:
        spark: the session that reaches the tables.
        tables: where they are.
        spec: what the job writes.
        fresh: the checkpoint has run no batch in this epoch yet.
        written: paths of the tables that earlier runs on this checkpoint have made; they are never made again.
        made: role -> path of such tables, those of before a reset, too.
        layout: of tables that are made.
        small: the tables that are open already.

    Raises:
        OutputNotWritable: a folder cannot be written, or holds files and no Delta table.
        SchemaMismatch: a table has other columns.
        SinkError: the tables hold the results of another checkpoint, with which these would be mixed up; a table that
            an earlier run has made is gone; or one has settings or rules by which it may lose or refuse results.
    """
    small, layout = small or SmallTables(), layout or TableLayout()
    roles = {path: role for role, path in asdict(tables).items()}
    never_null, zone = [key.name for key in spec.keys if not key.nullable], str(spark.conf.get(TIME_ZONE))
    described: dict[str, Mapping[str, Any]] = {}
    own, former = ({place_of(path) for path in paths} for paths in (written, (made or {}).values()))
    for path, schema in tables.schemas(spec).items():
        files, exists = CheckpointFiles(spark, path), is_delta_table(spark, path)
        if not exists and place_of(path) in own | former:
            raise SinkError(
                f"the table {path} is gone, and this checkpoint has written to it: made again, it would lack all "
                "results until now. Mount its volume or put it back; or restore a savepoint; or, if it is lost, "
                "declare it in another folder; or give the job a new checkpoint folder, to begin again"
            )
        if not exists and files.exists() and not is_free(files):
            raise OutputNotWritable(f"{path} holds files but is no Delta table; choose another folder, or empty it")
        _require_writable(files)
        metadata = _metadata(spark, path) if exists else _create(spark, path, roles[path], schema, layout, small)
        described[roles[path]] = metadata
        if exists:
            found, is_own = StructType.fromJson(json.loads(metadata["schemaString"])), place_of(path) in own
            takes_more = is_own and roles[path] in _RESULTS
            _require_columns(path, found, without_missing(schema, found, spec) if takes_more else schema, is_own=is_own)
        require_usable_settings(roles[path], path, metadata, schema, never_null)
        require_exact_partitions(roles[path], path, metadata, zone)
        if exists and fresh:
            _require_no_rows(spark, roles[path], path, small)
    return described


def without_missing(wanted: StructType, found: StructType, spec: JobSpec) -> StructType:
    """Return the columns of the results without those that a table of an earlier declaration lacks."""
    may_lack = spec.history.added_columns()
    return StructType([one for one in wanted if one.name in found.names or one.name not in may_lack])


def require_no_rows(spark: SparkSession, tables: Tables) -> None:
    """Refuse tables with rows for a new checkpoint. It may be new because its volume is missing.

    Args:
        spark: the session that reaches the tables.
        tables: where they are, or will be.

    Raises:
        SinkError: one of them holds the results of another checkpoint.
    """
    for role, path in asdict(tables).items():
        if path is not None and is_delta_table(spark, path):
            _metadata(spark, path)
            _require_no_rows(spark, role, path, SmallTables())


def _require_no_rows(spark: SparkSession, role: str, path: str, small: SmallTables) -> None:
    if role in ("metrics", *_RESULTS) and small.has_rows(spark, path):
        raise SinkError(
            f"{path} holds rows, and this checkpoint is new: they are of another checkpoint or program, and "
            "results would be there twice or mixed. Start with the checkpoint that wrote them (mount its volume, "
            "if that is missing), or choose other folders for the tables"
        )


def _metadata(spark: SparkSession, path: str) -> Mapping[str, Any]:
    try:
        return table_metadata(spark, path)
    except Exception as error:
        raise unreadable_table(path, error) from error


def is_free(files: CheckpointFolder) -> bool:
    """Return whether a folder holds nothing, or what a start leaves that was killed before its table was made."""
    names = {one for one in files.names("") if _PROBE not in one}
    return not names or (names == {"_delta_log"} and not any(one[:20].isdecimal() for one in files.names("_delta_log")))


def _require_writable(files: CheckpointFiles) -> None:
    try:
        files.write_json(_PROBE, {}, replace=True)
        files.remove(_PROBE)
    except Exception as error:
        raise OutputNotWritable(
            f"{files.root} cannot be written: {first_line(error)}; make it writable, or choose another folder"
        ) from error


def column_differences(found: StructType, wanted: StructType) -> list[str]:
    """Return, in words, in which columns a table and the results differ; in no order, and nullable or not."""
    old = {field.name: field.dataType.simpleString() for field in found}
    new = {field.name: field.dataType.simpleString() for field in wanted}
    return [
        f"{name}: {old.get(name, 'absent')} in the table, {new.get(name, 'absent')} in the results"
        for name in dict.fromkeys([*new, *old])
        if old.get(name) != new.get(name)
    ]


def _require_columns(path: str, found: StructType, wanted: StructType, *, is_own: bool) -> None:
    lines = column_differences(found, wanted)
    if lines:
        text = "\n".join(f"  {line}" for line in lines)
        advice = _way_back(path, found, wanted) if is_own else "Choose another folder."
        raise SchemaMismatch(f"the Delta table {path} has other columns than the results:\n{text}\n{advice}")


def _way_back(path: str, found: StructType, wanted: StructType) -> str:
    """Return what to do with a table that has results of this checkpoint: in another one they would be missing."""
    table, added = f"delta.`{path}`", [quoted(name) for name in found.names if name not in wanted.names]
    drop = (
        f"drop what was added: ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name'); "
        f"ALTER TABLE {table} DROP COLUMNS ({', '.join(added)}); or "
    )
    return (
        f"It holds the results of this checkpoint. Change its columns back; {drop if added else ''}restore a savepoint."
    )


_RULES = {
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity column",
    "delta.invariants": "has an invariant",
    "__CHAR_VARCHAR_TYPE_STRING": "is a CHAR or VARCHAR, which pads or refuses texts",
}
"""Attribute of a column in Delta's log -> what it makes of the column."""
_UTC = ("UTC", "ETC/UTC", "Z", "GMT", "+00:00")


def require_usable_settings(
    role: str, path: str, metadata: Mapping[str, Any], wanted: StructType, never_null: Collection[str] = ()
) -> None:
    """Raise `SinkError` if a table has settings under which results could be lost, doubled or refused.

    Args:
        role: which table of the job it is.
        path: its folder.
        metadata: of the table, as its log has it.
        wanted: the columns of the results.
        never_null: columns that may be NOT NULL nevertheless, as the stream has no nulls there.
    """
    table = f"delta.`{path}`"
    properties: Mapping[str, str] = metadata.get("configuration") or {}
    retention = properties.get("delta.setTransactionRetentionDuration")
    if retention is not None:
        raise SinkError(
            f"the table {path} records for {retention!r} only which batches it has "
            "(delta.setTransactionRetentionDuration): one that is run again after a longer stop would be there twice. "
            f"ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')"
        )
    if role == "view" and properties.get("delta.appendOnly", "false").lower() == "true":
        raise SinkError(
            f"the view {path} is append-only (delta.appendOnly), and its rows are replaced by newer refinements. ALTER "
            f"TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')"
        )
    for name, condition in properties.items():
        if name.startswith("delta.constraints."):
            constraint = name.removeprefix("delta.constraints.")
            raise SinkError(
                f"the table {path} has the constraint {constraint!r} ({condition}): a result that violates it would "
                f"fail its batch, at each start again. ALTER TABLE {table} DROP CONSTRAINT {constraint}"
            )
    may_be_null = {field.name for field in wanted if field.nullable} - {*never_null}
    _require_columns_without_rules(path, json.loads(metadata["schemaString"])["fields"], may_be_null)


def require_exact_partitions(role: str, path: str, metadata: Mapping[str, Any], time_zone: str) -> None:
    """Refuse partition columns whose values Delta stores as others: a merge finds no row of such a key again.

    Args:
        role: which table of the job it is.
        path: its folder.
        metadata: of the table, as its log has it.
        time_zone: of the session. Delta stores times in partition columns as they are there, without an offset.
    """
    changed = {"binary": "bytes as text"}
    if role == "view":
        changed["string"] = "an empty text as NULL"
    if time_zone.upper() not in _UTC:
        changed["timestamp"] = f"times as those of {time_zone}, where an hour is there twice when summer ends"
    for one in json.loads(metadata["schemaString"])["fields"]:
        name, kind = one["name"], one["type"]
        if name in (metadata.get("partitionColumns") or ()) and isinstance(kind, str) and kind in changed:
            raise SinkError(
                f"the {role} {path} is partitioned by {name!r}, of type {kind}, and Delta stores {changed[kind]}: rows "
                "of such keys would be others, and in a view once more in each batch. Give the job a table without "
                "that, such as one made by to_delta(..., cluster_by=...)"
            )


def _require_columns_without_rules(path: str, fields: list[Mapping[str, Any]], may_be_null: Collection[str]) -> None:
    for one in fields:
        name = one["name"]
        rules = [what for attribute, what in _RULES.items() if attribute in one.get("metadata", {})]
        if not one.get("nullable", True) and name in may_be_null:
            raise SinkError(
                f"the column {name!r} of the table {path} is NOT NULL, and results may have nulls there: they would "
                f"fail their batch, at each start again. ALTER TABLE delta.`{path}` ALTER COLUMN `{name}` DROP NOT NULL"
            )
        if rules:
            raise SinkError(
                f"the column {name!r} of the table {path} {rules[0]}, and a job writes all columns itself. Give the "
                "job a table of its own, and derive such columns from it"
            )


def stored_schema(schema: StructType) -> StructType:
    """Return the columns of results with nothing NOT NULL within: to Delta a null struct would violate that."""
    return StructType([StructField(one.name, _stored(one.dataType), one.nullable, one.metadata) for one in schema])


def _stored(kind: DataType) -> DataType:
    match kind:
        case ArrayType():
            return ArrayType(_stored(kind.elementType))
        case MapType():
            return MapType(_stored(kind.keyType), _stored(kind.valueType))
        case StructType():
            return StructType([StructField(one.name, _stored(one.dataType)) for one in kind])
    return kind
