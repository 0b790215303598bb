"""The sink: one micro-batch into Delta tables, exactly once, through a crash at any point.

The commit protocol of a batch:

    1  Spark has written the batch's offsets to its log; nothing has run.
    2  The stateful plan runs, once: its packed output is persisted and the small parts of it collected. The state
       of the batch is now stored. (Were it left to the first write to run the plan, a replayed batch whose write
       Delta skips would never run it, and the query could not be started again.)
    3  One commit a table, each of them idempotent, so they may fail or repeat in any order. Each is made under the
       transaction id "{job}/{table}@{checkpoint}#{epoch}" with the batch's number as version, and is skipped if the
       table has that version. Rows that came along in the driver are committed without a Spark job
       (`small_commits.py`), if the table takes that; all others by Spark.
       3a the log, 3b the quarantine: appends.
       3c the view: the last row of the batch for each pane (or partition) is written, unless that in the table has
          a greater refinement (or number of the firing).
       and, in the first batch after a stop, the downtime report: an append as 3a.
       3d the metrics, last: the row of a batch says that its other tables are complete.
       Just before each commit the job makes sure that it still holds the lease of its checkpoint.
       A table without rows gets no commit, and a batch without rows or firings commits nothing.
    4  Spark writes the batch to its commit log.

A crash before 4 makes Spark run the same batch again, from the same state and with the same offsets and commands:
2 gives the same rows, 3 skips what is already there. `framework/engine/sink/fault_points.py` names the places in
between where a drill stops a batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from framework.core.job_spec import PORT, JobSpec
from framework.declarations.durations import to_datetime
from framework.declarations.errors import PanekeeperError
from framework.engine.flow.pipeline import frame_schema, unpack
from framework.engine.session.columns import column, quoted
from framework.engine.sink import spark_commits
from framework.engine.sink.batch_output import BatchOutput, run_and_collect
from framework.engine.sink.downtime import DOWNTIME, Downtime
from framework.engine.sink.fault_points import (
    fault_point,
    fault_point_before_commit,
    fault_point_in_tasks,
    gather_before_commits,
    hold_between_tables,
)
from framework.engine.sink.fencing import fence, own
from framework.engine.sink.small_commit_table import lowest
from framework.engine.sink.small_tables import SmallTables
from framework.engine.sink.tables import METRICS, Tables
from framework.engine.user_sinks.protocol import Sink
from state.checkpoint.clock import now_us
from state.codec import with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from state.checkpoint.job_record import JobRecord


_TAGS = {"log": "results", "view": "results", "quarantine": "rejected"}
"""Role of a table -> the output that it gets."""


@dataclass(frozen=True, kw_only=True)
class DeltaSink:
    """Writes the packed output of a batch to the tables of a job, and its results to the user's own sink, if any."""

    record: JobRecord
    spec: JobSpec
    tables: Tables
    user_sink: Sink | None = None
    small: SmallTables = field(default_factory=SmallTables, repr=False)
    _settings_lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while the settings of the query's session are those of one commit."""

    def run_plan(self, packed: DataFrame, number: int) -> BatchOutput:
        """Step 2: run the stateful plan once. `packed` must be persisted; `commit` reads it again."""
        fault_point("before-plan", number)
        fault_point_in_tasks("mid-batch", number)
        batch = run_and_collect(packed, number)
        if not batch.balanced:
            raise PanekeeperError(
                f"batch {number} of job {self.record.name!r} is not committed: rows_in is not the sum of the other "
                f"counts in {batch.counts}; this is a defect of Panekeeper, please report it with these numbers"
            )
        fault_point("before-delta", number)
        return batch

    def commit(
        self,
        packed: DataFrame,
        batch: BatchOutput,
        *,
        open_panes: int | None,
        started_us: int,
        require_lease: Callable[[], None],
        downtime: Downtime | None = None,
    ) -> list[str]:
        """Step 3: one idempotent commit for each table that gets rows; return which tables have the batch in their log.

        `started_us` is when the batch began, `downtime` what the time before this run did, if this is its first batch.
        `require_lease` is called just before each commit, and raises if another job has taken over the checkpoint.
        """
        spark = packed.sparkSession
        if batch.rows["results"]:
            fault_point_before_commit("between-file-and-commit", batch.number, self.tables.log)
        gathered = gather_before_commits(self._commits(packed, batch), batch.number)
        commits = [_checked(require_lease, commit) for commit in gathered]
        written = [role for role, tag in _TAGS.items() if batch.rows[tag]]
        _commit_in_parallel(spark, hold_between_tables(commits, batch.number))
        if "view" in written and not self._view_has(spark, batch.number):
            written.remove("view")
        if downtime is not None:
            require_lease()
            self._append(spark, _one_row(DOWNTIME, downtime.row()), "downtime", batch.number)
            written.append("downtime")
        if commits or batch.counts["rows_in"]:
            require_lease()
            self._append(spark, _metrics(batch, open_panes, started_us), "metrics", batch.number)  # 3d
            written.append("metrics")
        fault_point("after-delta-commit", batch.number)
        return written

    def secure_tables(self, spark: SparkSession) -> None:
        """Let nobody else commit to the tables: no other checkpoint, no process of an earlier epoch. At each start.

        A restore and a reset to the initial state begin an epoch. Raises `SinkError` for a table of another checkpoint.
        """
        own(spark, tables := asdict(self.tables), self.record, self.small)
        earlier = self.record.earlier_epochs(before=self.record.epoch)
        fence(spark, tables, earlier, self.small, joined=self.record)

    def confirm(self) -> None:
        """At the end of a run: commit again what another process has replaced. Raises `SinkError` if it cannot."""
        self.small.confirm()

    def _commits(self, packed: DataFrame, batch: BatchOutput) -> list[Callable[[], None]]:
        spark = packed.sparkSession
        commits: list[Callable[[], None]] = []
        if batch.rows["results"]:
            results = _rows(packed, batch, "results", self.spec.results_schema)
            commits.append(lambda: self._append(spark, results, "log", batch.number))  # 3a
        if batch.rows["rejected"]:
            rejected = _rows(packed, batch, "rejected", self.spec.rejected_schema)
            commits.append(lambda: self._append(spark, rejected, "quarantine", batch.number))  # 3b
        if batch.rows["results"] and self.tables.view is not None:
            view = self.tables.view
            newest = _newest_rows(_rows(packed, batch, "results", self.spec.results_schema), self._view_key)
            commits.append(lambda: self._merge(spark, newest, view, batch.number))  # 3c
        if batch.rows["results"] and self.user_sink is not None:
            frame = _as_frame(spark, _rows(packed, batch, "results", self.spec.results_schema))
            commits.append(lambda: self._commit_to_user_sink(frame, batch.number))
        return commits

    def _append(self, spark: SparkSession, rows: pa.Table | DataFrame, table: str, number: int) -> None:
        """Step 3a, and all other appends: rows that are in the driver without Spark, if the table takes that."""
        path, transaction = getattr(self.tables, table), self.record.transaction(table)
        if isinstance(rows, pa.Table) and self.small.commit(
            spark, path, lambda to: to.append(rows, transaction, number)
        ):
            return
        self.small.confirm(path)
        spark_commits.append(_as_frame(spark, rows), path, transaction, number)
        self.small.reopen(path)

    def _merge(self, spark: SparkSession, newest: pa.Table | DataFrame, path: str, number: int) -> None:
        """Step 3c: as `_append`."""
        transaction = self.record.transaction("view")
        keys, newer_by = self._view_key, self._version_column
        since = "pane_start" if self.spec.has_panes else None
        if isinstance(newest, pa.Table) and self.small.commit(
            spark,
            path,
            lambda to: to.merge(newest, transaction, number, keys=keys, newer_by=newer_by, since=since),
        ):
            return
        same = [f"t.{quoted(name)} <=> s.{quoted(name)}" for name in keys] or ["true"]
        if since is not None and isinstance(newest, pa.Table) and (begin := lowest(newest, since)) is not None:
            # Holds for all the panes of this batch, and spares Delta old files.
            same.append(f"t.{since} >= timestamp_micros({begin.value})")
        self.small.confirm(path)
        with self._settings_lock:
            spark_commits.merge(
                spark,
                _as_frame(spark, newest),
                path,
                condition=" AND ".join(same),
                newer_by=newer_by,
                is_copy=isinstance(newest, pa.Table),
                transaction=transaction,
                number=number,
            )
        self.small.reopen(path)

    def _view_has(self, spark: SparkSession, number: int) -> bool:
        """Say whether the view has a batch: a merge of rows that are all older leaves no commit."""
        if self.tables.view is None:
            return False
        return self.small.last_transaction(spark, self.tables.view, self.record.transaction("view")) >= number

    def _commit_to_user_sink(self, rows: DataFrame, number: int) -> None:
        assert self.user_sink is not None
        with self._settings_lock:  # it may write with the query's session, and must not do so as the view
            self.user_sink.commit(rows, writer=self.record.transaction("sink"), batch=number)

    @property
    def _view_key(self) -> list[str]:
        """What a row of the view stands for: a partition and pane, or a partition; of one of several ports."""
        port = [PORT] if self.spec.other_ports else []
        return [*self.spec.keys.names, *port, *(["pane_start", "pane_end"] if self.spec.has_panes else [])]

    @property
    def _version_column(self) -> str:
        """The column whose value is greater in the newer of two rows."""
        return "refinement" if self.spec.has_panes else "firing"


