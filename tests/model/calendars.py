"""The naive calendar window: it looks at the clock of the zone each 15 minutes, and sees where a pane begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from tests.model.time_intervals import NaiveTimeInterval

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOOK = timedelta(minutes=15)


def _months(step: int, first: int) -> Callable[[date], Iterator[date]]:
    def begins(near: date) -> Iterator[date]:
        months = near.year * 12 + near.month - 1
        months -= (months - first) % step
        for number in range(months - 2 * step, months + 3 * step, step):
            yield date(number // 12, number % 12 + 1, 1)

    return begins


def _days(near: date) -> Iterator[date]:
    return (near + timedelta(days=days) for days in range(-2, 3))


def _weeks(first: int) -> Callable[[date], Iterator[date]]:
    def begins(near: date) -> Iterator[date]:
        begin = near - timedelta(days=(near.weekday() - first) % 7)
        return (begin + timedelta(weeks=weeks) for weeks in range(-2, 3))

    return begins


CALENDARS: dict[tuple[str, str | None], tuple[Callable[[date], Iterator[date]], timedelta]] = {
    ("day", None): (_days, timedelta()),
    ("day", "01:30"): (_days, timedelta(hours=1, minutes=30)),
    ("day", "2:15"): (_days, timedelta(hours=2, minutes=15)),
    ("week", None): (_weeks(0), timedelta()),
    ("week", "sunday 02:30"): (_weeks(6), timedelta(hours=2, minutes=30)),
    ("month", None): (_months(1, 0), timedelta()),
    ("month", "day 10 02:00"): (_months(1, 0), timedelta(days=9, hours=2)),
    ("quarter", "03:00"): (_months(3, 0), timedelta(hours=3)),
    ("quarter", "november"): (_months(3, 10), timedelta()),
    ("year", None): (_months(12, 0), timedelta()),
    ("year", "april 02:00"): (_months(12, 3), timedelta(hours=2)),
}
"""Unit and `starts` -> the first days of some units around a day, and how much later these start."""


@cache
def first_look(zone: str, shown: datetime) -> datetime:
    """The first instant of those looked at at which the clock shows this time or a later one."""
    looks = (shown.replace(tzinfo=UTC) + LOOK * number for number in range(-64, 65))
    return next(look for look in looks if look.astimezone(ZoneInfo(zone)).replace(tzinfo=None) >= shown)


class NaiveCalendar(NaiveTimeInterval):
    """The naive time interval, with the panes of a calendar."""

    def __init__(self, window: dict[str, Any], zone: str, calendar: tuple[str, str | None]) -> None:
        super().__init__(window)
        self.zone = zone
        self.begins, self.later = CALENDARS[calendar]

    def panes_for(self, time: int) -> list[tuple[int, int]]:
        """The bounds of the one pane that holds `time`."""
        instant = EPOCH + timedelta(microseconds=time)
        shown = [
            datetime.combine(begin, datetime.min.time()) + self.later
            for begin in self.begins(instant.astimezone(ZoneInfo(self.zone)).date())
        ]
        edges = [first_look(self.zone, one) for one in shown]
        number = max(number for number, edge in enumerate(edges) if edge <= instant)
        start, end = ((edge - EPOCH) // timedelta(microseconds=1) for edge in edges[number : number + 2])
        return [(start, end)]
