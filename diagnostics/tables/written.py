"""Which rows have batches of a job added to one of its tables? By its commits, as long as the table keeps these.

Each batch is one commit, whose files are read as they were written: OPTIMIZE puts the same rows into others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.diagnostics.tables.rows import read_plain_files
from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.delta_log import kept_commits, newest_first
from panekeeper.framework.engine.sink.library_table import FENCED
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.jobs.gone_tables import require_table
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import table_at
from panekeeper.state.checkpoint.epochs import read_begin
from panekeeper.state.checkpoint.job_record import TRANSACTION, JobRecord, read_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = "_pk_batch"
"""Column with the number of the batch that has added the row."""
_FILE = "_pk_file"


def rows_of_batches(
    spark: SparkSession, folder: Files, record: JobRecord, role: str, first: int, last: int
) -> list[tuple[int, pa.Table]]:
    """Return the batches that have added rows to a table of a job, in their order, with these rows.

    A batch without rows is not among them.

    Raises:
        CheckpointError: the job has no such table, or that has forgotten the commits of the first batches.
        RowsGone: files of theirs were removed.
    """
    path = table_path(folder, role)
    files = files_of_batches(folder, record, role, first, last)
    batches = sorted({*files.values()})
    if not files:
        return []
    plain = read_plain_files(path, files)
    if plain is not None:
        return [(batch, pa.concat_tables(plain[name] for name in files if files[name] == batch)) for batch in batches]
    frame = frame_of_files(spark, path, files)
    try:
        table = frame.toArrow()
    except Exception as error:
        raise _gone(path, error) from error
    rows, row_batches = table.drop_columns([BATCH]), table.column(BATCH)
    return [(batch, rows.filter(pc.equal(row_batches, batch))) for batch in batches]


def files_of_batches(
    folder: Files, record: JobRecord, role: str, first: int, last: int, *, version: int | None = None
) -> dict[str, int]:
    """Return file of a table, as its commits name it -> the batch that has written it.

    `version` is that of the table in a savepoint: what came after it does not count. Raises `CheckpointError` as
    `rows_of_batches`.
    """
    batch_of_file, oldest = dict[str, int](), 0
    for oldest, batch, files in commits_of_batches(folder, record, role, version=version):  # noqa: B007 -- see below
        if 0 <= batch < first:
            return batch_of_file
        if batch <= last:
            batch_of_file |= dict.fromkeys(files, batch)
        if batch == first and files:
            return batch_of_file
    if oldest:
        raise CheckpointError(
            f"the {role} {table_path(folder, role)} no longer has the commits of its first batches, so what batch "
            f"{first} has written cannot be told; take fewer batches, those from "
            f"{min(batch_of_file.values(), default=last)} on"
        )
    return batch_of_file


def commits_of_batches(
    folder: Files, record: JobRecord, role: str, *, version: int | None = None
) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the version of a table, the batch that a commit is, -1 for none, and the files of a batch, newest first.

    Without the commits that a restore or a reset has discarded.
    """
    begin, ours, now, newer = read_begin(folder), f"{record.name}/{role}@", record.transaction(role), FENCED
    is_reset = begin is not None and begin.kind == "reset"  # the log keeps what the job wrote before
    for commit in kept_commits(table_at(table_path(folder, role), folder.s3), version):
        batches = [
            number
            for app, number in commit.transactions.items()
            if (app == now or (app.startswith(ours) and not is_reset and not app.endswith("#joined")))
            and number < FENCED
        ]
        batch = max(batches, default=-1)
        if batch > newer:  # of the time before a reset
            yield 0, -1, []
            return
        newer = batch if batch >= 0 else newer
        yield commit.version, batch, commit.added if batch >= 0 else []


def settled_files(folder: Files, role: str, names: Collection[str]) -> dict[str, int]:
    """Return file of a table, without its folder -> when a settlement has written it, us; as far as commits tell."""
    settled_us = dict[str, int]()
    for commit in kept_commits(table_at(table_path(folder, role), folder.s3)) if names else ():
        if commit.is_settlement and commit.written_us is not None:
            added = (PurePosixPath(name).name for name in commit.added)
            settled_us |= dict.fromkeys((name for name in added if name in names), commit.written_us)
        if settled_us.keys() >= {*names}:
            break
    return settled_us


def commits_of(table: Files, job: str, *, most: int) -> tuple[dict[int, int], dict[str, int]]:
    """Return batch -> when the table had it, in us, and file -> the batch that wrote it, of the newest commits.

    Of the commits that the log of the table still has; those of other programs have no batch.
    """
    written, batches = dict[int, int](), dict[str, int]()
    for commit in islice(newest_first(table), most):
        for app_id, batch in commit.transactions.items():
            if not (match := TRANSACTION.fullmatch(app_id)) or match[1] != job:
                continue
            if commit.written_us is not None:
                written.setdefault(batch, commit.written_us)
            batches |= {PurePosixPath(name).name: batch for name in commit.added}
    return written, batches


def frame_of_files(spark: SparkSession, path: str, files: dict[str, int]) -> DataFrame:
    """Return the rows of some files of a table, with the batch of each as `BATCH`. Raises `RowsGone`."""
    from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

    from panekeeper.framework.engine.flow.pipeline import frame_of

    urls = [name if "://" in name or name.startswith("/") else f"{path.rstrip('/')}/{name}" for name in files]
    names = {name.rpartition("/")[2]: batch for name, batch in files.items()}
    of_names = pa.table({_FILE: [*names], BATCH: pa.array(names.values(), pa.int64())})
    table = spark.read.format("delta").load(path)
    if not files:
        return table.limit(0).withColumn(BATCH, F.lit(0).cast("long"))
    try:
        rows = spark.read.schema(table.schema).parquet(*urls)
    except Exception as error:
        raise _gone(path, error) from error
    named = rows.select("*", F.col("_metadata.file_name").alias(_FILE))
    return named.join(F.broadcast(frame_of(spark, of_names)), _FILE).drop(_FILE)


def _gone(path: str, error: Exception) -> RowsGone:
    return RowsGone(
        f"the results of these batches cannot be read: files of theirs in {path} are gone, as after a VACUUM; take "
        f"fewer batches\n{all_said(error)}"
    )


def table_path(folder: Files, role: str) -> str:
    """Return where a table of a job is. Raises `CheckpointError` if it has none, `SinkError` if that is gone."""
    path = read_tables(folder).get(role)
    if path is None:
        raise CheckpointError(f"{folder.root} names no table {role}")
    require_table(folder, role, path)
    return path
