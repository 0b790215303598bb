"""Times of a user's own that are kept with the state, with the rules of their zones."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from panekeeper.state.user_values import from_json, to_json

NEW_YORK = ZoneInfo("America/New_York")


class Market(tzinfo):
    """A zone of a library, as that of a driver of a database."""

    def utcoffset(self, at: datetime | None) -> timedelta:
        return timedelta(hours=-5) + self.dst(at)

    def dst(self, _: datetime | None) -> timedelta:
        return timedelta()

    def tzname(self, _: datetime | None) -> str:
        return "EST"

    def __str__(self) -> str:
        return "EST"


class Summer(Market):
    """One that is an hour ahead for a part of the year, or was so in the year that it is given."""

    def __init__(self, year: int | None = None) -> None:
        self.year = year

    def dst(self, at: datetime | None) -> timedelta:
        is_summer = at is not None and 4 <= at.month < 10 and self.year in (None, at.year)
        return timedelta(hours=is_summer)


@pytest.mark.parametrize("year", [None, 1916])
def test_a_zone_that_changes_its_offset_is_refused_unless_its_rules_can_be_read_again(year: int | None) -> None:
    """A day later another offset may hold, so what is computed with it would depend on whether it was stored."""
    with pytest.raises(TypeError, match=r"has no name by which it could be read again; use a zoneinfo\.ZoneInfo"):
        to_json(datetime(2024, 11, 2, tzinfo=Summer(year)))


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 11, 2, tzinfo=NEW_YORK),
        datetime(2024, 11, 3, 1, 30, tzinfo=NEW_YORK),
        datetime(2024, 11, 3, 1, 30, fold=1, tzinfo=NEW_YORK),
        datetime(2024, 11, 3, 1, 30, fold=1),  # noqa: DTZ001 -- a local time
        datetime(2024, 3, 10, 2, 30, tzinfo=NEW_YORK),
        datetime(2024, 11, 2, tzinfo=timezone(timedelta(hours=-4))),
        datetime(2024, 11, 2, tzinfo=timezone(timedelta(hours=-4), "EDT")),
        datetime(2024, 11, 2, tzinfo=Market()),
        pd.Timestamp(datetime(2024, 11, 2, tzinfo=NEW_YORK)),
        pd.Timestamp(datetime(2024, 11, 3, 1, 30, fold=1, tzinfo=NEW_YORK)),
    ],
    ids=str,
)
def test_what_is_computed_with_a_time_does_not_depend_on_whether_it_was_stored(value: datetime) -> None:
    """The next midnight of its zone, as a time that an hour with two meanings lies before, or that lies within one."""
    found = from_json(to_json(value))
    assert (type(found), found.fold, str(found.tzinfo)) == (type(value), value.fold, str(value.tzinfo))
    assert found.tzname() == value.tzname()
    for days in (0, 1, 2):
        assert (found + timedelta(days=days)).timestamp() == (value + timedelta(days=days)).timestamp()
