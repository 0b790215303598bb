"""The sink: one micro-batch into Delta tables, exactly once, through a crash at any point.

The commit protocol of a batch:

    1  Spark has written the batch's offsets to its log; nothing has run.
    2  The stateful plan runs, once: its packed output is persisted and the small parts of it collected. The state
       of the batch is now stored.
    3  The batch is prepared: all that it writes, and where, is recorded in one file of the checkpoint, which is created
       exclusively (`state/prepared.py`). Rows that are too many for the driver are written beside it before.
       The record has what Spark will log as the commit of the batch, too.
    4  One commit a table, each of them idempotent, so they may fail or repeat in any order. Each is made under the
       transaction id "{job}/{table}@{checkpoint}#{epoch}" with the batch's number as version, and is skipped if the
       table has that version. Rows that came along in the driver are committed without a Spark job
       (`small_commits.py`), if the table takes that; all others by Spark, from where they are recorded.
       4a the log, 4b the quarantine: appends.
       4c the view: the last row of the batch for each pane (or partition) is written, unless that in the table has
          a greater refinement (or number of the firing).
       and, in the first batch after a stop, the downtime report: an append as 4a.
       4d the metrics, last: the row of a batch says that its other tables are complete.
       Just before each commit the job makes sure that it still holds the lease of its checkpoint.
       A table without rows gets no commit, and a batch without rows or firings commits nothing.
    5  Spark writes the batch to its commit log.

A crash before 3 makes Spark run the same batch again, from the same state and with the same offsets and commands; no
table has anything of it. A crash after 3 runs nothing again: the next start does 4 as it is recorded, which skips what
is already there, and 5. `framework/engine/sink/fault_points.py` names the steps where a test or drill stops a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panekeeper.framework.core.job_spec import PORT, JobSpec
from panekeeper.framework.declarations.durations import to_datetime, to_datetime_if_any
from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.framework.engine.sink.batch.downtime import DOWNTIME
from panekeeper.framework.engine.sink.batch.output import BatchOutput, run_and_collect
from panekeeper.framework.engine.sink.batch.table_writer import RESULTS, TableWriter
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import fence, own
from panekeeper.framework.engine.sink.tables import METRICS, Tables
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.codec import with_columns
from panekeeper.state.prepared import IDENTITY, PreparedBatch, TableWrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from panekeeper.framework.engine.sink.protocol import BatchContext
    from panekeeper.state.checkpoint.job_record import JobRecord

_REJECTED = "rejected"


@dataclass(frozen=True, kw_only=True)
class DeltaSink:
    """Steps 2 and 3: says what a batch writes to the tables of its job, and to the user's sink; `writer` does it."""

    record: JobRecord
    spec: JobSpec
    tables: Tables
    writer: TableWriter = field(default_factory=TableWriter)

    def run_plan(self, packed: DataFrame, number: int) -> BatchOutput:
        """Step 2: run the stateful plan once. `packed` must be persisted; step 3 reads again what is large."""
        fault_point("before-plan", number)
        batch = run_and_collect(packed, number)
        if not batch.balanced:
            raise PanekeeperError(
                f"batch {number} of job {self.record.name!r} is not committed: rows_in is not the sum of the other "
                f"counts in {batch.counts}; this is a defect of Panekeeper, please report it with these numbers"
            )
        fault_point("before-prepare", number)
        return batch

    def prepared(
        self,
        batch: BatchOutput,
        *,
        spark_commit: str,
        large: Mapping[str, str],
        known: Mapping[str, Mapping[str, Any]],
        context: BatchContext,
    ) -> PreparedBatch:
        """Step 3: return all that the batch writes.

        Args:
            batch: what `run_plan` has returned.
            spark_commit: what Spark will log as its commit.
            large: name of an output -> folder with its rows, if they are too many for the driver.
            known: role -> what is known of the table, as `table_record.py` has it.
            context: what the job knows of it.
        """
        schemas = {RESULTS: self.spec.results_schema, _REJECTED: self.spec.rejected_schema}
        rows = {
            tag: schema.empty_table() if tag in large else with_columns(batch.driver_tables[tag], schema)
            for tag, schema in schemas.items()
            if batch.rows[tag]
        }
        has_metrics = bool(rows or batch.counts["rows_in"])
        if context.downtime is not None:
            rows["downtime"] = _one_row(DOWNTIME, context.downtime.row())
        if has_metrics:
            rows["metrics"] = _metrics(batch, context)
        has_sink = RESULTS in rows and self.writer.user_sink is not None
        return PreparedBatch(
            number=batch.number,
            epoch=self.record.epoch,
            spark_commit=spark_commit,
            writes=[*self._writes(rows, known)],
            rows=rows,
            large=large,
            large_counts={tag: batch.rows[tag] for tag in large},
            large_hashes={tag: batch.hashes[tag] for tag in large},
            job=self.record.id,
            declaration=self.record.declaration,
            identity={name: getattr(self.record, name) for name in IDENTITY},
            tables=known,
            sink_writer=self.record.transaction("sink") if has_sink else None,
            is_flush=batch.flushed,
            drain_file=batch.last_drain_file,
            resumed_us=batch.resumed_us,
        )

    def secure_tables(self, spark: SparkSession) -> None:
        """Let nobody else commit to the tables: no other checkpoint, no process of an earlier epoch. At each start.

        A restore and a reset to the initial state begin an epoch. Raises `SinkError` for a table of another checkpoint.
        """
        small = self.writer.small
        own(spark, tables := asdict(self.tables), self.record, small)
        earlier = self.record.earlier_epochs(before=self.record.epoch)
        fence(spark, tables, earlier, small, joined=self.record if earlier else None)

    def _writes(self, rows: Mapping[str, pa.Table], known: Mapping[str, Mapping[str, Any]]) -> Iterator[TableWrite]:
        outputs = {
            "log": RESULTS,
            "quarantine": _REJECTED,
            "view": RESULTS,
            "downtime": "downtime",
            "metrics": "metrics",
        }
        for role, name in outputs.items():
            path = getattr(self.tables, role)
            if path is None or name not in rows:
                continue
            table = known.get(role, {})
            yield TableWrite(
                role=role,
                path=path,
                table=table.get("id", ""),
                transaction=self.record.transaction(role),
                after=table.get("batch", -1),
                rows=name,
                **(self._newest_by() if role == "view" else {}),
            )

    def _newest_by(self) -> dict[str, Any]:
        """Return what a row of the view stands for: a partition and pane, or a partition; of one of several ports."""
        port = [PORT] if self.spec.other_ports else []
        pane = ["pane_start", "pane_end"] if self.spec.has_panes else []
        return {
            "keys": [*self.spec.keys.names, *port, *pane],
            "newer_by": "refinement" if self.spec.has_panes else "firing",
            "since": "pane_start" if self.spec.has_panes else None,
        }


def _metrics(batch: BatchOutput, context: BatchContext) -> pa.Table:
    row: dict[str, Any] = {
        "batch": batch.number,
        "batch_time": to_datetime(context.started_us),
        **batch.counts,
        "balanced": batch.balanced,
        "watermark": to_datetime_if_any(batch.watermark),
        "open_panes": context.open_panes,
        "firings": batch.rows["results"],
        "late_ms": None if batch.late_us is None else batch.late_us // 1000,
        "seconds": round((now_us() - context.started_us) / 1e6, 3),
    }
    return _one_row(METRICS, tuple(row[name] for name in METRICS.names))


def _one_row(schema: StructType, values: tuple[Any, ...]) -> pa.Table:
    row = dict(zip(schema.names, values, strict=True))
    return pa.Table.from_pylist([row], schema=arrow_schema(schema))
