"""Joins of two streams into Delta: Panekeeper's, and Spark's own. Each stream is a part of the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import TimeInterval, ports, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.builder.outputs import Computation

WITHIN = ("key", "left_ts", "right_ts", "low", "high")
OF_PANES = ("key", "pane_start", "pane_end", "low", "high")
"""The columns of the results that both have."""


def sides(first: DataFrame, second: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the rows of one stream with the lesser values, and those of the other with the greater ones."""
    low = first.where("v < 50").select("key", "ts", F.col("v").alias("low"))
    return low, second.where("v >= 50").select("key", "ts", F.col("v").alias("high"))


def within(first: DataFrame, second: DataFrame) -> Computation:
    """Pairs of rows at most 2 seconds from each other."""
    streams = (
        windowed(one, name="pairs", partition_by="key", event_time="ts", watermark=0) for one in sides(first, second)
    )
    return ports(*streams).join_within(before="2 seconds", after="2 seconds")


def of_panes(first: DataFrame, second: DataFrame) -> Computation:
    """Pairs of rows in the same 5 seconds."""
    streams = (
        windowed(one, name="pairs", partition_by="key", event_time="ts", watermark=0) for one in sides(first, second)
    )
    return ports(*(one.window(TimeInterval(5)) for one in streams)).join(how="inner")


def spark_within(first: DataFrame, second: DataFrame, _checkpoint: str) -> DataFrame:
    """The same by Spark."""
    low, high = _marked(first, second)
    near = F.expr("right_ts BETWEEN left_ts - INTERVAL 2 SECONDS AND left_ts + INTERVAL 2 SECONDS")
    return low.join(high, (F.col("key") == F.col("right_key")) & near).select(*WITHIN)


def spark_of_panes(first: DataFrame, second: DataFrame, _checkpoint: str) -> DataFrame:
    """The same by Spark."""
    low, high = _marked(first, second)
    low = low.withColumn("window", F.window("left_ts", "5 seconds"))
    high = high.withColumn("right_window", F.window("right_ts", "5 seconds"))
    joined = low.join(high, (F.col("key") == F.col("right_key")) & (F.col("window") == F.col("right_window")))
    bounds = (F.col(f"window.{name}").alias(f"pane_{name}") for name in ("start", "end"))
    return joined.select("key", *bounds, "low", "high")


def _marked(first: DataFrame, second: DataFrame) -> tuple[DataFrame, DataFrame]:
    low, high = sides(first, second)
    low = low.withColumnRenamed("ts", "left_ts").withWatermark("left_ts", "0 seconds")
    high = high.withColumnsRenamed({"ts": "right_ts", "key": "right_key"}).withWatermark("right_ts", "0 seconds")
    return low, high
