"""What is benchmarked: each workload, its contenders, and the ratio aimed at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from benchmarks import bytewax_flow, panekeeper_jobs, spark_per_key, spark_windows
from benchmarks.bytewax_flow import DataflowContender
from benchmarks.contenders import Contender, DeltaContender, JobContender, Query, SparkContender
from panekeeper import TimeInterval

US = "panekeeper"
SPARK = "spark groupBy(window)"
SPARK_DELTA = "spark groupBy(window) to Delta"
PER_KEY = "spark transformWithStateInPandas"
LESS_STATE = "panekeeper, a tenth of the state"

SMALL = 5
"""A contender too slow for all rows gets this share of the rows and of the keys: as many rows for each key."""


@dataclass(frozen=True, kw_only=True)
class WorkloadEntry:
    """A contender of a workload and how much it gets to read.

    Attributes:
        contender: what runs.
        share: it reads one row in `share`, of one key in `share`.
        files: number of files it reads, one a batch.
        warm: number of batches at the beginning that do not count.
        aim: the ratio of Panekeeper's rate to its own that is aimed at; None for Panekeeper.
    """

    contender: Contender
    share: int = 1
    files: int = 8
    warm: int = 2
    aim: float | None = None


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One comparison."""

    name: str
    what: str
    us: WorkloadEntry
    peers: list[WorkloadEntry] = field(default_factory=list)


def _us(query: Query) -> WorkloadEntry:
    return WorkloadEntry(contender=SparkContender(name=US, query=query))


def _per_key(query: Query, aim: float) -> WorkloadEntry:
    return WorkloadEntry(contender=SparkContender(name=PER_KEY, query=query), share=SMALL, files=3, warm=1, aim=aim)


def _dataflow(step: bytewax_flow.Step) -> list[WorkloadEntry]:
    return (
        [WorkloadEntry(contender=DataflowContender(step=step), files=3, warm=0, aim=5)]
        if bytewax_flow.installed()
        else []
    )


def tumbling() -> Workload:
    """Panes that touch."""
    peer = SparkContender(name=SPARK, query=spark_windows.panes_query("50 seconds"))
    return Workload(
        name="tumbling",
        what="TimeInterval(50): max and count",
        us=_us(panekeeper_jobs.panes_query(TimeInterval(50))),
        peers=[WorkloadEntry(contender=peer, aim=1.5)],
    )


def tumbling_delta_table() -> Workload:
    """Panes that touch, written to Delta tables."""
    columns = (*panekeeper_jobs.PANES, "highest", "n")
    us = JobContender(name=US, computed=partial(panekeeper_jobs.panes, window=TimeInterval(50)), columns=columns)
    peer = DeltaContender(name=SPARK_DELTA, query=spark_windows.panes_query("50 seconds"))
    return Workload(
        name="tumbling-to-delta",
        what="TimeInterval(50): max and count, into Delta tables",
        us=WorkloadEntry(contender=us),
        peers=[WorkloadEntry(contender=peer, aim=1.0)],
    )


def overlapping() -> Workload:
    """Every row in thirty panes."""
    peer = SparkContender(name=SPARK, query=spark_windows.panes_query("60 seconds", "2 seconds"))
    return Workload(
        name="overlapping",
        what="TimeInterval(60, creation_period=2), 30-fold overlap: max and count",
        us=_us(panekeeper_jobs.panes_query(TimeInterval(60, creation_period=2))),
        peers=[WorkloadEntry(contender=peer, share=SMALL, files=4, warm=1, aim=10)],
    )


def contents() -> Workload:
    """All rows of a pane in a Python function."""
    return Workload(
        name="contents",
        what="TimeInterval(50): median by a Python function of the rows",
        us=_us(panekeeper_jobs.medians(TimeInterval(50))),
        peers=[_per_key(spark_per_key.medians(50_000_000), 20)],
    )


def kept(name: str, what: str, query: Callable[[TimeInterval], Query]) -> Workload:
    """Ten times the state: the cost of a batch must depend on the new rows, not on the stored ones."""
    much, little = (query(TimeInterval(50, discard_age=age)) for age in (1000, 100))
    return Workload(
        name=name,
        what=f"TimeInterval(50, discard_age=1000): {what}; against discard_age=100",
        us=WorkloadEntry(contender=SparkContender(name=US, query=much), files=14, warm=10),
        peers=[WorkloadEntry(contender=SparkContender(name=LESS_STATE, query=little), files=14, warm=10, aim=1 / 1.3)],
    )


def in_arrival_order() -> list[Workload]:
    """Windows in arrival order, with the rows' own time as the clock."""
    return [
        Workload(
            name="sliding-count",
            what="Sliding(evict=Count(100), trigger=Count(10)): max and count",
            us=_us(panekeeper_jobs.firings(panekeeper_jobs.SLIDING_COUNT)),
            peers=[
                _per_key(spark_per_key.firings(spark_per_key.SlidingCount(100, 10)), 20),
                *_dataflow(bytewax_flow.sliding_count(100, 10)),
            ],
        ),
        Workload(
            name="sliding-time",
            what="Sliding(evict=Time(20), trigger=Count(10)): max and count",
            us=_us(panekeeper_jobs.firings(panekeeper_jobs.SLIDING_TIME)),
            peers=[
                _per_key(spark_per_key.firings(spark_per_key.SlidingTime(20, 10)), 20),
                *_dataflow(bytewax_flow.sliding_time(20, 10)),
            ],
        ),
        Workload(
            name="tumbling-count",
            what="Tumbling(Count(50)): max and count",
            us=_us(panekeeper_jobs.firings(panekeeper_jobs.TUMBLING_COUNT)),
            peers=[
                _per_key(spark_per_key.firings(spark_per_key.TumblingCount(50)), 20),
                *_dataflow(bytewax_flow.tumbling_count(50)),
            ],
        ),
        Workload(
            name="tumbling-delta",
            what='Tumbling(Delta("ts", 20)): max and count',
            us=_us(panekeeper_jobs.firings(panekeeper_jobs.TUMBLING_DELTA)),
            peers=[
                _per_key(spark_per_key.firings(spark_per_key.TumblingDelta(20)), 20),
                *_dataflow(bytewax_flow.tumbling_delta(20)),
            ],
        ),
    ]


def workloads() -> list[Workload]:
    """Return all workloads, in the order in which they run."""
    return [
        tumbling(),
        tumbling_delta_table(),
        overlapping(),
        contents(),
        kept("kept-aggregates", "max and count", panekeeper_jobs.panes_query),
        kept("kept-contents", "median of the rows", panekeeper_jobs.medians),
        *in_arrival_order(),
    ]
