"""What is benchmarked: each workload, its contenders, and the ratio aimed at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from benchmarks import bytewax_flow, flink_sql, joins, nexmark, panekeeper_jobs, spark_per_key, spark_windows
from benchmarks.bytewax_flow import DataflowContender
from benchmarks.contenders import Contender, Query, SparkContender
from benchmarks.data import EVENTS, ROWS, InputKind
from benchmarks.into_delta import DelayContender, DeltaContender, StartContender
from benchmarks.tables import PanekeeperTableJob, SparkTableJob, TableJob
from panekeeper import Calendar, Every, Session, TimeInterval

US = "panekeeper"
SPARK = "spark groupBy(window)"
SPARK_SESSIONS = "spark groupBy(session_window)"
SPARK_JOIN = "spark join of two streams to Delta"
FIXED = "panekeeper, panes of a fixed length"
SPARK_DELTA = "spark groupBy(window) to Delta"
PER_KEY = "spark transformWithStateInPandas"
COMPLETE_ONLY = "panekeeper, when panes are complete"
LESS_STATE = "panekeeper, a tenth of the state"

_TINY, _MIDDLE = 500, 25
"""Shares that make 1,000 and 20,000 rows a batch of 500,000."""
_FILES, _WARM = 32, 12
"""Small batches of a run, and how many of them do not count: Java compiles its code for longer than large ones take."""
LARGER = 250_000
"""Rows of an input batch of a dataflow, beside the usual number."""
SMALL = 5
"""A contender too slow for all rows gets this share of the rows and of the keys: as many rows for each key."""


@dataclass(frozen=True, kw_only=True)
class WorkloadEntry:
    """A contender of a workload and how much it gets to read.

    Attributes:
        contender: what runs.
        share: it reads one row in `share`, of one key in `share`.
        key_factor: there are so many times more keys.
        files: number of files it reads, one a batch.
        warm: number of batches at the beginning that do not count.
        aim: the ratio of Panekeeper's rate to its own that is aimed at; None for Panekeeper, or where there is none.
        unit: what the measured seconds are.
        kind: what it reads.
    """

    contender: Contender
    share: int = 1
    key_factor: int = 1
    files: int = 8
    warm: int = 2
    aim: float | None = None
    unit: str = "s a batch"
    kind: InputKind = ROWS


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


def _dataflow(step: bytewax_flow.Step, aim: float = 2.5) -> list[WorkloadEntry]:
    if not bytewax_flow.installed():
        return []
    plain = DataflowContender(step=step)
    larger = replace(plain, name=f"bytewax, {LARGER:,} rows at a time", rows=LARGER)
    recovering = replace(plain, name="bytewax with recovery", recovers=True)
    entry = WorkloadEntry(contender=plain, files=3, warm=0, aim=aim)
    return [entry, *(replace(entry, contender=one, aim=None) for one in (larger, recovering))]


def tumbling() -> Workload:
    """Panes that touch."""
    peer = SparkContender(name=SPARK, query=spark_windows.panes_query("50 seconds"))
    return Workload(
        name="tumbling",
        what="TimeInterval(50): max and count",
        us=_us(panekeeper_jobs.panes_query(TimeInterval(50))),
        peers=[WorkloadEntry(contender=peer, aim=1.0)],
    )


def many_keys() -> Workload:
    """Panes that touch, of a million keys: hardly two rows of a batch have the same."""
    run = tumbling()
    return Workload(
        name="tumbling-million-keys",
        what="TimeInterval(50) of 100 times as many keys: max and count",
        us=replace(run.us, key_factor=100, files=5),
        peers=[replace(peer, key_factor=100, files=5, aim=None) for peer in run.peers],
    )


_RESULT = (*panekeeper_jobs.PANES, "highest", "n")


def sessions() -> Workload:
    """Sessions: about four end in a batch for each key."""
    peer = SparkContender(name=SPARK_SESSIONS, query=spark_windows.sessions_query("5 seconds"))
    return Workload(
        name="sessions",
        what="Session(5): max and count",
        us=_us(panekeeper_jobs.panes_query(Session(5))),
        peers=[WorkloadEntry(contender=peer, aim=2.0)],
    )


def sessions_into_delta() -> Workload:
    """Sessions, written to a Delta table; Spark's query appends to one."""
    columns = (*panekeeper_jobs.SESSIONS, "highest", "n")
    ours = PanekeeperTableJob(name=US, computed=partial(panekeeper_jobs.panes, window=Session(5)), view=False)
    theirs = SparkTableJob(name=f"{SPARK_SESSIONS} to Delta", query=spark_windows.sessions_query("5 seconds"))
    us, peer = (
        WorkloadEntry(contender=DeltaContender(job=job, columns=columns), share=_MIDDLE, files=_FILES, warm=_WARM)
        for job in (ours, theirs)
    )
    what = "Session(5): max and count, 20,000 rows a batch, into Delta"
    return Workload(name="to-delta-sessions-20000", what=what, us=us, peers=[replace(peer, aim=2.5)])


