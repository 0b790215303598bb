"""What a user has in hand is shown in at most a screen, and without an address, at a prompt and in a notebook."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
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
    Delta,
    Event,
    EventType,
    Every,
    KafkaSink,
    Listener,
    MetricsEndpoint,
    Operator,
    Pane,
    Punctuation,
    S3Options,
    Session,
    Sliding,
    SlidingByRow,
    StateHandler,
    Status,
    Time,
    TimeInterval,
    Tumbling,
    agg,
    ports,
    windowed,
)
from panekeeper.framework.engine.job.status import JobState
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.testing import Clock, Restart, Watermark, draw, run

COLUMNS = [StructField("k", StringType()), StructField("at", TimestampType())]
COLUMNS += [StructField(f"reading_{number}", LongType()) for number in range(12)]
NOW = datetime(2024, 5, 1, tzinfo=UTC)


class Totals(Operator, StateHandler):
    """Has an attribute that is plain, and one that is not."""

    def __init__(self) -> None:
        self.limit, self.seen = 3, {"a": object()}

    def handle_event(self, event: Event, emit: Any) -> None: ...


class Hears(Listener):
    def handle_event(self, event: Event) -> None: ...


class Keeps(StateHandler):
    pass


class Mean(agg.UserAggregate):
    def zero(self) -> Any:
        return 0

    def add(self, state: Any, value: Any) -> Any:
        return state

    def result(self, state: Any) -> Any:
        return state


def stream() -> Any:
    """Return a stream of fourteen columns."""
    made: Any = ScriptedStream(StructType(COLUMNS))
    return windowed(made, name="readings", partition_by="k", event_time="at", watermark="10 minutes")


def panes() -> Any:
    """Return it with a window."""
    return stream().window(TimeInterval("1 hour", discard_age="6 hours"))


def with_operator() -> Any:
    """Return it with an operator, a listener and a handler."""
    return panes().operator(Totals(), output="n bigint", listeners=[Hears()], handlers=[Keeps()])


def many_rows() -> Any:
    """Return results of 200 rows."""
    script = [[{"v": number} for number in range(200)]]
    return run(Tumbling(Count(1)), aggregates={"n": agg.collect("v")}, schema="v long", script=script)


SHOWN: dict[str, Callable[[], Any]] = {
    "stream": stream,
    "stream with a window": panes,
    "stream with windows": lambda: stream().windows(hour=TimeInterval(3600), burst=Session(60)),
    "ports": lambda: ports(panes(), panes()),
    "ports without windows": lambda: ports(stream(), stream()),
    "aggregates": lambda: panes().aggregate(n=agg.count(), share=agg.expr("sum(reading_1) / count()")),
    "operator": with_operator,
    "job with an operator": lambda: with_operator().to_delta("out/log"),
    "job of several windows": lambda: (
        stream().windows(a=TimeInterval(60), b=Session(60)).aggregate(n=agg.count()).to_delta("out/log", view="out/v")
    ),
    "join": lambda: ports(stream(), stream()).join_within(before=5, after=5),
    **{
        type(one).__name__: lambda one=one: one  # type: ignore[misc]
        for one in (
            TimeInterval("1 hour", creation_period="20 minutes"),
            Cumulate("1 hour", "1 day"),
            Calendar("day", zone="Europe/Berlin"),
            Session("30 minutes"),
            SlidingByRow("10 minutes"),
            Tumbling(Count(3)),
            Sliding(evict=AllOf(Time("1 minute"), Count(3)), trigger=AnyOf(Count(3), Time(10))),
            Batched(within=60, every=10),
            Every(rows=2),
            Delta("v", 2),
            Punctuation(),
            Clock("1 minute"),
            Watermark(30),
            Restart(),
            Totals(),
            Hears(),
            Keeps(),
            Mean(),
            S3Options(),
            Pane(0, 3_600_000_000),
        )
    },
    "agg.user": lambda: agg.user(Mean(), "v"),
    "agg.top_rows": lambda: agg.top_rows(k=3, by="price desc"),
    "drawing": lambda: draw(TimeInterval(10)),
    "results": many_rows,
    "event": lambda: Event(EventType.TRIGGER, "a", lambda: pa.table({}), pane=Pane(0, 3_600_000_000), refinement=1),
    "endpoint": lambda: MetricsEndpoint("http://127.0.0.1:1", lambda: None),
    "sink": lambda: KafkaSink("topic", {"kafka.bootstrap.servers": "host:1"}),
    "status": lambda: Status(
        name="readings",
        state=JobState.RUNNING,
        batch=3,
        batches=4,
        rows=12,
        watermark=NOW,
        open_panes=2,
        late=0,
        dropped=0,
        outside=0,
        quarantined=1,
        firings=5,
        errors={"USER_ERROR": 1},
    ),
}
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}| object at ")


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_at_most_a_screen_without_an_address(name: str) -> None:
    """As `repr`, as `str`, and as HTML; at a prompt it says no more than printed."""
    made = SHOWN[name]()
    html = getattr(made, "_repr_html_", lambda: "")()
    for text in (repr(made), str(made), html):
        assert _ADDRESS.search(text) is None, text
    for text in (repr(made), str(made)):
        assert len(text.splitlines()) <= 40
        assert len(text) <= 6_500
    assert "Intake(" not in repr(made)


def test_a_prompt_shows_what_print_does() -> None:
    """The declaration with an operator as a table, and each class of the user's by its name and plain attributes."""
    shown = repr(with_operator())
    assert shown == str(with_operator())
    assert re.search(r"operator +Totals\n +listeners +Hears\n", shown)
    assert repr(Totals()) == "Totals(limit=3)"
    assert repr(SHOWN["status"]()).splitlines()[0] == "job readings: running"
    assert repr(many_rows()).splitlines()[0] == "200 rows"
    assert repr(many_rows()).splitlines()[-1] == "  ..."


def test_the_classes_that_show_themselves_do_so_at_a_prompt_too() -> None:
    """Not by the text that `dataclass` makes of all that is within: those of results of commands, too."""
    for name in ("Trial", "Settlement", "Advice", "Upkeep", "Report", "Replay", "Savepoint", "Job", "BatchReport"):
        kind = getattr(panekeeper, name)
        assert kind.__repr__.__name__ == "_text", name
