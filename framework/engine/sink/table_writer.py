"""Step 4 of a batch (`framework/engine/job/batch_journal.py`): what is recorded of it gets into each table, once.

All that is written, and where, is in the record (`state/prepared.py`): the same whether the process that
has computed the batch writes it, or a later one that completes it.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.transaction import AddAction
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.declarations.errors import OutputNotWritable, SchemaMismatch
from panekeeper.framework.engine.flow.pipeline import frame_of, spark_schema, unpack
from panekeeper.framework.engine.session.columns import column, quoted
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink import spark_commits
from panekeeper.framework.engine.sink.batch_output import RESULTS, read_whole
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import OWNED
from panekeeper.framework.engine.sink.library_table import lowest
from panekeeper.framework.engine.sink.small_commits import SmallTables
from panekeeper.state.checkpoint.job_record import OWNER
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from panekeeper.framework.engine.user_sinks.protocol import Sink
    from panekeeper.state.prepared import PreparedBatch, TableWrite

_AT_ONCE = ("log", "quarantine", "view")
"""Tables that are written at the same time; the others follow one by one, the metrics last."""
LARGE_OUTPUT = "[0-9a-f]{32}"
"""The name of a folder in a table on S3 with the files of one large output, as a pattern."""
_Commit = Callable[[], None]
_log = logger("sink")


@dataclass(frozen=True, kw_only=True)
class TableWriter:
    """Writes prepared batches to their tables, and their results to the user's own sink, if there is one.

    Attributes:
        small: the tables that are open already.
        user_sink: gets each row of the log, too.
    """

    small: SmallTables = field(default_factory=SmallTables, repr=False)
    user_sink: Sink | None = None
    _settings_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while the settings of the query's session are those of one commit."""

    def write(
        self, spark: SparkSession, batch: PreparedBatch, packed: DataFrame | None, require_lease: _Commit
    ) -> None:
        """Make one idempotent commit for each table; each has the batch in its log then.

        Args:
            spark: the session that reaches the tables.
            batch: what is recorded of it.
            packed: its packed rows, as far as they are large; not needed if none are.
            require_lease: called just before each commit; raises if another job has taken over the checkpoint.

        Raises:
            SinkError: a table does not take its rows, as its columns were changed. The others may have theirs; all may
                be repeated.
        """
        at_once = [one for one in batch.writes if one.role in _AT_ONCE]
        fault_point("before-delta", batch.number, at_once[0].path if at_once else "")
        commits: list[_Commit] = [
            partial(self._checked_commit, spark, batch, one, packed, require_lease) for one in at_once
        ]
        if batch.sink_writer is not None and self.user_sink is not None:
            commits.append(partial(self._commit_to_user_sink, spark, batch, packed, require_lease))
        elif batch.sink_writer is not None:
            _log.warning("batch %s has results for a sink that is declared no more, and may lack them", batch.number)
        _commit_in_parallel(spark, commits)
        for one in batch.writes:
            if one.role not in _AT_ONCE:
                self._checked_commit(spark, batch, one, packed, require_lease)
        fault_point("after-delta-commit", batch.number)

    @property
    def has_user_sink(self) -> bool:
        """Whether a sink of the user's own gets the results, too."""
        return self.user_sink is not None

    def prepare_user_sink(self, spark: SparkSession, results: pa.Schema) -> None:
        """Let a sink of the user's own make ready for results with these columns. At each start."""
        if self.user_sink is not None:
            self.user_sink.prepare(spark, spark_schema(results))

    def last_transaction(self, spark: SparkSession, path: str, transaction: str) -> int:
        """Return the last version that a table has of a transaction id; -1 if there is none."""
        return self.small.last_transaction(spark, path, transaction)

    def _checked_commit(
        self,
        spark: SparkSession,
        batch: PreparedBatch,
        one: TableWrite,
        packed: DataFrame | None,
        require_lease: _Commit,
    ) -> None:
        require_lease()
        fault_point("before-commit", batch.number, one.path)
        self._commit(spark, batch, one, packed)
        fault_point("after-commit", batch.number, one.path)

    def _commit(self, spark: SparkSession, batch: PreparedBatch, one: TableWrite, packed: DataFrame | None) -> None:
        rows = _rows(batch, one.rows, packed)
        try:
            if one.keys is None:
                self._append(spark, rows, one, batch)
            else:
                self._merge(spark, _newest_rows(rows, list(one.keys)), one, batch.number)
        except AnalysisException as error:
            raise SchemaMismatch(
                f"the {one.role} {one.path} does not take the rows of batch {batch.number}: {first_line(error)}. If "
                "its columns were changed, change them back, and start the job again: it resumes with the same batch"
            ) from error

    def _append(self, spark: SparkSession, rows: pa.Table | DataFrame, to: TableWrite, of: PreparedBatch) -> None:
        """Append rows; those that are in the driver without Spark, if the table takes that."""
        if isinstance(rows, pa.Table) and self.small.commit(
            spark, to.path, lambda table: table.append(rows, to.transaction, of.number)
        ):
            return
        if self._append_files(spark, rows, to, of):
            return
        if _replaces_others(to):
            self._require_exclusive(spark, to, of)
        spark_commits.append(_as_frame(spark, rows), to.path, to.transaction, of.number)
        self.small.reopen(to.path)

    def _require_exclusive(self, spark: SparkSession, to: TableWrite, of: PreparedBatch) -> None:
        """Refuse a commit by Spark to a table on S3 that jobs may share: it might take the place of one of another job.

        A table that the library cannot write belongs to one job, if its start has found that (`fencing.secure`).

        Raises:
            OutputNotWritable: the table does not, or its store does not respond just now.
        """
        reason = self.small.refused(to.path)
        if reason and self.last_transaction(spark, to.path, OWNER) != int(of.job, 16):
            raise OutputNotWritable(
                f"{to.path} cannot be written: {reason}; and a commit by Spark might take the place of one of another "
                "job that shares the table. Start the job again when that is over: it resumes with the same batch"
            )

    def _append_files(self, spark: SparkSession, rows: pa.Table | DataFrame, to: TableWrite, of: PreparedBatch) -> bool:
        """Append many rows by the library to a table to which Spark should not commit, if the library takes it."""
        if isinstance(rows, pa.Table) or not _replaces_others(to):
            return False
        done = self.small.call(spark, to.path, lambda table: table.last_transaction(to.transaction))
        if done is None or done >= of.number:
            return done is not None
        files = write_files(rows, to.path, of.large_counts.get(to.rows))
        return files is not None and self.small.commit(
            spark, to.path, lambda table: table.append_files(files, to.transaction, of.number)
        )

    def _merge(self, spark: SparkSession, newest: pa.Table | DataFrame, to: TableWrite, number: int) -> None:
        """Write the newest rows of a batch, each unless that in the table is newer; as `_append`."""
        keys, newer_by, since = list(to.keys or ()), to.newer_by or "", to.since
        if isinstance(newest, pa.Table) and self.small.commit(
            spark,
            to.path,
            lambda table: table.merge(newest, to.transaction, number, keys=keys, newer_by=newer_by, since=since),
        ):
            return
        same = [f"t.{quoted(name)} <=> s.{quoted(name)}" for name in keys] or ["true"]
        if since is not None and isinstance(newest, pa.Table) and (begin := lowest(newest, since)) is not None:
            # Holds for all the panes of this batch, and spares Delta old files.
            same.append(f"t.{since} >= timestamp_micros({begin.value})")
        with self._settings_lock:
            spark_commits.merge(
                spark,
                _as_frame(spark, newest),
                to.path,
                condition=" AND ".join(same),
                newer_by=newer_by,
                is_copy=isinstance(newest, pa.Table),
                transaction=to.transaction,
                number=number,
            )
        self.small.reopen(to.path)
        if self.last_transaction(spark, to.path, to.transaction) < number:  # all rows are older
            spark_commits.own(spark, to.path, to.transaction, number, take=True)
            self.small.reopen(to.path)

    def _commit_to_user_sink(
        self, spark: SparkSession, batch: PreparedBatch, packed: DataFrame | None, require_lease: _Commit
    ) -> None:
        require_lease()
        assert self.user_sink is not None
        assert batch.sink_writer is not None
        rows = _as_frame(spark, _rows(batch, RESULTS, packed))
        with self._settings_lock:  # it may write with the query's session, and must not do so as the view
            self.user_sink.commit(rows, writer=batch.sink_writer, batch=batch.number)


