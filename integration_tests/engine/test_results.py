"""What a job writes: the log, the view, the quarantine and the metrics of a few readings, some of them poisoned."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from integration_tests.selection import first_before_release
from panekeeper import SetupError, Time, TimeInterval, Tumbling, agg, windowed
from panekeeper.framework.engine.flow import processor
from panekeeper.framework.engine.session.settings import STATE_FORMAT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from integration_tests.engine.conftest import Reading, Readings
    from panekeeper import BatchReport, Job

FILES: list[list[Reading]] = [
    [("a", "10:00:10", 1), ("b", "10:00:20", 2), ("a", None, 3), ("b", "10:00:59", -9)],
    [("a", "10:01:30", 4), ("b", "10:02:30", 8)],  # the watermark passes 10:01 and 10:02
    [("a", "10:00:40", 16), ("c", "10:05:30", 32)],  # late, but its pane still takes rows
    [("a", "10:00:50", 64), ("c", "10:05:31", 128)],  # too late
]
LOG = [
    ("a", "10:00", 1, 1, 0, "WATERMARK"),
    ("a", "10:00", 17, 2, 1, "LATE"),
    ("a", "10:01", 4, 1, 0, "WATERMARK"),
    ("b", "10:00", 2, 1, 0, "WATERMARK"),
    ("b", "10:02", 8, 1, 0, "WATERMARK"),
]
REJECT = {"sensor out of order": "value < 0"}


def test_a_job_writes_its_four_tables(readings: Readings) -> None:
    """The log has every firing, the view the newest of each pane, the quarantine the rest; the metrics balance."""
    for rows in FILES:
        readings.put(*rows)
    reports: list[BatchReport] = []
    job = readings.start(reject=REJECT)
    job.on_batch(reports.append)
    job.await_end()

    for table in ("log", "view", "log_quarantine", "log_metrics"):  # the other tests read them without Spark
        read = readings.frame(table).collect()
        assert sorted(str(row.asDict(recursive=True)) for row in read) == sorted(map(str, readings.rows(table)))
    assert readings.log() == LOG
    assert readings.log("view") == [row for row in LOG if row != LOG[0]]

    quarantine = sorted((row["reason"], row["row"]) for row in readings.rows("log_quarantine"))
    assert [reason for reason, _ in quarantine] == ["LATE", "NULL_EVENT_TIME", "sensor out of order"]
    assert quarantine[1][1] == '{"sensor":"a","at":null,"value":3}'

    metrics = sorted(readings.rows("log_metrics"), key=lambda row: row["batch"])
    assert all(row["balanced"] for row in metrics)
    assert [row["rows_in"] for row in metrics][:4] == [4, 2, 2, 2]
    assert sum(row["quarantined"] for row in metrics) == 2
    assert sum(row["dropped_late"] for row in metrics) == 1
    assert sum(row["firings"] for row in metrics) == len(LOG)

    assert [report.rows for report in reports][:4] == [4, 2, 2, 2]
    status = job.status()
    assert (status.rows, status.late, status.dropped, status.quarantined, status.firings) == (10, 1, 1, 2, 5)
    assert f"{status.watermark:%H:%M:%S}" == "10:05:30"
    assert status.state.value == "ended"


def test_large_results_take_the_long_way_and_are_the_same(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that do not pass through the driver are unpacked by Spark's workers into the same rows."""
    monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    for rows in FILES:
        readings.put(*rows)
    readings.run(reject=REJECT)

    assert readings.log() == LOG
    assert readings.log("view") == [row for row in LOG if row != LOG[0]]
    assert len(readings.rows("log_quarantine")) == 3


def test_a_flush_fires_what_is_open_and_finishes_the_job(readings: Readings) -> None:
    """An ended job is flushed by one more batch; then its windows are closed and nothing is left to fire."""
    for rows in FILES:
        readings.put(*rows)
    job = readings.run(reject=REJECT)
    job.flush()

    assert job.finished
    assert job.status().state.value == "flushed"
    assert job.status().open_panes == 0
    assert readings.log() == [*LOG, ("c", "10:05", 160, 2, 0, "FLUSH")]
    assert readings.log("view") == [*[row for row in LOG if row != LOG[0]], ("c", "10:05", 160, 2, 0, "FLUSH")]


