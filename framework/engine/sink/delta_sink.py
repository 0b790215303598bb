"""The sink: one micro-batch into Delta tables, exactly once, through a crash at any point.

The commit protocol of a batch:

    1  Spark has written the batch's offsets to its log; nothing has run.
    2  The stateful plan runs, once: its packed output is persisted and the small parts of it collected. The state
       of the batch is now stored. (Were it left to the first write to run the plan, a replayed batch whose write
       Delta skips would never run it, and the query could not be started again.)
    3  One commit a table, each of them idempotent, so they may fail or repeat in any order:
       3a the log, 3b the quarantine: appends under the transaction id "{job}/{table}@{checkpoint}#{epoch}"
          and the batch's number as version; Delta skips a version it has seen.
       3c the view: a MERGE that writes a row only if its refinement (or the number of its firing) is greater than
          that of the row in the table.
       and, in the first batch after a stop, the downtime report: an append as 3a.
       3d the metrics, last: the row of a batch says that its other tables are complete.
       A table without rows gets no commit, and a batch without rows or firings commits nothing.
    4  Spark writes the batch to its commit log.

A crash before 4 makes Spark run the same batch again, from the same state and with the same offsets and commands:
2 gives the same rows, 3 skips what is already there. `framework/engine/sink/fault_points.py` names the places in
between where a drill stops a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from framework.core.job_spec import PORT, JobSpec
from framework.declarations.durations import to_datetime
from framework.declarations.errors import PanekeeperError
from framework.engine.flow.pipeline import unpack
from framework.engine.session.columns import column, quoted
from framework.engine.sink.batch_output import BatchOutput, run_and_collect
from framework.engine.sink.downtime import DOWNTIME, Downtime
from framework.engine.sink.fault_points import fault_point, fault_point_in_tasks, hold_between_tables
from framework.engine.sink.protocol import Sink
from framework.engine.sink.tables import METRICS, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from state.checkpoint.job_record import JobRecord


@dataclass(frozen=True, kw_only=True)
class DeltaSink:
    """Writes the packed output of a batch to the tables of a job, and its results to the user's own sink, if any."""

    record: JobRecord
    spec: JobSpec
    tables: Tables
    user_sink: Sink | None = None

    def run_plan(self, packed: DataFrame, number: int) -> BatchOutput:
        """Step 2: run the stateful plan once. `packed` must be persisted; `commit` reads it again."""
        fault_point("before-plan", number)
        fault_point_in_tasks("mid-batch", number)
        batch = run_and_collect(packed, number, groups=len(self.record.group_ids))
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
        open_panes: int,
        started: float,
        downtime: Downtime | None = None,
    ) -> None:
        """Step 3: one idempotent commit for each table that gets rows.

        `started` is when the batch began, `downtime` what the time before this run did, if this is its first batch.
        """
        commits = self._commits(packed, batch)
        _commit_in_parallel(packed.sparkSession, hold_between_tables(commits, batch.number))
        if downtime is not None:
            row = packed.sparkSession.createDataFrame([downtime.row()], DOWNTIME)
            self._append(row, "downtime", self.tables.downtime, batch.number)
        if commits or batch.counts["rows_in"]:
            self._append_metrics(packed.sparkSession, batch, open_panes, started)  # 3d
        fault_point("after-delta-commit", batch.number)

    def _commits(self, packed: DataFrame, batch: BatchOutput) -> list[Callable[[], None]]:
        commits: list[Callable[[], None]] = []
        if batch.rows["results"]:
            results = _rows(packed, batch, "results", self.spec.results_schema)
            commits.append(lambda: self._append(results, "log", self.tables.log, batch.number))  # 3a
        if batch.rows["rejected"]:
            rejected = _rows(packed, batch, "rejected", self.spec.rejected_schema)
            commits.append(lambda: self._append(rejected, "quarantine", self.tables.quarantine, batch.number))  # 3b
        if batch.rows["results"] and self.tables.view is not None:
            view = self.tables.view
            copied = "results" not in batch.driver_tables
            commits.append(
                lambda: self._merge(self._newest_rows(packed, batch), view, _pane_range_condition(batch), copied=copied)
            )  # 3c
        if batch.rows["results"] and self.user_sink is not None:
            user_sink, writer = self.user_sink, self.record.transaction("sink")
            rows = _rows(packed, batch, "results", self.spec.results_schema)
            commits.append(lambda: user_sink.commit(rows, writer=writer, batch=batch.number))
        return commits

    def _append(self, frame: DataFrame, table: str, path: str, number: int) -> None:
        writer = frame.write.format("delta").mode("append")
        writer = writer.option("txnAppId", self.record.transaction(table)).option("txnVersion", number)
        writer.save(path)

    def _merge(self, newest: DataFrame, path: str, since: list[str], *, copied: bool) -> None:
        """Step 3c. `since` are conditions that hold for all the panes of this batch: they spare Delta old files.

        `copied` says whether Delta must take a copy of the source: what came along in the driver is one already. (The
        setting is of the query's own session: Spark clones one for each query.)
        """
        same = [f"t.{quoted(name)} <=> s.{quoted(name)}" for name in self._view_key] or ["true"]
        newest.sparkSession.conf.set("spark.databricks.delta.merge.materializeSource", "auto" if copied else "none")
        target = DeltaTable.forPath(newest.sparkSession, path).alias("t")
        merge = target.merge(newest.alias("s"), " AND ".join([*same, *since]))
        newer = f"s.{self._version_column} > t.{self._version_column}"
        merge.whenMatchedUpdateAll(newer).whenNotMatchedInsertAll().execute()

    def _newest_rows(self, packed: DataFrame, batch: BatchOutput) -> DataFrame:
        """Return the newest row of this batch for each row of the view."""
        results = batch.driver_tables.get("results")
        if results is not None:
            return packed.sparkSession.createDataFrame(_last_of_each_pane(results, self._view_key))
        frame = unpack(packed, "results", self.spec.results_schema)
        every = F.struct(*[column(name) for name in frame.columns])
        newest = frame.groupBy(*[column(name) for name in self._view_key]).agg(
            F.max_by(every, self._version_column).alias("newest")
        )
        return newest.select("newest.*")

    @property
    def _view_key(self) -> list[str]:
        """What a row of the view stands for: a partition and pane, or a partition; of one of several ports."""
        port = [PORT] if self.spec.other_ports else []
        return [*self.spec.keys.names, *port, *(["pane_start", "pane_end"] if self.spec.has_panes else [])]

    @property
    def _version_column(self) -> str:
        """The column whose value is greater in the newer of two rows."""
        return "refinement" if self.spec.has_panes else "firing"

    def _append_metrics(self, spark: SparkSession, batch: BatchOutput, open_panes: int, started: float) -> None:
        row: dict[str, Any] = {
            "batch": batch.number,
            "batch_time": datetime.fromtimestamp(started, UTC),
            **batch.counts,
            "balanced": batch.balanced,
            "watermark": None if batch.watermark is None else to_datetime(batch.watermark),
            "open_panes": open_panes,
            "firings": batch.rows["results"],
            "late_ms": None if batch.late_us is None else batch.late_us // 1000,
            "seconds": round(time.time() - started, 3),
        }
        frame = spark.createDataFrame([tuple(row[name] for name in METRICS.names)], METRICS)
        self._append(frame, "metrics", self.tables.metrics, batch.number)


