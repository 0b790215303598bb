"""Others work on the tables of a job: OPTIMIZE, VACUUM, ALTER, another writer. Nothing is lost, and the job goes on."""

from __future__ import annotations

import json
import logging
import re
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from integration_tests.drills.faults import armed
from integration_tests.engine.readings import FILES, LOG
from integration_tests.selection import first_before_release
from panekeeper import Count, PanekeeperError, SinkError, Tumbling, agg, windowed
from panekeeper.framework.engine.flow import processor
from panekeeper.framework.engine.session.settings import session_settings
from panekeeper.framework.engine.sink import spark_table
from panekeeper.recovery.upkeep.maintain import maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.engine.conftest import Readings


def sql(readings: Readings, before: str, table: str, after: str = "") -> None:
    """Run a statement on a table: what stands before its name, and what stands after."""
    readings.spark.sql(f"{before} delta.`{readings.folder / table}` {after}").collect()


class Maintenance:
    """Before the commits of batch 3 somebody else compacts the tables and changes their properties."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.times = 0

    def matches(self, point: str, batch: int) -> bool:
        return (point, batch) == ("before-delta", 3)

    def trigger(self) -> None:
        self.times += 1
        for table in ("view", "log_metrics"):
            sql(self.readings, "OPTIMIZE", table)
            sql(self.readings, "ALTER TABLE", table, "SET TBLPROPERTIES ('own.note' = 'was here')")


@pytest.mark.parametrize("way", ["the library", pytest.param("Spark", marks=pytest.mark.release)])
def test_a_job_goes_on_beside_optimize_and_alter(readings: Readings, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Between the run of a batch and its commits; the tables are those of a job that has them to itself."""
    for rows in FILES:
        readings.put(*rows)
    if way == "Spark":
        monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    maintenance = Maintenance(readings)
    armed.arm(maintenance)
    try:
        readings.run()
    finally:
        armed.disarm(maintenance)
    assert maintenance.times == 1
    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]
    assert sum(row["rows_in"] for row in readings.rows("log_metrics")) == 8


def test_a_merge_by_spark_is_repeated_after_an_optimize_that_came_first(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The files that the merge has read are gone when it commits."""
    view, reading, done = str(tmp_path / "view"), tmp_path / "reading", tmp_path / "done"
    for value in (1, 2):
        spark.sql(f"SELECT {value} AS key, 1 AS firing").coalesce(1).write.format("delta").mode("append").save(view)
    source = spark.sql("SELECT 1 AS key, 2 AS firing").withColumn("firing", _blocked(reading, done)("firing"))
    with caplog.at_level(logging.INFO, "panekeeper.sink"):
        optimize = threading.Thread(target=_optimize_once, args=(spark, view, reading, done))
        optimize.start()
        spark_table.merge(
            spark,
            source,
            view,
            condition="t.key = s.key",
            newer_by="firing",
            is_copy=True,
            transaction="a",
            number=1,
        )
        optimize.join()
    assert "another writer came first (Concurrent" in caplog.text
    assert sorted(spark.read.format("delta").load(view).collect()) == [(1, 2), (2, 1)]


def _blocked(reading: Path, done: Path) -> Any:
    """Return a function that lets its value pass once `done` is there."""

    def passes(value: int) -> int:
        Path(str(reading)).touch()
        for _ in range(6000):
            if Path(str(done)).exists():
                return value
            time.sleep(0.02)  # until the other process is done
        raise TimeoutError

    return F.udf(passes, "int")


def _optimize_once(spark: SparkSession, table: str, reading: Path, done: Path) -> None:
    while not reading.exists():
        time.sleep(0.02)  # until the worker is there
    spark.sql(f"OPTIMIZE delta.`{table}`").collect()
    done.touch()


CHANGES = [
    (
        "log",
        "SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 day')",
        "only which batches",
    ),
    ("log", "UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')", None),
    ("view", "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", None),
    ("view", "RENAME COLUMN n TO number", "n: absent in the table"),
    ("view", "RENAME COLUMN number TO n", None),
]


@pytest.mark.parametrize("way", first_before_release(("library",), ("Spark",)))
def test_a_column_that_others_have_added_is_theirs(
    readings: Readings, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The running job and the next start leave it alone: it is null in new rows, and keeps what others have written."""
    if way == "Spark":
        monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    readings.put(*FILES[0])
    readings.run()
    tables = ("log", "view", "log_quarantine", "log_metrics", "log_downtime")
    for table in tables:
        sql(readings, "ALTER TABLE", table, "ADD COLUMNS (note STRING, more STRUCT<x: INT>)")
    sql(readings, "UPDATE", "view", "SET note = 'kept'")
    for rows in FILES[1:]:
        readings.put(*rows)
        readings.run()
    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]
    found = {table: {(row["note"], row["more"]) for row in readings.rows(table)} for table in tables}
    assert found.pop("view") in ({("kept", None), (None, None)}, {(None, None)})
    assert set().union(*found.values()) == {(None, None)}


