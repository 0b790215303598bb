"""One operator over two input ports, on the core alone: one state, one order, however the input is split."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper import (
    CheckpointReason,
    Count,
    LifecycleError,
    PartitionAge,
    Sliding,
    StateContext,
    StateHandler,
    Time,
    TimeInterval,
    Tumbling,
)
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.steps import EventTimeProgress, Flush, Tick, Watermark
from panekeeper.state.store import MemoryStore
from tests.framework.core.handler_batches import NotingHandler
from tests.framework.core.two_port_batches import Item, emitted, play, rows, run, spec


class Watched(MemoryStore):
    """A store that notes, among the calls of the handlers, when the window of a port is read and written."""

    def read_header(self) -> bytes | None:
        NotingHandler.calls.append(("port 0", "read"))
        return super().read_header()

    def write_header(self, value: bytes) -> None:
        NotingHandler.calls.append(("port 0", "write"))
        super().write_header(value)

    def find(self, kind: str, slot: int, seq: int) -> bytes | None:
        if kind == "port 1/header":
            NotingHandler.calls.append(("port 1", "read"))
        return super().find(kind, slot, seq)

    def write(self, kind: str, slot: int, seq: int, value: bytes) -> None:
        if kind == "port 1/header":
            NotingHandler.calls.append(("port 1", "write"))
        super().write(kind, slot, seq, value)


def both(*steps: Any) -> list[Any]:
    """The steps, for port 0 and then for port 1."""
    return [type(step)(**(vars(step) | {"port": port})) for step in steps for port in (0, 1)]


def test_windows_act_in_port_order_and_handlers_after_them_in_every_method() -> None:
    """Reset, drain, checkpoint and close, in a new process for each batch (docs/semantics.md section 7)."""
    made, store = spec(NotingHandler("x"), NotingHandler("y")), Watched()
    for number in range(3):
        NotingHandler.calls.clear()
        run(made, store, number, *both(Tick(number + 1)), run=number + 1, no_batch_committed=not number)
    assert NotingHandler.calls == [
        ("port 0", "read"),
        ("port 1", "read"),
        ("x", "reset", 1, True),
        ("y", "reset", 1, True),
        ("x", "retire", 0),
        ("y", "retire", 0),
        ("x", "drain", 2, "batch"),
        ("y", "drain", 2, "batch"),
        ("port 0", "write"),
        ("port 1", "write"),
        ("x", "checkpoint", 2, 1),
        ("y", "checkpoint", 2, 1),
        ("x", "close"),
        ("y", "close"),
    ]


def test_the_same_key_of_both_ports_meets_in_one_operator() -> None:
    """With one state, over batches and restarts; keys have the name that port 0 has for them."""
    made, store = spec(), MemoryStore()
    first = run(made, store, 0, rows(0, ("a", 1)), rows(1, ("a", 10), ("b", 20)))
    assert emitted(first) == [("a", 1, "trigger", 10, ""), ("b", 1, "trigger", 20, "")]
    second = run(made, store.copy(), 1, rows(0, ("a", 2)), rows(1, ("a", 30)), run=2, no_batch_committed=False)
    assert emitted(second) == [("a", 0, "eviction", 3, "1:10"), ("a", 1, "trigger", 40, "1:10 0:3")]


def test_what_both_ports_did_is_one_outcome() -> None:
    """Rows balance over both, partitions and rows add up, the next instant is the nearest of all."""
    windows = Tumbling(Time(60)), Sliding(evict=Time(5), trigger=Time(20))
    made, store = spec(windows=windows), MemoryStore()
    done = run(made, store, 0, *both(Tick(0)), rows(0, ("a", 1), at=0), rows(1, ("a", 2), ("b", 4), at=1_000_000))
    assert done.counts == {
        "rows_in": 3,
        "admitted": 3,
        "refined_late": 0,
        "dropped_late": 0,
        "outside": 0,
        "repeated": 0,
    }
    assert (done.open_panes, done.kept_rows, done.due_us) == (3, 3, 6_001_000)
    back = run(made, store, 1, *both(Tick(100_000_000, resume=True)), run=2, no_batch_committed=False)
    assert back.outage_counts == {"timers": 3, "results": 3, "tuples": 3, "partitions": 0, "back_us": 0}


def test_what_is_overdue_on_any_port_happens_before_new_tuples_of_any() -> None:
    """Ticks come to all ports first, in port order."""
    made, store = spec(windows=(Tumbling(Count(1)), Sliding(evict=Count(9), trigger=Time(60)))), MemoryStore()
    run(made, store, 0, *both(Tick(0)), rows(1, ("a", 7), at=0))
    late = run(made, store, 1, *both(Tick(90_000_000, resume=True)), rows(0, ("a", 1), at=90_000_000))
    assert emitted(late) == [("a", 0, "eviction", 1, "1:7"), ("a", 1, "trigger", 7, "")]


def test_a_port_of_panes_and_one_of_arrival_order_share_a_log() -> None:
    """Each row has the columns of its own port and nulls in those of the other."""
    made, store = spec(windows=(Tumbling(Count(1)), TimeInterval(10))), MemoryStore()
    panes = rows(1, ("a", 2), at=5_000_000, time=EVENT_TIME)
    done = run(made, store, 0, rows(0, ("a", 1)), panes, Watermark(10_000_000, port=1))
    assert done.results is not None
    assert done.results.schema == made.results_schema
    seen = [{n for n, v in row.items() if v is None} for row in done.results.to_pylist()]
    assert seen == [{"pane_start", "pane_end", "refinement", "is_final"}, {"fired_at", "firing", "window_mark"}]
    assert (made.mixes_window_kinds, spec().mixes_window_kinds) == (True, False)


def test_the_watermark_of_several_ports_is_the_least_of_theirs() -> None:
    """None before each has an event time, never back, and the same after a restart (docs/semantics.md section 6.5)."""
    made, store, marks = spec(windows=(TimeInterval(10), TimeInterval(10))), MemoryStore(), []
    for number, reached in enumerate([((0, 30),), ((1, 12),), ((0, 40), (1, 11)), ((1, 60),)]):
        progress = EventTimeProgress(tuple(((port, ""), seconds * 1_000_000) for port, seconds in reached))
        store = store.copy()
        marks.append(run(made, store, number, progress, run=number + 1).watermark)
    assert marks == [None, 12_000_000, 12_000_000, 40_000_000]


def test_port_0_is_stored_as_the_only_window_of_a_job_is() -> None:
    """A job with one port keeps its stored state; what the other ports keep has a name of its own."""
    two, one = MemoryStore(), MemoryStore()
    made = spec()
    (alone, _) = made.ports
    run(made, two, 0, rows(0, ("a", 1)), rows(1, ("a", 2)))
    run(alone, one, 0, rows(0, ("a", 1)))
    assert two.header == one.header
    of_port_0 = {place: value for place, value in two.entries.items() if not place[0].startswith("port 1/")}
    del of_port_0["handlers", 0, 0], one.entries["handlers", 0, 0]  # one operator handles both ports
    assert of_port_0 == one.entries
    assert {kind for kind, _, _ in two.entries} == {"rows", "handlers", "port 1/header", "port 1/rows"}


def test_after_a_flush_the_rows_of_each_port_are_distinguished() -> None:
    """Every window is fired and closed; what comes later is rejected with the number of its port."""
    made, store = spec(), MemoryStore()
    flushed = run(made, store, 0, rows(0, ("a", 1)), rows(1, ("a", 2)), *both(Flush()))
    assert {(port, kind) for _, port, kind, _, _ in emitted(flushed)} == {
        (0, "eviction"), (0, "final"), (1, "trigger"), (1, "final"),
    }  # fmt: skip
    late = run(made, store, 1, rows(0, ("a", 4)), rows(1, ("b", 8)))
    assert late.rejected is not None
    assert late.rejected.schema == made.rejected_schema
    assert late.rejected.column("port").to_pylist() == [0, 1]
    assert (late.counts["rows_in"], late.counts["dropped_late"]) == (2, 2)


class EvictPort(StateHandler):
    """Evicts all partitions of one port when the job is drained."""

    def __init__(self, port: int) -> None:
        self.port = port

    def drain(self, ctx: StateContext) -> None:
        if ctx.reason is CheckpointReason.DRAIN:
            for partition in ctx.partitions(port=self.port):
                ctx.evict_partition(partition.key, port=self.port)


def test_partitions_are_evicted_port_by_port() -> None:
    """The other port keeps its partition of that key; a port that is not there is named."""
    made, store = spec(EvictPort(1)), MemoryStore()
    run(made, store, 0, rows(0, ("a", 1)), rows(1, ("a", 2)))
    drained = run(made, store, 1, reason=CheckpointReason.DRAIN)
    assert emitted(drained) == [("a", 1, "partition_eviction", 2, "1:2")]
    assert (drained.open_panes, drained.kept_rows) == (1, 1)
    with pytest.raises(LifecycleError, match="there is no port 2: this operator has 2, numbered from 0"):
        run(spec(EvictPort(2)), MemoryStore(), 0, reason=CheckpointReason.DRAIN)


FIRST = [Tumbling(Count(2)), Tumbling(Time(3)), Tumbling(Count(3), partition_eviction=PartitionAge(4))]
SECOND = [
    Sliding(evict=Count(3)),
    Sliding(evict=Time(2), trigger=Count(2)),
    Sliding(evict=Count(2), trigger=Time(2)),
    TimeInterval(5),
]


@st.composite
def meetings(draw: st.DrawFn) -> list[Item]:
    """Tuples on two ports with the clock between them, in one order."""
    items, now = [], 0
    for step, port, key, v in draw(
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 1), st.sampled_from("aab"), st.integers(0, 9)), max_size=14
        )
    ):
        now += step * 1_000_000
        items += [Item(0, None, 0, now)] if step else []
        items.append(Item(port, key, v, now))
    return items


@settings(deadline=None)
@given(
    windows=st.tuples(st.sampled_from(FIRST), st.sampled_from(SECOND)),
    items=meetings(),
    splits=st.sets(st.integers(1, 20)),
)
def test_neither_splits_nor_restarts_change_what_meets(
    windows: tuple[Any, Any], items: list[Item], splits: set[int]
) -> None:
    """Each key has the same events, in one order over both ports, in one batch or many with restarts between."""
    made = spec(windows=windows)
    start = [Item(0, None, 0, 0)]
    inside = [end for end in splits if end < len(items) + 1]
    assert play(made, start + items, inside) == play(made, start + items, [])
