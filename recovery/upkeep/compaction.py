"""Step 3 of the upkeep: compacts a table, by Spark.

Not by the library that makes small commits: of two of its compactions at the same time both are committed, and every
row is there twice (`docs/decisions/0014-small-commits.md`). Spark's Delta refuses the second one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import READ_SETTINGS, WRITE_SETTINGS, session_settings
from panekeeper.framework.engine.sink.spark_table import repeat_while_others_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(spark: SparkSession, path: str) -> tuple[int, int]:
    """Replace small files by larger ones with the same rows, in one commit beside those of a running job.

    Args:
        spark: the session that reaches the table.
        path: its path or URL.

    Returns:
        How many files were replaced, and by how many.

    Raises:
        SinkError: other writers came first at each attempt; nothing was changed.
    """
    done: list[tuple[int, int]] = []

    def commit() -> None:
        result = spark.sql(f"OPTIMIZE delta.{quoted(path)}").select("metrics.numFilesRemoved", "metrics.numFilesAdded")
        done.extend((int(removed), int(added)) for removed, added in result.collect())

    with session_settings(spark, READ_SETTINGS | WRITE_SETTINGS):
        repeat_while_others_commit(path, commit)
    return done[-1]
