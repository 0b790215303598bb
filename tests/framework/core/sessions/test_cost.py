"""What a batch of sessions costs: by its rows and by what is due, not by what is kept."""

from __future__ import annotations

import pytest

from panekeeper import agg
from panekeeper.framework.core.steps import Watermark
from panekeeper.framework.declarations.windows import Session
from tests.framework.core.batch_work import CountingStore
from tests.framework.core.panes.batch_cost import Cost
from tests.framework.core.sessions.session_runs import SECOND, Item, SessionRun, aggregate_spec

NEW: list[Item] = [("row", f"key {number}", 600, 1, None) for number in range(10)]


def kept(sessions: int, age: int = 0) -> SessionRun:
    """A run with so many open sessions of partitions of their own, and a batch of few rows behind it."""
    run = SessionRun(aggregate_spec(Session(1000, discard_age=age), n=agg.count(), total=agg.sum("v")))
    run.batch([("row", f"key {number}", number % 500, 1, None) for number in range(sessions)])
    run.batch(NEW)
    return run


@pytest.mark.parametrize("age", [0, 10_000])
def test_a_batch_costs_the_same_with_ten_times_as_many_sessions(age: int) -> None:
    """Its rows are of partitions that are there, as those of the batch before; nothing is due."""
    costs = []
    for sessions in (2000, 20_000):
        run, cost = kept(sessions, age), Cost()
        store = CountingStore(run.stores[0].header, run.stores[0].entries)
        cost.of(run.spec, store, Watermark(5 * SECOND), *run._steps(NEW, 0))
        costs.append((cost.calls, store.stored_bytes))
    (calls, stored), (most_calls, most_stored) = costs
    assert most_calls <= 1.3 * calls
    assert most_stored <= 1.3 * stored


def test_a_batch_costs_the_same_with_ten_times_as_many_sessions_of_each_partition() -> None:
    """They have fired and wait for late rows; new rows are of sessions that have not, and of new ones."""
    costs = []
    for sessions in (50, 500):
        run, cost = (
            SessionRun(aggregate_spec(Session(10, discard_age=10**6), n=agg.count(), total=agg.sum("v"))),
            Cost(),
        )
        keys, end = [f"key {number}" for number in range(20)], sessions * 100
        for begin in range(0, sessions, 50):
            times = range(begin * 100, (begin + 50) * 100, 100)
            run.batch([("row", key, time, 1, None) for key in keys for time in times])
            run.batch([("watermark", times[-1] + 20)])
        store = CountingStore(run.stores[0].header, run.stores[0].entries)
        rows: list[Item] = [("row", key, end + 50, 1, None) for key in keys]
        outcome = cost.of(run.spec, store, Watermark((end + 10) * SECOND), *run._steps(rows, 0))
        assert outcome.open_panes == 20 * (sessions + 1)
        costs.append((cost.calls, store.stored_bytes))
    (calls, stored), (most_calls, most_stored) = costs
    assert most_calls <= 1.3 * calls
    assert most_stored <= 1.3 * stored


def test_a_late_row_reads_only_the_sessions_around_it() -> None:
    """It joins one that has fired, and the others stay where they are."""
    run = SessionRun(aggregate_spec(Session(10, discard_age=10**6), n=agg.count(), total=agg.sum("v")))
    run.batch([("row", "a", time, 1, None) for time in range(0, 100_000, 100)])
    run.batch([("watermark", 100_000)])
    before = dict(run.stores[0].entries)
    run.batch([("row", "a", 50_005, 1, None), ("watermark", 100_001)])
    assert [row["n"] for row in run.results[-1:]] == [2]
    same = [name for name, value in run.stores[0].entries.items() if before.get(name) == value]
    assert len(before) - len(same) <= 4


def test_a_watermark_reads_only_what_is_due() -> None:
    """Sessions of one partition end; those of thousands of others are not read."""
    run, cost = kept(20_000), Cost()
    run.batch([("row", "one", -5000, 1, None)])
    outcome = cost.of(run.spec, run.stores[0], Watermark(-3900 * SECOND))
    assert outcome.results is not None
    assert outcome.results.num_rows == 1
    every = Cost()
    every.of(run.spec, run.stores[0], Watermark(5000 * SECOND))
    assert cost.bytes * 10 < every.bytes