def _commit_in_parallel(spark: SparkSession, commits: Sequence[Callable[[], None]]) -> None:
    """Run each commit in a thread of its own, and raise the first error once all of them have ended."""
    from pyspark import inheritable_thread_target

    if len(commits) < 2:  # noqa: PLR2004 -- one needs no thread
        for commit in commits:
            commit()
        return
    with ThreadPoolExecutor(len(commits)) as pool:
        for running in [pool.submit(inheritable_thread_target(spark)(commit)) for commit in commits]:
            running.result()


def _rows(packed: DataFrame, batch: BatchOutput, tag: str, schema: pa.Schema) -> DataFrame:
    """Return one output of the batch: from the driver if it came along, else from the persisted packed rows."""
    small = batch.driver_tables.get(tag)
    if small is None:
        return unpack(packed, tag, schema)
    return packed.sparkSession.createDataFrame(small.cast(schema)).coalesce(1)


def _pane_range_condition(batch: BatchOutput) -> list[str]:
    results = batch.driver_tables.get("results")
    if results is None or "pane_start" not in results.schema.names:
        return []
    return [f"t.pane_start >= timestamp_micros({pc.min(results.column('pane_start')).value})"]


def _last_of_each_pane(results: pa.Table, pane: list[str]) -> pa.Table:
    """Keep the last row of each pane: a group's firings stand in the order in which they happened."""
    if not pane:
        return results.slice(results.num_rows - 1)
    numbered = results.append_column("_row", pa.array(range(results.num_rows), pa.int64()))
    last = numbered.group_by(pane).aggregate([("_row", "max")]).column("_row_max")
    return results.take(last)