def _commit_in_parallel(spark: SparkSession, commits: Sequence[_Commit]) -> None:
    """Run each commit in a thread of its own, and raise the first error once all of them have ended."""
    from pyspark import inheritable_thread_target

    if len(commits) < 2:  # noqa: PLR2004 -- one needs no thread
        for commit in commits:
            commit()
        return
    with ThreadPoolExecutor(len(commits)) as pool:
        for running in [pool.submit(copy_context().run, inheritable_thread_target(spark)(one)) for one in commits]:
            running.result()


def _replaces_others(to: TableWrite) -> bool:
    """Return whether Spark's commit may replace one of another job: on S3, where jobs may share the table."""
    return to.role not in OWNED and is_s3(to.path)


def _rows(batch: PreparedBatch, name: str, packed: DataFrame | None) -> pa.Table | DataFrame:
    """Return rows of a batch: as they are recorded, or from its packed rows."""
    rows = batch.rows[name]
    if name not in batch.large:
        return rows
    assert packed is not None
    return unpack(packed, name, rows.schema)


def _as_frame(spark: SparkSession, rows: pa.Table | DataFrame) -> DataFrame:
    return frame_of(spark, rows).coalesce(1) if isinstance(rows, pa.Table) else rows


def _newest_rows(results: pa.Table | DataFrame, pane: list[str]) -> pa.Table | DataFrame:
    """Return the newest row of this batch for each row of the view: not all rows have a number that says which is."""
    if isinstance(results, pa.Table):
        return last_of_each_pane(results, pane)
    # The rows of a key group are in one Spark partition, in the order in which they happened.
    placed = results.select(
        F.struct(*[column(name) for name in results.columns]).alias("row"),
        F.monotonically_increasing_id().alias("place"),
    )
    keys = [F.col("row").getField(name).alias(f"key_{number}") for number, name in enumerate(pane)]
    return placed.groupBy(*keys).agg(F.max_by("row", "place").alias("newest")).select("newest.*")


