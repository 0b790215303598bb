"""Durations: one parser for text, numbers and `timedelta`, exact to the microsecond."""

from __future__ import annotations

import json
import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from panekeeper import (
    Batched,
    Count,
    DeclarationError,
    PartitionAge,
    Sliding,
    Time,
    TimeInterval,
    Tumbling,
    hours,
    minutes,
    seconds,
)
from panekeeper.framework.declarations.durations import LARGEST_SIZE, to_datetime, to_datetime_if_any, to_seconds, to_us

MINUTE = 60_000_000

TEXTS = {
    "10 minutes": 10 * MINUTE,
    "10 minute": 10 * MINUTE,
    "1 hour 30 minutes": 90 * MINUTE,
    "1h30m": 90 * MINUTE,
    "1h 30m": 90 * MINUTE,
    "5m": 5 * MINUTE,
    "90s": 90_000_000,
    "250ms": 250_000,
    "7us": 7,
    "1.5 seconds": 1_500_000,
    "0.000001s": 1,
    "  2   DAYS ": 2 * 24 * 60 * MINUTE,
    "1 week": 7 * 24 * 60 * MINUTE,
    "interval 30 days": 30 * 24 * 60 * MINUTE,
    "0 seconds": 0,
    "1 millisecond 1 microsecond": 1_001,
    "5 mins": 5 * MINUTE,
    "1 hr 30 min": 90 * MINUTE,
    "2hrs": 120 * MINUTE,
    "90 secs": 90_000_000,
    "250 msecs": 250_000,
    "-3 days": -3 * 24 * 60 * MINUTE,
    "1 day -2 hours": 22 * 60 * MINUTE,
    "interval - 5 minutes": -5 * MINUTE,
}


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_pairs_of_a_number_and_a_unit(text: str) -> None:
    """Words or abbreviations, in any combination, add up."""
    assert to_us(text, "watermark") == TEXTS[text]


