"""Which commits of Spark count as whole: all that it makes, and none that has lost a line of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable

from integration_tests.recovery.power_cut import KEPT
from integration_tests.recovery.table_cut import TableCut
from integration_tests.selection import first_before_release
from panekeeper.framework.engine.delta_log.damage import damaged_log
from panekeeper.framework.engine.sink.spark_commits import append, delete_all, merge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.engine.conftest import Readings

JOB = "j/view@0123456789ab#0"
ROWS = 40


def make(spark: SparkSession, path: str, properties: str) -> None:
    """Make a table of three files."""
    spark.sql(f"CREATE TABLE delta.`{path}` (k BIGINT, n BIGINT) USING delta TBLPROPERTIES ({properties})")
    for first in range(0, ROWS, 10):
        spark.range(first, first + 10, 1, 1).selectExpr("id k", "0L n").write.format("delta").mode("append").save(path)


def append_rows(spark: SparkSession, path: str) -> None:
    """As a large batch does, whose first task has no row: Spark writes an empty file for it, and Delta adds none."""
    rows = spark.range(0, 100, 1, 4).where("id >= 25")
    assert rows.rdd.glom().map(len).collect()[0] == 0
    append(rows.selectExpr("id k", "1L n"), path, JOB, 7)


def merge_rows(spark: SparkSession, path: str) -> None:
    """Replace rows in two files, all rows of another one, and add some."""
    rows = spark.range(0, 60, 1, 3).where("id in (1, 2, 11) or id >= 20").selectExpr("id k", "2L n")
    merge(
        spark,
        rows,
        path,
        condition="s.k = t.k",
        newer_by="n",
        is_copy=True,
        transaction=JOB,
        number=7,
    )


def delete_rows(spark: SparkSession, path: str) -> None:
    """As a reset empties a view."""
    delete_all(spark, path, JOB)


def compact(spark: SparkSession, path: str) -> None:
    """OPTIMIZE."""
    spark.sql(f"OPTIMIZE delta.`{path}`")


def compact_in_order(spark: SparkSession, path: str) -> None:
    """OPTIMIZE with ZORDER."""
    spark.sql(f"OPTIMIZE delta.`{path}` ZORDER BY (n)")


def restore(spark: SparkSession, path: str) -> None:
    """RESTORE, after a merge and an OPTIMIZE."""
    merge_rows(spark, path)
    compact(spark, path)
    DeltaTable.forPath(spark, path).restoreToVersion(4)


VECTORS, NO_VECTORS = "delta.enableDeletionVectors = true", "delta.enableDeletionVectors = false"
ACTS = (merge_rows, delete_rows, compact, compact_in_order, restore)


@pytest.mark.parametrize(
    ("act", "properties"),
    [
        (append_rows, VECTORS),
        *(pytest.param(one, VECTORS, marks=pytest.mark.extended) for one in ACTS),
        *(pytest.param(one, NO_VECTORS, marks=pytest.mark.release) for one in (append_rows, *ACTS)),
    ],
)
def test_a_commit_of_spark_is_whole_unless_it_has_lost_a_line(
    spark: SparkSession, tmp_path: Path, act: Callable[[SparkSession, str], None], properties: str
) -> None:
    """Of a job, a compaction or a restore. One of a job with its first line alone is written again."""
    make(spark, str(tmp_path), properties)
    act(spark, str(tmp_path))
    assert damaged_log(str(tmp_path)) is None
    for checkpoint in (tmp_path / "_delta_log").glob("*checkpoint*"):  # with that of a RESTORE nobody reads its lines
        checkpoint.unlink()
    commit = max((tmp_path / "_delta_log").glob("*.json"))
    content = commit.read_bytes()
    lines = content.splitlines(keepends=True)
    files = [number for number, line in enumerate(lines) if b'{"add":' in line or b'{"remove":' in line]
    assert files
    for kept in range(1 if JOB.encode() not in lines[0] else 2, files[-1] + 1):
        commit.write_bytes(b"".join(lines[:kept]))
        assert f"{commit.name} in {tmp_path} was cut short" in str(damaged_log(str(tmp_path))), lines[:kept]
    commit.write_bytes(content)
    assert damaged_log(str(tmp_path)) is None


def test_a_checkpoint_of_a_log_in_several_files_is_whole_unless_one_is_cut(spark: SparkSession, tmp_path: Path) -> None:
    """As Delta writes it by its newer policy. Without it, as the error says, Spark reads the same rows."""
    make(spark, str(tmp_path), "delta.checkpointPolicy = 'v2', delta.checkpointInterval = '1'")
    assert damaged_log(str(tmp_path)) is None
    log = tmp_path / "_delta_log"
    newest = max(log.glob("*.checkpoint.*"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    sidecars = [one["sidecar"]["path"] for one in actions if "sidecar" in one]
    files = [newest, *(log / "_sidecars" / name for name in sidecars)]
    assert len(files) > 1
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        said = str(damaged_log(str(tmp_path)))
        assert file.name in said
        assert f"remove _delta_log/{newest.name[:20]}.checkpoint* and _delta_log/_last_checkpoint" in said
        file.write_bytes(content)
        checksum = file.with_name(f".{file.name}.crc")
        sums = checksum.read_bytes()
        checksum.write_bytes(sums[:-1])
        assert "remove the checksum" in str(damaged_log(str(tmp_path)))
        checksum.write_bytes(sums)
    assert damaged_log(str(tmp_path)) is None
    for file in (*log.glob(f"{newest.name[:20]}.checkpoint*"), log / "_last_checkpoint"):
        file.unlink()
    assert damaged_log(str(tmp_path)) is None
    assert DeltaTable.forPath(spark, str(tmp_path)).toDF().count() == ROWS


@pytest.mark.parametrize("table", first_before_release(*((name,) for name in sorted(KEPT[1:], reverse=True))))
def test_a_file_that_a_power_cut_took_from_a_table_is_written_again_or_named(readings: Readings, table: str) -> None:
    """Each of the newest ones: never a row twice, and none is gone in silence. What the error says leads on."""
    assert TableCut(readings).problems(lambda file, _: file.startswith(f"{table}/")) == {}
