"""A session of the user's own, with Delta configured the ordinary way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration_tests.class_archive import java_options
from panekeeper.framework.engine.session.java_libraries import DELTA, cached_jars

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
from pyspark.sql import SparkSession, functions as F
from panekeeper import SetupError, TimeInterval, agg, session, windowed

builder = SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "America/New_York")
builder = builder.config("spark.jars", JARS).config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
builder = builder.config("spark.sql.timestampType", "TIMESTAMP_NTZ")
spark = builder.getOrCreate()
SCHEMA = "sensor string, at timestamp_ntz"
for times in (["2024-03-10 00:30:00", "2024-03-10 23:30:00"], ["2024-03-10 02:30:00", "2024-03-13 01:00:00"]):
    rows = ", ".join(f"('a', TIMESTAMP_NTZ '{at}')" for at in times)
    spark.sql(f"SELECT * FROM VALUES {rows} AS t(sensor, at)").coalesce(1).write.json(FOLDER + "/in", mode="append")
stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(FOLDER + "/in")
days = windowed(stream, name="own", partition_by="sensor", event_time="at", watermark="1 hour").window(
    TimeInterval("1 day", discard_age="1 day")
)
written = days.aggregate(n=agg.count()).to_delta(FOLDER + "/log", view=FOLDER + "/view")
for _ in range(2):
    written.start(checkpoint=FOLDER + "/cp", trigger="available_now").await_end()
days = spark.read.schema(SCHEMA).json(FOLDER + "/in").groupBy(F.window("at", "1 day")).agg(F.count("*").alias("n"))
expected = {(row.window.start, row.window.end, row.n) for row in days.collect()}
view = spark.read.format("delta").load(FOLDER + "/view").collect()
found = {(row.pane_start, row.pane_end, row.n) for row in view}
print("DAYS", len(view), found == {one for one in expected if one[2] > 1}, found, expected)
spark.stop()
try:
    session(kafka=True)
except SetupError as error:
    print(error)
"""

WITH_A_FUNCTION = """
from pyspark.sql import SparkSession, functions as F
from panekeeper import SetupError, TimeInterval, agg, windowed
import beside

builder = SparkSession.builder.master("local[2]").config("spark.jars", JARS).config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
spark = builder.getOrCreate()
stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("startTimestamp", 1000).load()
stream = stream.withColumn("twice", F.udf(beside.twice, "bigint")("value"))
pane = windowed(stream, name="own", event_time="timestamp").window(TimeInterval(1)).aggregate(top=agg.max("twice"))
try:
    job = pane.to_delta(FOLDER + "/log").start(checkpoint=FOLDER + "/cp", trigger="available_now")
    job.flush()
    print("TOP", spark.read.format("delta").load(FOLDER + "/log").first().top)
except SetupError as error:
    print(error)
spark.stop()
"""


def environment_without_packages(folder: Path) -> dict[str, str]:
    """The variables of a shell whose python3 is another one, which does not even start."""
    (folder / "bin").mkdir()
    python3 = folder / "bin" / "python3"
    python3.write_text("#!/bin/sh\nexit 1\n")
    python3.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment |= {"PATH": f"{python3.parent}:{environment['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    return environment | {"PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": java_options()}


def test_a_session_of_ones_own_needs_no_setting_for_python_and_says_nothing(tmp_path: Path) -> None:
    """The workers run the Python of the program, and not the python3 of the shell; no key group is said to be new.

    Times without a zone have the days of their own calendar, as in Spark's window(): in New York, where this day has no
    02:30, too; and in a session in which `timestamp` means such times. When it is stopped, its Java side stays as it
    is: a session that needs more is refused at once.
    """
    program = tmp_path / "own.py"
    jars = ",".join(map(str, cached_jars(DELTA)))
    program.write_text(f"FOLDER, JARS = {str(tmp_path)!r}, {jars!r}\n{PROGRAM}")
    environment = environment_without_packages(tmp_path)
    command = [sys.executable, str(program)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert "DAYS 1 True" in ran.stdout, ran.stdout[-2000:] + ran.stderr[-4000:]
    assert "Spark's Java runs in this process already, without Kafka" in ran.stdout
    assert "contain a value" not in ran.stderr
    assert "TimerStateImpl" not in ran.stderr


@pytest.mark.release
def test_a_function_made_before_the_start_finds_what_is_beside_the_program(tmp_path: Path) -> None:
    """From whatever folder the program is started; if it runs another Python, the start says which variable to set."""
    program = tmp_path / "own.py"
    (tmp_path / "beside.py").write_text("def twice(n):\n    return 2 * n\n")
    jars = ",".join(map(str, cached_jars(DELTA)))
    program.write_text(f"FOLDER, JARS = {str(tmp_path)!r}, {jars!r}\n{WITH_A_FUNCTION}")
    environment = environment_without_packages(tmp_path)
    said = []
    for python in ({}, {"PYSPARK_PYTHON": sys.executable}):
        command = [sys.executable, str(program)]
        given = {**environment, **python}
        ran = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False, timeout=240)
        said.append(ran.stdout)
    assert "the Python of Spark's workers, python3, lacks" in said[0], said[0]
    assert f"PYSPARK_PYTHON={sys.executable}" in said[0]
    assert "TOP " in said[1], said[1]
