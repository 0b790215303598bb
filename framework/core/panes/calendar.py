"""Which instants the panes of a calendar begin at, and which pane an instant is in.

Panes are numbered by the calendar, from 1970 on, so a number means the same whatever is known of the zone. The clock
of a zone is less than a day away from UTC, so an instant is in the pane of that number in UTC, or a neighbour of it.

What is known of a zone may change between two starts of a job. Then the starts of panes up to an instant are those of
before (docs/semantics.md section 6.10).
"""

from __future__ import annotations

import io
import zlib
from base64 import b85decode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from panekeeper.framework.core.stable_order import distinct, ranked
from panekeeper.framework.declarations.calendar import CalendarStart
from panekeeper.state.history import FormerZoneData

_DAY = 86_400_000_000
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = {"day": 1, "week": 7}
_FIRST_MONDAY = -3
"""Days from 1970-01-01 to the Monday before."""
_FEW = 16
_CYCLE = 146_097 * _DAY
"""400 years, after which the calendar and the rules of zones repeat."""


@dataclass(frozen=True)
class CalendarPanes:
    """The panes of a calendar: `months` or else `days` long, `first` months or days after 1970-01-01.

    Months begin `later` after their first day, us; days at that time of day. `former` is the zone data of before.
    """

    zone_data: str
    months: int
    days: int
    first: int
    later: int
    former: tuple[FormerZoneData, ...] = ()

    @classmethod
    def of(
        cls, unit: str, start: CalendarStart, zone_data: str, former: tuple[FormerZoneData, ...] = ()
    ) -> CalendarPanes:
        """Return those of a declared unit and start."""
        if unit in _MONTHS:
            months = _MONTHS[unit]
            return cls(zone_data, months, 0, start.months % months, start.days * _DAY + start.time_us, former)
        first = start.days + (_FIRST_MONDAY if unit == "week" else 0)
        return cls(zone_data, 0, _DAYS[unit], first, start.time_us, former)

    def starts(self, numbers: np.ndarray) -> np.ndarray:
        """Return the first instant of each pane."""
        if not len(numbers):
            return numbers
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < len(numbers) + _FEW:
            few, places = np.arange(low, high + 1), numbers - low
        else:
            few, places = ranked(numbers)
        starts: np.ndarray = self._instants(few)[places]
        return starts

    def numbers(self, times: np.ndarray) -> np.ndarray:
        """Return the pane that each instant is in."""
        if not len(times):
            return times
        in_utc = self._numbers_by_clock(times)
        low, high = int(in_utc.min()), int(in_utc.max())
        if high - low < len(times) + _FEW:
            near = np.arange(low - 1, high + 2)
        else:
            few = distinct(in_utc)
            near = distinct(np.concatenate([few - 1, few, few + 1]))
        numbers: np.ndarray = near[np.searchsorted(self._instants(near), times, side="right") - 1]
        return numbers

    def _clock_at_starts(self, numbers: np.ndarray) -> np.ndarray:
        """Return what the clock of the zone should show at the start of each pane, us since 1970."""
        if self.months:
            days = (numbers * self.months + self.first).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        else:
            days = numbers * self.days + self.first
        shown: np.ndarray = days * _DAY + self.later
        return shown

    def _numbers_by_clock(self, shown: np.ndarray) -> np.ndarray:
        """Return the pane of each time that a clock shows."""
        days = (shown - self.later) // _DAY
        if self.months:
            days = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        numbers: np.ndarray = (days - self.first) // (self.months or self.days)
        return numbers

    def _instants(self, numbers: np.ndarray) -> np.ndarray:
        shown = self._clock_at_starts(numbers).tolist()
        instants = _first_instants(self.zone_data, shown)
        for calendar in reversed(self.former):
            before = _first_instants(calendar.zone_data, shown)
            instants = np.where(before <= calendar.until_us, before, np.maximum(instants, calendar.until_us))
        return instants


def _first_instants(zone_data: str, shown: list[int]) -> np.ndarray:
    return np.fromiter((_first_instant(zone_data, time) for time in shown), np.int64, len(shown))


@lru_cache(maxsize=64)
def _clock_of(zone_data: str) -> ZoneInfo:
    """Return the clock of a zone by what was known of it."""
    return ZoneInfo.from_file(io.BytesIO(zlib.decompress(b85decode(zone_data))))


@lru_cache(maxsize=2**16)
def _first_instant(zone_data: str, shown: int) -> int:
    """Return the first instant at which the clock of a zone shows this time, or a later one; us since 1970.

    A time that is shown twice is meant the first time. One that is left out is left out at a single instant.
    """
    clock, moved = _clock_of(zone_data), _into_known_years(shown)
    naive = datetime(1970, 1, 1) + timedelta(microseconds=moved)  # noqa: DTZ001
    before, after = (_offset(naive.replace(tzinfo=clock, fold=fold)) for fold in (0, 1))
    if before >= after:
        return shown - before
    early, late = moved - after, moved - before  # the clock is put forward after the one, until the other
    while late - early > 1:
        middle = (early + late) // 2
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=middle)
        early, late = (middle, late) if _offset(instant.astimezone(clock)) == before else (early, middle)
    return late + shown - moved


def _into_known_years(shown: int) -> int:
    """Return the time so many whole cycles later or earlier that `datetime` has it, with the same rules of zones."""
    if -2 * _CYCLE <= shown < 2 * _CYCLE:
        return shown
    return shown % _CYCLE + (_CYCLE if shown > 0 else -2 * _CYCLE)


def _offset(time: datetime) -> int:
    """Return how far ahead of UTC the clock is, us."""
    offset = time.utcoffset()
    assert offset is not None
    return offset // timedelta(microseconds=1)
