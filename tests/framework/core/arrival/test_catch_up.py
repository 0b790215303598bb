"""What overdue timers do at the first batch after an outage, for each value of `catch_up`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from panekeeper import Batched, Count, Event, EventType, Operator, PartitionAge, Sliding, Time, Tumbling, agg
from panekeeper.framework.core.arrival import timers
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import Rows, Step, Tick
from panekeeper.framework.declarations.errors import InputError
from panekeeper.framework.declarations.operator import Emit
from panekeeper.state.store import MemoryStore
from tests.framework.core.quarantine_batches import job, rows, run, values

SECOND = 1_000_000
KEYS = pa.schema([("key", pa.string())])
COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64())])
OUTPUT = pa.schema([("what", pa.string())])

WORDS = {"insertion": "in", "eviction": "out", "trigger": "fires", "partition_eviction": "gone", "initial_full": "full"}


class Recording(Operator):
    """Emits each event as text: `6 out 1 2` is an eviction of the rows 1 and 2 at second 6."""

    events: ClassVar[frozenset[EventType]] = frozenset(EventType)

    def handle_event(self, event: Event, emit: Emit) -> None:
        assert event.at is not None
        values = [str(value) for value in event.column("v")]
        emit(what=" ".join([f"{event.at.timestamp():g}", WORDS[event.type.value], *values]))


@dataclass
class KeyGroup:
    """One key group of a window, from batch to batch."""

    window: Any
    store: MemoryStore = field(default_factory=MemoryStore)
    batches: int = 0
    no_rows: ClassVar[list[str]] = []

    def run(self, *steps: Step) -> list[str]:
        """Run one batch and return its events."""
        made = JobSpec(window=self.window, keys=KEYS, columns=COLUMNS, operator=Recording(), output=OUTPUT)
        outcome = KeyGroupRunner(made, self.store, BatchCheckpoint(checkpoint=self.batches, group=0)).run(steps)
        self.batches += 1
        return self.no_rows if outcome.results is None else outcome.results.column("what").to_pylist()


def row(at: float, value: int) -> Rows:
    """Return one row of the key `a` that arrived at second `at`."""
    columns = {"key": ["a"], "v": pa.array([value], pa.int64()), ARRIVAL_TIME: pa.array([int(at * SECOND)], pa.int64())}
    return Rows(pa.table(columns))


def tick(at: float, *, resume: bool = False) -> Tick:
    """Return the wall clock at second `at`; `resume` marks the first one after an outage."""
    return Tick(int(at * SECOND), resume=resume)


# the row 1 arrives at 1; down from 2 to 18     tumbles due: 6 11 16, then 21 (each, skip: 23)
@pytest.mark.parametrize(
    ("catch_up", "at_resume", "by_23"),
    [
        ("once", ["18 out 1"], ["23 out"]),
        ("each", ["6 out 1", "11 out", "16 out"], ["21 out"]),
        ("skip", [], ["23 out 1"]),
    ],
)
def test_overdue_tumbles_happen_once_each_or_not(catch_up: Any, at_resume: list[str], by_23: list[str]) -> None:
    """Once: now, and the next period from now. Each: at its own instant. Skip: not, and the next period from now."""
    group = KeyGroup(Tumbling(Time(5), catch_up=catch_up))
    assert group.run(row(1, 1), tick(2)) == ["1 in 1"]
    assert group.run(tick(18, resume=True)) == at_resume
    assert group.run(tick(23)) == by_23


# triggers due: 5 9 13 17     the row leaves at 1 + 6.001
@pytest.mark.parametrize(
    ("catch_up", "at_resume", "by_22"),
    [
        ("once", ["18 out 1", "18 fires"], ["22 fires"]),
        ("each", ["5 fires 1", "7.001 out 1", "9 fires", "13 fires", "17 fires"], ["21 fires"]),
        ("skip", ["18 out 1"], ["22 fires"]),
    ],
)
def test_rows_past_their_age_are_evicted_whatever_happens_to_triggers(
    catch_up: Any, at_resume: list[str], by_22: list[str]
) -> None:
    """A skipped trigger shows nothing, but no row outlives its age; with each, evictions have their own instants."""
    group = KeyGroup(Sliding(evict=Time(6), trigger=Time(4), catch_up=catch_up))
    assert group.run(row(1, 1), tick(2)) == ["1 full", "1 in 1"]
    assert group.run(tick(18, resume=True)) == at_resume
    assert group.run(tick(22)) == by_22


@pytest.mark.parametrize(
    ("catch_up", "at_resume"),
    [("once", ["18 gone 1 2"]), ("each", ["12 gone 1 2"]), ("skip", ["18 gone 1 2"])],
)
def test_partitions_past_their_age_are_evicted_with_every_catch_up(catch_up: Any, at_resume: list[str]) -> None:
    """Now, or with each at the instant at which they reached it."""
    group = KeyGroup(Tumbling(Count(9), partition_eviction=PartitionAge(10), catch_up=catch_up))
    assert group.run(row(1, 1), row(2, 2), tick(3)) == ["1 in 1", "2 in 2"]
    assert group.run(tick(18, resume=True)) == at_resume


# batch instants: 3 5 7; down from 2 to 4.5; the row lives until 7
@pytest.mark.parametrize(
    ("catch_up", "at_resume", "by_5"),
    [
        ("once", ["4.5 in 1", "4.5 fires 1"], []),
        ("each", ["3 in 1", "3 fires 1"], []),
        ("skip", [], ["5 in 1", "5 fires 1"]),
    ],
)
def test_overdue_window_batches_are_one_each_or_none_and_keep_to_their_timetable(
    catch_up: Any, at_resume: list[str], by_5: list[str]
) -> None:
    """Once: one update now. Each: at its own instant. Skip: not. The next instants do not move."""
    group = KeyGroup(Batched(within=6, every=2, catch_up=catch_up))
    assert group.run(row(1, 1), tick(2)) == []
    assert group.run(tick(4.5, resume=True)) == at_resume
    assert group.run(tick(5.5)) == by_5
    assert group.run(tick(7.5)) == ["7 out 1", "7 fires"]


STORY = [row(1, 1), row(2.5, 2), row(31, 3), row(31, 4)]
WINDOWS = {
    "tumbling": Tumbling(Time(5), catch_up="each"),
    "passes marks": Tumbling(Time(5), catch_up="each", passes_marks=True),
    "sliding": Sliding(evict=Time(60), trigger=Time(4), partition_eviction=PartitionAge(300), catch_up="each"),
    "counted": Sliding(evict=Count(2), trigger=Time(7), catch_up="each"),
    "batched": Batched(within=60, every=2, catch_up="each"),
    "retaining": Batched(within=600, every=3, retain=2, catch_up="each"),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("most", [1, 2, 7])
def test_each_missed_period_fires_the_same_in_however_many_rounds(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    """A long outage is caught up in several, so that memory is bounded: events and state are as in one."""

    def caught_up() -> tuple[list[str], dict[Any, bytes]]:
        group = KeyGroup(WINDOWS[name])
        events = [*group.run(*STORY, tick(32)), *group.run(tick(500, resume=True)), *group.run(tick(520), tick(700.5))]
        return [*events, *group.run(row(710, 5), tick(730))], group.store.entries

    expected = caught_up()
    monkeypatch.setattr(timers, "MOST_AT_ONCE", most)
    assert caught_up() == expected


def test_rows_that_come_before_the_clock_are_caught_up_to_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the host was suspended: their batch has the time of now."""

    def events() -> list[str]:
        group = KeyGroup(WINDOWS["counted"])
        group.run(*STORY, tick(32))
        return group.run(Rows(row(500, 5).table, has_stream_clock=False), tick(520))

    expected = events()
    assert len(expected) > 60
    monkeypatch.setattr(timers, "MOST_AT_ONCE", 3)
    assert events() == expected


