"""What a job has written in a range of batches: the rows of its log, and where its rows went.

Each batch is one commit of the log, so its files are known by the commits, as long as these are kept. The files are
read as they were written: OPTIMIZE puts the same rows into others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.delta_log import newest_first
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.storage.locations import table_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.recovery.what_if.comparison import Written
from panekeeper.recovery.what_if.rehearsal import COUNTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.state.checkpoint.job_record import JobRecord

_BATCH, _FILE = "_pk_batch", "_pk_file"


def recorded_log(
    spark: SparkSession, path: str, record: JobRecord, first: int, last: int, s3: S3Options | None = None
) -> Written:
    """Return the rows that a job has written to its log in some batches.

    Raises:
        CheckpointError: the table has forgotten the commits of the first ones.
        RowsGone: files of theirs were removed.
    """
    files = _files(path, record, first, last, s3)
    if not files:
        return []
    log = spark.read.format("delta").load(path)
    names = [*files]
    urls = [name if "://" in name or name.startswith("/") else f"{path.rstrip('/')}/{name}" for name in names]
    try:
        rows = spark.read.schema(log.schema).parquet(*urls)
        found = rows.select("*", F.col("_metadata.file_name").alias(_FILE)).toArrow()
    except Exception as error:
        raise RowsGone(
            f"the results of batches {first} to {last} cannot be read: files of theirs in {path} are gone, as after a "
            f"VACUUM; take fewer batches\n{all_said(error)}"
        ) from error
    by_name = {unquote(name).rpartition("/")[2]: batch for name, batch in files.items()}
    batches = pa.array([by_name[unquote(name)] for name in found.column(_FILE).to_pylist()], pa.int64())
    results = found.drop_columns([_FILE])
    return [(batch, results.filter(pc.equal(batches, batch))) for batch in sorted({*files.values()})]


def _files(path: str, record: JobRecord, first: int, last: int, s3: S3Options | None) -> dict[str, int]:
    """Return file of a log, as its commits name it -> the batch that has written it."""
    found, done = dict[str, int](), set[int]()
    ours = record.transaction("log").partition("@")[0]
    oldest = 0
    for oldest, commit in newest_first(table_at(path, s3)):  # noqa: B007 -- it is looked at after the loop
        ids = [one["txn"] for one in commit if "txn" in one]
        batches = [int(one["version"]) for one in ids if _is_batch(str(one["appId"]), ours)]
        if not batches:
            continue
        batch = batches[0]
        if batch < first:
            return found
        if batch <= last and batch not in done:  # else a restore has discarded it, and it was run again
            done.add(batch)
            found |= {unquote(str(one["add"]["path"])): batch for one in commit if "add" in one}
    if oldest:
        raise CheckpointError(
            f"the log {path} no longer has the commits of its first batches, so what batch {first} has written cannot "
            f"be told; take fewer batches, those from {min(done, default=last)} on"
        )
    return found


def _is_batch(transaction: str, ours: str) -> bool:
    """Return whether a transaction is a batch of the job, in whatever epoch."""
    return transaction.startswith(f"{ours}@") and not transaction.endswith("#joined")


def recorded_counts(spark: SparkSession, path: str, first: int, last: int) -> dict[str, int]:
    """Return where the rows of some batches went, added up, by the table of metrics."""
    metrics = spark.read.format("delta").load(path).where(F.col("batch").between(first, last))
    (row,) = metrics.select(*(F.sum(name).alias(name) for name in COUNTS)).collect()
    return {name: int(row[name] or 0) for name in COUNTS}
