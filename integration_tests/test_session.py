"""The session on real Spark: settings in force, Delta at hand, and one session a process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from panekeeper.framework.engine.session.python_workers import MEMORY
from panekeeper.framework.engine.session.session import session
from panekeeper.framework.engine.session.settings import TIME_ZONE, session_zone


def test_settings_and_delta_are_in_force(spark: SparkSession, tmp_path: Path) -> None:
    """A session writes and reads Delta, keeps state in RocksDB and thinks in UTC."""
    table = str(tmp_path / "table")
    spark.range(3).write.format("delta").save(table)
    assert spark.read.format("delta").load(table).count() == 3
    assert "RocksDB" in str(spark.conf.get("spark.sql.streaming.stateStore.providerClass"))
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"


def test_a_second_call_gives_the_running_session(spark: SparkSession) -> None:
    """A second call in one process takes part in the running session instead of starting another."""
    assert session("again", cores=2, **{"spark.sql.shuffle.partitions": 4}).sparkContext is spark.sparkContext
    with ThreadPoolExecutor(1) as another_thread:
        assert another_thread.submit(session).result().sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"


def test_workers_keep_the_memory_of_large_arrays(spark: SparkSession) -> None:
    """The C library takes these variables when a worker's process begins, so they are in its environment."""
    names = list(MEMORY)
    of_workers = spark.sparkContext.parallelize([0], 1).map(lambda _: [os.environ.get(name) for name in names])
    assert of_workers.collect() == [list(MEMORY.values())]


def test_a_session_whose_zone_was_not_set_has_that_of_its_machine(spark: SparkSession) -> None:
    """A checkpoint records the zone in force: not to set it on the next machine is another zone."""
    assert session_zone(spark) == "UTC"
    jvm: Any = spark._jvm
    machine = jvm.java.util.TimeZone.getDefault().getID()
    spark.conf.unset(TIME_ZONE)
    try:
        assert session_zone(spark) == machine
    finally:
        spark.conf.set(TIME_ZONE, "UTC")
