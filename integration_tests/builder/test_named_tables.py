"""Tables by their names in the catalog of the session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests.engine.conftest import Readings, shown
from integration_tests.engine.readings import FILES, LOG
from panekeeper import OutputNotWritable, SinkError
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.create import savepoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.builder.outputs import DeltaJob

PROGRAM = Path(__file__).with_name("catalog_program.py")


@pytest.fixture
def schema(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A schema of the catalog, which has a folder of its own."""
    spark.sql(f"CREATE SCHEMA metrics LOCATION '{tmp_path / 'warehouse'}'")
    yield "metrics"
    spark.sql("DROP SCHEMA metrics CASCADE")


def declared(readings: Readings, schema: str) -> DeltaJob:
    """The job with its log and view in the catalog."""
    return readings.computed().to_delta(
        table=f"{schema}.totals",
        view=f"{schema}.newest",
        properties={"delta.logRetentionDuration": "interval 60 days"},
        cluster_by="sensor",
    )


def run(job: DeltaJob, readings: Readings) -> None:
    """Run the job over what is there."""
    assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)


def test_results_are_in_the_tables_of_the_catalog(readings: Readings, schema: str) -> None:
    """They are created as declared; a name that leads elsewhere later is refused."""
    spark = readings.spark
    for rows in FILES:
        readings.put(*rows)
    job = declared(readings, schema)
    run(job, readings)
    detail = spark.sql("DESCRIBE DETAIL metrics.totals").collect()[0]
    assert detail["clusteringColumns"] == ["sensor"]
    assert detail["properties"]["delta.logRetentionDuration"] == "interval 60 days"
    names = {row["tableName"] for row in spark.sql("SHOW TABLES IN metrics").collect()}
    assert names == {"totals", "newest", "totals_quarantine", "totals_metrics", "totals_downtime"}
    _require_results(spark)

    spark.sql("ALTER TABLE metrics.newest RENAME TO metrics.other")
    with pytest.raises(SinkError, match=r"metrics\.newest .* the catalog has no such table.*no Delta table any more"):
        run(job, readings)
    other = readings.computed().to_delta(table="metrics.totals", view="metrics.other")
    with pytest.raises(SinkError, match=r"metrics\.other .* that is the table in .*rename it back \(ALTER TABLE"):
        run(other, readings)


@pytest.mark.release  # tables by their paths are saved and restored, and these by their names written
def test_tables_of_the_catalog_are_saved_and_restored(readings: Readings, schema: str, tmp_path: Path) -> None:
    """A savepoint has their paths and versions; the job goes on from it, twice, with the same results."""
    spark = readings.spark
    for rows in FILES[:2]:
        readings.put(*rows)
    job = declared(readings, schema)
    run(job, readings)
    savepoint(readings.checkpoint, "one", to=tmp_path / "savepoints", spark=spark)
    for rows in FILES[2:]:
        readings.put(*rows)
    run(job, readings)
    for _ in range(2):
        _require_results(spark)
        restore(tmp_path / "savepoints", "one", spark=spark)
        run(job, readings)


def _require_results(spark: SparkSession) -> None:
    assert shown(row.asDict() for row in spark.table("metrics.totals").collect()) == LOG
    assert shown(row.asDict() for row in spark.table("metrics.newest").collect()) == LOG[1:]


def test_what_the_catalog_has_instead_is_refused(readings: Readings, schema: str) -> None:
    """A table of another format, and a schema that is not there."""
    readings.spark.sql("CREATE TABLE metrics.totals (a INT) USING parquet")
    with pytest.raises(OutputNotWritable, match=r"metrics\.totals is of format parquet"):
        run(declared(readings, schema), readings)
    with pytest.raises(OutputNotWritable, match=r"no_such\.totals cannot be created"):
        run(declared(readings, "no_such"), readings)


@pytest.mark.release  # test_results_are_in_the_tables_of_the_catalog shows the rest
def test_a_catalog_on_disk_has_the_tables_after_a_restart(readings: Readings) -> None:
    """Another process resumes the job by the names alone."""
    environment = os.environ | {"PYTHONPATH": str(PROGRAM.parents[2])}
    command = [sys.executable, str(PROGRAM), str(readings.folder)]
    for files in (FILES[:1], FILES[1:]):
        for rows in files:
            readings.put(*rows)
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert ran.returncode == 0, ran.stderr[-4000:]
    assert readings.log("warehouse/totals") == LOG
