"""A job whose zone is known otherwise after a start: by hand, and against a naive rule (docs/semantics.md 6.10)."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Calendar, agg
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.panes.folding import PaneFolding
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.steps import PartialRows, Rows, Step, Watermark
from panekeeper.framework.engine.job.calendar_edges import reached
from panekeeper.framework.testing.vector import parse
from panekeeper.state.compatibility import Compatibility, compare_declarations
from panekeeper.state.history import History, calendars_with_other_data, upgraded
from panekeeper.state.records import NO_WATERMARK, IntervalRecord
from panekeeper.state.store import MemoryStore
from tests.framework.core.aggregate_rows import COLUMNS, merged, spec, us_of
from tests.framework.core.panes.test_upgrades import WINDOW, recorded

HOUR = 3_600_000_000
BEGIN = 1_709_942_400_000_000
"""2024-03-09 in UTC. In New York clocks go forward on 10 March, at 07:00 in UTC."""
KNOWN = ("America/New_York", "America/Bogota", "America/Chicago", "Europe/Berlin", "UTC")
"""Zones of whose data some are those of New York for a while."""


@contextmanager
def new_york_as(zone: str, folder: Path) -> Iterator[None]:
    """Let what is known of New York be what is known of another zone."""
    path = next(path for found in zoneinfo.TZPATH if (path := Path(found, zone)).is_file())
    (folder / "America").mkdir(parents=True, exist_ok=True)
    (folder / "America" / "New_York").write_bytes(path.read_bytes())
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(folder)])
    ZoneInfo.clear_cache()
    try:
        yield
    finally:
        zoneinfo.reset_tzpath(before)
        ZoneInfo.clear_cache()


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Calendar]:
    """Days of New York, by the data that are known of it."""
    found = {}
    for zone in KNOWN:
        with new_york_as(zone, tmp_path_factory.mktemp("zones")):
            found[zone] = Calendar("day", zone="America/New_York", discard_age="30 hours")
    return found


def job(window: Calendar, **aggregates: agg.Aggregate) -> JobSpec:
    """A job of these days."""
    declared = spec(parse({"window": WINDOW, "input": []}), aggregates or {"n": agg.count(), "total": agg.sum("n")})
    return replace(declared, window=window)


class Job:
    """A job of some key groups, which starts again with other data. A key is in the group of its number."""

    def __init__(self, window: Calendar, groups: int = 1) -> None:
        self.stores = [MemoryStore() for _ in range(groups)]
        self.record = recorded(job(window))
        self.spec = replace(job(window), history=History.of(self.record))
        self.batch: int | None = None
        self.watermark: int | None = None
        self.log: list[dict[str, Any]] = []

    def run(self, steps: list[Step]) -> None:
        """Run one batch in each key group; rows are folded before they get there, where that is worth it."""
        self.batch = 0 if self.batch is None else self.batch + 1
        for group in range(len(self.stores)):
            self.stores[group] = self.stores[group].copy()
            own = merged([_of_group(one, group, len(self.stores)) for one in steps])
            outcome = KeyGroupRunner(self.spec, self.stores[group]).run(own)
            self.log += [] if outcome.results is None else outcome.results.to_pylist()
        self.watermark = max([self.watermark or NO_WATERMARK, *(s.us for s in steps if isinstance(s, Watermark))])

    def start_again(self, window: Calendar) -> None:
        """Go on with what is known now, by a batch without rows."""
        new, old = recorded(job(window)), self.record
        assert {one.compatibility for one in compare_declarations(old, new)} == {Compatibility.COMPATIBLE}
        until = []
        for prefix in calendars_with_other_data(old, new):
            headers = [IntervalRecord.decode(store.read_header()) for store in self.stores]
            until = [self.watermark or NO_WATERMARK, *(reached(one, old, prefix) for one in headers)]
        if old != new:
            self.record = upgraded(
                old,
                new,
                committed=self.batch,
                watermark_us=self.watermark,
                edges_until_us={"": max((one for one in until if one != NO_WATERMARK), default=None)},
            )
        self.spec = replace(job(window), history=History.of(self.record))
        self.run([])

    def shown(self) -> list[tuple[Any, ...]]:
        """Key, bounds in hours, rows, sum and refinement of each firing, in an order of their own."""
        bounds = ("pane_start", "pane_end")
        return sorted(
            (
                row["key"],
                *((us_of(row[one]) - BEGIN) / HOUR for one in bounds),
                row["n"],
                row["total"],
                row["refinement"],
            )
            for row in self.log
        )


def rows(*values: tuple[str, float, int]) -> Rows:
    """Rows of (key, hour, n)."""
    made = [
        {"key": key, "n": n, "x": None, "who": None, EVENT_TIME: BEGIN + round(hour * HOUR)} for key, hour, n in values
    ]
    return Rows(pa.Table.from_pylist(made, schema=COLUMNS.append(pa.field(EVENT_TIME, pa.int64()))))


def mark(hour: float) -> Watermark:
    """The watermark at an hour."""
    return Watermark(BEGIN + round(hour * HOUR))


def _of_group(step: Step, group: int, groups: int) -> Step:
    if not isinstance(step, Rows):
        return step
    return Rows(step.table.filter(pa.array([int(key) % groups == group for key in step.table["key"].to_pylist()])))


@dataclass
class Naive:
    """The rule, cell by cell: the days that have begun by an instant stay where they are when other data come."""

    zone: str
    kept: dict[int, int] = field(default_factory=dict)
    """Days whose starts are known for good."""
    at_least: int = NO_WATERMARK
    watermark: int = NO_WATERMARK
    cells: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    fired: dict[tuple[str, int], int] = field(default_factory=dict)
    waiting: set[tuple[str, int]] = field(default_factory=set)
    log: list[tuple[Any, ...]] = field(default_factory=list)

    def start(self, day: int) -> int:
        """The first instant of a day."""
        return self.kept[day] if day in self.kept else max(begin_of(self.zone, day), self.at_least)

    def other_data(self, zone: str) -> None:
        """Other data are known."""
        ends = [self.start(day + 1) for _, day in self.cells]
        until = max([self.watermark, *ends])
        if until != NO_WATERMARK:
            self.kept |= {day: start for day in range(-20, 30) if (start := self.start(day)) <= until}
            self.at_least = until
        self.zone = zone

    def row(self, key: str, time: int, n: int) -> None:
        """A row comes."""
        day = max(day for day in range(-20, 30) if self.start(day) <= time)
        if self.start(day + 1) + 30 * HOUR > self.watermark:
            self.cells.setdefault((key, day), []).append(n)
            self.waiting.add((key, day))

    def advance(self, us: int) -> None:
        """The watermark advances."""
        if us <= self.watermark:
            return
        self.watermark = us
        for cell in sorted(self.waiting):
            key, day = cell
            if self.start(day + 1) <= us:
                number, values = self.fired.get(cell, 0), self.cells[cell]
                bounds = ((self.start(one) - BEGIN) / HOUR for one in (day, day + 1))
                self.log.append((key, *bounds, len(values), sum(values), number))
                self.fired[cell] = number + 1
                self.waiting.discard(cell)


@cache
def begin_of(zone: str, day: int) -> int:
    """The first instant of a day in a zone, looked for by the quarter of an hour."""
    midnight = datetime.fromtimestamp(BEGIN / 1_000_000, tz=UTC) + timedelta(days=day)
    looks = (midnight + timedelta(minutes=15) * number for number in range(-56, 57))
    look = next(one for one in looks if one.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC) >= midnight)
    return round(look.timestamp()) * 1_000_000


@given(data=st.data(), groups=st.integers(1, 3))
def test_results_are_those_of_the_naive_rule_whatever_becomes_known_and_when(
    known: dict[str, Calendar], data: st.DataObject, groups: int
) -> None:
    """Random rows, watermarks, cuts and starts with other data, in any number of key groups."""
    zone = data.draw(st.sampled_from(KNOWN))
    running, naive, steps = Job(known[zone], groups), Naive(zone), list[Step]()

    def cut() -> None:
        if steps:
            running.run(steps)
            steps.clear()

    hours = st.integers(-10, 400).map(lambda quarters: quarters / 4)
    for number in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(["row", "row", "row", "watermark", "data", "cut"]))
        if what == "row":
            key, hour = data.draw(st.sampled_from(["0", "1", "2"])), data.draw(hours)
            steps.append(rows((key, hour, number)))
            naive.row(key, BEGIN + round(hour * HOUR), number)
        elif what == "watermark":
            watermark = mark(data.draw(hours))
            steps.append(watermark)
            naive.advance(watermark.us)
        else:
            cut()
        if what == "data":
            zone = data.draw(st.sampled_from(KNOWN))
            running.start_again(known[zone])
            naive.other_data(zone)
    steps.append(last := mark(1000))
    naive.advance(last.us)
    cut()
    assert running.shown() == sorted(naive.log)


def test_a_pane_with_rows_stays_where_it_is_and_a_later_one_moves(known: dict[str, Calendar]) -> None:
    """New York is to keep its winter time, as becomes known on 10 March, of which there are rows.

    day         9 March   10 March   11 March   12 March
    as known     5..29     29..52     52..76     76..100
    then         5..29     29..52     52..77     77..101
    """
    running = Job(known["America/New_York"], groups=2)
    running.run([rows(("0", 30, 1), ("1", 6, 2)), mark(28)])
    running.start_again(known["America/Bogota"])
    running.run([rows(("0", 51.9, 4), ("1", 52, 8), ("1", 76.5, 16), ("0", 77, 32)), mark(200)])
    assert running.shown() == [
        ("0", 29, 52, 2, 5, 0),
        ("0", 77, 101, 1, 32, 0),
        ("1", 5, 29, 1, 2, 0),
        ("1", 52, 77, 2, 24, 0),
    ]
    assert [one["until_us"] for one in running.record["history"]["zones"]["America/New_York"]] == [BEGIN + 52 * HOUR]


def test_a_closed_pane_does_not_open_again(known: dict[str, Calendar]) -> None:
    """Its rows are gone: by the new data it would end 6 hours later. The row joins the next one, of 30 hours."""
    window = replace_age(known, "Europe/Berlin")
    running = Job(window)
    running.run([rows(("0", 10, 1)), mark(23)])
    running.start_again(replace_age(known, "America/Bogota"))
    running.run([rows(("0", 24, 2)), mark(100)])
    assert running.shown() == [("0", -1, 23, 1, 1, 0), ("0", 23, 53, 1, 2, 0)]


def replace_age(known: dict[str, Calendar], zone: str) -> Calendar:
    """The days by some data, without a discard age."""
    window = Calendar("day", zone="America/New_York")
    object.__setattr__(window, "zone_data", known[zone].zone_data)
    return window


def test_rows_are_folded_by_the_edges_of_their_key_group(known: dict[str, Calendar]) -> None:
    """What folds them on their way knows what was known before."""
    running = Job(known["America/New_York"])
    running.run([rows(("0", 30, 1))])
    running.start_again(known["America/Bogota"])
    folding = PaneFolding.of(running.spec)
    assert folding is not None
    folded = folding.fold(rows(*[("0", 51.9, 2)] * 4, *[("0", 52.1, 4)] * 4).table, NO_WATERMARK)
    assert folded is not None
    running.run([PartialRows(folded.table), mark(200)])
    assert running.shown() == [("0", 29, 52, 5, 9, 0), ("0", 52, 77, 4, 16, 0)]


def test_what_is_known_goes_with_the_window() -> None:
    """All machines of a job go by what the one knows that declares the window; there may be no other file."""
    window = Calendar("day", zone="America/New_York")
    zoneinfo.reset_tzpath([])
    try:
        geometry = Geometry.of(window)
        assert geometry.end(int(geometry.slices(np.array([BEGIN + 30 * HOUR]))[0])) == BEGIN + 52 * HOUR
    finally:
        zoneinfo.reset_tzpath()


def test_a_message_shows_the_beginning_of_the_data(known: dict[str, Calendar]) -> None:
    """They have thousands of characters. Another zone is another window, whatever is known of it."""
    first, second = (recorded(job(known[zone])) for zone in ("America/New_York", "America/Bogota"))
    (change,) = [one for one in compare_declarations(first, second) if one.differences]
    assert (
        change.why == "panes up to the last one with rows keep their starts and ends; those after it have the new ones"
    )
    assert len(str(change.differences[0])) < 500
    other = recorded(job(Calendar("day", zone="America/Bogota", discard_age="30 hours")))
    assert Compatibility.NEEDS_FLUSH in {one.compatibility for one in compare_declarations(first, other)}


def test_other_data_keep_the_state_of_each_port(known: dict[str, Calendar]) -> None:
    """Else a new version of the zone data would refuse every start of a job with several ports."""
    first, second = (
        recorded(job(known[zone])) | {f"port_1.{name}": value for name, value in recorded(job(known[zone])).items()}
        for zone in ("America/New_York", "America/Bogota")
    )
    assert {one.compatibility for one in compare_declarations(first, second)} == {Compatibility.COMPATIBLE}
    assert calendars_with_other_data(first, second) == ["window.", "port_1.window."]
    record = upgraded(first, second, committed=0, watermark_us=None, edges_until_us={"": BEGIN})
    (former,) = History.of(record).former_zone_data("America/New_York")
    assert (former.zone_data, former.until_us) == (known["America/New_York"].zone_data, BEGIN)
