"""The common watermark while sources bring no row, against the rule as it is written (docs/semantics.md section 14)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import TimeInterval, agg
from panekeeper.framework.core.common_watermark import CommonWatermark
from panekeeper.framework.core.job_spec import EVENT_TIME, Idle, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import EventTimeProgress, Rows, Step, Tick, Watermark
from panekeeper.state.records import Source
from panekeeper.state.store import MemoryStore

Ports = dict[int, Idle | None]


@dataclass(frozen=True)
class Came:
    """What comes at a time of the wall clock: rows of a source that reach an event time, or a tick, or a start."""

    at: int
    port: int | None = None
    reached: int = 0
    resume: bool = False
    part: str = ""

    def step(self) -> EventTimeProgress | Tick:
        if self.port is None:
            return Tick(self.at, resume=self.resume)
        return EventTimeProgress((((self.port, self.part), self.reached),), self.at)


def played(ports: Ports, came: list[Came], cuts: Collection[int] = ()) -> list[int | None]:
    """Return the watermark after each of them; a batch ends before those in `cuts`."""
    store, marks, last = MemoryStore(), list[int | None](), None
    common = CommonWatermark(store, ports)
    for number, one in enumerate(came):
        if number in cuts:
            common.save()
            store = store.copy()
            common = CommonWatermark(store, ports)
        for mark in common.advance(one.step()):
            last = mark.us
        marks.append(last)
    return marks


def by_the_rule(ports: Ports, came: list[Came]) -> int | None:
    """The watermark after all of them, found by the rule for each beginning of the story."""
    common: int | None = None
    for end in range(1, len(came) + 1):
        marks = counting(ports, came[:end], common)
        if marks and (common is None or min(marks) > common):
            common = min(marks)
    return common


def counting(ports: Ports, story: list[Came], common: int | None) -> list[int]:
    """The watermarks of the sources that count at the end of a story; none if one has had no row yet."""
    now = max(one.at for one in story)
    began = max((one.at for one in story if one.resume), default=0)
    awake, going_on = [], []
    for port, idle in ports.items():
        for source in sources_of(port, story):
            rows = [one for one in story if (one.port, one.part) == source]
            greatest = max((one.reached for one in rows), default=None)
            newest = max((one.at for one in rows), default=0)
            if idle is None or now - max(began, newest) < idle.after_us:
                awake.append(greatest)
            elif idle.advances and greatest is not None:
                going_on.append(greatest + now - newest)
    if not awake:
        return going_on
    if None in awake:
        return []
    return [one for one in awake if one is not None and (common is None or one >= common)]


def sources_of(port: int, story: list[Came]) -> set[Source]:
    """What the rows of a port have come from; a port without a row is one source."""
    return {(port, one.part) for one in story if one.port == port} or {(port, "")}


@st.composite
def stories(draw: st.DrawFn, ports: tuple[int, ...] = (0, 1)) -> list[Came]:
    """Starts, ticks and rows of the ports, at times that do not go back; a port has one source, or up to three."""
    at = draw(st.integers(0, 1))
    story = [Came(at, resume=True)]
    parts = {port: draw(st.sampled_from([[""], ["t-0", "t-1", "t-2"]])) for port in ports}
    for _ in range(draw(st.integers(0, 14))):
        at += draw(st.integers(0, 8))
        port = draw(st.sampled_from([None, *ports]))
        if port is None:
            story.append(Came(at, resume=draw(st.booleans())))
        else:
            story.append(Came(at, port, draw(st.integers(0, 40)), part=draw(st.sampled_from(parts[port]))))
    return story


idles = st.builds(Idle, after_us=st.integers(1, 10), advances=st.booleans())


@given(st.tuples(st.none() | idles, st.none() | idles), stories(), st.sets(st.integers(1, 14)))
def test_the_watermark_is_that_of_the_rule_however_the_story_is_cut(
    idle: tuple[Idle | None, Idle | None], story: list[Came], cuts: set[int]
) -> None:
    """The rule looks at all that has come until then; the state keeps what it needs of it across batches."""
    ports: Ports = dict(enumerate(idle))
    assert played(ports, story, cuts) == played(ports, story)
    assert played(ports, story)[-1] == by_the_rule(ports, story)


class Panes:
    """Counts of panes of five microseconds by the keys "a", "b", "c", in so many key groups."""

    def __init__(self, idle: Idle | None, groups: int) -> None:
        columns = pa.schema([("key", pa.string())])
        self.spec = JobSpec(
            window=TimeInterval(timedelta(microseconds=5), discard_age=timedelta(microseconds=7)),
            keys=columns,
            columns=columns,
            aggregates={"n": agg.count()},
            output=pa.schema([("n", pa.int64())]),
            idle=idle,
        )
        self.stores = [MemoryStore() for _ in range(groups)]
        self.log: list[Any] = []
        self.due: int | None = None
        self.open = 0

    def batch(self, steps: Callable[[str], Iterator[Step]]) -> None:
        """Run a batch after a restart: `steps` returns those of a group, by the keys that it has."""
        self.stores = [store.copy() for store in self.stores]
        groups = len(self.stores)
        keys = ["".join(key for key in "abc" if ord(key) % groups == number) for number in range(groups)]
        done = [KeyGroupRunner(self.spec, store).run(steps(own)) for own, store in zip(keys, self.stores, strict=True)]
        self.log += [list(row.values()) for one in done if one.results is not None for row in one.results.to_pylist()]
        self.due = min((one.due_us for one in done if one.due_us is not None), default=None)
        self.open = sum(one.open_panes for one in done)


def row_of(came: Came, keys: str) -> Iterator[Step]:
    """The row of a key that depends on its event time, if it is one of `keys`."""
    if came.port is not None and (key := "abc"[came.reached % 3]) in keys:
        yield Rows(pa.table({"key": [key], EVENT_TIME: pa.array([came.reached], pa.int64())}))


@given(idles, stories(ports=(0,)), st.sets(st.integers(1, 14)), st.integers(1, 3))
def test_results_are_those_of_the_watermark_by_the_rule(
    idle: Idle, story: list[Came], cuts: set[int], groups: int
) -> None:
    """However many key groups there are and wherever batches end; a stream that goes on closes all that is open."""
    panes, bounds = Panes(idle, groups), [0, *sorted(cuts & {*range(len(story))}), len(story)]
    for low, high in pairwise(bounds):

        def own(keys: str, low: int = low, high: int = high) -> Iterator[Step]:
            for one in story[low:high]:
                yield from row_of(one, keys)
                yield one.step()

        panes.batch(own)

    expected = Panes(None, 1)
    for end in range(1, len(story) + 1):
        mark = by_the_rule({0: idle}, story[:end])
        expected.batch(lambda keys, end=end, mark=mark: iter(  # type: ignore[misc]
            [*row_of(story[end - 1], keys), *([] if mark is None else [Watermark(mark)])]
        ))  # fmt: skip
    assert sorted(panes.log) == sorted(expected.log)
    assert (panes.open == 0) == (expected.open == 0)

    for _ in range(99):
        if panes.due is None:
            break
        tick = Tick(panes.due)
        panes.batch(lambda _, tick=tick: iter([tick]))  # type: ignore[misc]
    assert panes.due is None
    assert panes.open == 0 or not idle.advances


def test_a_port_that_is_silent_for_so_long_no_longer_holds_the_others_back() -> None:
    """It counts again once its own watermark has come to the common one."""
    ports: Ports = {0: Idle(after_us=10), 1: Idle(after_us=10)}
    story = [
        Came(100, resume=True),
        Came(101, 0, 500),
        Came(102, 1, 200),
        Came(111, 0, 600),
        Came(112),  # port 1 is idle: it has brought nothing for 10
        Came(113, 1, 300),  # it wakes up, behind the others
        Came(114, 0, 700),
        Came(115, 1, 650),
    ]
    assert played(ports, story) == [None, None, 200, 200, 600, 600, 700, 700]


def test_a_partition_that_lags_holds_the_watermark_back_until_it_is_idle() -> None:
    """It counts from its first row on, and after a silence once it has come to the common watermark."""
    store, marks = MemoryStore(), list[int | None]()
    common = CommonWatermark(store, {0: Idle(after_us=10)})

    def comes(at: int, **reached: int) -> None:
        """Let partitions of the topic come to event times; without one, time passes."""
        sources = tuple(((0, f"topic-{part}"), us) for part, us in reached.items())
        moved = common.advance(EventTimeProgress(sources, at) if sources else Tick(at))
        marks.append(moved[-1].us if moved else None)

    comes(101, a=500, b=200)
    comes(105, a=600)
    comes(111)  # b is idle
    comes(112, b=550)  # it wakes up, behind the other
    comes(113, a=700)
    comes(114, b=800)
    comes(115, a=900)
    comes(116, c=300)  # a new partition
    comes(117, a=950, b=940)
    assert marks == [200, None, 600, None, 700, None, 800, None, 940]


def test_the_watermark_of_a_stream_that_has_ended_goes_on_with_the_wall_clock() -> None:
    """It is as far behind the wall clock as it was with the last row, and never goes back when rows come again."""
    ports: Ports = {0: Idle(after_us=10, advances=True)}
    story = [
        Came(100, resume=True),
        Came(101, 0, 50),
        Came(110),
        Came(111),
        Came(131),
        Came(132, 0, 60),
        Came(133, 0, 95),
    ]
    assert played(ports, story) == [None, 50, 50, 60, 80, 80, 95]


def test_a_clock_may_begin_at_0() -> None:
    """That is a time as any other: idle time counts from the start, not from the tick after it."""
    story = [Came(0, resume=True), Came(0, 0, 50), Came(9), Came(10), Came(31)]
    assert played({0: Idle(after_us=10, advances=True)}, story) == [None, 50, 50, 60, 81]


def test_the_time_that_a_job_was_down_is_no_idle_time() -> None:
    """Its sources may hold rows: they are read before the watermark goes on."""
    ports: Ports = {0: Idle(after_us=10, advances=True)}
    story = [Came(100, resume=True), Came(101, 0, 50), Came(500, resume=True), Came(505, 0, 70), Came(514), Came(515)]
    assert played(ports, story) == [None, 50, 50, 70, 70, 80]


@pytest.mark.parametrize("due_watermark", [None, 80])
def test_the_next_tick_is_due_when_the_watermark_may_come_to_what_is_open(due_watermark: int | None) -> None:
    """First when a port becomes idle, then when the wall clock has carried the watermark there; nothing open: none."""
    common = CommonWatermark(MemoryStore(), {0: Idle(after_us=10, advances=True)})
    due = []
    for one in [Came(100, resume=True), Came(101, 0, 50), Came(111), Came(131)]:
        common.advance(one.step())
        due.append(common.due_us(due_watermark))
    assert due == ([None] * 4 if due_watermark is None else [110, 111, 131, None])


NEVER, SOON, LATER = None, Idle(after_us=10), Idle(after_us=50)

FLINK: dict[str, tuple[Ports, list[Came], list[int | None]]] = {
    "testMultipleInputYieldsWatermarkOnlyWhenAllChannelsReceivesWatermarks": (
        {0: NEVER, 1: NEVER, 2: NEVER},
        [Came(1, 0, 0), Came(1, 1, 0), Came(1, 2, 0)],
        [None, None, 0],
    ),
    "testMultipleInputIncreasingWatermarks": (
        {0: NEVER, 1: NEVER, 2: NEVER},
        [Came(1, *one) for one in [(0, 0), (1, 0), (2, 0), (0, 12), (2, 8), (2, 10), (1, 15), (2, 17), (0, 20)]],
        [None, None, 0, 0, 0, 0, 10, 12, 15],
    ),
    "testMultipleInputDecreasingWatermarksYieldsNoOutput": (
        {0: NEVER, 1: NEVER, 2: NEVER},
        [Came(1, *one) for one in [(0, 25), (1, 10), (2, 17), (0, 12), (1, 8), (2, 15)]],
        [None, None, 10, 10, 10, 10],
    ),
    "testMultipleInputWatermarkAdvancingWithPartiallyIdleChannels": (
        {0: NEVER, 1: NEVER, 2: SOON},
        [Came(1, resume=True), Came(2, 0, 15), Came(3, 1, 10), Came(11), Came(12, 1, 18), Came(13, 0, 20)],
        [None, None, None, 10, 15, 18],
    ),
    "testMultipleInputWatermarkAdvancingAsChannelsIndividuallyBecomeIdle": (
        {0: NEVER, 1: SOON, 2: LATER},
        [Came(1, resume=True), Came(2, 0, 25), Came(3, 1, 10), Came(4, 2, 17), Came(13), Came(54)],
        [None, None, None, 10, 17, 25],
    ),
    "testMultipleInputWatermarkRealignmentAfterResumeActive": (
        {0: NEVER, 1: NEVER, 2: SOON},
        [
            *[Came(1, 0, 10), Came(1, 1, 7), Came(1, 2, 3)],
            *[Came(11), Came(12, 2, 5), Came(13, 2, 9), Came(14, 1, 12)],
        ],
        [None, None, 3, 7, 7, 7, 9],
    ),
    "testNoOutputWhenAllActiveChannelsAreUnaligned": (
        {0: LATER, 1: LATER, 2: SOON},
        [Came(1, resume=True), Came(2, 0, 10), Came(3, 1, 7), Came(11), Came(50, 2, 5), Came(53)],
        [None, None, None, 7, 7, 7],
    ),
    "combinedWatermarkDoesNotRegressWhenIdleOutputRegresses": (
        {0: SOON, 1: NEVER},
        [Came(1, 0, 2), Came(1, 1, 5), Came(11), Came(12, 0, 3)],
        [None, 2, 5, 5],
    ),
    "testIdleWithoutEvents": (
        {0: SOON, 1: NEVER},
        [Came(1, resume=True), Came(2, 1, 5), Came(12)],
        [None, None, 5],
    ),
    "testIdleActiveIdle": (
        {0: SOON, 1: NEVER},
        [Came(1, 0, 2), Came(1, 1, 5), Came(11), Came(12, 0, 6), Came(13, 1, 8), Came(21), Came(22)],
        [None, 2, 5, 5, 6, 6, 8],
    ),
}


@pytest.mark.parametrize("case", FLINK)
def test_idle_sources_count_as_in_flink(case: str) -> None:
    """Each is a test of Flink's, by its name there: of its valve, multiplexer and idleness timer (apache/flink)."""
    ports, story, expected = FLINK[case]
    assert played(ports, story) == expected


def test_if_all_sources_are_idle_the_watermark_stands_still_and_flink_takes_the_greatest() -> None:
    """There: testMultipleInputFlushMaxWatermarkAndWatermarkStatusOnceAllInputsBecomeIdle, 10 in the end."""
    ports: Ports = {0: SOON, 1: Idle(after_us=20), 2: Idle(after_us=30)}
    story = [Came(1, 0, 10), Came(1, 1, 5), Came(1, 2, 3), Came(11), Came(21), Came(31)]
    assert played(ports, story) == [None, None, 3, 3, 3, 3]
