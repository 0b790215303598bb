"""What is benchmarked: each workload, its contenders, and what we aim at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from benchmarks import bytewax_flow as dataflow
from benchmarks import panekeeper_jobs as ours
from benchmarks import spark_per_key as perkey
from benchmarks import spark_windows as native
from benchmarks.bytewax_flow import DataflowSide
from benchmarks.contenders import DeltaSide, JobSide, Query, Side, SparkSide
from panekeeper import TimeInterval

US = "panekeeper"
SPARK = "spark groupBy(window)"
SPARK_DELTA = "spark groupBy(window) to Delta"
PER_KEY = "spark transformWithStateInPandas"
LESS_STATE = "panekeeper, a tenth of the state"

SMALL = 5
"""A contender too slow for all rows gets this share of them, with as many fewer keys: as many rows a key."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A side of a workload and how much it gets to read.

    Attributes:
        side: what runs.
        share: it reads one in so many rows, and keys.
        files: how many files it reads, one a batch.
        warm: how many batches at the beginning do not count.
        aim: how many times its rate ours should be; None for ourselves.
    """

    side: Side
    share: int = 1
    files: int = 8
    warm: int = 2
    aim: float | None = None


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One comparison."""

    name: str
    what: str
    us: Contender
    peers: list[Contender] = field(default_factory=list)


def _us(query: Query) -> Contender:
    return Contender(side=SparkSide(name=US, query=query))


def _per_key(query: Query, aim: float) -> Contender:
    return Contender(side=SparkSide(name=PER_KEY, query=query), share=SMALL, files=3, warm=1, aim=aim)


def _dataflow(step: dataflow.Step) -> list[Contender]:
    return [Contender(side=DataflowSide(step=step), files=3, warm=0, aim=5)] if dataflow.installed() else []


def tumbling() -> Workload:
    """Panes that touch."""
    peer = SparkSide(name=SPARK, query=native.panes_query("50 seconds"))
    return Workload(
        name="tumbling",
        what="TimeInterval(50): max and count",
        us=_us(ours.panes_query(TimeInterval(50))),
        peers=[Contender(side=peer, aim=1.5)],
    )


def tumbling_delta_table() -> Workload:
    """The same into Delta tables."""
    columns = (*ours.PANES, "highest", "n")
    us = JobSide(name=US, computed=partial(ours.panes, window=TimeInterval(50)), columns=columns)
    peer = DeltaSide(name=SPARK_DELTA, query=native.panes_query("50 seconds"))
    return Workload(
        name="tumbling-to-delta",
        what="TimeInterval(50): max and count, into Delta tables",
        us=Contender(side=us),
        peers=[Contender(side=peer, aim=1.0)],
    )


def overlapping() -> Workload:
    """Every row in thirty panes."""
    peer = SparkSide(name=SPARK, query=native.panes_query("60 seconds", "2 seconds"))
    return Workload(
        name="overlapping",
        what="TimeInterval(60, creation_period=2), 30-fold overlap: max and count",
        us=_us(ours.panes_query(TimeInterval(60, creation_period=2))),
        peers=[Contender(side=peer, share=SMALL, files=4, warm=1, aim=10)],
    )


def contents() -> Workload:
    """Raw tuples and a Python function."""
    return Workload(
        name="contents",
        what="TimeInterval(50): median by a Python function of the raw tuples",
        us=_us(ours.medians(TimeInterval(50))),
        peers=[_per_key(perkey.medians(50_000_000), 20)],
    )


def kept(name: str, what: str, query: Callable[[TimeInterval], Query]) -> Workload:
    """Ten times the state: what a batch costs must follow what is new."""
    much, little = (query(TimeInterval(50, discard_age=age)) for age in (1000, 100))
    return Workload(
        name=name,
        what=f"TimeInterval(50, discard_age=1000): {what}; against discard_age=100",
        us=Contender(side=SparkSide(name=US, query=much), files=14, warm=10),
        peers=[Contender(side=SparkSide(name=LESS_STATE, query=little), files=14, warm=10, aim=1 / 1.3)],
    )


def in_arrival_order() -> list[Workload]:
    """Windows in arrival order, with the rows' own time as the clock."""
    return [
        Workload(
            name="sliding-count",
            what="Sliding(evict=Count(100), trigger=Count(10)): max and count",
            us=_us(ours.firings(ours.SLIDING_COUNT)),
            peers=[
                _per_key(perkey.firings(perkey.SlidingCount(100, 10)), 20),
                *_dataflow(dataflow.sliding_count(100, 10)),
            ],
        ),
        Workload(
            name="sliding-time",
            what="Sliding(evict=Time(20), trigger=Count(10)): max and count",
            us=_us(ours.firings(ours.SLIDING_TIME)),
            peers=[
                _per_key(perkey.firings(perkey.SlidingTime(20, 10)), 20),
                *_dataflow(dataflow.sliding_time(20, 10)),
            ],
        ),
        Workload(
            name="tumbling-count",
            what="Tumbling(Count(50)): max and count",
            us=_us(ours.firings(ours.TUMBLING_COUNT)),
            peers=[
                _per_key(perkey.firings(perkey.TumblingCount(50)), 20),
                *_dataflow(dataflow.tumbling_count(50)),
            ],
        ),
        Workload(
            name="tumbling-delta",
            what='Tumbling(Delta("ts", 20)): max and count',
            us=_us(ours.firings(ours.TUMBLING_DELTA)),
            peers=[
                _per_key(perkey.firings(perkey.TumblingDelta(20)), 20),
                *_dataflow(dataflow.tumbling_delta(20)),
            ],
        ),
    ]


def workloads() -> list[Workload]:
    """All of them, in the order in which they run."""
    return [
        tumbling(),
        tumbling_delta_table(),
        overlapping(),
        contents(),
        kept("kept-aggregates", "max and count", ours.panes_query),
        kept("kept-contents", "median of the raw tuples", ours.medians),
        *in_arrival_order(),
    ]
