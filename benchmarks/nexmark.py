"""Nexmark: queries 5 and 7, by Panekeeper's declarations and by Spark's own windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from benchmarks.contenders import Query
from examples.nexmark.events import LATEST
from examples.nexmark.queries import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PANE = ("pane_start", "pane_end")
_DELAY = f"{LATEST.total_seconds():g} seconds"
_BID = ("auction", "bidder", "price", "at")
RESULTS: dict[str, tuple[str, ...]] = {
    "q5": (*PANE, "auction", "n"),
    "q7": (*PANE, *_BID),
}
"""Query -> the columns of its results that both have."""


def ours(name: str) -> Query:
    """Return a query by Panekeeper."""

    def query(source: DataFrame, checkpoint: str) -> DataFrame:
        frames = {stream: of_stream(source, name, stream) for stream in QUERIES[name].streams}
        results = QUERIES[name].of(frames, name=name).transform(checkpoint=checkpoint)
        if name == "q7":
            results = results.select(*PANE, *(F.col(f"bid.{column}") for column in _BID))
        return results.select(*RESULTS[name])

    return query


def spark(name: str) -> Query:
    """Return a query by Spark."""

    def query(source: DataFrame, _checkpoint: str) -> DataFrame:
        results: DataFrame = _SPARK[name](source)
        return results.select(*RESULTS[name])

    return query


def of_stream(source: DataFrame, name: str, stream: str) -> DataFrame:
    """Return the events of one stream, with the columns that a query is given."""
    return source.where(F.col("stream") == stream).select(*QUERIES[name].columns(stream))


def _late_bids(source: DataFrame, name: str) -> DataFrame:
    return of_stream(source, name, "bids").withWatermark("at", _DELAY)


def _with_bounds(frame: DataFrame) -> DataFrame:
    return frame.select("*", F.col("window.start").alias("pane_start"), F.col("window.end").alias("pane_end"))


def _hot_items(source: DataFrame) -> DataFrame:
    """Count, then keep the most of a pane: an aggregation of an aggregation."""
    window = F.window("at", "10 seconds", "2 seconds")
    counted = _late_bids(source, "q5").groupBy(window, "auction").agg(F.count("*").alias("n"))
    most = counted.groupBy("window").agg(F.collect_list(F.struct("auction", "n")).alias("all"), F.max("n").alias("n"))
    hot = F.explode(F.filter("all", lambda one: one["n"] == F.col("n")))
    return _with_bounds(most).select(*PANE, "n", hot.alias("one")).select(*PANE, "n", "one.auction")


def _highest_bid(source: DataFrame) -> DataFrame:
    bid = F.max_by(F.struct(*_BID), F.struct("price", -F.col("number")))
    grouped = _late_bids(source, "q7").groupBy(F.window("at", "10 seconds")).agg(bid.alias("bid"))
    return _with_bounds(grouped).select(*PANE, "bid.*")


_SPARK: dict[str, Callable[[DataFrame], Any]] = {
    "q5": _hot_items,
    "q7": _highest_bid,
}
