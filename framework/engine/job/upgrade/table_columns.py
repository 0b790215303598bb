"""The result columns of a changed declaration: those that tables get, and those of earlier ones that they have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql.types import StructType

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.spark_table import table_metadata
from panekeeper.state.checkpoint.job_record import JobRecord
from panekeeper.state.upgrade.history import HISTORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.sink.small_commits import SmallTables
    from panekeeper.framework.engine.sink.tables import Tables

Metadata = Mapping[str, Any]
"""Metadata of a table, as its log has it."""


def without_columns_of_no_table(record: JobRecord, found: Mapping[str, Metadata]) -> JobRecord:
    """Return the record without the columns of removed aggregates that neither the log nor the view has.

    A declaration that was only recorded leaves none, if its start was killed, or if the tables could not take its
    columns. Were they added nevertheless, no start could follow one of the second kind.

    Args:
        record: of the job, as this start is about to record it.
        found: role -> metadata of the tables.
    """
    history = record.declaration.get(HISTORY)
    if history is None:
        return record
    there = {name for role in ("log", "view") if role in found for name in columns_of(found[role]).names}
    retired = {name: text for name, text in history["retired"].items() if name in there}
    return replace(record, declaration={**record.declaration, HISTORY: {**history, "retired": retired}})


def add_missing_columns(spark: SparkSession, tables: Tables, spec: JobSpec, small: SmallTables) -> None:
    """Add the result columns that the log and the view lack, which `create_or_check` has checked; `small` are open.

    Raises:
        SinkError: Delta refuses them.
    """
    for path in filter(None, (tables.log, tables.view)) if spec.history.added_columns() else ():
        found = columns_of(table_metadata(spark, path))
        missing = [one for one in tables.schemas(spec)[path] if one.name not in found.names]
        if missing:
            columns = ", ".join(f"{quoted(one.name)} {one.dataType.simpleString()}" for one in missing)
            try:
                spark.sql(f"ALTER TABLE delta.{quoted(path)} ADD COLUMNS ({columns})")
            except (AnalysisException, IllegalArgumentException) as error:
                raise SinkError(
                    f"the table {path} cannot get the columns {columns} of the new declaration: {first_line(error)}. "
                    "Choose other names or types for them; or change the table, as that says; or start the program as "
                    "it was, which goes on"
                ) from error
            small.reopen(path)
            fault_point("during-upgrade", 3)


def columns_of(metadata: Metadata) -> StructType:
    """Return the columns of a table."""
    return StructType.fromJson(json.loads(metadata["schemaString"]))