def kept_sessions() -> Workload:
    """Ten times as many sessions that wait for late rows."""
    much, little = (panekeeper_jobs.panes_query(Session(5, discard_age=age)) for age in (1000, 100))
    us, peer = (
        WorkloadEntry(contender=SparkContender(name=name, query=query), files=14, warm=10)
        for name, query in ((US, much), (LESS_STATE, little))
    )
    what = "Session(5, discard_age=1000): max and count; against discard_age=100"
    return Workload(name="kept-sessions", what=what, us=us, peers=[replace(peer, aim=1 / 1.3)])


def _table_jobs(*, view: bool = False) -> tuple[TableJob, TableJob]:
    panes = partial(panekeeper_jobs.panes, window=TimeInterval(50))
    ours = PanekeeperTableJob(name=US, computed=panes, view=view)
    return ours, SparkTableJob(name=SPARK_DELTA, query=spark_windows.panes_query("50 seconds"))


def into_delta(size: str, share: int, aim: float, *, view: bool) -> Workload:
    """Panes that touch, written to Delta tables, with a view or without; Spark's query appends to one table."""
    files, warm = (8, 2) if share == 1 else (_FILES, _WARM)
    us, peer = (
        WorkloadEntry(contender=DeltaContender(job=job, columns=_RESULT), share=share, files=files, warm=warm)
        for job in _table_jobs(view=view)
    )
    return Workload(
        name=f"to-delta-{'view-' if view else ''}{size.replace(',', '')}",
        what=f"TimeInterval(50): max and count, {size} rows a batch, into Delta{', with a view' if view else ''}",
        us=us,
        peers=[replace(peer, aim=aim)],
    )


def starts(name: str, what: str, files: int) -> Workload:
    """How long a start takes: one job for each file, on one checkpoint; only the last counts.

    The aim is twice the time of a plain query: a start also takes a lease, and makes or checks four tables more.
    """
    us, peer = (
        WorkloadEntry(
            contender=StartContender(job=job, columns=_RESULT),
            share=_TINY,
            files=files,
            warm=files - 1,
            unit="s a start",
        )
        for job in _table_jobs()
    )
    return Workload(name=name, what=what, us=us, peers=[replace(peer, aim=0.5)])


def delay() -> Workload:
    """How late a row is visible, in a job that runs all the time."""
    us, peer = (
        WorkloadEntry(
            contender=DelayContender(job=job, columns=_RESULT), share=_TINY, files=30, warm=5, unit="s until visible"
        )
        for job in _table_jobs()
    )
    what = "a file of 1,000 rows a second: until the panes that it completes are in the table"
    return Workload(name="delay", what=what, us=us, peers=[replace(peer, aim=1.0)])


def overlapping() -> Workload:
    """Every row in thirty panes."""
    peer = SparkContender(name=SPARK, query=spark_windows.panes_query("60 seconds", "2 seconds"))
    return Workload(
        name="overlapping",
        what="TimeInterval(60, creation_period=2), 30-fold overlap: max and count",
        us=_us(panekeeper_jobs.panes_query(TimeInterval(60, creation_period=2))),
        peers=[WorkloadEntry(contender=peer, share=SMALL, files=4, warm=1, aim=10)],
    )


def many_panes() -> Workload:
    """A thousand panes a batch, of twenty rows each, as in a replay."""
    peer = SparkContender(name=SPARK, query=spark_windows.panes_query("100 milliseconds"))
    us = _us(panekeeper_jobs.panes_query(TimeInterval(0.1)))
    return Workload(
        name="many-panes",
        what="TimeInterval(0.1): max and count, 20,000 rows and 1,000 panes a batch",
        us=replace(us, share=_MIDDLE, files=_FILES, warm=_WARM),
        peers=[WorkloadEntry(contender=peer, share=_MIDDLE, files=_FILES, warm=_WARM, aim=1.0)],
    )


