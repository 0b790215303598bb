"""`Calendar`: by hand, and against the naive model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Calendar, DeclarationError, TimeInterval, agg
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.testing.play_vector import MemoryRun
from panekeeper.framework.testing.steps import split_into_batches
from panekeeper.framework.testing.vector import parse
from panekeeper.testing import Restart, Watermark, difference, run
from tests.model.calendars import CALENDARS, NaiveCalendar
from tests.model.interval_cases import BATCH_SPLITS

HOW: dict[str, Any] = {"schema": "k string, t timestamp, v long", "partition_by": "k", "event_time": "t"}
CHANGES = [
    ("America/New_York", "2024-03-10 07:00"),
    ("America/New_York", "2024-11-03 06:00"),
    ("America/New_York", "1967-04-30 07:00"),
    ("Europe/Berlin", "2024-03-31 01:00"),
    ("Europe/Berlin", "2024-10-27 01:00"),
    ("Australia/Lord_Howe", "2024-04-06 15:00"),
    ("Australia/Lord_Howe", "2024-10-05 15:30"),
    ("Asia/Kathmandu", "1985-12-31 18:30"),
    ("Pacific/Apia", "2011-12-30 10:00"),
]
"""Zone, and an instant at which its clock is changed: by 30 or 15 minutes, and by a whole day, too."""


def us(text: str) -> int:
    """An instant in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000_000)


def fired(window: Any, *script: Any, **aggregates: Any) -> list[tuple[Any, ...]]:
    """Bounds, value and refinement of each firing, with times in UTC."""
    batches = [
        [{"k": "a", "t": f"{time}+00:00", "v": value} for time, value in item] if isinstance(item, list) else item
        for item in script
    ]
    found = run(window, aggregates=aggregates or {"total": agg.sum("v")}, script=batches, **HOW)
    name = next(iter(aggregates), "total")
    return [
        (f"{row['pane_start']:%Y-%m-%d %H:%M}", f"{row['pane_end']:%Y-%m-%d %H:%M}", row[name], row["refinement"])
        for row in found
    ]


@st.composite
def inputs(draw: st.DrawFn, around: int) -> list[dict[str, Any]]:
    """Rows and watermarks in the days around an instant, most of them in its hours."""
    items: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 25))):
        quarters = draw(st.integers(-12, 12) | st.integers(-200, 200) | st.sampled_from([-40_000, 3_000, 40_000]))
        seconds = around // 1_000_000 + 900 * quarters - draw(st.sampled_from([0, 0, 1]))
        if draw(st.sampled_from([True, True, True, False])):
            items.append({"key": draw(st.sampled_from(["a", "b"])), "value": {"ts": seconds, "n": len(items)}})
        else:
            items.append({"watermark": seconds})
    return items


@given(change=st.sampled_from(CHANGES), calendar=st.sampled_from(sorted(CALENDARS, key=str)), data=st.data())
def test_the_core_has_the_events_of_the_model(
    change: tuple[str, str], calendar: tuple[str, str | None], data: st.DataObject
) -> None:
    """Around changes of the clock, whatever the batches and wherever the process restarts."""
    zone, (unit, starts) = change[0], calendar
    late, age = data.draw(st.sampled_from(["pane", "tuple"])), data.draw(st.sampled_from([0, 3600, 100_000]))
    window = {"kind": "timeInterval", "intervalDuration": 1, "event_time": "ts", "partitioned": True}
    window |= {"discardAge": age, "late": late}
    vector: dict[str, Any] = {"window": window, "input": data.draw(inputs(us(change[1])))}
    declared = Calendar(unit, zone=zone, starts=starts, discard_age=age, late=late)
    parsed = replace(parse(vector), window=declared)
    places: Any = st.just("each") | st.lists(st.integers(0, len(parsed.items) - 1), max_size=4)
    cut: Any = data.draw(BATCH_SPLITS)
    batches = split_into_batches(parsed.items, cut, data.draw(places))
    expected = NaiveCalendar(vector["window"], zone, calendar).play(vector["input"])
    got = MemoryRun(parsed).play(batches)
    assert difference(expected, got) is None
    assert difference(got, expected) is None


