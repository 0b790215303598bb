"""Results by the wall clock do not depend on the number of key groups, whatever comes first: rows, ticks or a resume.

A key group has only rows of its own keys; ticks and commands come to all. So a row moves the time of its own partition,
and what is due elsewhere waits for a time that comes to every key group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper import Batched, Count, PartitionAge, Punctuation, Sliding, Time, Tumbling, agg
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.ordering import PortOrdering, to_steps
from panekeeper.framework.core.packed_rows import AFTER_ALL_PARTITIONS, BEFORE_ALL_PARTITIONS, to_segment
from panekeeper.framework.declarations.windows import CatchUp, Window
from panekeeper.state.store import MemoryStore
from tests.framework.engine.flow.test_key_groups import COLUMNS, KEYS, Narrator

SECOND = 1_000_000
HOUR = 3600
CATCH_UP: tuple[CatchUp, ...] = ("once", "each", "skip")
WINDOWS: list[Window] = [
    *(Tumbling(Time(4), catch_up=catch_up) for catch_up in CATCH_UP),
    Tumbling(Time(4), partition_eviction=PartitionAge(9)),
    Tumbling(Count(2), partition_eviction=PartitionAge(5)),
    Tumbling(Punctuation()),
    *(Sliding(evict=Time(6), trigger=Time(4), catch_up=catch_up) for catch_up in CATCH_UP),
    Sliding(evict=Count(2), trigger=Time(4)),
    Sliding(evict=Time(6), trigger=Count(2)),
    *(Batched(within=6, every=4, catch_up=catch_up) for catch_up in CATCH_UP),
    Batched(within=6, every=4, retain=2, partition_eviction=PartitionAge(7)),
]


@dataclass(frozen=True)
class Batch:
    """A micro-batch: its time, s; the keys of its rows; whether a mark follows; (kind, s) of control rows."""

    at: float
    keys: str = ""
    mark: bool = False
    control: list[tuple[str, float]] = field(default_factory=list)


def packed_row(kind: str, n: int, part: int, pos: int, body: bytes | None = None) -> SimpleNamespace:
    """A row as it comes out of the shuffle."""
    return SimpleNamespace(port=0, kind=kind, lot=None, part=part, pos=pos, n=n, body=body)


def run(window: Window, batches: list[Batch], groups: int, *, aggregates: bool) -> dict[str, list[Any]]:
    """What happens to each key, in order, with so many key groups."""
    computed: dict[str, Any] = {"operator": Narrator(has_panes=False)}
    if aggregates:
        computed = {"aggregates": {"text": agg.sum("v")}}
    spec = JobSpec(
        window=window,
        keys=pa.schema([COLUMNS.field("key")]),
        columns=COLUMNS,
        output=pa.schema([("text", pa.int64() if aggregates else pa.string())]),
        **computed,
    )
    ordering = PortOrdering(columns=(*COLUMNS.names, ARRIVAL_TIME), keys=spec.keys)
    stores = [MemoryStore() for _ in range(groups)]
    seen: dict[str, list[Any]] = {}
    pos = 0
    for batch in batches:
        for group, store in enumerate(stores):
            packed = []
            for kind, second in batch.control:
                part = AFTER_ALL_PARTITIONS if kind == "flush" else BEFORE_ALL_PARTITIONS
                packed.append(packed_row(kind, int(second * SECOND), part, (pos := pos + 1)))
            keys = [key for key in batch.keys if KEYS.index(key) % groups == group]
            if keys:
                at = pa.array([int(batch.at * SECOND)] * len(keys), pa.int64())
                rows = pa.table({"key": keys, "v": pa.array([1] * len(keys), pa.int64()), ARRIVAL_TIME: at})
                packed.append(packed_row("rows", len(keys), 0, 0, to_segment(rows)))
            if batch.mark:
                packed.append(packed_row("mark:window", int(batch.at * SECOND), 0, 100))
            results = KeyGroupRunner(spec, store).run(to_steps(packed, [ordering])).results
            for row in [] if results is None else results.to_pylist():
                row.pop("firing")  # it only orders the results of a key
                seen.setdefault(row.pop("key"), []).append(row)
    return seen


@st.composite
def histories(draw: st.DrawFn) -> list[Batch]:
    """Micro-batches of a job: ticks before, between or after the rows, resumes, clocks that go back, and a flush."""
    now = 10.0
    batches = [Batch(now, "", control=[("resume", now)])]
    for _ in range(draw(st.integers(1, 8))):
        now = max(10.0, now + draw(st.sampled_from([0, 0.5, 1, 2, 3.5, 4, 5, 9, 30, 4100, 4003, 8 * HOUR, -0.5, -2])))
        control = []
        if draw(st.booleans()):
            earlier = draw(st.sampled_from([0, 0, 0.25, 1, 3, 8]))
            kind = draw(st.sampled_from(["tick", "tick", "resume"]))
            control.append((kind, max(10.0, now - earlier)))
        keys = draw(st.text(KEYS[:4], max_size=4))
        batches.append(Batch(now, keys, draw(st.booleans()) if keys else False, control))
    flush = [("flush", now - draw(st.sampled_from([0, 0.25, 5])))] if draw(st.booleans()) else [("tick", now + 20)]
    return [*batches, Batch(now, draw(st.text(KEYS[:4], max_size=2)), control=flush)]


def shown(results: dict[str, list[Any]]) -> dict[str, list[tuple[float, str]]]:
    """When each key fired, s, and why."""
    return {key: [(row["fired_at"].timestamp(), row["reason"]) for row in rows] for key, rows in results.items()}


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@settings(max_examples=settings().max_examples // 6)
@given(batches=histories(), aggregates=st.booleans())
def test_results_do_not_depend_on_key_groups(window: Window, batches: list[Batch], **how: bool) -> None:
    """Neither their times, nor their reasons, nor what is in them."""
    one, *others = [run(window, batches, groups, **how) for groups in (1, 2, 4)]
    assert others == [one, one]


@pytest.mark.parametrize("groups", [1, 2])
def test_rows_before_the_resume_of_a_suspended_host_do_not_fire_the_others(groups: int) -> None:
    """Ten minutes: too few for an outage that the time of a row shows, so the key with the row fires each period."""
    window = Sliding(evict=Count(2), trigger=Time(120))
    suspended = [Batch(10, "ab", control=[("resume", 10)]), Batch(610, "a"), Batch(611, control=[("resume", 611)])]
    found = shown(run(window, suspended, groups, aggregates=True))
    assert found == {"a": [(at, "TIME") for at in (130, 250, 370, 490, 610)], "b": [(611, "OVERDUE")]}


@pytest.mark.parametrize("groups", [1, 2])
def test_a_restart_leaves_idle_timers_where_they_were_whatever_other_keys_did(groups: int) -> None:
    """The window of `b` is empty from 14 on: at 101 nothing of it is overdue."""
    restarted = [
        Batch(10, "ab", control=[("resume", 10)]),
        Batch(14, control=[("tick", 14)]),
        Batch(100, "a"),
        Batch(101, control=[("resume", 101)]),
        Batch(103, "b"),
        Batch(110, control=[("tick", 110)]),
    ]
    found = shown(run(Tumbling(Time(4)), restarted, groups, aggregates=True))
    assert found["b"] == [(14, "TIME"), (106, "TIME")]


@pytest.mark.parametrize("groups", [1, 2])
def test_a_flush_is_at_its_own_time_where_a_key_has_no_row_after_it(groups: int) -> None:
    """The batch with the flush may be later than the command, and have rows of other keys."""
    flushed = [Batch(10, "ab", control=[("resume", 10)]), Batch(15, "a", control=[("flush", 13)])]
    found = shown(run(Tumbling(Time(4)), flushed, groups, aggregates=True))
    assert found == {"a": [(14, "TIME"), (15, "FLUSH")], "b": [(13, "FLUSH")]}


@pytest.mark.parametrize("groups", [1, 2])
def test_a_clock_that_steps_back_a_little_does_so_for_each_key(groups: int) -> None:
    """As when it is corrected by half a second between two batches."""
    stepped = [
        Batch(10, control=[("resume", 10)]),
        Batch(20, "a"),
        Batch(19.5, "ba"),
        Batch(30, control=[("tick", 30)]),
    ]
    found = shown(run(Tumbling(Time(4)), stepped, groups, aggregates=True))
    assert found == {"a": [(24, "TIME")], "b": [(23.5, "TIME")]}