MALFORMED = [
    "",
    " ",
    "ten minutes",
    "10",
    "10 minutess",
    "minutes",
    "5 m5",
    "5 ss",
    "--5 minutes",
    "5,5 s",
    "10 fort",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_text_is_refused_with_the_value_and_examples(text: str) -> None:
    """A number without a unit is malformed, too: it may mean seconds or minutes."""
    with pytest.raises(DeclarationError) as caught:
        to_us(text, "watermark")
    assert f"watermark is {text!r}" in str(caught.value)
    assert '"10 minutes"' in str(caught.value)
    assert '"90s"' in str(caught.value)


@pytest.mark.parametrize(
    "text", ["1 month", "2 months", "1 year", "3 years 2 days", "1 quarter", "interval 1 mon", "1y"]
)
def test_months_and_years_are_refused_with_the_way_out(text: str) -> None:
    """They differ in length. The text that the message has in their place is a duration."""
    with pytest.raises(DeclarationError, match="months and years differ in length") as caught:
        TimeInterval(text)
    advised = re.findall(r'"([^"]+)"', str(caught.value))
    assert [to_us(one, "advice") // (24 * 60 * MINUTE) for one in advised] == [30, 365]


def test_a_negative_offset_is_refused_with_the_one_that_means_the_same() -> None:
    """Panes that begin three days before the epoch begin four days after it, too, if they are a week long."""
    with pytest.raises(DeclarationError, match=r"interval_offset is '-3 days'; it must be in \[0, 7d\)") as caught:
        TimeInterval("1 week", interval_offset="-3 days")
    (advised,) = re.findall(r'interval_offset="([^"]+)"', str(caught.value))
    assert TimeInterval("1 week", interval_offset=advised).offset_us == to_us("4 days", "offset")
    with pytest.raises(DeclarationError, match=r"must be in \[0, 1h\); interval_offset=\"30m\" has panes at the same"):
        TimeInterval("1h", creation_period="2h", interval_offset="150m")
    with pytest.raises(DeclarationError, match=r"interval_offset is 0.5; it must be in \[0, 0.25\)|in \[0, 250ms\)$"):
        TimeInterval(0.25, creation_period=1, interval_offset=0.5)


def test_numbers_of_numpy_are_those_of_python() -> None:
    """A size that comes from a column of pandas is declared and stored as if it were written."""
    five: list[Any] = [np.int64(5), np.float32(5)]
    two: Any = np.int64(2)
    four: Any = np.int32(4)
    assert [to_us(one, "age") for one in five] == [5_000_000, 5_000_000]
    assert Tumbling(Count(four)).declaration() == Tumbling(Count(4)).declaration()
    assert json.dumps(Batched(every=two, retain=four).declaration()) == json.dumps(
        Batched(every=2, retain=4).declaration()
    )
    with pytest.raises(DeclarationError, match="whole microseconds"):
        to_us(pd.Timedelta(1500, "ns"), "age")


REFUSED: list[tuple[Any, str]] = [
    (True, "not a duration"),
    (None, "not a duration"),
    ([5], "not a duration"),
    (math.inf, "must be finite"),
    (Decimal("NaN"), "must be finite"),
    (0.0000001, "whole microseconds"),
    ("0.1us", "whole microseconds"),
    (timedelta.max, "must not exceed 73,117 years"),
    ("99999999 weeks", "must not exceed"),
    (10**30, "must not exceed"),
]


@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=[repr(value) for value, _ in REFUSED])
def test_what_is_no_duration_of_64_bits_is_refused(value: Any, reason: str) -> None:
    """Other types, values without an end, finer ones than a microsecond, and too large ones."""
    with pytest.raises(DeclarationError, match=f"age is .*{reason}"):
        to_us(value, "age")


def test_the_largest_duration_is_accepted() -> None:
    """The limit itself is in."""
    assert to_us(timedelta(microseconds=LARGEST_SIZE), "age") == LARGEST_SIZE


def test_a_timeout_takes_any_number_of_seconds_and_every_text() -> None:
    """Also a difference of two clocks, which is no whole number of microseconds."""
    assert to_seconds(1 / 3, "timeout") == 1 / 3
    assert to_seconds("1m30s", "timeout") == 90
    assert to_seconds(minutes(2), "timeout") == 120
    with pytest.raises(DeclarationError, match="timeout is 'soon'"):
        to_seconds("soon", "timeout")


SAME = [
    (TimeInterval("1 hour", creation_period="20m", discard_age="6h", interval_offset="30s"),
     TimeInterval(3600, creation_period=1200, discard_age=hours(6), interval_offset=30)),
    (Tumbling(Time("30s"), partition_eviction=PartitionAge("10 minutes")),
     Tumbling(Time(30), partition_eviction=PartitionAge(600))),
    (Sliding(evict=Time("5 minutes"), trigger=Time("1m")), Sliding(evict=Time(minutes(5)), trigger=Time(60))),
    (Batched(within="1500ms", every="1s"), Batched(within=1.5, every=1)),
]  # fmt: skip


@pytest.mark.parametrize(("written", "same"), SAME, ids=[type(one).__name__ for one, _ in SAME])
def test_windows_declare_the_same_from_text_as_from_numbers(written: Any, same: Any) -> None:
    """So a checkpoint does not depend on how a duration is written."""
    assert written.declaration() == same.declaration()


@pytest.mark.parametrize("make", [seconds, minutes, hours])
def test_functions_of_durations_take_numbers_only(make: Any) -> None:
    """`minutes("5")` is a mistake that says what it takes."""
    with pytest.raises(DeclarationError, match=r"s\(\) takes a number, not '5'"):
        make("5")


def test_a_batched_window_of_rows_takes_no_duration() -> None:
    """Without `within`, `every` is a number of rows."""
    with pytest.raises(DeclarationError, match="every, which without within is a number of rows, is '2 seconds'"):
        Batched(every="2 seconds", retain=4)
    assert Batched(every=2, retain=4).declaration()["every"] == Count(2).size


def test_a_time_that_python_has_no_datetime_for_is_none() -> None:
    """A watermark may be before the year 1, and a next timer after the year 9999."""
    assert [to_datetime_if_any(us) for us in (None, -(10**17), 10**18)] == [None, None, None]
    assert to_datetime_if_any(1) == to_datetime(1)