def test_a_flush_first_processes_what_is_there_in_as_many_batches_as_the_limit_needs(readings: Readings) -> None:
    """Of a running job, whose windows then get nothing more; each row is in a table."""
    for minute in range(4):
        readings.put(("a", f"10:0{minute}:10", 1))
    job = readings.start(trigger="immediate")
    job.flush()

    assert (job.finished, job.status().rows) == (True, 4)
    assert [row[:3] for row in readings.log()] == [("a", f"10:0{minute}", 1) for minute in range(4)]
    assert readings.log()[-1][-1] == "FLUSH"
    assert readings.numbers("offsets") == readings.numbers("commits")


@pytest.mark.parametrize("trigger", first_before_release(("available_now",), ("1 hour",)))
def test_a_flush_ends_where_the_source_never_runs_dry(readings: Readings, trigger: str) -> None:
    """What was there at the call is processed, if the job had ended, too, or waits; who awaits it waits for all."""
    readings.put(("a", "10:00:10", 1))
    job = readings.start(trigger=trigger)
    if has_ended := trigger == "available_now":
        job.await_end()
    for minute in (1, 2, 3):
        readings.put(("a", f"10:0{minute}:10", 1))
    job.on_batch(lambda _: readings.put(("a", "10:04:10", 1)))
    with ThreadPoolExecutor(1) as another:
        waiting = another.submit(lambda: job.await_end() and job.finished)
        job.flush()
        assert waiting.result() or has_ended

    assert job.finished
    assert {("a", f"10:0{minute}", 1) for minute in range(4)} <= {row[:3] for row in readings.log()}
    assert readings.files > job.status().rows