def test_a_year_of_seconds_without_rows_costs_nothing() -> None:
    """A partition that tumbled empty passes its instants; one that is caught up in its first round is such."""
    spec, store = job(Tumbling(Time(1), catch_up="each"), n=agg.count()), MemoryStore()
    run(spec, store, rows(("a", 1), ("b", 2)))
    done = run(spec, store, tick(366 * 86_400, resume=True))
    assert values(done, "n") == {"a": [1], "b": [1]}
    with pytest.raises(InputError, match="periods of 1s were missed"):  # an operator receives each empty tumble
        KeyGroup(Tumbling(Time(1), catch_up="each")).run(row(1, 1), tick(366 * 86_400, resume=True))


def test_more_results_than_fit_into_memory_are_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is stored, and with another catch_up the same batch is processed."""
    monkeypatch.setattr(timers, "MOST_AT_ONCE", 2**10)
    monkeypatch.setattr(timers, "MOST_CAUGHT_UP", 2**12)
    group = KeyGroup(Sliding(evict=Count(2), trigger=Time(1), catch_up="each"))
    group.run(row(1, 1), tick(1.5))
    before = dict(group.store.entries)
    with pytest.raises(InputError, match=r"more than 4,096 periods of 1s were missed, .* catch_up='once' or 'skip'"):
        group.run(tick(86_400, resume=True))
    assert group.store.entries == before
    group.window = Sliding(evict=Count(2), trigger=Time(1), catch_up="once")
    assert group.run(tick(86_400, resume=True)) == ["86400 fires 1"]
