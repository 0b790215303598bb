"""Panes of a calendar: days, weeks, months, quarters and years of a time zone (docs/semantics.md section 6.10)."""

from __future__ import annotations

import importlib.resources
import re
import zlib
import zoneinfo
from base64 import b85encode
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, available_timezones

from panekeeper.framework.declarations.calls import with_named_options
from panekeeper.framework.declarations.display import call_text
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.firing import require_one_of
from panekeeper.framework.declarations.windows import TimeInterval

_UNITS = {"day": (1, 1), "week": (7, 7), "month": (28, 31), "quarter": (90, 92), "year": (365, 366)}
"""Unit -> how many days it has at least, and at most."""
_DAY_US = 86_400_000_000
"""No clock was ever put back by more, so no unit is longer than its days by more."""
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_DAYS_OF_EVERY_MONTH = 28
_MINUTE_US = 60_000_000
_FORMS = {
    "day": "a time, as '06:00'",
    "week": "a weekday, a time or both, as 'monday 06:00'",
    "month": "a day from 1 to 28, a time or both, as 'day 15 06:00'",
    "quarter": "a month, a time or both, as 'february 06:00'",
    "year": "a month, a time or both, as 'april 06:00'",
}


@dataclass(frozen=True, kw_only=True)
class CalendarStart:
    """When a unit of a calendar starts by the clock of its zone; zeros are its plain begin.

    Attributes:
        months: for a quarter or a year, months after January.
        days: for a week, days after Monday; for a month, days after the first.
        time_us: time of day, us.
    """

    months: int = 0
    days: int = 0
    time_us: int = 0

    def text(self, unit: str) -> str | None:
        """Return it as `starts` of such a unit; None for the plain begin.

        >>> CalendarStart(days=6, time_us=21_600_000_000).text("week")
        'sunday 06:00'
        """
        words = []
        if self.months:
            words.append(_MONTHS[self.months])
        if self.days:
            words.append(_WEEKDAYS[self.days] if unit == "week" else f"day {self.days + 1}")
        if self.time_us:
            minutes = self.time_us // _MINUTE_US
            words.append(f"{minutes // 60:02}:{minutes % 60:02}")
        return " ".join(words) or None


