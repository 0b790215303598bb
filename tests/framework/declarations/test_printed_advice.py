"""Code that a message prints is run as it is printed, and what was refused is taken then."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from panekeeper import (
    AllOf,
    AnyOf,
    Calendar,
    Count,
    Cumulate,
    DeclarationError,
    Delta,
    EventType,
    Every,
    Operator,
    PartitionAge,
    PartitionCount,
    Punctuation,
    Sliding,
    Time,
    TimeInterval,
    Tumbling,
    TupleCount,
    agg,
)
from panekeeper.framework.declarations.operator import require_possible_event
from panekeeper.framework.declarations.windows import Window
from panekeeper.testing import Watermark, run


class OnNothing(Operator):
    events: ClassVar[frozenset[EventType]] = frozenset()

    def handle_event(self, event: Any, emit: Any) -> None: ...


@pytest.mark.parametrize("window", [TimeInterval(60), Tumbling(Count(2)), Sliding(evict=Count(2))], ids=str)
def test_an_operator_that_is_never_called_is_called_by_the_events_that_the_message_has(window: Window) -> None:
    """The line is one of the class."""
    with pytest.raises(DeclarationError, match="In the class write") as caught:
        require_possible_event(OnNothing(), [window], has_handlers=False)
    line = str(caught.value).split("for example, ")[1]
    names: dict[str, Any] = {}
    exec(line, {"EventType": EventType}, names)  # noqa: S102 -- our own text
    require_possible_event(type("Called", (OnNothing,), names)(), [window], has_handlers=False)


def test_a_mergeable_aggregate_is_taken_with_the_state_that_the_message_has() -> None:
    """The line is one of the class, too."""

    class Unstored(agg.UserAggregate):
        def zero(self) -> float:
            return 0.0

        def add(self, state: float, value: float) -> float:
            return state + value

        def merge(self, a: float, b: float) -> float:
            return a + b

        def result(self, state: float) -> float:
            return state

    with pytest.raises(DeclarationError, match="must say what is stored") as caught:
        agg.user(Unstored(), "x")
    (line,) = re.findall(r"`(state = \w+)`", str(caught.value))
    names: dict[str, Any] = {}
    exec(line, {}, names)  # noqa: S102 -- our own text
    assert not agg.user(type("Stored", (Unstored,), names)(), "x").needs_content


HOUR = 3600


@pytest.mark.parametrize(
    ("declare", "offset", "repeats_after"),
    [
        (lambda offset: TimeInterval("1 week", interval_offset=offset), -3 * 24, 7 * 24),
        (lambda offset: TimeInterval("3 hours", creation_period="1 hour", interval_offset=offset), 4.5, 1),
        (lambda offset: TimeInterval("2 hours", creation_period="5 hours", interval_offset=offset), 11, 5),
        (lambda offset: Cumulate("12 hours", "1 day", interval_offset=offset), -8, 24),
        (lambda offset: Cumulate("90 minutes", "6 hours", interval_offset=offset), 20, 6),
        (lambda offset: Cumulate("1 hour", "1 hour", interval_offset=offset), -0.25, 1),
    ],
    ids=["touch", "overlap", "gaps", "cumulate", "cumulate later", "one step"],
)
def test_the_offset_that_the_message_has_gives_panes_at_the_times_of_the_refused_one(
    declare: Callable[[Any], TimeInterval], offset: float, repeats_after: float
) -> None:
    """Every pane begins so many whole repeats after the offset, and each row of a whole repeat is in as many panes."""
    with pytest.raises(DeclarationError, match="interval_offset is") as caught:
        declare(offset * HOUR)
    (advised,) = re.findall(r'interval_offset="([^"]+)" has panes at the same times', str(caught.value))
    script = [[{"t": quarter * HOUR / 4} for quarter in range(int(repeats_after * 8))], Watermark(repeats_after * 9000)]
    found = run(declare(advised), aggregates={"n": agg.count()}, schema="t timestamp", event_time="t", script=script)
    starts = {(one["pane_start"] - offset * HOUR) % (repeats_after * HOUR) for one in found.in_seconds}
    assert starts == {0}


@pytest.mark.parametrize("given", ["10 seconds", "100", "5 rows", "rows", 10, 2.5])
@pytest.mark.parametrize("option", ["early", "refire"])
def test_how_often_something_fires_is_taken_as_the_message_writes_it(option: str, given: Any) -> None:
    """A text that is no duration is not in it."""
    with pytest.raises(DeclarationError, match=rf"{option} is .*; write {option}=") as caught:
        TimeInterval(10, discard_age=5, **{option: given})
    codes = str(caught.value).split(f"write {option}=")[1].split(" or ")
    for code in codes:
        TimeInterval(10, discard_age=5, **{option: eval(code, {"Every": Every})})  # noqa: S307 -- our own text


@pytest.mark.parametrize(
    "declare",
    [
        lambda length: TimeInterval(10, fill="zero", fill_for=length),
        lambda length: TimeInterval(10, creation_period=15, fill="zero", fill_for=length),
        lambda length: Cumulate(10, 30, fill="zero", fill_for=length),
        *(
            lambda length, unit=unit: Calendar(unit, zone="Europe/Berlin", fill="zero", fill_for=length)
            for unit in ("day", "week", "month", "quarter", "year")
        ),
    ],
)
def test_what_is_filled_at_least_is_filled_for_the_length_that_the_message_has(declare: Callable[[Any], Any]) -> None:
    """One pane after the last one with rows, if it is no longer: a February, a first quarter, a year of 365 days."""
    with pytest.raises(DeclarationError, match="less than one pane after another") as caught:
        declare(1)
    window = declare(str(caught.value).split("give at least ")[1])
    script = [[{"k": time, "t": time} for time in ("2022-10-20", "2023-01-20")], Watermark("2024-06-01")]
    how: Any = {"schema": "k string, t timestamp", "event_time": "t", "partition_by": "k", "script": script}
    found = run(window, aggregates={"n": agg.count()}, **how)
    assert "FILLED" in [one["reason"] for one in found]


@pytest.mark.parametrize(
    "declare",
    [
        Tumbling,
        lambda policy: Sliding(evict=policy),
        lambda policy: Sliding(evict=Count(2), trigger=policy),
        lambda policy: Tumbling(Count(2), partition_eviction=policy),
    ],
    ids=["tumble", "evict", "trigger", "partitions"],
)
def test_each_policy_that_the_message_has_can_stand_in_that_place(declare: Callable[[Any], Any]) -> None:
    """And none of those that can is missing."""
    both = Count(2), Time(3)
    policies = [*both, Delta("v", 1), Punctuation(), AnyOf(*both), AllOf(*both)]
    policies += [PartitionAge(1), PartitionCount(1), TupleCount(1)]
    takes, refused = set(), set()
    for policy in policies:
        try:
            declare(policy)
        except DeclarationError as error:
            refused.add(str(error).split(": use ")[1].removesuffix(" or a UserPolicy"))
        else:
            takes.add(type(policy).__name__)
    (named,) = refused
    assert set(named.split(", ")) == takes