def contents() -> Workload:
    """All rows of a pane in a Python function."""
    return Workload(
        name="contents",
        what="TimeInterval(50): median by a Python function of the rows",
        us=_us(panekeeper_jobs.medians(TimeInterval(50))),
        peers=[_per_key(spark_per_key.medians(50_000_000), 60)],
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


def firing(name: str, rule: str, window: TimeInterval) -> Workload:
    """Panes that fire before they are complete, too, against those that do not."""
    ours, theirs = (panekeeper_jobs.complete_panes_query(one) for one in (window, TimeInterval(50)))
    peer = SparkContender(name=COMPLETE_ONLY, query=theirs)
    return Workload(
        name=name,
        what=f"TimeInterval(50, {rule}): max and count; against panes that fire when they are complete",
        us=_us(ours),
        peers=[WorkloadEntry(contender=peer, aim=0.8)],
    )


def distinct() -> Workload:
    """Exact numbers of distinct values."""
    peer = SparkContender(name="spark size(collect_set())", query=spark_windows.distinct_query)
    return Workload(
        name="count-distinct",
        what="TimeInterval(50): exact count_distinct of 100 values",
        us=_us(panekeeper_jobs.distinct),
        peers=[WorkloadEntry(contender=peer, aim=1.0)],
    )


def calendar() -> Workload:
    """Days of a zone, in months in which its clocks do not change."""
    ours = Calendar("day", zone="America/New_York")
    peer = SparkContender(name=FIXED, query=panekeeper_jobs.days(TimeInterval("1 day", interval_offset="5 hours")))
    return Workload(
        name="calendar",
        what='Calendar("day", zone="America/New_York"): max and count; against TimeInterval("1 day")',
        us=_us(panekeeper_jobs.days(ours)),
        peers=[WorkloadEntry(contender=peer, aim=1.0)],
    )


def joins_into_delta() -> list[Workload]:
    """Joins of two streams, written to a Delta table."""
    made = []
    for name, what, job, query, columns, before in (
        ("within", "join_within(2, 2)", joins.within, joins.spark_within, joins.WITHIN, None),
        ("panes", "TimeInterval(5), join", joins.of_panes, joins.spark_of_panes, joins.OF_PANES, "pane_end"),
    ):
        ours = DeltaContender(job=PanekeeperTableJob(name=US, computed=job), columns=columns, streams=2)
        spark = SparkTableJob(name=SPARK_JOIN, query=query)
        theirs = DeltaContender(job=spark, columns=columns, streams=2, compared_before=before)
        us, peer = (WorkloadEntry(contender=one, share=_MIDDLE, files=12) for one in (ours, theirs))
        text = f"{what}: pairs of rows, 20,000 rows a batch, into Delta"
        made.append(Workload(name=f"to-delta-join-{name}-20000", what=text, us=us, peers=[replace(peer, aim=1.0)]))
    return made


def _flink(name: str, like: WorkloadEntry) -> list[WorkloadEntry]:
    if not flink_sql.installed() or name not in flink_sql.QUERIES:
        return []
    return [replace(like, contender=flink_sql.FlinkContender(query=name), files=3, warm=0)]


def nexmark_queries() -> list[Workload]:
    """Queries of Nexmark beside Spark SQL."""
    made = []
    for name, aim in (("q5", 1.2), ("q7", 1.6)):
        us, peer = (
            WorkloadEntry(
                contender=SparkContender(name=who, query=query), share=SMALL, kind=EVENTS, files=_FILES, warm=_WARM
            )
            for who, query in ((US, nexmark.ours(name)), ("spark SQL", nexmark.spark(name)))
        )
        what = f"Nexmark, query {name[1:]}, 100,000 events a batch"
        made.append(
            Workload(name=f"nexmark-{name}", what=what, us=us, peers=[replace(peer, aim=aim), *_flink(name, peer)])
        )
    return made


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
                *_dataflow(bytewax_flow.sliding_time(20, 10), aim=3.5),
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
        many_keys(),
        *(
            into_delta(size, share, aim, view=view)
            for size, share, *aims in (
                ("1,000", _TINY, 2.0, 1.8),
                ("20,000", _MIDDLE, 2.0, 1.8),
                ("500,000", 1, 1.6, 1.4),
            )
            for view, aim in zip((False, True), aims, strict=True)
        ),
        sessions(),
        sessions_into_delta(),
        overlapping(),
        many_panes(),
        contents(),
        kept("kept-aggregates", "max and count", panekeeper_jobs.panes_query),
        kept("kept-contents", "median of the rows", panekeeper_jobs.medians),
        kept_sessions(),
        firing("early-at-rows", "early=Every(rows=10)", TimeInterval(50, early=Every(rows=10))),
        firing("on-update", 'emit="on_update"', TimeInterval(50, emit="on_update")),
        distinct(),
        calendar(),
        *joins_into_delta(),
        *nexmark_queries(),
        *in_arrival_order(),
        delay(),
        starts("start", "from the declaration to the first committed batch of a new checkpoint", 1),
        starts("restart", "from the declaration to the first committed batch of a checkpoint with one", 2),
    ]
