"""A call that does not fit a declaration is refused with the name that does, by `DeclarationError` alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from typing import Any, cast

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

import panekeeper
from panekeeper import (
    AllOf,
    AnyOf,
    Batched,
    Calendar,
    Count,
    Cumulate,
    DeclarationError,
    Delta,
    EventType,
    Every,
    KafkaSink,
    Operator,
    PartitionAge,
    PartitionCount,
    Punctuation,
    Session,
    Sliding,
    SlidingByRow,
    Time,
    TimeInterval,
    Tumbling,
    TupleCount,
    agg,
    days,
    hours,
    minutes,
    ports,
    seconds,
    windowed,
)
from panekeeper.framework.declarations.calls import MEANT
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.testing import run

COLUMNS = StructType([StructField("k", StringType()), StructField("at", TimestampType()), StructField("v", LongType())])
STREAM: Any = ScriptedStream(COLUMNS)


class Emits(Operator):
    """Emits nothing."""

    events = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Any, emit: Any) -> None:
        """Do nothing."""


IN = windowed(STREAM, name="x", partition_by="k", event_time="at", watermark=0)
PANES: Any = IN.window(TimeInterval(60))
JOB: Any = PANES.aggregate(n=agg.count()).to_delta("out/log")

MADE: dict[str, Callable[..., Any]] = {
    "TimeInterval": TimeInterval,
    "Cumulate": Cumulate,
    "Calendar": Calendar,
    "Session": Session,
    "SlidingByRow": SlidingByRow,
    "Tumbling": Tumbling,
    "Sliding": Sliding,
    "Batched": Batched,
    "Every": Every,
    **{one.__name__: one for one in (Count, Time, Delta, Punctuation, AnyOf, AllOf)},
    **{one.__name__: one for one in (PartitionAge, PartitionCount, TupleCount)},
    **{one.__name__: one for one in (seconds, minutes, hours, days)},
    **{f"agg.{name}": getattr(agg, name) for name in agg.__all__ if name[0].islower()},
    "KafkaSink": KafkaSink,
    "windowed": windowed,
    "window": IN.window,
    "operator": PANES.operator,
    "operator of ports": ports(PANES, PANES).operator,
    "join": ports(PANES, PANES).join,
    "join_within": ports(IN, IN).join_within,
    "to_delta": PANES.aggregate(n=agg.count()).to_delta,
    "transform": PANES.aggregate(n=agg.count()).transform,
    "start": JOB.start,
    "with_sink": JOB.with_sink,
    "foreach_batch": JOB.foreach_batch,
    "reset_to_initial_state": JOB.reset_to_initial_state,
}
GUESSES = sorted({word for words in MEANT.values() for word in words.split()} | {"slideDuration", "xyz", "colour"})


@pytest.mark.parametrize("name", MADE)
def test_no_guess_of_a_name_is_an_error_of_python(name: str) -> None:
    """Alone, beside what is needed, too many or too few values: each is taken, or refused in words of ours."""
    needed: list[Any] = ["10 minutes", Emits(), Count(2)]
    for guess in GUESSES:
        refused(MADE[name], **{guess: "5 minutes"})
    for guess, first, value in product(GUESSES[::7], needed, (5, Count(3))):
        refused(MADE[name], first, **{guess: value})
    for number in range(8):
        refused(MADE[name], *["5 minutes"] * number)
        refused(MADE[name], *["v"] * number)


def refused(make: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    """Return what a call is refused with by `DeclarationError`."""
    try:
        make(*args, **kwargs)
    except DeclarationError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("make", "guess", "said"),
    [
        (TimeInterval, "slide", "TimeInterval() has no option 'slide'; did you mean 'creation_period'?"),
        (
            TimeInterval,
            "slideDuration",
            "TimeInterval() has no option 'slideDuration'; did you mean 'creation_period'?",
        ),
        (TimeInterval, "duration", "did you mean 'interval_duration'?"),
        (TimeInterval, "size", "did you mean 'interval_duration'?"),
        (TimeInterval, "length", "did you mean 'interval_duration'?"),
        (TimeInterval, "allowed_lateness", "did you mean 'discard_age'?"),
        (TimeInterval, "grace", "did you mean 'discard_age'?"),
        (TimeInterval, "offset", "did you mean 'interval_offset'?"),
        (TimeInterval, "timezone", 'zone is for Calendar("day", zone="Europe/Berlin")'),
        (TimeInterval, "watermark", 'watermark is for windowed(watermark="10 minutes")'),
        (TimeInterval, "trigger", "did you mean 'early'?"),
        (TimeInterval, "discard_ages", "did you mean 'discard_age'?"),
        (Cumulate, "slide", "Cumulate() has no option 'slide'; did you mean 'step'?"),
        (Calendar, "tz", "did you mean 'zone'?"),
        (Session, "gap_duration", "Session() has no option 'gap_duration'; did you mean 'gap'?"),
        (Session, "timeout", "did you mean 'gap'?"),
        (Session, "max_size", "did you mean 'max_duration'?"),
        (SlidingByRow, "duration", "did you mean 'difference'?"),
        (Tumbling, "duration", 'interval_duration is for TimeInterval("10 minutes")'),
        (Tumbling, "size", 'interval_duration is for TimeInterval("10 minutes")'),
        (Sliding, "slide", 'creation_period is for TimeInterval("10 minutes", creation_period="5 minutes")'),
        (Batched, "slide", "did you mean 'every'?"),
        (Batched, "rows", "did you mean 'retain'?"),
        (Count, "n", "did you mean 'size'?"),
        (Delta, "threshold", "did you mean 'size'?"),
        (Every, "seconds", "did you mean 'period'?"),
        (agg.sum, "filter", "agg.sum() has no option 'filter'; did you mean 'where'?"),
        (agg.quantiles, "percentiles", "did you mean 'ranks'?"),
        (MADE["windowed"], "key_by", "windowed() has no option 'key_by'; did you mean 'partition_by'?"),
        (MADE["windowed"], "delay_threshold", "did you mean 'watermark'?"),
        (MADE["windowed"], "timestamp", "did you mean 'event_time'?"),
        (MADE["windowed"], "allowed_lateness", "discard_age is for TimeInterval("),
        (MADE["operator"], "schema", "operator() has no option 'schema'; did you mean 'output'?"),
        (MADE["join"], "type", "did you mean 'how'?"),
        (MADE["join_within"], "tolerance", "did you mean 'before'?"),
        (MADE["to_delta"], "location", "did you mean 'path'?"),
        (MADE["to_delta"], "partition_by", "did you mean 'cluster_by'?"),
        (MADE["to_delta"], "checkpoint", 'checkpoint is for .start(checkpoint="out/checkpoint")'),
        (MADE["to_delta"], "outputMode", 'emit is for TimeInterval("10 minutes", emit="on_update"), the output mode'),
        (MADE["to_delta"], "mode", "the output mode update; append needs none"),
        (MADE["windowed"], "mode", "did you mean 'on_error'?"),
        (MADE["start"], "checkpointLocation", "start() has no option 'checkpointLocation'; did you mean 'checkpoint'?"),
        (lambda **kw: PANES.aggregate(n=agg.count(), **kw), "groupby", "did you mean 'group_within'?"),
    ],
)
def test_the_name_of_another_system_is_answered_by_ours(make: Callable[..., Any], guess: str, said: str) -> None:
    """Of this call, or of the one that has it."""
    refusal = refused(make, *(["day"] if make is Calendar else []), **{guess: "5 minutes"})
    assert refusal is not None
    assert said in refusal


@pytest.mark.parametrize(
    ("make", "args", "said"),
    [
        (TimeInterval, ("10 minutes", "5 minutes"), "got '5 minutes' without a name; name it: creation_period=, "),
        (TimeInterval, (), "TimeInterval() is without interval_duration; give interval_duration=..."),
        (Session, ("5 minutes", "1 hour"), "got '1 hour' without a name; name it: max_duration=, discard_age=, "),
        (Sliding, (Count(2),), "Sliding() got Count(2) without a name; name it: evict=, trigger=, "),
        (Punctuation, (1,), "Punctuation() got 1 without a name; leave it out"),
        (IN.windows, (TimeInterval("1 minute"),), "windows() got TimeInterval('1 minute') without a name; give it one"),
        (IN.window, ("1 hour",), "window() takes a window such as TimeInterval('1 hour'), not '1 hour'"),
        (
            IN.window,
            ("10 minutes", "5 minutes"),
            "such as TimeInterval('10 minutes', creation_period='5 minutes'), not '10 minutes', '5 minutes'",
        ),
        (IN.window, ("1 day", "1 hour", "2 hours"), "creation_period='1 hour', interval_offset='2 hours'), not"),
        (IN.window, ("at", "1 hour"), "takes a window such as TimeInterval(hours(1)), not 'at', '1 hour'"),
        (
            IN.window,
            (TimeInterval("1 hour"), "5 minutes"),
            "TimeInterval('1 hour'), '5 minutes'; what belongs to it",
        ),
        (agg.arg_max, ("v",), "agg.arg_max() is without value; give value=..."),
        (agg.count_distinct, ("v", 10), "got 10 without a name; name it: at_most=, "),
        (MADE["windowed"], (STREAM,), "windowed() is without name; give name=..."),
        (MADE["windowed"], (STREAM, "x"), "windowed() got 'x' without a name; name it: name=, partition_by=, "),
        (MADE["operator"], (Emits(), "n bigint"), "operator() got 'n bigint' without a name; name it: output=, "),
        (MADE["start"], ("out/checkpoint",), "got 'out/checkpoint' without a name; name it: checkpoint=, "),
    ],
)
def test_a_value_in_the_wrong_place_is_answered_by_names(make: Any, args: tuple[Any, ...], said: str) -> None:
    """Or a missing one."""
    refusal = refused(make, *args)
    assert refusal is not None
    assert said in refusal


def test_the_call_of_a_user_that_fits_raises_what_the_user_raises() -> None:
    """A `TypeError` of other code is not one of the call."""

    class Odd(TimeInterval):
        def __post_init__(self) -> None:
            raise TypeError("of the user")

    with pytest.raises(TypeError, match="of the user"):
        Odd("10 minutes")
    with pytest.raises(AttributeError, match="has no attribute 'windwed'; did you mean 'windowed'"):
        panekeeper.windwed  # noqa: B018


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (
            lambda: Tumbling(cast("Any", "1 hour")),
            r"windows of event time use TimeInterval\('1 hour'\), .* Time\('1 ho",
        ),
        (lambda: Sliding(evict=cast("Any", "1 hour")), r"use TimeInterval\('1 hour', creation_period=\.\.\.\)"),
        (
            lambda: Sliding(evict=Count(1), trigger=cast("Any", "1 minute")),
            r"use TimeInterval\(\.\.\., creation_period='1 minute'\)",
        ),
        (
            lambda: cast("Any", Sliding)(size="1 hour", slide="20 minutes"),
            r'size is \'1 hour\'; .* event time use TimeInterval\("1 hour", creation_period="20 minutes"\)',
        ),
    ],
)
def test_a_duration_in_place_of_a_policy_names_the_window_of_event_time(declare: Any, said: str) -> None:
    """`Time` goes by the wall clock, which a window "of an hour" seldom means."""
    with pytest.raises(DeclarationError, match=said):
        declare()


class Column:
    """As Spark's columns are shown."""

    def __init__(self, text: str = "sum(fare)") -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Column<'{self.text}'>"