def test_a_day_has_23_or_25_hours_where_clocks_change() -> None:
    """With a restart in between. In New York, on 10 March and on 3 November 2024; a late row joins the day."""
    window = Calendar("day", zone="America/New_York", discard_age="1 day")
    rows = [("2024-03-10 05:00", 1), ("2024-03-11 03:59", 2), ("2024-03-11 04:00", 4)]
    script = (rows, Restart(), Watermark("2024-03-11 04:00+00:00"), [("2024-03-10 06:30", 8)])
    assert fired(window, *script, Watermark("2024-03-11 05:00+00:00")) == [
        ("2024-03-10 05:00", "2024-03-11 04:00", 3, 0),
        ("2024-03-10 05:00", "2024-03-11 04:00", 11, 1),
    ]
    rows = [("2024-11-03 04:00", 1), ("2024-11-04 04:59", 2), ("2024-11-04 05:00", 4)]
    assert fired(window, rows, Watermark("2024-11-04 05:00+00:00")) == [("2024-11-03 04:00", "2024-11-04 05:00", 3, 0)]


@pytest.mark.parametrize("aggregate", [agg.count(), agg.sum("v"), agg.collect("v")], ids=["count", "sum", "rows"])
def test_in_utc_days_are_those_of_a_time_interval(aggregate: Any) -> None:
    """From folded rows, from partial results and from rows, before 1970, too."""
    days = [f"{year}-{month:02}-03" for year in (1931, 1970, 2024) for month in (1, 2)]
    rows = [(f"{day} {hour:02}:30", hour) for day in days for hour in (0, 9, 23)]
    script = (rows, Restart(), Watermark("2025-01-01 00:00+00:00"))
    found = fired(Calendar("day", zone="UTC"), *script, value=aggregate)
    assert found == fired(TimeInterval("1 day"), *script, value=aggregate)
    assert len(found) == len(days)


@pytest.mark.parametrize(
    ("window", "row", "start", "end"),
    [
        (Calendar("month", zone="Europe/Berlin"), "2024-02-29 22:59", "2024-01-31 23:00", "2024-02-29 23:00"),
        (Calendar("month", zone="Europe/Berlin"), "2024-03-15 00:00", "2024-02-29 23:00", "2024-03-31 22:00"),
        (Calendar("month", zone="Asia/Kathmandu"), "2023-12-31 18:15", "2023-12-31 18:15", "2024-01-31 18:15"),
        (Calendar("month", zone="UTC", starts="day 15"), "2024-01-14 23:59", "2023-12-15 00:00", "2024-01-15 00:00"),
        (Calendar("quarter", zone="America/New_York"), "2024-03-31 12:00", "2024-01-01 05:00", "2024-04-01 04:00"),
        (Calendar("quarter", zone="UTC", starts="may"), "2024-03-31 12:00", "2024-02-01 00:00", "2024-05-01 00:00"),
        (
            Calendar("year", zone="Europe/London", starts="April"),
            "2024-03-31 22:59",
            "2023-03-31 23:00",
            "2024-03-31 23:00",
        ),
        (
            Calendar("week", zone="America/New_York", starts="monday 06:00"),
            "2024-03-11 09:59",
            "2024-03-04 11:00",
            "2024-03-11 10:00",
        ),
        (Calendar("week", zone="UTC"), "1970-01-01 00:00", "1969-12-29 00:00", "1970-01-05 00:00"),
        (Calendar("week", zone="UTC", starts="Sunday"), "1969-12-28 00:00", "1969-12-28 00:00", "1970-01-04 00:00"),
        (Calendar("day", zone="America/New_York"), "1967-04-30 12:00", "1967-04-30 05:00", "1967-05-01 04:00"),
        (Calendar("year", zone="America/New_York"), "1905-07-01 12:00", "1905-01-01 05:00", "1906-01-01 05:00"),
    ],
    ids=str,
)
def test_a_pane_lies_between_two_instants_of_the_calendar(window: Calendar, row: str, start: str, end: str) -> None:
    """Months, quarters, years and weeks, also with a start of their own, and before 1970."""
    geometry = Geometry.of(window)
    pane = geometry.slices(np.array([us(row)]))[0]
    assert [geometry.start(pane), geometry.end(pane)] == [us(start), us(end)]


