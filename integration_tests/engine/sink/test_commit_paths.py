"""Who commits a batch, the library in this process or Spark, makes no difference to what stands in the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from delta.tables import DeltaTable

from framework.declarations.errors import SinkError
from framework.engine.sink import batch_output
from framework.engine.sink.small_commits import SmallCommits
from integration_tests.engine.readings import FILES, LOG
from panekeeper import JobFailed
from state.checkpoint.job_record import JobRecord
from state.checkpoint.layout import JOB_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.engine.conftest import Readings

VIEW = [row for row in LOG if row != LOG[0]]


@pytest.fixture
def change_feeds(spark: SparkSession) -> Iterator[None]:
    """New tables keep a change feed, which the library is not trusted to write."""
    name = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    spark.conf.set(name, "true")
    yield
    spark.conf.unset(name)


def writers(readings: Readings, table: str) -> set[str]:
    """Who made the commits with rows: "delta-rs" or "Apache-Spark"."""
    history = DeltaTable.forPath(readings.spark, str(readings.folder / table)).history()
    infos = history.where("operation in ('WRITE', 'MERGE')").select("engineInfo").collect()
    return {"delta-rs" if info[0].startswith("delta-rs") else info[0].partition("/")[0] for info in infos}


def put_all(readings: Readings) -> None:
    """All files of the story."""
    for rows in FILES:
        readings.put(*rows)


def test_small_outputs_are_committed_without_spark(readings: Readings) -> None:
    """All tables that a small job writes."""
    put_all(readings)
    readings.run()
    assert {table: writers(readings, table) for table in ("log", "view", "log_quarantine", "log_metrics")} == {
        table: {"delta-rs"} for table in ("log", "view", "log_quarantine", "log_metrics")
    }


@pytest.mark.parametrize("point", ["between-delta", pytest.param("after-delta-commit", marks=pytest.mark.extended)])
@pytest.mark.usefixtures("change_feeds")
def test_tables_that_the_library_cannot_write_are_written_by_spark(
    readings: Readings, fail_at: Callable[[str, int], None], point: str
) -> None:
    """With the same rows, also when the batch is run again."""
    put_all(readings)
    fail_at(point, 2)
    with pytest.raises(JobFailed, match="the line went dead"):
        readings.run()
    readings.run()
    assert writers(readings, "log") == writers(readings, "view") == {"Apache-Spark"}
    assert readings.log() == LOG
    assert readings.log("view") == VIEW


@pytest.mark.parametrize("first", ["the library", pytest.param("Spark", marks=pytest.mark.extended)])
def test_a_batch_that_one_of_them_committed_is_skipped_by_the_other(
    readings: Readings, fail_at: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """All tables were committed before the failure; the repeat takes the other way."""
    small = batch_output._DRIVER_BYTES
    put_all(readings)
    fail_at("after-delta-commit", 2)
    monkeypatch.setattr(batch_output, "_DRIVER_BYTES", small if first == "the library" else 0)
    with pytest.raises(JobFailed, match="the line went dead"):
        readings.run()
    monkeypatch.setattr(batch_output, "_DRIVER_BYTES", 0 if first == "the library" else small)
    readings.run()
    assert writers(readings, "log") == {"delta-rs", "Apache-Spark"}
    assert readings.log() == LOG
    assert readings.log("view") == VIEW


def test_a_later_epoch_lets_no_process_of_an_earlier_one_commit(readings: Readings) -> None:
    """It raises in the library; Spark skips its append, as the version is known."""
    put_all(readings)
    readings.run()
    record = JobRecord.from_json(json.loads((readings.checkpoint / JOB_FILE).read_text()))
    paused = SmallCommits(str(readings.folder / "log"), sleep=lambda _: None)
    readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    readings.run()
    log = readings.log()
    rows = readings.spark.read.format("delta").load(str(readings.folder / "log")).limit(1)
    arrow: pa.Table = rows.toArrow()
    with pytest.raises(SinkError, match="a later epoch"):
        paused.append(arrow, record.transaction("log"), 10_000)
    writer = rows.write.format("delta").mode("append").option("txnAppId", record.transaction("log"))
    writer.option("txnVersion", 10_000).save(str(readings.folder / "log"))
    assert readings.log() == log
