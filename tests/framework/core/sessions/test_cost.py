"""What a batch of sessions costs: by its rows and by what is due, not by what is kept."""

from __future__ import annotations

import pytest

from panekeeper import agg
from panekeeper.framework.core.steps import Watermark
from panekeeper.framework.declarations.windows import Session
from panekeeper.state.store import MemoryStore
from tests.framework.core.panes.batch_cost import Cost
from tests.framework.core.sessions.session_runs import SECOND, Item, SessionRun, aggregate_spec


class CountingStore(MemoryStore):
    """A store that counts the bytes that are read and written."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self.header, self.entries, self.bytes = store.header, dict(store.entries), 2 * len(store.header or b"")

    def find(self, kind: str, slot: int, seq: int) -> bytes | None:
        """Count what is read."""
        value = super().find(kind, slot, seq)
        self.bytes += len(value or b"")
        return value

    def write(self, kind: str, slot: int, seq: int, value: bytes) -> None:
        """Count what is written."""
        super().write(kind, slot, seq, value)
        self.bytes += len(value)


def kept(sessions: int, age: int = 0) -> SessionRun:
    """A run with so many open sessions of partitions of their own."""
    run = SessionRun(aggregate_spec(Session(1000, discard_age=age), n=agg.count(), total=agg.sum("v")))
    run.batch([("row", f"key {number}", number % 500, 1, None) for number in range(sessions)])
    return run


@pytest.mark.parametrize("age", [0, 10_000])
def test_a_batch_costs_the_same_with_ten_times_as_many_sessions(age: int) -> None:
    """Its rows are of new partitions and of some that are there; the watermark that moves makes nothing due."""
    items: list[Item] = [("row", f"key {number}", 600, 1, None) for number in range(20)]
    costs = []
    for sessions in (2000, 20_000):
        run, cost = kept(sessions, age), Cost()
        store = CountingStore(run.stores[0])
        cost.of(run.spec, store, Watermark(5 * SECOND), *run._steps(items, 0))
        costs.append((cost.calls, store.bytes))
    (calls, stored), (most_calls, most_stored) = costs
    assert most_calls <= 1.3 * calls
    assert most_stored <= 1.3 * stored


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