@pytest.mark.parametrize(
    ("window", "day", "start"),
    [
        # 02:30 does not exist: clocks go from 02:00 to 03:00
        (Calendar("day", zone="America/New_York", starts="02:30"), "2024-03-10 12:00", "2024-03-10 07:00"),
        # 01:30 is twice: in summer time, and an hour later
        (Calendar("day", zone="America/New_York", starts="01:30"), "2024-11-03 05:45", "2024-11-03 05:30"),
        (Calendar("day", zone="America/New_York", starts="01:30"), "2024-11-03 06:10", "2024-11-03 05:30"),
        # 02:15 does not exist: clocks go from 02:00 to 02:30
        (Calendar("day", zone="Australia/Lord_Howe", starts="02:15"), "2024-10-05 20:00", "2024-10-05 15:30"),
        # there was no 30 December, so it is over when it begins
        (Calendar("day", zone="Pacific/Apia"), "2011-12-30 12:00", "2011-12-30 10:00"),
    ],
)
def test_a_start_that_is_missing_or_twice_is_the_first_instant_from_it_on(
    window: Calendar, day: str, start: str
) -> None:
    """A start in the hour that is left out is where the clock is put forward; of two, it is the first."""
    geometry = Geometry.of(window)
    assert geometry.start(geometry.slices(np.array([us(day)]))[0]) == us(start)


@given(times=st.lists(st.integers(us("0001-01-02"), us("9999-12-30")), min_size=1, max_size=20))
def test_each_instant_of_the_years_1_to_9999_is_in_its_pane(times: list[int]) -> None:
    """And panes touch, and are found by their ends."""
    for unit in ("day", "week", "month", "quarter", "year"):
        geometry, some = Geometry.of(Calendar(unit, zone="America/New_York")), np.array(times)
        panes = geometry.slices(some)
        assert (geometry.starts(panes) <= some).all()
        assert (some < geometry.ends(panes)).all()
        assert (geometry.ends(panes) == geometry.starts(panes + 1)).all()
        pane = int(panes[0])
        assert geometry.last_ending_by(geometry.end(pane)) == pane
        assert geometry.last_ending_by(geometry.end(pane) - 1) == pane - 1


def test_panes_are_numbered_by_the_calendar() -> None:
    """From 1970 on, in every zone: days, weeks, months, quarters and years."""
    at = np.array([us("2024-05-15 12:00")])
    for zone in ("UTC", "Pacific/Apia", "America/New_York"):
        calendars = {unit: Geometry.of(Calendar(unit, zone=zone)) for unit in ("month", "quarter", "year")}
        numbers = {unit: int(geometry.slices(at)[0]) for unit, geometry in calendars.items()}
        assert numbers == {"month": 54 * 12 + 4, "quarter": 54 * 4 + 1, "year": 54}
    days = Geometry.of(Calendar("day", zone="America/New_York")).slices(at)[0]
    assert np.datetime64(0, "D") + days == np.datetime64("2024-05-15")
    assert Geometry.of(Calendar("week", zone="UTC")).slices(np.array([0]))[0] == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"emit": "on_close"}, [(3, 0)]),
        ({"results": "discarding"}, [(1, 0), (2, 1)]),
        ({}, [(1, 0), (3, 1)]),
    ],
)
def test_panes_fire_as_those_of_a_time_interval(options: dict[str, Any], expected: list[tuple[int, int]]) -> None:
    """By the options of these."""
    window = Calendar("day", zone="America/New_York", discard_age="2 days", **options)
    first, late = [("2024-03-10 12:00", 1)], [("2024-03-11 03:00", 2)]
    marks = (Watermark("2024-03-11 04:00+00:00"), late, Restart(), Watermark("2024-03-13 04:00+00:00"))
    assert [row[2:] for row in fired(window, first, *marks)] == expected


