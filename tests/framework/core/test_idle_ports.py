"""The common watermark while ports bring no row, against the rule as it is written (docs/semantics.md section 14)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper.framework.core.common_watermark import CommonWatermark
from panekeeper.framework.core.job_spec import Idle
from panekeeper.framework.core.steps import EventTimeProgress, Tick
from panekeeper.state.store import MemoryStore

Ports = dict[int, Idle | None]


@dataclass(frozen=True)
class Came:
    """What comes at a time of the wall clock: rows of a port that reach an event time, or a tick, or a start."""

    at: int
    port: int | None = None
    reached: int = 0
    resume: bool = False

    def step(self) -> EventTimeProgress | Tick:
        if self.port is None:
            return Tick(self.at, resume=self.resume)
        return EventTimeProgress(((self.port, self.reached),), ((self.port, self.at),))


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
    """The watermarks of the ports that count at the end of a story; none if one has had no row yet."""
    now = max(one.at for one in story)
    began = max((one.at for one in story if one.resume), default=0)
    rows = {port: [one for one in story if one.port == port] for port in ports}
    awake, going_on = [], []
    for port, idle in ports.items():
        greatest = max((one.reached for one in rows[port]), default=None)
        newest = max((one.at for one in rows[port]), default=0)
        if idle is None or now - max(began, newest) < idle.after_us:
            awake.append(greatest)
        elif idle.advances and greatest is not None:
            going_on.append(greatest + now - newest)
    if not awake:
        return going_on
    if None in awake:
        return []
    return [one for one in awake if one is not None and (common is None or one >= common)]


@st.composite
def stories(draw: st.DrawFn) -> list[Came]:
    """Starts, ticks and rows of two ports, at times that do not go back."""
    at, story = 1, [Came(1, resume=True)]
    for _ in range(draw(st.integers(0, 12))):
        at += draw(st.integers(0, 8))
        port = draw(st.sampled_from([None, 0, 1]))
        resume = port is None and draw(st.booleans())
        story.append(Came(at, port, draw(st.integers(0, 40)) if port is not None else 0, resume))
    return story


idles = st.none() | st.builds(Idle, after_us=st.integers(1, 10), advances=st.booleans())


@given(st.tuples(idles, idles), stories(), st.sets(st.integers(1, 12)))
def test_the_watermark_is_that_of_the_rule_however_the_story_is_cut(
    idle: tuple[Idle | None, Idle | None], story: list[Came], cuts: set[int]
) -> None:
    """The rule looks at all that has come until then; the state keeps what it needs of it across batches."""
    ports: Ports = dict(enumerate(idle))
    assert played(ports, story, cuts) == played(ports, story)
    assert played(ports, story)[-1] == by_the_rule(ports, story)


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
