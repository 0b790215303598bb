"""Rows in Arrow become a frame of Spark's whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from panekeeper.framework.engine.flow.pipeline import frame_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_behind_an_empty_chunk_are_in_the_frame(spark: SparkSession) -> None:
    """As where one of several groups has none; Spark's own reading would end there."""
    parts = [pa.table({"n": pa.array(numbers, pa.int64())}) for numbers in ([0], [], [3, 4])]
    rows = pa.concat_tables(parts)
    assert [len(chunk) for chunk in rows.column("n").chunks] == [1, 0, 2]
    assert [row.n for row in frame_of(spark, rows).collect()] == [0, 3, 4]
