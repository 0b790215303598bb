"""Results that are too many for the driver: written to the checkpoint, packed as they are, before a table has them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.engine.sink.batch.output import hash_of_packed
from panekeeper.state.checkpoint.folder import local_path, sync_file, sync_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_SCHEMA = "tag string, n bigint, body binary, place bigint"
_OF_GLOBS = re.compile(r"[\[\]{}*?\\]")


def write_large_rows(packed: DataFrame, tags: Collection[str], folder: str) -> None:
    """Write the packed rows of some tags to a new folder; they are there after a power cut, too.

    Args:
        packed: the output of the plan (`processor.OUTPUT_SCHEMA`).
        tags: whose rows are large.
        folder: its full name.
    """
    place = F.monotonically_increasing_id().alias("place")  # those of a key group are in the order of its firings
    rows = packed.where(F.col("tag").isin(*tags)).select("tag", "n", "body", place)
    rows.write.option("compression", "snappy").parquet(folder)
    local = local_path(folder)
    if local is not None:
        for path in local.iterdir():
            sync_file(path)
        sync_folder(local)
        sync_folder(local.parent)


def read_large_rows(spark: SparkSession, folder: str) -> DataFrame:
    """Return the packed rows that `write_large_rows` has written, in their order.

    Args:
        spark: the session that reaches the folder.
        folder: its full name.
    """
    return read_whole(spark.read.schema(_SCHEMA), folder).orderBy("place").drop("place")


def read_whole(reader: DataFrameReader, folder: str) -> DataFrame:
    """Return what the files of a folder hold, or fail, also where the session passes over files that cannot be read.

    Args:
        reader: of the session that reaches the folder.
        folder: its full name.
    """
    path = _OF_GLOBS.sub(r"\\\g<0>", folder)  # else Spark looks for folders that fit a name with such a character
    return reader.options(ignoreCorruptFiles="false", ignoreMissingFiles="false").parquet(path)


def rows_and_hashes(packed: DataFrame) -> dict[str, tuple[int, int]]:
    """Return of packed rows, by tag, how many rows they hold and what their hash is, as `BatchOutput` has it."""
    by_tag = packed.groupBy("tag").agg(F.sum("n").alias("rows"), F.bit_xor(hash_of_packed()).alias("hash"))
    return {row.tag: (row.rows, row.hash) for row in by_tag.collect()}
