"""Streams that bring no row, on a real job: panes are not held open by them (docs/semantics.md section 14)."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from integration_tests.engine.test_ports import Quotes
from panekeeper import (
    Count,
    DeclarationError,
    Event,
    EventType,
    IncompatibleCheckpoint,
    Operator,
    TimeInterval,
    Tumbling,
    agg,
    ports,
    windowed,
)
from panekeeper.framework.declarations.operator import Emit
from panekeeper.framework.engine.clock import tick_scheduler
from panekeeper.state.checkpoint import control_files

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings
    from panekeeper import BatchReport, Job

HOUR_US = 3_600_000_000


class Ahead:
    """A clock that runs ahead of the real one, by as much as it is set to."""

    def __init__(self) -> None:
        self.us = 0

    def __call__(self) -> int:
        return int(datetime.now(UTC).timestamp() * 1_000_000) + self.us


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Ahead:
    """The clock of the control stream."""
    clock = Ahead()
    for module in (control_files, tick_scheduler):
        monkeypatch.setattr(module, "now_us", clock)
    monkeypatch.setattr(tick_scheduler, "_OUTAGE_SECONDS", 1e9)  # it jumps, and nothing was suspended
    return clock


def fires(job: Job) -> threading.Event:
    """An event that is set when a batch fires something."""
    fired = threading.Event()

    def note(report: BatchReport) -> None:
        if report.firings:
            fired.set()

    job.on_batch(note)
    return fired


class Rows(Operator):
    """Emits how many rows a pane has when it is complete."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.INITIAL_FULL})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(n=event.table.num_rows)


def test_the_last_panes_of_a_stream_that_has_ended_fire_by_the_wall_clock(readings: Readings, ahead: Ahead) -> None:
    """Once, also across a stop; what comes then for a closed pane is late."""

    def start() -> Job:
        stream = windowed(
            readings.stream(),
            name="idle",
            partition_by="sensor",
            event_time="at",
            idle_after="1 hour",
            when_idle="advance",
            key_groups=2,
        )
        counted = stream.window(TimeInterval(10)).aggregate(n=agg.count(), total=agg.sum("value"))
        job = counted.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint)
        readings.jobs.append(job)
        return job

    readings.put(("a", "10:00:10", 1), ("b", "10:00:15", 2))
    job = start()
    job.process_available()
    assert readings.log() == []
    fired = fires(job)
    ahead.us += 2 * HOUR_US
    assert fired.wait(120)
    expected = [("a", "10:00", 1, 1, 0, "WATERMARK"), ("b", "10:00", 2, 1, 0, "WATERMARK")]
    assert readings.log() == expected
    job.stop()
    job = start()
    readings.put(("a", "10:00:19", 4))
    job.process_available()
    job.stop()
    assert readings.log() == expected
    assert [row["reason"] for row in readings.rows("log_quarantine")] == ["LATE"]
    with pytest.raises(IncompatibleCheckpoint, match="when_idle: 'advance' in the checkpoint, absent now"):
        readings.start(name="idle", window=TimeInterval(10), key_groups=2)


def test_a_silent_stream_does_not_hold_back_the_other(readings: Readings, ahead: Ahead) -> None:
    """Its watermark counts until it is idle, and again when it has come to that of the other."""
    quotes = Quotes(readings)
    orders = windowed(readings.stream(), name="idle", partition_by="sensor", event_time="at", key_groups=2)
    schema = "symbol string, at timestamp"
    silent = windowed(
        quotes.stream(schema),
        name="idle",
        partition_by="symbol",
        event_time="at",
        idle_after="1 hour",
        key_groups=2,
    )
    met = ports(orders.window(TimeInterval(10)), silent.window(TimeInterval(10)))
    computed = met.operator(Rows(), output="n bigint")
    (quotes.folder / "0.json").write_text('{"symbol": "a", "at": "2024-05-01T10:00:05Z"}')
    readings.put(("a", "10:00:10", 1), ("a", "10:00:30", 2))
    job = computed.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint)
    readings.jobs.append(job)
    job.process_available()
    assert readings.rows("log") == []
    fired = fires(job)
    ahead.us += 2 * HOUR_US
    assert fired.wait(120)
    job.stop()
    assert sorted((row["port"], row["pane_start"].second, row["n"]) for row in readings.rows("log")) == [
        (0, 10, 1),
        (1, 0, 1),
    ]


def test_an_idle_job_with_nothing_open_runs_no_batch(readings: Readings, ahead: Ahead) -> None:
    """Its last pane closes by the wall clock; after that no tick is due."""
    stream = windowed(
        readings.stream(), name="idle", event_time="at", idle_after="1 hour", when_idle="advance", key_groups=1
    )
    counted = stream.window(TimeInterval(10)).aggregate(n=agg.count())
    readings.put(("a", "10:00:10", 1))
    job = counted.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint)
    readings.jobs.append(job)
    job.process_available()
    fired = fires(job)
    ahead.us += 2 * HOUR_US
    assert fired.wait(120)
    assert [row["n"] for row in readings.rows("log")] == [1]
    job.stop()
    assert job._run.ticks._due is None


def test_what_can_have_no_effect_is_refused(readings: Readings) -> None:
    """A stream alone that waits, a window without a watermark, partitions that the source does not tell."""
    given: dict[str, Any] = {"name": "idle", "event_time": "at"}
    alone = windowed(readings.stream(), **given, idle_after=60).window(TimeInterval(10))
    with pytest.raises(DeclarationError, match="idle_after changes nothing here"):
        alone.aggregate(n=agg.count())
    with pytest.raises(DeclarationError, match="idle_after changes nothing here"):
        alone.operator(Rows(), output="n bigint")
    with pytest.raises(DeclarationError, match="idle_after is for a TimeInterval or a Session: a Tumbling window"):
        windowed(readings.stream(), **given, idle_after=60).window(Tumbling(Count(2)))
    options: list[dict[str, Any]] = [{"idle_after": 60}, {"watermark_by": "partition"}]
    for option in options:
        with pytest.raises(DeclarationError, match="needs event_time"):
            windowed(readings.stream(), name="idle", **option)
    with pytest.raises(DeclarationError, match="does not come from one source of Kafka"):
        windowed(readings.stream(), **given, watermark_by="partition")
    kafka = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}
    messages = readings.spark.readStream.format("kafka").options(**kafka).load()
    kept = messages.selectExpr("topic", "partition", "timestamp AS at", "upper(topic) AS upper")
    windowed(kept, **given, watermark_by="partition", idle_after=60).window(TimeInterval(10)).aggregate(n=agg.count())
    with pytest.raises(DeclarationError, match="watermark_by is for a TimeInterval"):
        windowed(kept, **given, watermark_by="partition").window(Tumbling(Count(2)))
    for stream in (kept.drop("topic"), kept.withColumn("partition", kept["partition"] % 2)):
        with pytest.raises(DeclarationError, match="keep both beside the columns"):
            windowed(stream, **given, watermark_by="partition")