def _commit_in_parallel(spark: SparkSession, commits: Sequence[Callable[[], None]]) -> None:
    """Run each commit in a thread of its own, and raise the first error once all of them have ended."""
    from pyspark import inheritable_thread_target

    if len(commits) < 2:  # noqa: PLR2004 -- one needs no thread
        for commit in commits:
            commit()
        return
    with ThreadPoolExecutor(len(commits)) as pool:
        for running in [pool.submit(copy_context().run, inheritable_thread_target(spark)(one)) for one in commits]:
            running.result()


def _checked(require_lease: Callable[[], None], commit: Callable[[], None]) -> Callable[[], None]:
    def check_and_commit() -> None:
        require_lease()
        commit()

    return check_and_commit


def _rows(packed: DataFrame, batch: BatchOutput, tag: str, schema: pa.Schema) -> pa.Table | DataFrame:
    """Return one output of the batch: from the driver if it came along, else from the persisted packed rows."""
    small = batch.driver_tables.get(tag)
    return unpack(packed, tag, schema) if small is None else with_columns(small, schema)


def _as_frame(spark: SparkSession, rows: pa.Table | DataFrame) -> DataFrame:
    # Without its schema, Spark would take a time without zone for one of the session's zone.
    return spark.createDataFrame(rows, frame_schema(rows.schema)).coalesce(1) if isinstance(rows, pa.Table) else rows


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
    # Of the results only these columns: one that a user computes may have any name.
    numbered = results.select(pane).append_column("_row", pa.array(range(results.num_rows), pa.int64()))
    last = numbered.group_by(pane).aggregate([("_row", "max")]).column("_row_max")
    return results.take(last)


def _metrics(batch: BatchOutput, open_panes: int | None, started_us: int) -> pa.Table:
    row: dict[str, Any] = {
        "batch": batch.number,
        "batch_time": to_datetime(started_us),
        **batch.counts,
        "balanced": batch.balanced,
        "watermark": None if batch.watermark is None else to_datetime(batch.watermark),
        "open_panes": open_panes,
        "firings": batch.rows["results"],
        "late_ms": None if batch.late_us is None else batch.late_us // 1000,
        "seconds": round((now_us() - started_us) / 1e6, 3),
    }
    return _one_row(METRICS, tuple(row[name] for name in METRICS.names))


def _one_row(schema: StructType, values: tuple[Any, ...]) -> pa.Table:
    row = dict(zip(schema.names, values, strict=True))
    return pa.Table.from_pylist([row], schema=to_arrow_schema(schema, timezone="UTC"))
