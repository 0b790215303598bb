"""Window marks on Spark reach every key group once, wherever the rows around them are read, and across restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper import Punctuation, Tumbling, agg, windowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.engine.conftest import Readings

SMALL_SPLITS = {"spark.sql.files.maxPartitionBytes": "64", "spark.sql.files.openCostInBytes": "0"}
"""So small that each row of a file may be read by another task."""


def run(readings: Readings, *, files_a_batch: int = 1, **declared: Any) -> list[tuple[str, int]]:
    """Let a job process what is there; return (sensor, total) of each tumble until now, in the order of the batches."""
    reader = readings.spark.readStream.schema("sensor string, at timestamp, value bigint")
    rows = reader.option("maxFilesPerTrigger", files_a_batch).json(str(readings.folder / "in"))
    stream = windowed(rows, name="marked", partition_by="sensor", key_groups=4, **declared)
    computed = stream.window(Tumbling(Punctuation())).aggregate(total=agg.sum("value"))
    job = computed.to_delta(readings.folder / "log").start(checkpoint=readings.checkpoint, trigger="available_now")
    assert job.await_end(timeout=300)
    log = sorted(readings.rows("log"), key=lambda row: (row["fired_at"], row["sensor"], row["firing"]))
    return [(row["sensor"], row["total"]) for row in log]


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[None]:
    """Settings by which several tasks read one file."""
    for name, value in SMALL_SPLITS.items():
        spark.conf.set(name, value)
    yield
    for name in SMALL_SPLITS:
        spark.conf.unset(name)


@pytest.mark.usefixtures("small_splits")
def test_every_input_file_ends_with_one_mark(readings: Readings) -> None:
    """Also of two files in a batch, of a file whose rows several tasks read, and of the first one after a restart."""
    readings.put(("a", None, 1), ("b", None, 2), ("a", None, 4), ("c", None, 8))
    readings.put(("a", None, 16), ("d", None, 32))
    readings.put(("b", None, 64))
    first = [("a", 5), ("a", 16), ("b", 2), ("c", 8), ("d", 32), ("b", 64)]
    assert run(readings, files_a_batch=2, punctuation="end_of_file") == first

    readings.put(("c", None, 128), ("a", None, 256))
    readings.put(("a", None, 512))
    then = [("a", 256), ("a", 512), ("c", 128)]
    assert run(readings, files_a_batch=2, punctuation="end_of_file") == first + then


@pytest.mark.extended
def test_a_row_that_is_a_mark_ends_the_windows_of_every_partition(readings: Readings) -> None:
    """Of those without a row in its batch, too; what came behind it waits for the next one, over a restart."""
    readings.put(("a", None, 1), ("b", None, 2), ("c", None, 4), ("d", None, 8))
    readings.put(("a", None, 16), ("any", None, 0), ("b", None, 32))
    first = [("a", 17), ("b", 2), ("c", 4), ("d", 8)]
    assert run(readings, marks="value = 0") == first

    readings.put(("c", None, 64))
    readings.put(("any", None, 0))
    assert run(readings, marks="value = 0") == [*first, ("b", 32), ("c", 64)]


@pytest.mark.extended
def test_the_time_of_a_row_that_is_a_mark_does_not_move_the_watermark(readings: Readings) -> None:
    """A time interval ignores marks: the rows after one with a time of its own, or a wrong one, are not late."""
    readings.put(("a", "10:00:10", 1))
    readings.put(("mark", "23:59:59", 0))
    readings.put(("a", "10:00:20", 2), ("a", "10:02:00", 4))
    readings.put(("a", "10:02:01", 8))
    readings.run(marks="sensor = 'mark'")
    assert readings.log() == [("a", "10:00", 3, 2, 0, "WATERMARK")]
