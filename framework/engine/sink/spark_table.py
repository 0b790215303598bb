"""What Delta's own log of a table says, read through Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.spark_errors import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_delta_table(spark: SparkSession, path: str) -> bool:
    """Return whether there is a Delta table in a folder.

    Args:
        spark: the session that reaches the folder.
        path: the folder.

    Raises:
        SinkError: there is one, and it cannot be read.
    """
    from delta.tables import DeltaTable

    try:
        return bool(DeltaTable.isDeltaTable(spark, path))
    except Exception as error:
        raise unreadable_table(path, error) from error


def unreadable_table(path: str, error: Exception) -> SinkError:
    """Return the error of a table that cannot be read.

    Args:
        path: its folder.
        error: of Spark.
    """
    return SinkError(
        f"the Delta table {path} cannot be read: {first_line(error)}. If a newer program has changed it, take a "
        "version of Delta that has its features; if its log is damaged, restore a savepoint or put the table back"
    )


def table_metadata(spark: SparkSession, path: str) -> Mapping[str, Any]:
    """Return the metadata of a table as its log has it: `schemaString`, `configuration`, `partitionColumns`, ...

    Raises an error of Spark's if this version of Delta cannot read the table.

    Args:
        spark: the session that reaches the table.
        path: the table's folder.
    """
    snapshot = _snapshot(spark, path)
    snapshot.deltaLog().protocolRead(snapshot.protocol())
    metadata: Mapping[str, Any] = json.loads(snapshot.metadata().json())["metaData"]
    return metadata


def last_transaction(spark: SparkSession, path: str, app_id: str) -> int:
    """Return the last version that a table has of a transaction id; -1 if there is none. Runs a Spark job.

    Args:
        spark: the session that reaches the table.
        path: the table's folder.
        app_id: the transaction id.
    """
    version = _snapshot(spark, path).transactions().get(app_id)
    return int(version.get()) if version.isDefined() else -1


def transactions(spark: SparkSession, path: str) -> dict[str, int]:
    """Return id -> last version of all transactions of a table. Runs a Spark job.

    Args:
        spark: the session that reaches the table.
        path: the table's folder.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 -- the log is not part of Delta's Python interface
    found = jvm.scala.jdk.javaapi.CollectionConverters.asJava(_snapshot(spark, path).transactions())
    return {str(one): int(version) for one, version in dict(found).items()}


def _snapshot(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001 -- the log is not part of Delta's Python interface
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)  # noqa: SLF001 -- as above
    nothing = jvm.scala.Option.empty()
    return log.update(False, nothing, nothing)
