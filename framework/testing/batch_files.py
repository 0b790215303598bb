"""The input of a job of the test kit on Spark: files, each of which is a micro-batch, in the order of their writing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from panekeeper.framework.engine.session.session import session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_FIRST_AT = 1_600_000_000
"""When the first file was modified, as it seems, s; each next one a second later: Spark reads them by their age."""


def session_of_one_group(spark: SparkSession | None = None) -> SparkSession:
    """Return a Spark session with settings of its own, for jobs of one key group: of more, the others would be empty.

    It shares all else with the given one; `panekeeper.session()` if none is.
    """
    own = (spark or session()).newSession()
    own.conf.set("spark.sql.shuffle.partitions", 1)
    return own


class BatchFiles:
    """The input files of one stream.

    Attributes:
        written: the files, in order.
    """

    def __init__(self, folder: Path, columns: StructType) -> None:
        """Begin in a folder, which is made if it is not there."""
        folder.mkdir(exist_ok=True)
        self._folder, self._columns = folder, columns
        self.written: list[Path] = []

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the files as a stream that has one in each micro-batch."""
        reader = spark.readStream.schema(self._columns).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self._folder))

    def write(self, rows: pa.Table) -> Path:
        """Write the next micro-batch, which a running job sees whole, and return its file."""
        number = len(self.written)
        path = self._folder / f"{number:06d}.parquet"
        hidden = path.with_name(f".{path.name}")  # Spark passes over such a file
        pq.write_table(rows, hidden)
        os.utime(hidden, (_FIRST_AT + number,) * 2)
        hidden.rename(path)
        self.written.append(path)
        return path