@with_named_options
@dataclass(frozen=True, init=False, repr=False)
class Calendar(TimeInterval):
    """Panes in event time between instants of a zone's calendar, as long as the calendar has them.

    `Calendar("day", zone="America/New_York")` has a pane of 23 hours and one of 25 hours a year. A pane begins at the
    first instant at which the clock of the zone shows its start, or later. All else is as for `TimeInterval`
    (docs/semantics.md section 6.10).

    Args:
        unit: `"day"`, `"week"`, `"month"`, `"quarter"` or `"year"`.
        zone: the name of a time zone, `"Europe/Berlin"`; for event times of type timestamp_ntz, `"UTC"`.
        starts: when a unit starts, if not at midnight of its first day: `"06:00"`; for weeks, which start on Mondays,
            `"sunday"` or `"monday 06:00"`; for months `"day 15"`; for quarters and years `"april"`.
        options: as for `TimeInterval`, but for `creation_period` and `interval_offset`.

    Raises:
        DeclarationError: an unknown unit or zone, a start that the unit does not have, or options that contradict each
            other.

    >>> Calendar("week", zone="Europe/Berlin", starts="sunday 06:00")
    Calendar('week', zone='Europe/Berlin', starts='sunday 06:00')
    """

    refused: ClassVar[Mapping[str, str]] = {
        **TimeInterval.refused,
        **dict.fromkeys(
            ("interval_duration", "creation_period", "interval_offset"),
            "panes of a calendar have no fixed length: leave it out, or say with starts= when they begin",
        ),
    }
    unit: str = "day"
    zone: str = ""
    starts: str | None = None
    zone_data: str = ""
    """What this machine knew of the zone when the window was declared: all machines of the job go by it."""

    def __init__(self, unit: str, *, zone: str | None = None, starts: str | None = None, **options: Any) -> None:
        require_one_of(tuple(_UNITS), unit, "unit")
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "zone", _known_zone(zone))
        object.__setattr__(self, "zone_data", zone_data(self.zone))
        object.__setattr__(self, "starts", starts)
        _start_of(unit, starts)
        super().__init__(f"{_UNITS[unit][0]} days", **options)

    def __repr__(self) -> str:
        return call_text(self, self.unit, without=("unit", "zone_data", "interval_duration"))

    @property
    def start(self) -> CalendarStart:
        """When a unit starts."""
        return _start_of(self.unit, self.starts)

    @property
    def reach_us(self) -> int:
        """How far behind the watermark a row may be that is not late, in microseconds."""
        most = (_UNITS[self.unit][1] + 1) * _DAY_US
        return self.age_us + (0 if self.late == "tuple" else most)

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint, and the zone data, which may."""
        return {
            "kind": "timeInterval",
            "calendar": self.unit,
            "zone": self.zone,
            "zone_data": self.zone_data,
            "starts_months": self.start.months,
            "starts_days": self.start.days,
            "starts_us": self.start.time_us,
            "discard_age_us": self.age_us,
            "late": self.late,
            **self.firing_declaration(),
        }


def _known_zone(zone: object) -> str:
    """Return the name of a zone. Raises `DeclarationError` if there is none of that name."""
    if zone is None:
        raise DeclarationError("zone is missing; say whose calendar it is, as in zone='America/New_York'")
    if isinstance(zone, str):
        try:
            return ZoneInfo(zone).key
        except (KeyError, ValueError, OSError):  # not found; no name at all; a folder of names
            pass
    names = {name.lower(): name for name in available_timezones()}
    near = get_close_matches(str(zone).lower().replace(" ", "_"), names, n=3)
    cities = {name.rpartition("/")[2]: name for name in names if "/" in name}
    near += [cities[city] for city in get_close_matches(str(zone).lower().replace(" ", "_"), cities, n=3)]
    known = [names[near_name] for near_name in dict.fromkeys(near)][:3]
    advice = f"did you mean {' or '.join(map(repr, known))}?" if known else "give one such as 'America/New_York'"
    raise DeclarationError(f"zone is {zone!r}, which is no time zone that this machine knows; {advice}")


def zone_data(zone: str) -> str:
    """Return the file of a zone that `zoneinfo` reads, compressed, as text."""
    candidates = (Path(folder, zone) for folder in zoneinfo.TZPATH)
    path = next((candidate for candidate in candidates if candidate.is_file()), None)
    packaged = importlib.resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")) if path is None else path
    return b85encode(zlib.compress(packaged.read_bytes(), 9)).decode()


def _start_of(unit: str, starts: object) -> CalendarStart:
    """Return what `starts` says. Raises `DeclarationError` if the unit has no such start."""
    if starts is None:
        return CalendarStart()
    words = starts.lower().split() if isinstance(starts, str) else []
    rest, time_us = words, 0
    if words and (time := re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", words[-1])):
        rest, time_us = words[:-1], (int(time[1]) * 60 + int(time[2])) * _MINUTE_US
    if words and not rest:
        return CalendarStart(time_us=time_us)
    place = " ".join(rest)
    if unit == "week" and place in _WEEKDAYS:
        return CalendarStart(days=_WEEKDAYS.index(place), time_us=time_us)
    if unit == "month" and (day := re.fullmatch(r"day (\d{1,2})", place)) and 1 <= int(day[1]) <= _DAYS_OF_EVERY_MONTH:
        return CalendarStart(days=int(day[1]) - 1, time_us=time_us)
    if unit in ("quarter", "year") and place in _MONTHS:
        return CalendarStart(months=_MONTHS.index(place), time_us=time_us)
    raise DeclarationError(f"starts is {starts!r}; a {unit} starts at {_FORMS[unit]}")