def test_transform_gives_the_results_to_a_sink_of_your_own(readings: Readings) -> None:
    """It has the columns of the log, and goes on after a restart; with another format of the state it is refused."""
    received: list[tuple[str, int]] = []

    def run() -> None:
        frame = readings.computed().transform(checkpoint=readings.checkpoint)
        assert frame.columns == ["sensor", "pane_start", "pane_end", "total", "n", "refinement", "is_final", "reason"]
        writer = frame.writeStream.foreachBatch(
            lambda df, _: received.extend((r["sensor"], r["total"]) for r in df.collect())
        )
        query = writer.option("checkpointLocation", str(readings.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    readings.put(("a", "10:00:10", 1), ("a", "10:01:30", 2))
    run()
    assert received == [("a", 1)]
    readings.put(("a", "10:01:40", 4), ("a", "10:03:00", 8))
    run()
    assert received == [("a", 1), ("a", 6)]
    readings.spark.conf.set(STATE_FORMAT, "1")
    try:
        with pytest.raises(SetupError, match=rf"a query of your own .* or one with {STATE_FORMAT}=2"):
            run()
    finally:
        readings.spark.conf.set(STATE_FORMAT, "2")


def test_transform_names_a_query_whose_checkpoint_is_another(readings: Readings) -> None:
    """Its ticks would go to the one folder and its offsets to the other. With the folder that both have it goes on."""
    other = readings.folder / "other"
    readings.put(("a", "10:00:10", 1), ("a", "10:05:00", 2))

    def run(location: Path) -> None:
        frame = readings.computed().transform(checkpoint=readings.checkpoint)
        writer = frame.writeStream.format("memory").queryName("own").option("checkpointLocation", str(location))
        writer.trigger(availableNow=True).start().awaitTermination()

    both = rf"checkpointLocation at \S*{other}, and transform\(\) has the checkpoint {readings.checkpoint}; give both"
    with pytest.raises(StreamingQueryException, match=both):
        run(other)
    run(readings.checkpoint)
    assert readings.spark.table("own").count() == 1


def test_order_by_declares_the_order_of_arrival(readings: Readings) -> None:
    """`first` is the first by the declared order, however the rows stand in the file."""
    readings.put(("a", "10:00:30", 3), ("a", "10:00:10", 1), ("a", "10:00:20", 2), ("a", "10:02:00", 9))
    readings.run(order_by="value", total="first")

    assert readings.log() == [("a", "10:00", 1, 3, 0, "WATERMARK")]


@pytest.mark.extended
def test_the_clock_of_arrival_times_passes_in_every_key_group(
    readings: Readings, caplog: pytest.LogCaptureFixture
) -> None:
    """A sensor without rows has its tumbles when the rows of others say that it is time, whatever group they are in.

    A new checkpoint without numbers has those of the two cores, and keeps them, whatever a later session says.
    """
    readings.put(("a", "10:00:00", 1), ("b", "10:00:10", 2), ("c", "10:00:20", 3))
    readings.put(("d", "10:03:00", 4), ("a", "10:02:00", 5))
    found = []
    caplog.set_level("INFO", "panekeeper.job")
    own, partitions = readings.spark.conf, "spark.sql.shuffle.partitions"
    for key_groups, given in ((1, "4"), (None, None), (None, "3")):
        own.unset(partitions) if given is None else own.set(partitions, given)
        log = readings.folder / f"log{key_groups}"
        stream = windowed(readings.stream(), name="x", partition_by="sensor", arrival_time="at", key_groups=key_groups)
        job = stream.window(Tumbling(Time(60))).aggregate(n=agg.count(), last=agg.last("value")).to_delta(log)
        job.start(checkpoint=readings.folder / f"checkpoint{key_groups}", trigger="available_now").await_end()
        rows = [(row["sensor"], f"{row['fired_at']:%H:%M:%S}", row["last"]) for row in readings.rows(log.name)]
        found.append(sorted(rows))
    own.set(partitions, "4")
    assert found == [[("a", "10:01:00", 1), ("b", "10:01:10", 2), ("c", "10:01:20", 3)]] * 3
    record = json.loads((readings.folder / "checkpointNone/epochs/0000/panekeeper/job.json").read_text())
    assert (len(record["group_ids"]), record["declaration"]["key_groups"]) == (8, 8)
    state = readings.folder / "checkpointNone/epochs/0000/state/0"
    assert sorted(path.name for path in state.iterdir() if path.name.isdigit()) == ["0", "1"]
    assert "8 key groups on 2 shuffle partitions, by 2 cores (executors: 1)" in caplog.text


ODD = {
    "sensor": "CASE sensor WHEN 'utf8' THEN CAST(X'FFFE' AS STRING) ELSE sensor END",
    "share": "CASE WHEN sensor = 'nan' THEN DOUBLE('NaN') WHEN value % 2 = 0 THEN 0.0D ELSE -0.0D END",
    "arrived": "CASE sensor WHEN 'no arrival' THEN NULL WHEN 'too far' THEN at + INTERVAL 100 YEARS ELSE at END",
    "at": "CASE sensor WHEN 'year 10000' THEN TIMESTAMP'9999-12-31 23:00:00-05:00' ELSE at END",
}
"""Column -> what makes a poison row of some readings: values that no JSON file can hold, too."""


class Superstitious(agg.UserAggregate):
    """The last digits of a sum; raises for negative values, and where the sum is 13."""

    state = int

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        if value < 0:
            raise ValueError(f"{value} is negative")
        return (state + value) % 1_000_000

    def merge(self, a: int, b: int) -> int:
        return (a + b) % 1_000_000

    def result(self, state: int) -> int:
        if state == 13:
            raise RuntimeError("13 brings bad luck")
        return state % 1_000


def poisoned(rows: DataFrame) -> DataFrame:
    """The readings with the odd columns, all made of the columns as they were."""
    odd = [f"{made} AS {name}" for name, made in ODD.items()]
    return rows.selectExpr(*odd, "value")


def run_poisoned(readings: Readings) -> Job:
    """Run the job over what is there, and return it, ended."""
    job = (
        windowed(
            poisoned(readings.stream()),
            name="poisoned",
            partition_by=["sensor", "share"],
            event_time="at",
            watermark=0,
            arrival_time="arrived",
            max_ahead="1 day",
            key_groups=2,
        )
        .window(TimeInterval(60))
        .aggregate(total=agg.sum("value"), mine=agg.user(Superstitious(), "value", output="int64"))
        .to_delta(readings.folder / "log")
        .start(checkpoint=readings.checkpoint, trigger="available_now")
    )
    job.await_end()
    return job


def results_by_sensor(readings: Readings) -> dict[str, list[tuple[int | None, int | None]]]:
    """The results of each sensor, in the order of their panes."""
    found: dict[str, list[tuple[int | None, int | None]]] = {}
    for row in sorted(readings.rows("log"), key=lambda row: row["pane_start"]):
        found.setdefault(row["sensor"], []).append((row["total"], row["mine"]))
    return found


def test_poison_rows_are_quarantined_and_the_job_starts_again(
    readings: Readings, caplog: pytest.LogCaptureFixture
) -> None:
    """Bad times, keys, text, sums and functions: the other rows have their results, before and after a restart."""
    poison = ["utf8", "no arrival", "too far", "year 10000"]
    at = "10:00:10"
    readings.put(
        *((sensor, f"{at}.123456", 1) for sensor in poison),
        *[("sum", at, 2**62), ("sum", at, 2**62), ("unlucky", at, 13), ("negative", at, -7)],
        *[("good", at, 1), ("good", at, 2), ("nan", at, 1), ("nan", at, 2)],
    )
    readings.put(("good", "10:02:00", 3))
    with pytest.warns(UserWarning, match="could not be computed") as told:
        job = run_poisoned(readings)
    assert len(told) == 3  # one of each kind
    assert all(f"in the quarantine {readings.folder / 'log_quarantine'} (" in str(one.message) for one in told)
    errors = {"SUM_OVERFLOW": 1, "USER_ERROR": 2}
    assert job.status().errors == errors
    assert {one: sum(row["errors"].get(one, 0) for row in readings.rows("log_metrics")) for one in errors} == errors
    logged = [one.getMessage() for one in caplog.records if one.getMessage().startswith("the first USER_ERROR")]
    assert len(logged) == 2
    assert all("Traceback" in one and "in the result column 'mine'" in one for one in logged)

    first = {"sum": [(None, 808)], "unlucky": [(13, None)], "negative": [(-7, 0)], "good": [(3, 3)], "nan": [(3, 3)]}
    assert results_by_sensor(readings) == first
    quarantine = {row["reason"]: row for row in readings.rows("log_quarantine")}
    assert sorted(row["reason"] for row in readings.rows("log_quarantine")) == [
        "EVENT_TIME_OUT_OF_RANGE",
        "FUTURE_ARRIVAL_TIME",
        "INVALID_UTF8",
        "NULL_ARRIVAL_TIME",
        "SUM_OVERFLOW",
        "USER_ERROR",
        "USER_ERROR",
    ]
    assert quarantine["EVENT_TIME_OUT_OF_RANGE"]["event_time"] is None
    times = {row["batch"]: row["batch_time"] for row in readings.rows("log_metrics")}
    assert all(row["quarantined_at"] == times[row["batch"]] for row in quarantine.values())
    assert quarantine["EVENT_TIME_OUT_OF_RANGE"]["source"].startswith("file:/")
    assert quarantine["USER_ERROR"]["source"] is None
    assert "is outside of the years 1 to 9999" in quarantine["EVENT_TIME_OUT_OF_RANGE"]["detail"]
    assert "more than 1d ahead of its batch" in quarantine["FUTURE_ARRIVAL_TIME"]["detail"]
    assert '"at":"2024-05-01T10:00:10.123456Z"' in quarantine["NULL_ARRIVAL_TIME"]["row"]
    stacks = [row["detail"] for row in readings.rows("log_quarantine") if row["reason"] == "USER_ERROR"]
    assert any("13 brings bad luck" in stack and "in result" in stack for stack in stacks)
    assert any("-7 is negative" in stack and "in add" in stack for stack in stacks)
    assert json.loads(quarantine["SUM_OVERFLOW"]["row"])["sensor"] == "sum"

    readings.put(("good", "10:05:00", 4))
    run_poisoned(readings)
    assert results_by_sensor(readings) == first | {"good": [(3, 3), (3, 3)]}
    assert len(readings.rows("log_quarantine")) == 7
