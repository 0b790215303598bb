"""Tables that fit the checkpoint become those of a start: owned, named in the checkpoint, and with all columns.

    1  Each table gets the owner and the epoch, before anything else is changed in it (`sink/fencing.py`).
    2  The declaration of this start is recorded (`declaration_record.py`).
    3  Tables get the columns that they lack.
    4  The checkpoint names them as its own.
    5  A sink of the user's own makes ready.

A kill leaves each table and the record as they were before or after a step; the next start does them all again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, IllegalArgumentException

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.job.declaration_record import record_upgrade
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import secure
from panekeeper.framework.engine.sink.tables import columns_of
from panekeeper.state.checkpoint.job_record import write_tables
from panekeeper.state.table_roles import has_results, window_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.session.checkpoint_files import HeldFiles
    from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
    from panekeeper.framework.engine.sink.table_writer import TableWriter
    from panekeeper.framework.engine.sink.tables import Tables
    from panekeeper.state.checkpoint.job_record import JobRecord


def take_tables(
    held: HeldFiles,
    record: JobRecord,
    tables: Tables,
    spec: JobSpec,
    writer: TableWriter,
    tables_before: Mapping[str, TableAtVersion],
) -> None:
    """Let the tables and a sink of the user's own be those of this start, and record its declaration.

    `tables_before` are the tables as they were before, by their roles. Tables get the columns of the new declaration,
    and the metrics those of this version.
    """
    spark = held.spark
    # 1
    held.require_held()
    secure(spark, tables.by_role, record, writer.tables)

    # 2
    record_upgrade(held, record)

    # 3
    held.require_held()
    for role, path in tables.by_role.items():
        has_more = has_results(role) and spec.parts[window_of(role)].history.added_columns()
        if path is None or not (has_more or role == "metrics"):
            continue
        there = columns_of(tables_before[role])
        missing = [column for column in tables.schemas(spec)[path] if column.name not in there.names]
        if missing:
            _add_columns(spark, path, missing)
            writer.tables.reopen(path)
            fault_point("during-upgrade", 3)

    # 4
    write_tables(held, tables.by_role)

    # 5
    held.require_held()
    if writer.has_user_sink:
        writer.prepare_user_sink(spark, spec.results_schema)


def _add_columns(spark: SparkSession, path: str, missing: Sequence[StructField]) -> None:
    columns = ", ".join(f"{quoted(column.name)} {column.dataType.simpleString()}" for column in missing)
    try:
        spark.sql(f"ALTER TABLE delta.{quoted(path)} ADD COLUMNS ({columns})")
    except (AnalysisException, IllegalArgumentException) as error:
        raise SinkError(
            f"the table {path} cannot get the columns {columns} of the new declaration. Choose other names or "
            "types for them; or change the table, as Delta says; or start the program as it was, which goes "
            f"on:\n{all_said(error)}"
        ) from error