def refuse(unit: Any, words: str, **options: Any) -> Any:
    """A declaration and the words by which it is refused."""
    return pytest.param(lambda: Calendar(unit, **{"zone": "UTC", **options}), words, id=words[:40])


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        refuse("hour", "unit is 'hour'; it must be 'day', 'week', 'month', 'quarter' or 'year'"),
        refuse(1, "unit is 1; it must be 'day'"),
        refuse("day", "zone is missing; say whose calendar it is", zone=None),
        refuse("day", "zone is 'new york', .*; did you mean 'America/New_York'?", zone="new york"),
        refuse("day", "zone is 'Europe/Berln', .*; did you mean 'Europe/Berlin'", zone="Europe/Berln"),
        refuse("day", "zone is '', which is no time zone that this machine knows; give one such as", zone=""),
        refuse("day", "zone is '../UTC', which is no time zone", zone="../UTC"),
        refuse("day", "zone is 5, which is no time zone", zone=5),
        refuse("day", "starts is 'monday 06:00'; a day starts at a time, as '06:00'", starts="monday 06:00"),
        refuse("day", "starts is '24:00'; a day starts at a time", starts="24:00"),
        refuse("day", "starts is ''; a day starts at a time", starts=""),
        refuse("day", "starts is 6; a day starts at a time", starts=6),
        refuse("week", "starts is 'day 2'; a week starts at a weekday, a time or both", starts="day 2"),
        refuse("month", "starts is 'day 29'; a month starts at a day from 1 to 28", starts="day 29"),
        refuse("month", "starts is 'day 0'; a month starts at a day from 1 to 28", starts="day 0"),
        refuse("year", "starts is 'day 6'; a year starts at a month", starts="day 6"),
        refuse("day", "interval_offset is 5; panes of a calendar have no fixed length", interval_offset=5),
        refuse("day", "creation_period is 5; panes of a calendar", creation_period=5),
        refuse("day", "discard_age is -1; it must not be negative", discard_age=-1),
    ],
)
def test_what_cannot_be_is_refused(declare: Callable[[], Any], words: str) -> None:
    """Where it is declared."""
    with pytest.raises(DeclarationError, match=words):
        declare()


def test_a_time_without_a_zone_has_only_the_calendar_that_it_is_in() -> None:
    """`zone="UTC"` takes it as it is; another zone is refused."""
    how: dict[str, Any] = HOW | {"schema": "k string, t timestamp_ntz, v long", "aggregates": {"n": agg.count()}}
    script = [[{"k": "a", "t": "2024-03-31T23:59:00", "v": 1}], Watermark("2024-04-01T00:00:00")]
    found = run(Calendar("month", zone="UTC"), script=script, **how)
    assert [(row["pane_start"], row["n"]) for row in found] == [(datetime(2024, 3, 1), 1)]  # noqa: DTZ001
    with pytest.raises(DeclarationError, match="zone is 'Europe/Berlin', but the event time 't' is a timestamp_ntz"):
        run(Calendar("month", zone="Europe/Berlin"), script=script, **how)


def test_two_declarations_are_equal_by_what_they_say() -> None:
    """The declaration on record has when a unit starts, however that was written."""
    berlin = Calendar("week", zone="Europe/Berlin", starts="sunday 06:00")
    assert berlin == Calendar("week", zone="Europe/Berlin", starts="sunday 06:00")
    assert berlin != Calendar("week", zone="Europe/Paris", starts="sunday 06:00")
    assert str(berlin) == "Calendar('week', zone='Europe/Berlin', starts='sunday 06:00')"
    assert str(Calendar("day", zone="UTC")) == "Calendar('day', zone='UTC')"
    plain, written = (Calendar("month", zone="UTC", starts=one).declaration() for one in (None, "day 1 0:00"))
    assert plain == written
    assert plain["calendar"] == "month"
