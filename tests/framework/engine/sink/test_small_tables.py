"""Which of a job's tables take small commits, found out once a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from deltalake import DeltaTable

from framework.engine.sink.small_commit_checks import UnsupportedTable
from framework.engine.sink.small_commits import SmallCommits
from framework.engine.sink.small_tables import SmallTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)  # needed for tables on S3 only
SCHEMA = pa.schema([("sensor", pa.string())])
ROWS = pa.table({"sensor": ["a"]}, schema=SCHEMA)


def test_a_table_that_takes_small_commits_stays_open(tmp_path: Path) -> None:
    """Also where Spark commits to it in between; then it is read again."""
    DeltaTable.create(tmp_path, schema=SCHEMA)
    tables = SmallTables()
    opened: list[SmallCommits] = []
    done: list[bool] = []

    def append(to: SmallCommits) -> None:
        opened.append(to)
        done.append(to.append(ROWS, "a", len(done)))

    for _ in range(3):
        assert tables.commit(NO_SPARK, str(tmp_path), append)
        tables.reopen(str(tmp_path))
    assert done == [True, True, True]
    assert opened[0] is opened[1] is opened[2]


def test_a_table_that_does_not_is_left_to_spark_for_the_rest_of_the_run(tmp_path: Path) -> None:
    """Whether that is seen when it is opened or by what shall be committed; it is not tried again."""
    table = tmp_path / "table"
    DeltaTable.create(table, schema=SCHEMA)
    tables = SmallTables()

    def refuse(to: SmallCommits) -> None:
        raise UnsupportedTable(f"{to} cannot")

    for path in (str(tmp_path / "none"), str(table), "hdfs://host/table"):
        assert not tables.commit(NO_SPARK, path, refuse)
        assert not tables.commit(NO_SPARK, path, lambda to: to.append(ROWS, "a", 0))
        tables.reopen(path)
    assert DeltaTable(table).version() == 0
