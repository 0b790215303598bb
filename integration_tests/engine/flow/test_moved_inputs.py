"""Input files that were moved, and streams in another order: no row is read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.readings import FILES, LOG
from panekeeper import (
    Count,
    DeclarationError,
    IncompatibleCheckpoint,
    JobFailed,
    TimeInterval,
    Tumbling,
    agg,
    windowed,
)
from panekeeper.framework.engine.session.settings import session_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from integration_tests.engine.conftest import Readings
    from panekeeper.framework.builder.outputs import DeltaJob


def stream(readings: Readings, folder: Path, **options: str) -> DataFrame:
    """The readings in a folder."""
    reader = readings.spark.readStream.schema("sensor string, at timestamp, value bigint").options(**options)
    return reader.option("maxFilesPerTrigger", 1).json(str(folder))


def run(readings: Readings, rows: DataFrame) -> None:
    """Let the job of the readings process what these streams hold."""
    by_minute = windowed(rows, name="readings", partition_by="sensor", event_time="at", key_groups=4).window(
        TimeInterval(60, discard_age=120)
    )
    job = by_minute.aggregate(total=agg.sum("value"), n=agg.count()).to_delta(readings.folder / "log")
    assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)


def test_files_that_were_moved_are_not_read_again(readings: Readings) -> None:
    """Refused also after an idle batch, where Spark takes them for new ones; by their names alone they are known."""
    before, now = readings.folder / "in", readings.folder / "moved"
    for rows in FILES[:2]:
        readings.put(*rows)
    for _ in range(2):
        run(readings, stream(readings, before))
    for rows in FILES[2:]:
        readings.put(*rows)
    before.rename(now)
    with pytest.raises(IncompatibleCheckpoint, match=r"has read file:\S+/in, and is to read file:\S+/moved now"):
        run(readings, stream(readings, now))
    run(readings, stream(readings, now, fileNameOnly="true"))
    with pytest.raises(IncompatibleCheckpoint, match="were read with the option fileNameOnly"):
        run(readings, stream(readings, now))
    assert readings.log() == LOG


@pytest.mark.extended
def test_a_start_that_spark_refuses_leaves_the_record_of_the_inputs(readings: Readings) -> None:
    """What Spark has not read is not recorded; with the files put back, the old program goes on."""
    before, now = readings.folder / "in", readings.folder / "moved"
    readings.put(*FILES[0])
    run(readings, stream(readings, before))
    before.rename(now)
    with pytest.raises(JobFailed, match="sourceArchiveDir"):
        run(readings, stream(readings, now, fileNameOnly="true", cleanSource="archive"))
    now.rename(before)
    for rows in FILES[1:]:
        readings.put(*rows)
    run(readings, stream(readings, before))
    assert readings.log() == LOG


@pytest.mark.extended
def test_streams_of_a_union_in_another_order_are_refused(readings: Readings) -> None:
    """Spark knows them by their places; in the old order they go on."""
    first, second = readings.folder / "in", readings.folder / "second"
    second.mkdir()
    readings.put(*FILES[0])
    (first / "0000.json").rename(second / "0.json")
    readings.put(*FILES[1])
    for _ in range(2):
        run(readings, stream(readings, second).union(stream(readings, first)))
    for rows in FILES[2:]:
        readings.put(*rows)
    with pytest.raises(IncompatibleCheckpoint, match=r"in another order than before: file:\S+/in, file:\S+/second"):
        run(readings, stream(readings, first).union(stream(readings, second)))
    run(readings, stream(readings, second).union(stream(readings, first)))
    assert sum(row["rows_in"] for row in readings.rows("log_metrics")) == sum(map(len, FILES))


def test_a_stream_that_is_used_twice_is_refused(readings: Readings) -> None:
    """Spark has one log for both uses, and two places in the offsets. One that is made for each use needs a name."""
    readings.put(*FILES[0])
    rows = stream(readings, readings.folder / "in")
    odd, even = rows.where("value % 2 = 1"), "value % 2 = 0"
    with pytest.raises(DeclarationError, match=r"the stream that reads file:\S+/in is used twice in the job"):
        run(readings, odd.union(rows.where(even)))
    with pytest.raises(DeclarationError, match=r"two streams of the job read file:\S+/in with the same options"):
        run(readings, odd.union(stream(readings, readings.folder / "in").where(even)))
    second = stream(readings, readings.folder / "in", stream="even").where(even)
    for more in FILES[1:]:
        run(readings, odd.union(second))
        readings.put(*more)
    run(readings, odd.union(second))
    assert sum(row["rows_in"] for row in readings.rows("log_metrics")) == sum(map(len, FILES))


def test_a_table_is_not_read_from_its_latest_version_which_is_another_at_each_start(readings: Readings) -> None:
    """Until a batch with rows is committed: rows of an interrupted one would be lost. A number stays the same."""
    table = str(readings.folder / "table")
    readings.spark.range(3).selectExpr("id AS value").write.format("delta").save(table)

    def start(version: str) -> None:
        rows = readings.spark.readStream.format("delta").option("startingVersion", version).load(table)
        job = windowed(rows, name="x").window(Tumbling(Count(1))).aggregate(n=agg.count())
        started = job.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger="available_now")
        assert started.await_end(timeout=300)

    with pytest.raises(DeclarationError, match=rf"startingVersion = latest, .*COMMENT ON TABLE delta\.`{table}` IS"):
        start("latest")
    readings.spark.sql(f"COMMENT ON TABLE delta.`{table}` IS 'read from here'")
    start("1")
    readings.spark.range(2).selectExpr("id AS value").write.format("delta").mode("append").save(table)
    start("1")
    assert len(readings.rows("log")) == 2


@pytest.mark.release  # CI damages an input file
@pytest.mark.parametrize("way", ["the rows are left out", "a reset"])
def test_a_table_that_was_vacuumed_before_it_was_read_has_a_way_out(readings: Readings, way: str) -> None:
    """As after a stop that was longer than its retention. The error names both, and each start had failed before."""
    table = readings.folder / "table"

    def append(*values: int) -> None:
        rows = readings.spark.createDataFrame([(value,) for value in values], "value bigint").coalesce(1)
        rows.write.format("delta").mode("append").save(str(table))

    def job() -> DeltaJob:
        rows = readings.spark.readStream.format("delta").load(str(table))
        computed = windowed(rows, name="x").window(Tumbling(Count(1))).aggregate(of=agg.max("value"))
        return computed.to_delta(readings.folder / "log", metrics=readings.folder / "metrics")

    def run() -> None:
        assert job().start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)

    append(1)
    run()
    append(2)
    append(3)
    readings.spark.sql(f"OPTIMIZE delta.`{table}`")
    kept = {Path(file).name for file in readings.frame("table").inputFiles()}
    for file in table.glob("*.parquet"):
        if file.name not in kept:
            file.unlink()
    with pytest.raises(JobFailed, match=r"FILE_NOT_EXIST\].*ignoreMissingFiles to true .*reset the job to its initial"):
        run()
    if way == "a reset":
        job().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="x")
        run()
    else:
        with session_settings(readings.spark, {"spark.sql.files.ignoreMissingFiles": "true"}):
            run()
    append(4)
    run()
    read = [1, 1, 2, 3, 4] if way == "a reset" else [1, 4]
    assert sorted(row["of"] for row in readings.rows("log")) == read


@pytest.mark.extended
def test_a_damaged_input_file_has_a_way_out(readings: Readings) -> None:
    """Moved away, as the error says, its rows are left out."""
    folder = readings.folder / "parquet"

    def start() -> None:
        rows = readings.spark.readStream.schema("value bigint").parquet(str(folder))
        job = windowed(rows, name="x").window(Tumbling(Count(1))).aggregate(of=agg.max("value"))
        table = job.to_delta(readings.folder / "log")
        started = table.start(checkpoint=readings.checkpoint, trigger="available_now")
        assert started.await_end(timeout=300)

    readings.spark.range(2).selectExpr("id AS value").coalesce(1).write.parquet(str(folder))
    (folder / "half.parquet").write_bytes(b"PAR1, and no more")
    with pytest.raises(JobFailed, match=r"FAILED_READ_FILE\..*half\.parquet.* move it away, and the next start"):
        start()
    (folder / "half.parquet").unlink()
    start()
    assert sorted(row["of"] for row in readings.rows("log")) == [0, 1]
