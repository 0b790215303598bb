"""The wall clock of an idle key group, and one that comes hours late: partitions without rows, and bounded work."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pytest

from panekeeper import Batched, Emit, Event, EventType, Operator, Sliding, Time, Tumbling, agg
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import BatchOutcome, Rows, Step, Tick
from panekeeper.state.store import MemoryStore

SECOND = 1_000_000
HOUR = 3600
KEYS = pa.schema([("key", pa.string())])
COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64())])
OUTPUT = pa.schema([("n", pa.int64())])
WINDOWS = {
    "tumbling": Tumbling(Time(1)),
    "sliding": Sliding(evict=Time(2), trigger=Time(1)),
    "batched": Batched(within=2, every=1),
}


class Evictions(Operator):
    """Handles evictions, also empty ones."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(n=len(event.column("v")))


class KeyGroup:
    """One key group of a window, from batch to batch."""

    def __init__(self, window: Any, **computed: Any) -> None:
        computed = computed or {"aggregates": {"n": agg.count()}}
        self._spec = JobSpec(window=window, keys=KEYS, columns=COLUMNS, output=OUTPUT, **computed)
        self._store = MemoryStore()
        self._batch = 0

    def run(self, *steps: Step) -> BatchOutcome:
        """Run a batch."""
        self._batch += 1
        return KeyGroupRunner(self._spec, self._store, BatchCheckpoint(checkpoint=self._batch, group=0)).run(steps)


def rows(at: float, *keys: str, has_stream_clock: bool = False) -> Rows:
    """Return a row for each key, which arrive at second `at`."""
    arrived = pa.array([int(at * SECOND)] * len(keys), pa.int64())
    return Rows(
        pa.table({"key": [*keys], "v": pa.array([1] * len(keys), pa.int64()), ARRIVAL_TIME: arrived}),
        has_stream_clock=has_stream_clock,
    )


def tick(at: float, *, resume: bool = False) -> Tick:
    """Return the wall clock at second `at`."""
    return Tick(int(at * SECOND), resume=resume)


def reasons(outcome: BatchOutcome) -> list[str]:
    """Return the reason of each result row."""
    return [] if outcome.results is None else outcome.results.column("reason").to_pylist()


def fired(outcome: BatchOutcome) -> list[tuple[str, float, str]]:
    """Return the partition, the instant (s) and the reason of each result row."""
    found = [] if outcome.results is None else outcome.results.to_pylist()
    return [(row["key"], row["fired_at"].timestamp(), row["reason"]) for row in found]


@pytest.mark.parametrize("kind", WINDOWS)
def test_partitions_without_rows_keep_no_timer(kind: str) -> None:
    """Once the last row has left nothing is due, and no batch runs until a row comes."""
    group = KeyGroup(WINDOWS[kind])
    due = group.run(rows(10.5, "a", "b")).due_us
    assert due is not None
    for second in range(11, 16):
        due = group.run(tick(second), tick(second + 0.75)).due_us
    assert due is None


def test_an_operator_that_receives_empty_evictions_keeps_the_timer() -> None:
    """Its events would be others."""
    group = KeyGroup(Tumbling(Time(1)), operator=Evictions())
    group.run(rows(10, "a"))
    assert group.run(tick(20)).due_us == 21 * SECOND


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_timer_is_where_it_would_be_once_a_row_comes(kind: str) -> None:
    """A year of idleness costs nothing, and leaves the timetable as it was."""
    idle, busy = KeyGroup(WINDOWS[kind]), KeyGroup(WINDOWS[kind])
    year = 365 * 24 * HOUR
    for group in (idle, busy):
        group.run(tick(9), rows(10.25, "a"))
        group.run(*(tick(11 + step / 2) for step in range(10)))
    assert idle.run(rows(year + 0.5, "a")).due_us == busy.run(tick(year), rows(year + 0.5, "a")).due_us
    assert idle.run(tick(year + 3)).results == busy.run(tick(year + 3)).results


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("by", ["tick", "rows"])
def test_eight_suspended_hours_with_five_thousand_keys_are_at_most_one_firing_each(kind: str, by: str) -> None:
    """Also if no start says so, and if rows come before the clock does. 144 million firings would not fit anywhere."""
    keys = [str(key) for key in range(5000)]
    group = KeyGroup(WINDOWS[kind])
    group.run(tick(9), rows(10, *keys))
    late = 10 + 8 * HOUR
    outcome = group.run(tick(late) if by == "tick" else rows(late, *keys))
    overdue = [reason for reason in reasons(outcome) if reason == "OVERDUE"]
    assert len(overdue) == (5000 if kind == "tumbling" else 0)
    assert len(reasons(outcome)) == len(overdue)


