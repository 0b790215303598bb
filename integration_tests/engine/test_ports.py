"""One operator over two streams as a real job: declared, drained, resumed, with one state."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from panekeeper import (
    Count,
    DeclarationError,
    Event,
    EventType,
    IncompatibleCheckpoint,
    Operator,
    PartitionCount,
    Sliding,
    StateContext,
    StateHandler,
    TimeInterval,
    Tumbling,
    ports,
    windowed,
)
from panekeeper.framework.declarations.operator import Emit
from tests.project.sources import ROOT, blocks_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from integration_tests.engine.conftest import Readings
    from panekeeper import Job

GUIDE = ROOT / "docs" / "operator-with-state.md"


class Match(Operator, StateHandler):
    """Emits for each window of orders the best quote received for its symbol, which only its own state has."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION, EventType.TRIGGER})

    def __init__(self) -> None:
        self.best: dict[str, int] = {}

    def handle_event(self, event: Event, emit: Emit) -> None:
        if event.port and event.type is EventType.TRIGGER:
            self.best[event.key] = int(event.column("price").max())
        elif not event.port:
            emit(orders=int(event.column("value").sum()), best=self.best.get(event.key))

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("best", self.best)

    def reset(self, ctx: StateContext) -> None:
        self.best = ctx.read("best")


class Quotes:
    """A second stream beside the readings: files of (symbol, price)."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.folder = readings.folder / "quotes"
        self.folder.mkdir()
        self.files = 0

    def put(self, *quotes: tuple[str, int | None]) -> None:
        path = self.folder / f"{self.files:04d}.json"
        path.write_text("\n".join(json.dumps({"symbol": symbol, "price": price}) for symbol, price in quotes))
        os.utime(path, (1_600_000_000 + self.files,) * 2)
        self.files += 1

    def stream(self, schema: str = "symbol string, price bigint") -> DataFrame:
        return self.readings.spark.readStream.schema(schema).json(str(self.folder))


def start(quotes: Quotes, *, size: int = 3, trigger: Any = "available_now") -> Job:
    """Start a job on pairs of orders, and the last quotes, by symbol."""
    readings = quotes.readings
    orders = windowed(readings.stream(), name="match", partition_by="sensor", key_groups=2)
    prices = windowed(
        quotes.stream(), name="match", partition_by="symbol", key_groups=2, reject={"NO_PRICE": "price IS NULL"}
    )
    met = ports(orders.window(Tumbling(Count(2))), prices.window(Sliding(evict=Count(size))))
    matched = met.operator(Match(), output="orders bigint, best bigint")
    return matched.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger=trigger)


def emitted(readings: Readings) -> list[tuple[Any, ...]]:
    """What the log holds, in the order of the firings."""
    rows = sorted(readings.rows("log"), key=lambda row: (row["sensor"], row["firing"]))
    return [(row["sensor"], row["port"], row["orders"], row["best"]) for row in rows]


def test_two_streams_meet_in_one_job_that_is_drained_resumed_and_flushed(readings: Readings) -> None:
    """Windows and state of both ports go on; rows balance, and the quarantine says whose row it is."""
    quotes = Quotes(readings)
    readings.put(("a", "10:00:10", 1), ("b", "10:00:11", 2))
    quotes.put(("a", 70), ("b", 50), ("a", None), ("a", 60), ("a", 10))
    drained = start(quotes, trigger="immediate").drain(timeout=300)
    assert (drained.open_panes, drained.tuples) == (4, 2 + 4)
    assert emitted(readings) == []

    with pytest.raises(IncompatibleCheckpoint, match=r"port_1\.window\.evict"):
        start(quotes, size=2)
    readings.put(("a", "10:00:12", 4), ("b", "10:00:13", 8))
    readings.put(("b", "10:00:14", 16), ("b", "10:00:15", 32), ("a", "10:00:16", 64))
    quotes.put(("a", 20), ("b", 90))  # with the first of these files, and after it: it came to port 1
    job = start(quotes)
    assert job.await_end(300)
    assert emitted(readings) == [("a", 0, 5, 70), ("b", 0, 10, 50), ("b", 0, 48, 90)]
    job.flush()
    assert emitted(readings) == [("a", 0, 5, 70), ("a", 0, 64, 60), ("b", 0, 10, 50), ("b", 0, 48, 90)]
    assert [(row["port"], row["reason"]) for row in readings.rows("log_quarantine")] == [(1, "NO_PRICE")]
    metrics = readings.rows("log_metrics")
    assert all(row["balanced"] for row in metrics)
    assert (sum(row["rows_in"] for row in metrics), sum(row["quarantined"] for row in metrics)) == (14, 1)


@pytest.mark.extended
def test_the_ports_that_the_guide_prints_are_a_job(readings: Readings) -> None:
    """As printed, but for the folder, and that it is drained."""
    quotes = Quotes(readings)
    quotes.put(("a", 70), ("b", 50))
    readings.put(("a", "10:00:10", 1), ("a", "10:00:11", 2))
    (program,) = [block.text for block in blocks_of(GUIDE) if block.language == "py"]
    for printed, here in [("ports(orders", "job = ports(orders"), ('"out/', f'"{readings.folder}/')]:
        assert printed in program
        program = program.replace(printed, here)
    orders = readings.stream().withColumnRenamed("sensor", "symbol")
    names: dict[str, Any] = {"orders_df": orders, "quotes_df": quotes.stream(), "Match": Price}
    exec(program, names)  # noqa: S102 -- our own page
    names["job"].drain(timeout=300)
    assert sorted((row["port"], row["symbol"], row["price"]) for row in readings.rows("log")) == [
        (0, "a", 3.0),
        (1, "a", 70.0),
        (1, "b", 50.0),
    ]


class Price(Operator):
    """Emits the newest price of each full window of quotes, and the sum of each pair of orders."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION, EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(price=float(event.column("price" if event.port else "value").sum()))