def last_of_each_pane(results: pa.Table, pane: list[str]) -> pa.Table:
    """Keep the last row of each pane: a group's firings stand in the order in which they happened."""
    if not pane:
        return results.slice(results.num_rows - 1)
    # By names of our own: a column of the user may have any.
    keys = [f"key_{number}" for number in range(len(pane))]
    numbered = results.select(pane).rename_columns(keys)
    numbered = numbered.append_column("row", pa.array(range(results.num_rows), pa.int64()))
    return results.take(numbered.group_by(keys).aggregate([("row", "max")]).column("row_max"))


def write_files(rows: DataFrame, table: str, count: int | None) -> list[AddAction] | None:
    """Write rows to a new folder in a table, of which the table knows nothing yet; return its files.

    A process that is killed before they are committed leaves them for a VACUUM, or for `panekeeper maintain`.

    Args:
        rows: the same each time they are read.
        table: its folder.
        count: how many there are, if that is known: some ways in which Spark writes files leave those of failed tasks.

    Returns:
        What is to be committed. None: the table has other columns by now, or the files other rows; so Spark has to
        commit them.
    """
    spark = rows.sparkSession
    if _types_of(spark.read.format("delta").load(table).schema) != _types_of(rows.schema):
        return None
    name = uuid.uuid4().hex  # not hidden: a VACUUM passes over what is
    rows.write.parquet(f"{table}/{name}")
    written = read_whole(spark.read, f"{table}/{name}")
    counted = written.groupBy(F.input_file_name().alias("file")).agg(F.count("*").alias("rows")).collect()
    counts = {row["file"].rpartition("/")[2]: row["rows"] for row in counted}
    if count is not None and sum(counts.values()) != count:
        _log.warning("%s/%s has %s rows, not %s, and is not committed", table, name, sum(counts.values()), count)
        return None
    return [
        AddAction(
            path=f"{name}/{file.getPath().getName()}",
            size=file.getLen(),
            partition_values={},
            modification_time=file.getModificationTime(),
            data_change=True,
            stats=json.dumps({"numRecords": counts[file.getPath().getName()]}),
        )
        for file in _listed(spark, f"{table}/{name}")
        if counts.get(file.getPath().getName())
    ]


def _types_of(schema: StructType) -> dict[str, str]:
    return {one.name: one.dataType.simpleString() for one in schema.fields}


def _listed(spark: Any, folder: str) -> list[Any]:
    path = spark._jvm.org.apache.hadoop.fs.Path(folder)  # noqa: SLF001 -- sizes are not part of Spark's Python interface
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- as above
    return list(files.listStatus(path))
