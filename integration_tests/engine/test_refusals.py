"""What a job refuses, with words that say what to do: declarations, checkpoints, tables and bad rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import (
    CorruptState,
    Count,
    DeclarationError,
    Delta,
    Event,
    EventType,
    ForeignCheckpoint,
    IncompatibleCheckpoint,
    InputError,
    JobFinished,
    Listener,
    Operator,
    OutputNotWritable,
    SchemaMismatch,
    SetupError,
    SinkError,
    Sliding,
    StateError,
    TimeInterval,
    Tumbling,
    agg,
    minutes,
    ports,
    windowed,
)
from panekeeper.framework.engine.sources import streams

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings
    from panekeeper import Emit


class OnTrigger(Operator):
    def handle_event(self, event: Event, emit: Any) -> None: ...


class OnDrop(Listener):
    events: ClassVar[frozenset[EventType]] = frozenset({EventType.DROP})

    def handle_event(self, event: Event) -> None: ...


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition_by": "sensr"}, "no column 'sensr'; did you mean 'sensor'"),
        ({"event_time": "value"}, "'value' is a bigint, not a timestamp; cast it first"),
        ({"event_time": "sensor"}, r'withColumn\("sensor_time", F\.try_to_timestamp\("sensor", F\.lit\("yyyy'),
        ({"order_by": ["at", "nowhere"]}, "order_by: there is no column 'nowhere'"),
        ({"reject": {"odd": "value % 2"}}, "'value % 2' is a bigint, not a condition"),
        ({"reject": {"odd": "valu > 2"}}, "reject rule 'odd'"),
        ({"reject": {"odd": "value >"}}, "reject rule 'odd'"),
        ({"name": "a/b"}, "name is 'a/b'"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"key_groups": 0}, "key_groups is 0"),
        ({"watermark": -1}, "watermark is -1"),
        ({"event_time": None}, "give windowed\\(\\) an event_time column"),
    ],
)
def test_a_stream_that_cannot_be_is_refused_where_it_is_declared(
    readings: Readings, options: dict[str, Any], message: str
) -> None:
    """Each message names the value and the rule, or the way out."""
    with pytest.raises(DeclarationError, match=message):
        readings.declare(**options)


def test_more_declarations_that_cannot_be(readings: Readings) -> None:
    """A frame at rest, a nested partition column, unknown aggregate columns, taken names, tables in one folder."""
    with pytest.raises(DeclarationError, match="streaming DataFrame"):
        windowed(readings.spark.range(3), name="x")
    with pytest.raises(DeclarationError, match="plain columns"):
        windowed(readings.stream().withColumn("s", F.struct("sensor")), name="x", partition_by="s")
    for name in ("_t", "_PK_Reason", "_MARK"):  # Spark does not look at upper and lower case
        with pytest.raises(DeclarationError, match=f"the column name '{name}' is used by Panekeeper"):
            windowed(readings.stream().withColumn(name, F.lit(1)), name="x", marks="value = 0")
    for name in ("0.0", "_due"):
        with pytest.raises(DeclarationError, match=f"the column name '{name}' is used by Panekeeper beside"):
            windowed(readings.stream().withColumn(name, F.lit(1)), name="x", partition_by=name)
    stream = windowed(readings.stream(), name="x", partition_by="sensor", event_time="at", watermark=0).window(
        TimeInterval(60)
    )
    with pytest.raises(DeclarationError, match="did you mean 'value'"):
        stream.aggregate(top=agg.max("valu"))
    with pytest.raises(DeclarationError, match="'pane_start' has the name"):
        stream.aggregate(pane_start=agg.max("value"))
    with pytest.raises(DeclarationError, match="'Sensor' has the name"):
        stream.aggregate(Sensor=agg.max("value"))
    with pytest.raises(DeclarationError, match="at least one result column"):
        stream.aggregate()
    with pytest.raises(DeclarationError, match="two tables are the same"):
        stream.aggregate(n=agg.count()).to_delta("t/", view="t")
    sliding = windowed(readings.stream(), name="x", partition_by="sensor", arrival_time="at", order_by=["value", "at"])
    with pytest.raises(DeclarationError, match="Let order_by begin with 'at', or use key_groups=1"):
        sliding.window(Sliding(evict=Count(2)))
    with pytest.raises(DeclarationError, match="trigger is 'now'"):
        readings.start(trigger="now")


def test_the_size_of_a_delta_is_in_the_unit_of_its_column(readings: Readings) -> None:
    """A duration for a time, a number for a number; a column without a difference names the cast."""
    rows = readings.stream().withColumn("day", F.to_date("at")).withColumn("price", F.lit(1).cast("decimal(18,2)"))
    stream = windowed(rows.withColumn("long", F.lit(1).cast("decimal(38,18)")), name="x")
    for fits in (Delta("value", 1 / 3), Delta("value", 1e-7), Delta("at", "5 minutes"), Delta("at", 1.5)):
        stream.window(Tumbling(fits))
    for fits in (Delta("day", 1), Delta("day", "36 hours"), Delta("price", 0.01), Delta("price", 1 / 3)):
        stream.window(Tumbling(fits))
    with pytest.raises(DeclarationError, match="a duration, but the column is a long; give a number"):
        stream.window(Tumbling(Delta("value", minutes(5))))
    with pytest.raises(DeclarationError, match="whole microseconds"):
        stream.window(Sliding(evict=Count(2), trigger=Delta("at", 1e-7)))
    with pytest.raises(DeclarationError, match="a duration, but the column is a decimal; give a number"):
        stream.window(Tumbling(Delta("price", minutes(5))))
    with pytest.raises(DeclarationError, match=r"'long', which is a decimal\(38,18\); .*\.try_cast\(\"decimal\(18,9"):
        stream.window(Tumbling(Delta("long", 1)))
    with pytest.raises(DeclarationError, match=r"'sensor', which is a string; give .*\.try_cast\(\"double\"\)"):
        stream.window(Tumbling(Delta("sensor", 1)))


def test_an_operator_that_would_never_be_called_is_refused(readings: Readings) -> None:
    """Of one window, of one port among several, and a listener of all."""
    stream = windowed(readings.stream(), name="x", partition_by="sensor", event_time="at", watermark="10 minutes")
    tumbling, panes = stream.window(Tumbling(Count(2))), stream.window(TimeInterval("1 minute"))
    with pytest.raises(DeclarationError, match=r"OnTrigger\.events is TRIGGER, which never happens in a Tumbling"):
        tumbling.operator(OnTrigger(), output="n bigint")
    with pytest.raises(DeclarationError, match=r"OnTrigger\.events is TRIGGER, which never happens in a Tumbling"):
        ports(panes, tumbling).operator(OnTrigger(), output="n bigint")
    with pytest.raises(DeclarationError, match=r"OnDrop\.events is DROP, which never happens in a Sliding"):
        stream.window(Sliding(evict=Count(2))).operator(OnTrigger(), output="n bigint", listeners=[OnDrop()])
    panes.operator(OnTrigger(), output="n bigint", listeners=[OnDrop()])
    with pytest.raises(DeclarationError, match=r"not <class .*OnTrigger.*; make an instance: OnTrigger\(\.\.\.\)"):
        panes.operator(OnTrigger, output="n bigint")  # type: ignore[arg-type]


def test_a_checkpoint_belongs_to_one_job(readings: Readings) -> None:
    """Another job, another declaration, a damaged job file: each has its own error; a finished job stays finished."""
    readings.put(("a", "10:00:10", 1))
    job = readings.run()

    with pytest.raises(ForeignCheckpoint, match="of job 'readings', not of 'others'"):
        readings.start(name="others")
    with pytest.raises(IncompatibleCheckpoint) as raised:
        readings.start(window=TimeInterval(30, discard_age=120), total="max")
    text = str(raised.value)
    assert "window.interval_duration: 1m in the checkpoint, 30s now" in text
    assert "aggregate.total.kind: 'sum' in the checkpoint, 'max' now" in text
    assert "discard_age" not in text

    job.flush()
    with pytest.raises(JobFinished, match="new checkpoint folder"):
        readings.start()

    (readings.epoch / "panekeeper" / "job.json").write_text("{")
    (readings.epoch / "panekeeper" / ".job.json.crc").unlink(missing_ok=True)
    with pytest.raises(StateError, match="damaged"):
        readings.start()


def test_a_checkpoint_that_is_not_ours_is_refused(readings: Readings) -> None:
    """The checkpoint of an ordinary query is left alone."""
    readings.put(("a", "10:00:10", 1))
    writer = readings.stream().writeStream.format("noop").option("checkpointLocation", str(readings.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(ForeignCheckpoint, match="did not start"):
        readings.start()


@pytest.mark.extended
def test_a_damaged_state_file_is_reported_and_nothing_is_written(readings: Readings) -> None:
    """The error says what to do; the tables stay as they were, and so do the windows once the file is fixed."""
    readings.put(("a", "10:00:10", 1), ("a", "10:00:20", 2))
    readings.run()
    before = readings.log()
    kept = {path: path.read_bytes() for path in (readings.epoch / "state" / "0").rglob("*.changelog")}
    assert kept
    for path in kept:
        path.write_bytes(b"not what it was")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    readings.spark.streams.resetTerminated()
    jvm: Any = readings.spark._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()  # a new process has none of it in memory
    readings.put(("a", "10:02:10", 4))
    with pytest.raises(CorruptState, match="restore this checkpoint from a savepoint"):
        readings.run()
    assert readings.log() == before

    for path, content in kept.items():
        path.write_bytes(content)
    readings.run()
    assert readings.log() == [("a", "10:00", 3, 2, 0, "WATERMARK")]


def test_tables_that_cannot_take_the_results_are_refused_before_anything_runs(readings: Readings) -> None:
    """Other columns, a folder with other files, and a path that cannot be a folder."""
    log = readings.folder / "log"
    readings.spark.range(0).write.format("delta").save(str(log))
    with pytest.raises(SchemaMismatch, match="pane_start: absent in the table, timestamp in the results"):
        readings.start()

    view = readings.folder / "view"
    view.mkdir()
    (view / "notes.txt").write_text("mine")
    stream = (
        windowed(readings.stream(), name="x", event_time="at", watermark=0)
        .window(TimeInterval(60))
        .aggregate(n=agg.count())
    )
    with pytest.raises(OutputNotWritable, match="no Delta table"):
        stream.to_delta(view).start(checkpoint=readings.checkpoint)
    with pytest.raises(OutputNotWritable, match="cannot be written"):
        stream.to_delta(view / "notes.txt" / "log").start(checkpoint=readings.checkpoint)
    assert not (readings.epoch / "offsets").exists()


def test_a_new_checkpoint_may_not_write_into_the_tables_of_an_old_one(readings: Readings) -> None:
    """Deleting only the checkpoint would put every result into the log a second time."""
    readings.put(("a", "10:00:10", 1))
    readings.run()
    with pytest.raises(SinkError, match="another checkpoint"):
        readings.declare().start(checkpoint=readings.folder / "second")


def test_on_error_fail_stops_the_job_and_quarantine_does_not(readings: Readings) -> None:
    """The error shows the first bad row; the same batch is run again, so nothing is lost meanwhile."""
    readings.put(("a", "10:00:10", 1), ("b", None, 2))
    with pytest.raises(InputError, match=r"1 bad row\(s\), the first one NULL_EVENT_TIME: .*\"sensor\":\"b\""):
        readings.run(on_error="fail")
    readings.run()

    assert [row["rows_in"] for row in readings.rows("log_metrics")] == [2]


def test_rows_from_the_future_are_quarantined_and_do_not_move_the_watermark(readings: Readings) -> None:
    """One clock that runs a century ahead must not close the windows of all others."""
    stream = readings.stream().withColumn("at", F.expr("CASE WHEN value = 7 THEN at + INTERVAL 100 YEARS ELSE at END"))
    readings.put(("a", "10:00:10", 1), ("a", "10:00:11", 7))
    readings.put(("a", "10:00:12", 2), ("a", "10:03:00", 3))
    job = (
        windowed(stream, name="readings", event_time="at", watermark=0, key_groups=4)
        .window(TimeInterval(60))
        .aggregate(total=agg.sum("value"))
        .to_delta(readings.folder / "log")
        .start(checkpoint=readings.checkpoint, trigger="available_now")
    )
    job.await_end()

    assert [row["total"] for row in readings.rows("log")] == [3]
    (row,) = readings.rows("log_quarantine")
    assert (row["reason"], row["event_time"].year) == ("FUTURE_EVENT_TIME", 2124)
    assert "more than 1d ahead of its arrival" in row["detail"]


@pytest.mark.extended
def test_a_batch_that_would_not_fit_into_memory_is_refused_before_it_is_logged(
    readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without a limit: at the first start, and those that came while the job was down; not those it has read."""
    readings.put(("a", "10:00:10", 1), ("a", "10:00:11", 7))
    monkeypatch.setattr(streams, "usable_memory", lambda: 300)  # a file has 52 bytes a row
    without_limit = readings.spark.readStream.schema("sensor string, at timestamp, value bigint")
    monkeypatch.setattr(readings, "stream", lambda: without_limit.json(str(readings.folder / "in")))
    with pytest.raises(SetupError, match=r"in /.*/in that are not read yet have .*maxFilesPerTrigger.*maxBytesPerTr"):
        readings.start()
    assert not (readings.epoch / "offsets").exists()
    monkeypatch.setattr(streams, "usable_memory", lambda: 600)
    readings.run()
    readings.put(("a", "10:02:10", 1))
    readings.run()  # more in all, and less that is new
    readings.put(("a", "10:04:10", 1), ("a", "10:04:11", 7), ("a", "10:04:12", 7))
    logged = readings.numbers("offsets")
    with pytest.raises(SetupError, match="not read yet"):
        readings.start()
    assert readings.numbers("offsets") == logged
    monkeypatch.undo()
    readings.run()  # it has a limit
    assert sum(row["rows_in"] for row in readings.rows("log_metrics")) == 6


class Careless(Operator):
    """An operator with a bug."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(share=1 / (len(event.rows()) - 2))


def test_the_error_of_an_operator_is_reported_as_it_was_raised(readings: Readings) -> None:
    """No Java stack trace: the sentence says what the user's own code raised, for which pane, and where."""
    readings.put(("a", "10:00:10", 1), ("a", "10:00:20", 2), ("a", "10:02:00", 3))
    stream = windowed(readings.stream(), name="readings", partition_by="sensor", event_time="at", on_error="fail")
    computed = stream.window(TimeInterval(60)).operator(Careless(), output="share double")
    job = computed.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger="available_now")
    with pytest.raises(InputError, match=r'Careless.*"sensor":"a".*ZeroDivisionError: division by zero;') as raised:
        job.await_end()
    assert "at org.apache" not in str(raised.value)
    assert "SQLSTATE" not in str(raised.value)
    assert re.findall(r'File "(.*?)", line \d+, in (\w+)', str(raised.value)) == [(__file__, "handle_event")]
    assert job.status().state.value == "failed"