class PerMinute(Operator):
    """Emits how many readings a minute had."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(n=event.table.num_rows)


def test_streams_that_speak_in_turns_complete_the_panes_of_each_other(readings: Readings) -> None:
    """The watermark is the least of both ports', and a restart keeps both."""
    (readings.folder / "second").mkdir()
    second = type(readings)(readings.spark, readings.folder / "second")

    def run() -> list[tuple[Any, ...]]:
        minutes = [
            windowed(
                one.stream(), name="turns", partition_by="sensor", event_time="at", watermark=0, key_groups=2
            ).window(TimeInterval(60))
            for one in (readings, second)
        ]
        counted = ports(*minutes).operator(PerMinute(), output="n bigint").to_delta(readings.folder / "log")
        assert counted.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(300)
        return sorted((row["port"], f"{row['pane_start']:%H:%M}", row["n"]) for row in readings.rows("log"))

    readings.put(("a", "10:00:10", 1), ("b", "10:00:20", 1), ("a", "10:05:00", 2))
    assert run() == []
    second.put(("a", "10:00:30", 4), ("a", "10:02:30", 8))
    assert run() == [(0, "10:00", 1), (0, "10:00", 1), (1, "10:00", 1)]


def test_ports_that_do_not_fit_together_are_refused_where_they_are_declared(readings: Readings) -> None:
    """Each message names the values and the rule."""
    quotes = Quotes(readings)

    def order(**options: Any) -> Any:
        given: dict[str, Any] = {"name": "match", "partition_by": "sensor"} | options
        return windowed(readings.stream(), **given).window(Tumbling(Count(2)))

    def quote(schema: str = "symbol string, price bigint", window: Any = None, **options: Any) -> Any:
        given: dict[str, Any] = {"name": "match", "partition_by": "symbol"} | options
        return windowed(quotes.stream(schema), **given).window(window or Sliding(evict=Count(3)))

    for streams, said in [
        ([order()], r"has 1 stream\(s\), it takes two or more"),
        ([order(), windowed(quotes.stream(), name="match")], "port 1 has no window"),
        ([order(), order().operator(Match(), output="n bigint")], "port 1 is a Computation"),
        ([order(), quote(name="quotes")], "but these have 'match', 'quotes'"),
        ([order(), quote("symbol int, price bigint")], r"port 0 has keys of \(string\), port 1 of \(int\)"),
        ([order(), quote(partition_by=None)], r"port 1 of \(\)"),
        ([order(key_groups=8), quote(key_groups=4)], "key_groups is 4 and 8"),
    ]:
        with pytest.raises(DeclarationError, match=said):
            ports(*streams)
    with pytest.raises(DeclarationError, match="for each stream"):
        ports(order(), quote()).aggregate(n=1)
    with pytest.raises(DeclarationError, match="'port' has the name"):
        ports(order(), quote()).operator(Match(), output="port int")
    paned = windowed(readings.stream(), name="match", partition_by="sensor", event_time="at", watermark=0).window(
        TimeInterval(60)
    )
    with pytest.raises(DeclarationError, match="some ports are time intervals and others are not"):
        ports(paned, quote()).operator(Match(), output="n bigint").to_delta("t", view="v")
    limited = quote(window=Sliding(evict=Count(3), partition_eviction=PartitionCount(9)))
    together = ports(order(), limited).operator(Match(), output="n bigint")
    assert {port.intake.key_groups for port in together._pipeline.ports} == {1}
