"""A window of time by arrival, of a stream with an event time, is taken with a warning: seldom is it meant."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from panekeeper import (
    AllOf,
    AnyOf,
    Batched,
    Count,
    Delta,
    Session,
    Sliding,
    SlidingByRow,
    Time,
    TimeInterval,
    Tumbling,
    minutes,
    windowed,
)
from panekeeper.framework.testing.scripted_stream import ScriptedStream

STREAM: Any = ScriptedStream(
    StructType([StructField("at", TimestampType()), StructField("came", TimestampType()), StructField("v", LongType())])
)


def warned(window: Any, **options: Any) -> list[warnings.WarningMessage]:
    """Return what a declaration warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        windowed(STREAM, name="x", **options).window(window)
    return found


@pytest.mark.parametrize(
    ("window", "meant"),
    [
        (Tumbling(Time("10 minutes")), "TimeInterval('10 minutes')"),
        (Tumbling(AnyOf(Count(9), Time(minutes(10)))), "TimeInterval('10m')"),
        (Sliding(evict=Time("1 hour"), trigger=Time(300)), "TimeInterval('1 hour', creation_period='5m')"),
        (Sliding(evict=AllOf(Time("1 hour"), Count(9)), trigger=Count(2)), "SlidingByRow('1 hour')"),
        (Sliding(evict=Count(5), trigger=Time("1 minute")), "TimeInterval('1 minute')"),
        (Batched(within=60, every=10), "TimeInterval('1m', creation_period='10s')"),
    ],
    ids=str,
)
def test_a_window_by_arrival_of_a_stream_with_event_time_is_warned_of(window: Any, meant: str) -> None:
    """With the window that is probably meant, at the line that declares it."""
    (found,) = warned(window, event_time="at", watermark="1 minute")
    assert "counts by arrival" in str(found.message)
    assert f"use {meant}; else leave out event_time" in str(found.message)
    assert found.filename == __file__
    eval(meant, {"TimeInterval": TimeInterval, "SlidingByRow": SlidingByRow})  # noqa: S307 -- our own text


@pytest.mark.parametrize("window", [Tumbling(Count(3)), Sliding(evict=Delta("v", 3)), Batched(retain=4, every=2)])
def test_a_window_in_which_no_time_counts_is_taken_as_it_is(window: Any) -> None:
    """So is one of a stream without event time, or with the column that is its clock, and one of event time."""
    assert warned(window, event_time="at", watermark="1 minute") == []
    assert warned(Tumbling(Time(10))) == []
    assert warned(Tumbling(Time(10)), event_time="at", arrival_time="came") == []
    for panes in (TimeInterval(10), Session(10)):
        assert warned(panes, event_time="at", watermark="1 minute") == []