def test_rows_that_come_before_the_clock_move_the_time_of_their_own_partitions() -> None:
    """Others wait for the tick: whether they share a key group with these rows must not matter."""
    group = KeyGroup(Tumbling(Time(1)))
    group.run(tick(9), rows(10, "a", "b"))
    late = 10 + 8 * HOUR
    assert fired(group.run(rows(late, "a"))) == [("a", late, "OVERDUE")]
    assert fired(group.run(tick(late + 0.5))) == [("b", late + 0.5, "OVERDUE")]
    assert fired(group.run(tick(late + 9))) == [("a", late + 1, "TIME")]


def test_an_outage_is_decided_for_each_timer() -> None:
    """A timer that is late by a thousand periods and a half is of an outage, one of a thousand less a half is not."""
    group = KeyGroup(Sliding(evict=Time(HOUR), trigger=Time(1)))
    group.run(tick(9), rows(10, "a"))
    group.run(rows(10.75, "b"))
    by_key = [key for key, _, _ in fired(group.run(tick(1011.5)))]
    assert {key: by_key.count(key) for key in "ab"} == {"a": 1, "b": 1000}


def test_an_idle_partition_keeps_its_timetable_across_a_stop() -> None:
    """None of its timers was overdue: which instants passed before the stop, and which after it, nobody sees."""
    group = KeyGroup(Tumbling(Time(4)))
    group.run(tick(9), rows(10, "a"))
    group.run(tick(14))
    group.run(tick(101, resume=True), rows(103, "a"))
    assert fired(group.run(tick(110))) == [("a", 106, "TIME")]


@pytest.mark.parametrize("between", ["nothing", "a tick", "a row of another partition"])
def test_a_partition_whose_rows_are_too_old_is_idle_whether_or_not_they_have_left(between: str) -> None:
    """They leave with the next round, which may be one of another partition before the stop, or the first one after."""
    group = KeyGroup(Sliding(evict=Time(5), trigger=Time(60)))
    group.run(tick(9), rows(10, "a"))
    if between != "nothing":
        group.run(tick(20) if between == "a tick" else rows(20, "b"))
    group.run(tick(110, resume=True))
    group.run(rows(128, "a"))
    assert [one for one in fired(group.run(tick(190))) if one[0] == "a"] == [("a", 130, "TIME")]


def test_a_partition_that_had_rows_when_its_timer_was_due_is_overdue() -> None:
    """They have left by now, so there is nothing to fire; the next period counts from now."""
    group = KeyGroup(Sliding(evict=Time(60), trigger=Time(60)))
    group.run(tick(9), rows(10, "a"))
    group.run(tick(110, resume=True))
    group.run(rows(128, "a"))
    assert fired(group.run(tick(185))) == [("a", 170, "TIME")]


def test_a_late_tick_skips_what_is_overdue_if_declared() -> None:
    """As after a start; with `catch_up="each"` every missed period fires."""
    late = 10 + 2 * HOUR
    found = {}
    for catch_up in ("once", "skip", "each"):
        group = KeyGroup(Tumbling(Time(1), catch_up=catch_up))
        group.run(rows(10, "a"))
        outcome = group.run(tick(late))
        found[catch_up] = (reasons(outcome), outcome.due_us)
    assert found == {
        "once": (["OVERDUE"], None),
        "skip": ([], (late + 1) * SECOND),
        "each": (["TIME"], None),
    }


def test_a_batch_that_took_minutes_is_no_outage() -> None:
    """Each period fires at its own instant, as long as there are no more than a thousand."""
    group = KeyGroup(Sliding(evict=Time(HOUR), trigger=Time(1)))
    group.run(rows(10, "a"))
    assert reasons(group.run(tick(610))) == ["TIME"] * 600


def test_declared_arrival_times_are_the_clock_whatever_happens() -> None:
    """An outage is not in the data."""
    group = KeyGroup(Sliding(evict=Time(HOUR), trigger=Time(1)))
    group.run(rows(10, "a", has_stream_clock=True))
    assert reasons(group.run(rows(2010, "b", has_stream_clock=True))) == ["TIME"] * 2000
