"""The Delta tables of a job: which there are, what columns they have, and whether they can take results.

They are made before the query starts: a reader finds them at once, and a folder that cannot be written, or that
holds something else, is an error before the first row is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    LongType,
    StructField,
    StructType,
    TimestampType,
)

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.declarations.errors import OutputNotWritable, SchemaMismatch, SinkError
from panekeeper.framework.engine.delta_log.read import is_delta_table, table_metadata, unreadable_table
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.required_settings import TIME_ZONE
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.batch.downtime import DOWNTIME
from panekeeper.framework.engine.sink.small_commit_checks import NEW_TABLE
from panekeeper.framework.engine.sink.small_tables import SmallTables
from panekeeper.framework.engine.sink.table_settings import (
    require_exact_partitions,
    require_usable_settings,
    stored_schema,
)
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
) -> None:
    is_clustered = layout.cluster_by and role in _RESULTS
    if is_clustered or not small.create(spark, path, schema, _properties(role, layout)):
        try:
            new_table(spark, role, schema, layout).location(path).execute()
        except (AnalysisException, IllegalArgumentException) as error:
            what = "Change the names of columns, or properties=, as that says"
            raise OutputNotWritable(f"the {role} {path} cannot be created: {first_line(error)}. {what}") from error


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
        if not exists:
            _create(spark, path, roles[path], schema, layout, small)
        metadata = described[roles[path]] = _metadata(spark, path)
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
