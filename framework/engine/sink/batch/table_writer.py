"""Step 4 of the commit protocol (`delta_sink.py`): what was recorded of a batch gets into each table, once.

All that is written, and where, is in the record (`state/prepared.py`): the same whether the process that
has computed the batch writes it, or a later one that completes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.framework.declarations.errors import SchemaMismatch
from panekeeper.framework.engine.flow.pipeline import frame_of, spark_schema, unpack
from panekeeper.framework.engine.session.columns import column, quoted
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink import spark_commits
from panekeeper.framework.engine.sink.batch.spark_files import write_files
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import OWNED
from panekeeper.framework.engine.sink.small_commit_table import lowest
from panekeeper.framework.engine.sink.small_tables import SmallTables
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.engine.user_sinks.protocol import Sink
    from panekeeper.state.prepared import PreparedBatch, TableWrite

_AT_ONCE = ("log", "quarantine", "view")
"""Tables that are written at the same time; the others follow one by one, the metrics last."""
RESULTS = "results"
"""Name of the rows that a sink of the user's own gets, as the log does."""

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
    ) -> list[str]:
        """Make one idempotent commit for each table; return the roles of those that have the batch in their log.

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
        return [one.role for one in batch.writes if one.keys is None or self.has(spark, one, batch.number)]

    def prepare_user_sink(self, spark: SparkSession, results: pa.Schema) -> None:
        """Let a sink of the user's own make ready for results with these columns. At each start."""
        if self.user_sink is not None:
            self.user_sink.prepare(spark, spark_schema(results))

    def has(self, spark: SparkSession, one: TableWrite, number: int) -> bool:
        """Return whether a table has a batch in its log: a merge of rows that are all older leaves no commit."""
        return self.last_transaction(spark, one.path, one.transaction) >= number

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
            self.small.require_reachable(to.path)
        spark_commits.append(_as_frame(spark, rows), to.path, to.transaction, of.number)
        self.small.reopen(to.path)

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
