"""Many rows for a table on S3: Spark writes the files, and the library commits them.

Spark's own commit there looks whether the log has the version, and writes it without a condition then. Of two jobs that
share a table, as a quarantine, one would lose a batch. The library's commit is refused if another one was first.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from deltalake.transaction import AddAction
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.engine.sink.batch.large_rows import read_whole
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_log = logger("sink")


def write_files(rows: DataFrame, table: str, count: int | None) -> list[AddAction] | None:
    """Write rows to a new folder in a table, of which the table knows nothing yet; return its files.

    A process that is killed before they are committed leaves them for a VACUUM.

    Args:
        rows: the same each time they are read.
        table: its folder.
        count: how many there are, if that is known: some ways in which Spark writes files leave those of failed tasks.

    Returns:
        What is to be committed. None: the table has other columns by now, or the files other rows; so Spark has to
        commit them.
    """
    spark = rows.sparkSession
    if _types_of(spark.read.format("delta").load(table).schema) != _types_of(rows.schema):
        return None
    name = uuid.uuid4().hex  # not hidden: a VACUUM passes over what is
    rows.write.parquet(f"{table}/{name}")
    written = read_whole(spark.read, f"{table}/{name}")
    counted = written.groupBy(F.input_file_name().alias("file")).agg(F.count("*").alias("rows")).collect()
    counts = {row["file"].rpartition("/")[2]: row["rows"] for row in counted}
    if count is not None and sum(counts.values()) != count:
        _log.warning("%s/%s has %s rows, not %s, and is not committed", table, name, sum(counts.values()), count)
        return None
    return [
        AddAction(
            path=f"{name}/{file.getPath().getName()}",
            size=file.getLen(),
            partition_values={},
            modification_time=file.getModificationTime(),
            data_change=True,
            stats=json.dumps({"numRecords": counts[file.getPath().getName()]}),
        )
        for file in _listed(spark, f"{table}/{name}")
        if counts.get(file.getPath().getName())
    ]


def _types_of(schema: StructType) -> dict[str, str]:
    return {one.name: one.dataType.simpleString() for one in schema.fields}


def _listed(spark: Any, folder: str) -> list[Any]:
    path = spark._jvm.org.apache.hadoop.fs.Path(folder)  # noqa: SLF001 -- sizes are not part of Spark's Python interface
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- as above
    return list(files.listStatus(path))