def test_what_delta_refuses_by_a_rule_of_others_is_said_in_its_words_and_then_completed(readings: Readings) -> None:
    """A constraint that a result violates; a view that is append-only, which each batch would violate, at the start."""
    readings.put(*FILES[0])
    readings.run()
    sql(readings, "ALTER TABLE", "log", "ADD CONSTRAINT none CHECK (n < 1)")
    for rows in FILES[1:]:
        readings.put(*rows)
    with pytest.raises(PanekeeperError, match=r"CHECK constraint none \(n < 1\)"):
        readings.run()
    sql(readings, "ALTER TABLE", "log", "DROP CONSTRAINT none")
    readings.run()
    sql(readings, "ALTER TABLE", "view", "SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with pytest.raises(SinkError, match=r"the view .* is append-only .*UNSET TBLPROPERTIES"):
        readings.start()
    sql(readings, "ALTER TABLE", "view", "UNSET TBLPROPERTIES ('delta.appendOnly')")
    readings.run()
    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]


@pytest.mark.extended
def test_a_setting_that_may_lose_or_change_results_is_refused_at_the_start(readings: Readings) -> None:
    """With the way out; and after that the job goes on, also where columns are mapped to other names now."""
    readings.put(*FILES[0])
    readings.run()
    for table, change, message in CHANGES:
        sql(readings, "ALTER TABLE", table, change)
        if message is not None:
            with pytest.raises(SinkError, match=re.compile(message, re.DOTALL)):
                readings.start()
    for rows in FILES[1:]:
        readings.put(*rows)
    readings.run()
    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]


def test_a_table_that_this_version_of_delta_cannot_read_is_an_error_that_names_it(readings: Readings) -> None:
    """Another engine has given it a feature; and a folder that has become something else is not a new table."""
    readings.put(*FILES[0])
    readings.run()
    log = readings.folder / "view" / "_delta_log"
    newest = max(int(path.stem) for path in log.glob("*.json"))
    feature = {"readerFeatures": ["fromTheFuture"], "writerFeatures": ["fromTheFuture"]}
    line = json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | feature})
    (log / f"{newest + 1:020d}.json").write_text(line)
    with pytest.raises(SinkError, match=r"(?s)/view cannot be read\. .*fromTheFuture"):
        readings.start()
    shutil.rmtree(log)
    (readings.folder / "view" / "data.csv").write_text("1,2")
    with pytest.raises(SinkError, match=r"the table .*/view is gone, and this checkpoint has written to it"):
        readings.start()


@pytest.mark.release  # CI lets others optimize a view of ordinary times
@pytest.mark.parametrize("by", [{"outputTimestampType": "INT96"}, {"datetimeRebaseModeInWrite": "LEGACY"}], ids=str)
def test_times_far_from_now_stay_as_they_are_in_a_view_that_others_optimize(
    readings: Readings, by: dict[str, str]
) -> None:
    """The library that makes small commits would misread them there; Spark writes them so that it does not."""
    spark, view = readings.spark, readings.folder / "view"
    far = F.to_timestamp(F.concat(F.col("sensor"), F.lit("-12-31 00:00:00.123456")))
    windows = windowed(readings.stream().withColumn("until", far), name="far", partition_by="until", key_groups=1)
    job = windows.window(Tumbling(Count(1))).aggregate(total=agg.sum("value"))

    def run(sensor: str) -> None:
        readings.put((sensor, "10:00:00", readings.files + 1))
        tables = job.to_delta(readings.folder / "log", view=view)
        with session_settings(spark, {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}):
            assert tables.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)

    for sensor in ("2999", "0001", "2024"):
        run(sensor)
    with session_settings(spark, {f"spark.sql.parquet.{name}": value for name, value in by.items()}):
        sql(readings, "OPTIMIZE", "view")
    assert stored_types(view) == {by.get("outputTimestampType", "INT64")}
    for sensor in ("2999", "0001"):  # older rows are in the view
        run(sensor)
    with session_settings(spark, {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}):
        maintain(readings.checkpoint, spark=spark)
    text = F.date_format("until", "yyyy-MM-dd").alias("until")
    found = spark.read.format("delta").load(str(view)).select(text, "total").collect()
    assert sorted(map(tuple, found)) == [("0001-12-31", 5), ("2024-12-31", 3), ("2999-12-31", 4)]
    assert stored_types(view) == {"INT64"}


def stored_types(table: Path) -> set[str]:
    """Return how the times of a partition column are stored in the files of a table."""
    files = DeltaTable(table).to_pyarrow_dataset().get_fragments()
    schemas = [file.metadata.schema for file in files]
    return {one.column(one.names.index("until")).physical_type for one in schemas}