def geo(values: Any) -> Any:
    """Stand for a function of the user's."""


class Product(agg.UserAggregate):
    """An aggregate of the user's, which is not given to `agg.user`."""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("count", r"use agg\.count\(\)"),
        (agg.count, r"use agg\.count\(\)"),
        (agg.top_rows, r"use agg\.top_rows\(\.\.\.\)"),
        ("avg", r"use agg\.mean\('column'\)"),
        (Column(), r"use agg\.sum\('fare'\)"),
        (Column("avg(fare) AS mean"), r"use agg\.mean\('fare'\)"),
        (Column("sum(*(fare, 2))"), r"use agg\.sum\(\.\.\.\)"),
        (Column("count(fare)"), r"use agg\.count\('fare'\), or agg\.count_distinct\('fare'\)$"),
        (Column("count(1)"), r"use agg\.count\(\)"),
        (Column("max_by(k, v)"), r"use agg\.arg_max\(\.\.\.\)"),
        (Column("geo(node(List(v),Some([L;@2ba)))"), r"is the function geo\(\); use .* of agg\.UserAggregate$"),
        (Column("fare"), r"is a column of Spark; use an aggregate such as agg\.max\('column'\)$"),
        (geo, r"is the function geo\(\); use .*, or agg\.user\(\) with a subclass of agg\.UserAggregate$"),
        (Product(), r", or agg\.user\(\) with a subclass of agg\.UserAggregate$"),
        (3, r"such as agg\.max\('column'\)$"),
    ],
)
def test_what_is_no_aggregate_names_the_one_that_was_meant(given: Any, said: str) -> None:
    """By its name, by its function that is not called, or by a column of Spark."""
    with pytest.raises(DeclarationError, match=said):
        run(TimeInterval(1), aggregates={"x": given}, schema="t timestamp", event_time="t", script=[[]])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("alias", r"^agg\.sum\('v'\) has no alias\(\); write \.aggregate\(total=agg\.sum\('v'\)\)$"),
        ("filter", r'has no filter\(\); write an aggregate: agg\.sum\("fare", where="fare > 0"\)$'),
        ("cast", r"has no cast\(\)$"),
    ],
)
def test_an_aggregate_has_no_methods_of_a_column(name: str, said: str) -> None:
    """Its name and its condition stand elsewhere; `hasattr` stays what it is, and so does a copy."""
    made: Any = agg.sum("v")
    with pytest.raises(AttributeError, match=said):
        getattr(made, name)
    assert not hasattr(made, name)
    assert copy.deepcopy(made) == made
