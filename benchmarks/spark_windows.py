"""Spark's own windows: `groupBy(window)` in append mode, on RocksDB, with the same columns as Panekeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from benchmarks.contenders import Query
from benchmarks.panekeeper_jobs import with_whole_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def panes_query(duration: str, period: str | None = None) -> Query:
    """The greatest value and the number of rows of each key and window, once the watermark has passed it."""

    def query(source: DataFrame, _checkpoint: str) -> DataFrame:
        window = F.window("ts", duration, period)
        grouped = source.withWatermark("ts", "0 seconds").groupBy("key", window)
        counted = grouped.agg(F.max("v").alias("highest"), F.count("*").alias("n"))
        return counted.select(
            "key",
            F.col("window.start").alias("pane_start"),
            F.col("window.end").alias("pane_end"),
            "highest",
            "n",
        )

    return query


def sessions_query(gap: str) -> Query:
    """The greatest value and the number of rows of each key and session, once the watermark has passed it."""

    def query(source: DataFrame, _checkpoint: str) -> DataFrame:
        session = F.session_window("ts", gap)
        grouped = source.withWatermark("ts", "0 seconds").groupBy("key", session.alias("session"))
        counted = grouped.agg(F.max("v").alias("highest"), F.count("*").alias("n"))
        bounds = (F.col(f"session.{name}").alias(f"session_{name}") for name in ("start", "end"))
        return counted.select("key", *bounds, "highest", "n")

    return query


def distinct_query(source: DataFrame, _checkpoint: str) -> DataFrame:
    """The number of distinct whole values of each key and window; streams have no `count(DISTINCT ...)`."""
    rows = with_whole_values(source).withWatermark("ts", "0 seconds")
    sets = rows.groupBy("key", F.window("ts", "50 seconds")).agg(F.size(F.collect_set("whole")).alias("distinct"))
    bounds = (F.col(f"window.{name}").alias(f"pane_{name}") for name in ("start", "end"))
    return sets.select("key", *bounds, "distinct")
