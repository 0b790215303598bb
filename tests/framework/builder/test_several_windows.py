"""Declarations of several windows: what is refused, and where their results go."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from panekeeper import (
    Calendar,
    Count,
    DeclarationError,
    Emit,
    Event,
    Operator,
    Session,
    SlidingByRow,
    TimeInterval,
    Tumbling,
    agg,
    ports,
    windowed,
)
from panekeeper.framework.builder.result_columns import declared_columns
from panekeeper.framework.builder.windowed import WindowedStream
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.testing.scripted_stream import ScriptedStream


class Total(Operator):
    """An operator that does nothing."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Do nothing."""


HOUR, DAY = TimeInterval("1 hour"), Calendar("day", zone="Europe/Paris")


def stream(columns: str = "carrier string, at timestamp, delay bigint", **options: Any) -> WindowedStream:
    """Return a stream of flights."""
    given: dict[str, Any] = {"name": "flights", "partition_by": "carrier", "event_time": "at", "watermark": 0} | options
    scripted: Any = ScriptedStream(spark_schema(declared_columns(columns)))
    return windowed(scripted, **given)


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ({}, "windows() needs a window by its name"),
        ({"hour": "1 hour"}, "window hour: window() takes a window such as"),
        ({"hour": HOUR, "all": Tumbling(Count(5))}, "all is a Tumbling window, in arrival order"),
        ({"hour": HOUR, "a day": DAY}, "the window 'a day' names tables; use letters, digits and '_'"),
        ({"_hour": HOUR}, "the window '_hour' names tables"),
        ({"hour": HOUR, "metrics": DAY}, "the window 'metrics' has the name of another table of the job"),
        ({"hour": HOUR, "Hour": DAY}, "the window 'Hour' differs from another one only in upper and lower case"),
        ({"burst": Session("carrier")}, "window burst: gap is the column 'carrier'"),
    ],
)
def test_windows_that_cannot_be_are_refused_by_name(windows: dict[str, Any], said: str) -> None:
    """Where they are declared, with what to write."""
    with pytest.raises(DeclarationError, match=re.escape(said)):
        stream().windows(**windows)


@pytest.mark.parametrize(
    ("aggregates", "said"),
    [
        ({}, "window hour: aggregate() needs at least one result column"),
        ({"hour": {"n": agg.count()}}, "aggregate() has hour, and the windows are hour, day; give each of them"),
        ({"hour": {"n": agg.count()}, "day": {}}, "window day: aggregate() needs at least one result column"),
        ({"hour": {"n": agg.count()}, "week": {"n": agg.count()}}, "aggregate() has hour, week, and the windows are"),
        ({"hour": {"n": agg.count()}, "n": agg.count()}, "aggregate() has hour by window, and n for all; give either"),
        ({"n": agg.sum("carrier")}, "window hour: "),
        ({"hour": {"n": agg.count()}, "day": {"n": agg.max("dealy")}}, "window day: aggregate n="),
    ],
)
def test_each_window_has_its_aggregates(aggregates: dict[str, Any], said: str) -> None:
    """All have the same, or each its own."""
    with pytest.raises(DeclarationError, match=re.escape(said)):
        stream().windows(hour=HOUR, day=DAY).aggregate(**aggregates)


def test_what_is_of_one_window_is_refused_for_several(tmp_path: Path) -> None:
    """Operators, ports, and sinks that take the columns of one result."""
    windows: Any = stream().windows(hour=HOUR, day=DAY)
    computed = windows.aggregate(n=agg.count())
    refused: list[tuple[Callable[[], object], str]] = [
        (
            lambda: windows.operator(Total(), output="n bigint"),
            "operator() handles the events of one window",
        ),
        (lambda: ports(windows, windows), "port 0 is a StreamWithWindows"),
        (lambda: computed.transform(checkpoint=tmp_path), "transform() returns the results of one window"),
        (lambda: computed.to_delta("log").foreach_batch(print), "a sink of your own gets the results of one window"),
        (lambda: computed.to_delta("log", cluster_by="pane"), "cluster_by: there is no column 'pane'"),
        (lambda: stream(event_time=None).windows(hour=HOUR), "window hour: a TimeInterval is a range of event time"),
    ]
    for declare, said in refused:
        with pytest.raises(DeclarationError, match=re.escape(said)):
            declare()


def test_the_tables_of_a_window_have_its_name_at_the_end(tmp_path: Path) -> None:
    """By folder and by name; the others are those of the job."""
    computed = stream().windows(hour=HOUR, day=DAY).aggregate(n=agg.count())
    log, view = tmp_path / "flights", tmp_path / "now"
    assert computed.to_delta(log, view=view).tables.by_role == {
        "log_hour": f"{log}_hour",
        "log_day": f"{log}_day",
        "view_hour": f"{view}_hour",
        "view_day": f"{view}_day",
        "quarantine": f"{log}_quarantine",
        "metrics": f"{log}_metrics",
        "downtime": f"{log}_downtime",
    }
    named = computed.to_delta(table="prod.flights", metrics="prod.of_batches")._tables.by_role
    assert [named[role] for role in ("log_hour", "log_day", "view_hour", "metrics")] == [
        "prod.flights_hour",
        "prod.flights_day",
        None,
        "prod.of_batches",
    ]
    with pytest.raises(DeclarationError, match="two tables are the same"):
        computed.to_delta(table="prod.flights", quarantine="prod.flights_day")


def test_only_what_a_window_reads_travels_once() -> None:
    """The stream carries the columns of all windows, and each has those of its own, with its conditions."""
    windows = stream(columns="carrier string, at timestamp, delay bigint, cost double, gate string").windows(
        hour=HOUR, burst=Session("10 minutes"), tail=SlidingByRow("5 minutes")
    )
    computed = windows.aggregate(
        hour={"n": agg.count(where="delay > 5")}, burst={"c": agg.sum("cost")}, tail={"d": agg.last("delay")}
    )
    pipeline = computed._pipeline
    (condition,) = pipeline.intake.conditions
    assert pipeline.spec.columns.names == ["carrier", "delay", "cost", condition]
    own = {name: part.columns.names for name, part in pipeline.spec.windows.items()}
    assert own == {"hour": ["carrier", condition], "burst": ["carrier", "cost"], "tail": ["carrier", "delay"]}
    shown = computed._repr_html_()
    assert all(text in shown for text in ("window hour", "window burst", "aggregates tail", "partition_by"))
