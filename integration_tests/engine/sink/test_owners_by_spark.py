"""Tables that only Spark can write belong to one checkpoint, as all others do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.sink import spark_table
from panekeeper.framework.engine.sink.delta_log import newest_version, read_table
from panekeeper.framework.engine.sink.fencing import own
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.state.checkpoint.job_record import OWNER, JobRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = JobRecord(name="first", id="ba9876543210", declaration={}, group_ids=(0,), versions={})


@pytest.fixture
def clustered(spark: SparkSession, tmp_path: Path) -> LocalFiles:
    """A table which the library is not trusted to write."""
    spark.sql(f"CREATE TABLE delta.`{tmp_path / 'log'}` (sensor STRING, n BIGINT) USING DELTA CLUSTER BY (sensor)")
    return LocalFiles(tmp_path / "log")


def test_a_table_keeps_its_owner_until_a_restore_takes_it(spark: SparkSession, clustered: LocalFiles) -> None:
    """A second checkpoint is refused; a repeat commits nothing; the number of the new owner may be less."""
    tables, second = {"log": clustered.root}, replace(FIRST, name="second", id="0123456789ab")
    own(spark, tables, FIRST)
    version = newest_version(clustered)
    own(spark, tables, replace(FIRST, epoch=3))
    with pytest.raises(SinkError, match=r"the table .*/log belongs to another checkpoint \(id ba9876543210\)"):
        own(spark, tables, second)
    assert newest_version(clustered) == version
    own(spark, tables, second, take=True)
    own(spark, tables, second)
    assert read_table(clustered).owner == second.id
    assert spark_table.read_table(spark, clustered.root) == read_table(clustered)


def test_of_two_owners_at_the_same_time_one_wins(spark: SparkSession, clustered: LocalFiles) -> None:
    """Whichever was second finds the first one's number in the log."""
    gate = Barrier(2)

    def take(number: int) -> int:
        gate.wait()
        return spark_table.own(spark, clustered.root, OWNER, number, take=False)

    with ThreadPoolExecutor(2) as pool:
        found = set(pool.map(take, (7, 8)))
    assert found == {read_table(clustered).last_transaction(OWNER)}
