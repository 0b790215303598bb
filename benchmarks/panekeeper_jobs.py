"""Panekeeper's windows of every workload. Result columns have the names and types of the peers'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from benchmarks.contenders import Query
from panekeeper import (
    Count,
    Delta,
    Emit,
    Event,
    Operator,
    Session,
    Sliding,
    Time,
    TimeInterval,
    Tumbling,
    agg,
    windowed,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.builder.outputs import Computation

PANES = ("key", "pane_start", "pane_end")
SESSIONS = ("key", "session_start", "session_end")
FIRINGS = ("key", "fired_at")
_BEGIN_US = 1_700_000_000_000_000
_IN_A_DAY = 86_400 // 50
"""50 seconds become a day."""


class Median(Operator):
    """A Python function of the rows of a pane."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit the median of a pane."""
        emit(median=float(np.median(event.column("v"))))


def panes(source: DataFrame, window: TimeInterval | Session, key_groups: int | None = None) -> Computation:
    """The greatest value and the number of rows of each key and pane, or session."""
    stream = windowed(source, name="panes", partition_by="key", event_time="ts", watermark=0, key_groups=key_groups)
    return stream.window(window).aggregate(highest=agg.max("v"), n=agg.count())


def panes_query(window: TimeInterval | Session) -> Query:
    """As `panes`, for any sink."""
    columns = SESSIONS if isinstance(window, Session) else PANES

    def query(source: DataFrame, checkpoint: str) -> DataFrame:
        return panes(source, window).transform(checkpoint=checkpoint).select(*columns, "highest", "n")

    return query


def complete_panes_query(window: TimeInterval) -> Query:
    """As `panes_query`, without what panes fire before they are complete: that is computed, and then left out."""

    def query(source: DataFrame, checkpoint: str) -> DataFrame:
        fired = panes(source, window).transform(checkpoint=checkpoint)
        return fired.where("reason = 'WATERMARK'").select(*PANES, "highest", "n")

    return query


def medians(window: TimeInterval) -> Query:
    """The median of each key and pane, by a Python function of its rows."""

    def query(source: DataFrame, checkpoint: str) -> DataFrame:
        stream = windowed(source, name="medians", partition_by="key", event_time="ts", watermark=0).window(window)
        computed = stream.operator(Median(), output="median double")
        return computed.transform(checkpoint=checkpoint).select(*PANES, "median")

    return query


def firings(window: Tumbling | Sliding) -> Query:
    """The greatest value and the number of rows at each firing; time is the rows' own."""

    def query(source: DataFrame, checkpoint: str) -> DataFrame:
        stream = windowed(source, name="firings", partition_by="key", arrival_time="ts", order_by="ts").window(window)
        computed = stream.aggregate(highest=agg.max("v"), n=agg.count())
        return computed.transform(checkpoint=checkpoint).select(*FIRINGS, "highest", "n")

    return query


SLIDING_COUNT = Sliding(evict=Count(100), trigger=Count(10))
SLIDING_TIME = Sliding(evict=Time(20), trigger=Count(10))
TUMBLING_COUNT = Tumbling(Count(50))
TUMBLING_DELTA = Tumbling(Delta("ts", 20))


def distinct(source: DataFrame, checkpoint: str) -> DataFrame:
    """The number of distinct whole values of each key and pane."""
    stream = windowed(with_whole_values(source), name="distinct", partition_by="key", event_time="ts", watermark=0)
    computed = stream.window(TimeInterval(50)).aggregate(distinct=agg.count_distinct("whole"))
    return computed.transform(checkpoint=checkpoint).select(*PANES, "distinct")


def days(window: TimeInterval) -> Query:
    """As `panes`, with times so far apart that a file has two days."""

    def query(source: DataFrame, checkpoint: str) -> DataFrame:
        return panes_query(window)(_spread(source), checkpoint)

    return query


def _spread(source: DataFrame) -> DataFrame:
    since = F.unix_micros("ts") - _BEGIN_US
    return source.withColumn("ts", F.timestamp_micros(since * _IN_A_DAY + _BEGIN_US))


def with_whole_values(source: DataFrame) -> DataFrame:
    """Return rows with the whole part of the value: 100 of them."""
    return source.withColumn("whole", F.col("v").cast("int"))
