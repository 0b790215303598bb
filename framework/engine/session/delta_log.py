"""What Delta's own log of a table says, read through Spark: nothing is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def _snapshot(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001 -- the log is not part of Delta's Python interface
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)  # noqa: SLF001 -- as above
    nothing = jvm.scala.Option.empty()
    return log.update(False, nothing, nothing)
