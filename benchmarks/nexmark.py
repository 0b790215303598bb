"""Nexmark: those queries that Spark SQL can say of a stream, by Panekeeper's declarations and by Spark's own windows.

Spark SQL has no queries 12 (its processing time has no watermark) and 18 (the newest of each key, for ever) in append
mode, and 4 is a job that reads the table of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from benchmarks.contenders import Query
from examples.nexmark.events import LATEST, SCHEMAS
from examples.nexmark.queries import PRICES, QUERIES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PANE = ("pane_start", "pane_end")
_DELAY = f"{LATEST.total_seconds():g} seconds"
_COUNTS = tuple(f"{prefix}bids" for prefix in PRICES)
_DISTINCT = tuple(f"{prefix}{name}s" for name in ("bidder", "auction") for prefix in PRICES)
_BID = ("auction", "bidder", "price", "at")
RESULTS: dict[str, tuple[str, ...]] = {
    "q5": (*PANE, "auction", "n"),
    "q7": (*PANE, *_BID),
    "q8": (*PANE, "id", "name", "state", "at"),
    "q11": ("bidder", "session_start", "session_end", "bids"),
    "q15": (*PANE, *_COUNTS, *_DISTINCT),
    "q16": ("channel", *PANE, "last_bid", *_COUNTS, *_DISTINCT),
    "q17": ("auction", *PANE, *_COUNTS, "min_price", "max_price", "avg_price", "sum_price"),
}
"""Query -> the columns of its results that both have."""
OF_DAYS = {"q15", "q16", "q17"}
"""Those with panes of a day."""


def ours(name: str) -> Query:
    """Return a query by Panekeeper."""

    def query(source: DataFrame, checkpoint: str) -> DataFrame:
        frames = {stream: of_stream(source, stream) for stream in QUERIES[name].streams}
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


def of_stream(source: DataFrame, stream: str) -> DataFrame:
    """Return the events of one stream."""
    columns = [column.split()[0] for column in SCHEMAS[stream].split(", ")]
    return source.where(F.col("stream") == stream).select(*columns)


def _late(source: DataFrame, stream: str) -> DataFrame:
    return of_stream(source, stream).withWatermark("at", _DELAY)


def _with_bounds(frame: DataFrame) -> DataFrame:
    return frame.select("*", F.col("window.start").alias("pane_start"), F.col("window.end").alias("pane_end"))


def _hot_items(source: DataFrame) -> DataFrame:
    """Count, then keep the most of a pane: an aggregation of an aggregation."""
    window = F.window("at", "10 seconds", "2 seconds")
    counted = _late(source, "bids").groupBy(window, "auction").agg(F.count("*").alias("n"))
    most = counted.groupBy("window").agg(F.collect_list(F.struct("auction", "n")).alias("all"), F.max("n").alias("n"))
    hot = F.explode(F.filter("all", lambda one: one["n"] == F.col("n")))
    return _with_bounds(most).select(*PANE, "n", hot.alias("one")).select(*PANE, "n", "one.auction")


def _highest_bid(source: DataFrame) -> DataFrame:
    bid = F.max_by(F.struct(*_BID), F.struct("price", -F.col("number")))
    grouped = _late(source, "bids").groupBy(F.window("at", "10 seconds")).agg(bid.alias("bid"))
    return _with_bounds(grouped).select(*PANE, "bid.*")


def _new_users(source: DataFrame) -> DataFrame:
    marked = of_stream(source, "persons").withColumn("time", F.col("at")).withWatermark("time", _DELAY)
    window = F.window("time", "10 seconds").alias("window")  # a stream may have one column with a watermark
    persons = marked.select("id", "name", "state", "at", window)
    auctions = _late(source, "auctions").select("seller", F.window("at", "10 seconds").alias("opened"))
    found = (F.col("id") == F.col("seller")) & (F.col("window") == F.col("opened"))
    return _with_bounds(persons.join(auctions, found, "left_semi"))


def _user_sessions(source: DataFrame) -> DataFrame:
    session = F.session_window("at", "10 seconds").alias("session")
    counted = _late(source, "bids").groupBy("bidder", session).agg(F.count("*").alias("bids"))
    bounds = (F.col(f"session.{name}").alias(f"session_{name}") for name in ("start", "end"))
    return counted.select("bidder", "bids", *bounds)


def _of_days(source: DataFrame, keys: Sequence[str], further: Callable[[], dict[str, Column]]) -> DataFrame:
    """Numbers of bids by classes of prices, and more, for each day."""
    columns = {
        f"{prefix}bids": F.count("*" if condition is None else F.when(F.expr(condition), 1))
        for prefix, condition in PRICES.items()
    }
    columns |= further()
    grouped = _late(source, "bids").groupBy(F.window("at", "1 day"), *keys)
    return _with_bounds(grouped.agg(*(column.alias(name) for name, column in columns.items())))


def _distinct() -> dict[str, Column]:
    """Streams of Spark have no `count(DISTINCT ...)`: the sizes of sets."""

    def of(name: str, condition: str | None) -> Column:
        return F.col(name) if condition is None else F.when(F.expr(condition), F.col(name))

    return {
        f"{prefix}{name}s": F.size(F.collect_set(of(name, condition))).cast("bigint")
        for name in ("bidder", "auction")
        for prefix, condition in PRICES.items()
    }


def _prices() -> dict[str, Column]:
    return {f"{name}_price": getattr(F, name)("price") for name in ("min", "max", "avg", "sum")}


_SPARK: dict[str, Callable[[DataFrame], Any]] = {
    "q5": _hot_items,
    "q7": _highest_bid,
    "q8": _new_users,
    "q11": _user_sessions,
    "q15": partial(_of_days, keys=(), further=_distinct),
    "q16": partial(_of_days, keys=("channel",), further=lambda: {"last_bid": F.max("at"), **_distinct()}),
    "q17": partial(_of_days, keys=("auction",), further=_prices),
}
