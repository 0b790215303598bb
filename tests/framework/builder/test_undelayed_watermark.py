"""Where rows are lost unless they come in order, and nobody has said that they do, one warning says what to write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from panekeeper import Calendar, Count, Session, SlidingByRow, TimeInterval, Tumbling, agg, ports, windowed
from panekeeper.framework.builder.result_columns import declared_columns
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.testing import run

SCHEMA = "k string, at timestamp"


def stream(**options: Any) -> Any:
    """Return a declared stream of keys with a time."""
    made: Any = ScriptedStream(spark_schema(declared_columns(SCHEMA)))
    return windowed(made, **({"name": "rides", "partition_by": "k", "event_time": "at"} | options))


def warned(declare: Callable[[], Any]) -> list[warnings.WarningMessage]:
    """Return what a declaration warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        declare()
    return found


BOUNDS: Any = {"before": 60, "after": 0}


@pytest.mark.parametrize(
    "declare",
    [
        lambda: stream().window(TimeInterval(60)),
        lambda: stream().window(Session(60)),
        lambda: stream().window(SlidingByRow(60)),
        lambda: stream().windows(hour=TimeInterval(3600), day=Calendar("day", zone="UTC")),
        lambda: stream().windows(hour=TimeInterval(3600, discard_age=60), day=Calendar("day", zone="UTC")),
        lambda: ports(stream(), stream()).join_within(**BOUNDS),
        lambda: ports(stream(), stream(watermark=0)).join_within(**BOUNDS),
    ],
)
def test_a_watermark_without_a_delay_is_warned_of_once(declare: Callable[[], Any]) -> None:
    """With what 0 seconds mean and both ways to write it, at the line that declares the window or the join."""
    (found,) = warned(declare)
    assert str(found.message) == (
        "'rides' has event_time='at' and no watermark=: the delay is 0 seconds, so a row that comes after newer ones "
        'may be too late, and is quarantined then. Write watermark="10 minutes" to wait so long for such rows, or '
        'watermark="0 seconds" if rows come in order'
    )
    assert found.filename == __file__


@pytest.mark.parametrize(
    "declare",
    [
        lambda: stream(watermark="10 minutes").window(TimeInterval(60)),
        lambda: stream(watermark="0 seconds").window(TimeInterval(60)),
        lambda: stream().window(TimeInterval(60, discard_age="1 hour")),
        lambda: stream().windows(hour=TimeInterval(3600, discard_age=1), visit=Session(60, discard_age=1)),
        lambda: stream(event_time=None).window(Tumbling(Count(3))),
        lambda: ports(stream(), stream()).join_within(**BOUNDS, discard_age=60),
        lambda: run(
            TimeInterval(60), aggregates={"n": agg.count()}, schema=SCHEMA, partition_by="k", event_time="at", script=[]
        ),
    ],
)
def test_a_delay_that_is_given_and_late_rows_that_are_taken_are_no_mistake(declare: Callable[[], Any]) -> None:
    """Nor is a script, which shows what is late; a delay that is not given is one of 0 seconds."""
    assert warned(declare) == []
    assert stream()._intake.watermark_us == stream(watermark="0 seconds")._intake.watermark_us == 0
