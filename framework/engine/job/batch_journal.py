"""The batch journal: one micro-batch into the tables of a job, exactly once, through a crash at any point.

The commit protocol of a batch:

    1  Spark has written the batch's offsets to its log; nothing has run.
    2  The stateful plan runs, once: its packed output is persisted and the small parts of it collected. The state
       of the batch is now stored.
    3  The batch is prepared: all that it writes, and where, is recorded in one file of the checkpoint, which is created
       exclusively (`state/prepared.py`). Rows that are too many for the driver are written beside it before.
       The record has what Spark will log as the commit of the batch, too.
    4  One commit a table, each of them idempotent, so they may fail or repeat in any order. Each is made under the
       transaction id "{job}/{table}@{checkpoint}#{epoch}" with the batch's number as version, and is skipped if the
       table has that version (`framework/engine/sink/table_writer.py`).
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
is already there, and 5. `BatchJournal.run` is the protocol in a running job, `BatchJournal.complete` that in a start.

The record of a batch stays until the next one is recorded. So which batch each table must have is known at any start
(`PreparedBatch.tables`), and of two processes that run the same batch, as one was suspended until the other took over,
one gets the record, and the other one ends.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from panekeeper.framework.core.aggregates.groups import RANK
from panekeeper.framework.core.job_spec import PORT, TIMESTAMP, JobSpec
from panekeeper.framework.declarations.durations import to_datetime, to_datetime_if_any
from panekeeper.framework.declarations.errors import CheckpointInUse, JobFailed, PanekeeperError, SinkError
from panekeeper.framework.engine.flow.processor import REJECTED, RESULTS, VIEW, tag_of
from panekeeper.framework.engine.job.query import spark_commit
from panekeeper.framework.engine.job.table_checks import (
    TableRecord,
    require_has,
    require_no_later_batch,
    require_remembered,
)
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.framework.engine.session.settings import session_of_its_own
from panekeeper.framework.engine.session.spark_errors import translate
from panekeeper.framework.engine.sink.batch_output import (
    BatchOutput,
    read_large_rows,
    rows_and_hashes,
    run_and_collect,
    write_large_rows,
)
from panekeeper.framework.engine.sink.downtime import DOWNTIME, Downtime
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import require_owned
from panekeeper.framework.engine.sink.spark_table import is_delta_table
from panekeeper.framework.engine.sink.tables import METRICS, require_lasting_transactions
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, damaged, place_of, prepared_file
from panekeeper.state.checkpoint.job_record import last_batches, write_flushed
from panekeeper.state.codec import with_columns
from panekeeper.state.log import logger
from panekeeper.state.prepared import (
    PreparedBatch,
    TableWrite,
    last_prepared,
    not_needed,
    prepare,
    read_prepared,
    reserve,
)
from panekeeper.state.table_roles import kind_of, role_of, window_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from panekeeper.framework.engine.job.lease import Lease
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
    from panekeeper.state.checkpoint.job_record import JobRecord

_log = logger("job")


class JournalWriter(Protocol):
    """What does step 4, now or at a later start: `TableWriter`, or a list in tests."""

    @property
    def has_user_sink(self) -> bool:
        """Whether a sink of the user's own gets the results, too."""
        ...

    def write(
        self, spark: SparkSession, batch: PreparedBatch, packed: DataFrame | None, require_held: Callable[[], None]
    ) -> None:
        """Write what is recorded of a batch, so that a repetition changes nothing; `packed` has its large rows."""
        ...

    def prepare_user_sink(self, spark: SparkSession, results: pa.Schema) -> None:
        """Let a sink of the user's own make ready for results with these columns. Before it gets any, at each start."""
        ...

    def read(self, spark: SparkSession, path: str) -> TableAtVersion:
        """Return a table as it is now."""
        ...


@dataclass(frozen=True, kw_only=True)
class MetricsContext:
    """What a job knows of a batch that its output does not have, for the tables of metrics and downtime.

    It began at `started_us`; `open_panes` and `state_bytes`, the size of the state on disk as it began, are None if
    that is not known; `downtime` is that of the first batch after a stop.
    """

    started_us: int
    open_panes: int | None
    state_bytes: int | None = None
    downtime: Downtime | None = None


@dataclass(kw_only=True)
class BatchJournal:
    """The batches of one checkpoint, whose lease is held.

    `declared` are the paths of the tables of this start by their roles, `tables` is what they have by now.
    """

    files: CheckpointFiles
    record: JobRecord
    writer: JournalWriter
    lease: Lease
    declared: Mapping[str, str | None]
    tables: TableRecord = field(default_factory=dict)
    _last: PreparedBatch | None = None  # of this run, without its rows

    def run(
        self,
        packed: DataFrame,
        number: int,
        query: StreamingQuery,
        spec: JobSpec,
        describe: Callable[[BatchOutput], MetricsContext],
    ) -> BatchOutput:
        """Do steps 2 to 4 of a batch. Called by Spark between 1 and 5, in the thread of the query; may be repeated.

        `packed` is marked to be persisted; `describe` is called between 2 and 3. Raises `CheckpointInUse` if another
        process has the lease or has recorded this batch, `JobFailed` if what was persisted is lost.
        """
        # 1  Spark has logged the offsets. Until 3 nothing but Spark's own state store has anything of the batch, and
        #    that takes what a repetition stores in its place: a crash makes Spark run it again.
        self.lease.require_held()  # whoever has taken over reads the state
        fault_point("before-plan", number)

        # 2  The plan runs once. What is small of its output is in the driver then.
        batch = run_and_collect(packed, number)
        if not batch.balanced:
            raise PanekeeperError(
                f"batch {number} of job {self.record.name!r} is not committed: rows_in is not the sum of the other "
                f"counts in {batch.counts}; this is a defect of Panekeeper, please report it with these numbers"
            )
        fault_point("before-prepare", number)

        # 3  The record decides what the batch is. A crash before it leaves at most large rows that nobody refers to;
        #    one after it loses nothing.
        context = describe(batch)
        prepared, large = self._record(packed, batch, query, spec, context)

        # 4  One commit a table. A crash between two of them: the next start makes those that are missing.
        self.writer.write(packed.sparkSession, prepared, large, self.lease.require_held)
        self.tables = dict(prepared.tables)

        # 5  Spark logs the commit when this has returned. A crash before: the next start logs it, as it is recorded.
        if prepared.is_flush:
            write_flushed(self.files, number)
        self.lease.require_held()
        return batch

    def complete(self) -> PreparedBatch | None:
        """Do steps 4 and 5 of a batch that was recorded and not committed. At each start; may be killed and repeated.

        Returns the batch, with the commits that were made or found; None: there was nothing to do, or nothing of the
        batch is recorded, and Spark runs it again.
        """
        begun, committed = last_batches(self.files)
        if begun is None or begun == committed:
            self._remove_all_but(last_prepared(self.files, self.record, committed))
            return None
        batch = read_prepared(self.files, self.record.epoch, begun)
        if batch is None:  # a crash before 3; the large rows of another process may lie there, which stay
            self.lease.require_held()
            if reserve(self.files, self.record.epoch, begun, self.lease.start):
                return None
            batch = read_prepared(self.files, self.record.epoch, begun)  # it was recorded at this moment
            if batch is None:  # or is reserved by a later owner of the lease
                raise self._recorded_first(begun)
        if batch.computed_by(self.record) is not self.record:  # since this run began: what it computes is another
            raise self._recorded_first(batch.number)

        # 4  Each table, as it is recorded: where it is now, and if it still is what it was then.
        writes = [*filter(None, (self._target(write, batch.number) for write in batch.writes))]
        if batch.sink_writer is not None:
            self.lease.require_held()
            self.writer.prepare_user_sink(self.files.spark, batch.rows[RESULTS].schema)
        self._write_recorded(replace(batch, writes=writes))
        for write in writes:
            self.tables[write.role] = {"path": write.path, "id": write.table, "batch": batch.number}

        # 5  Spark's commit, as Spark would have logged it.
        if batch.is_flush:
            write_flushed(self.files, batch.number)
        self.lease.require_held()
        with suppress(FileExistsError):  # the process that had recorded it may go on, and be faster
            self.files.write(f"{COMMITS_FOLDER}/{batch.number}", batch.spark_commit.encode())
        if batch.resumed_us is not None:
            self.lease.note_completed(batch.resumed_us)
        what = ", ".join(write.role for write in writes) or "no table"
        _log.info("batch %s of job %s is completed as it was recorded: %s", batch.number, self.record.name, what)
        self._remove_all_but(batch)
        return replace(batch, writes=writes)

    # Step 3

    def _record(
        self, packed: DataFrame, batch: BatchOutput, query: StreamingQuery, spec: JobSpec, context: MetricsContext
    ) -> tuple[PreparedBatch, DataFrame | None]:
        """Record a batch, and remove the record of the one before, which is committed; return it, and its large rows.

        These are read as they are recorded: what was persisted is computed again, maybe otherwise, if an executor is
        lost or somebody clears the cache.
        """
        folder, large = f"{prepared_file(self.record.epoch, batch.number)}-{uuid.uuid4().hex}", None
        if batch.large_tags:
            self.lease.require_held()
            write_large_rows(packed, batch.large_tags, self.files.path(folder))
            large = read_large_rows(packed.sparkSession, self.files.path(folder))
            computed = {tag: (batch.output_counts[tag], batch.hashes[tag]) for tag in batch.large_tags}
            if rows_and_hashes(large) != computed:
                raise JobFailed(
                    f"batch {batch.number} of {self.files.root} is not recorded: its rows were lost before that (the "
                    "cache was cleared, or an executor ended), and computed again they are others, or in another "
                    "order. No table has any of them; start the job again, which runs the whole batch again"
                )
        rows = _recorded_rows(batch, spec, context)
        for window in spec.parts:
            if self.declared.get(role_of("view", window)) is None:
                rows.pop(tag_of(VIEW, window), None)
        writes = [
            TableWrite(
                role=role,
                path=path,
                table=self.tables.get(role, {}).get("id", ""),
                transaction=self.record.transaction(role),
                after=self.tables.get(role, {}).get("batch", -1),
                rows=name,
                **(newest_by(spec.parts[window_of(role)]) if kind_of(role) == "view" else {}),
            )
            for role, name in _outputs(spec, rows).items()
            if (path := self.declared.get(role)) is not None and name in rows
        ]
        written = {write.role: {"path": write.path, "id": write.table, "batch": batch.number} for write in writes}
        prepared = PreparedBatch(
            number=batch.number,
            epoch=self.record.epoch,
            spark_commit=spark_commit(
                packed.sparkSession, query, None if self._last is None else self._last.spark_commit
            ),
            writes=writes,
            rows=rows,
            large=dict.fromkeys(batch.large_tags, folder),
            large_counts={tag: batch.output_counts[tag] for tag in batch.large_tags},
            large_hashes={tag: batch.hashes[tag] for tag in batch.large_tags},
            job=self.record.id,
            tables=self.tables | written,
            declaration=self.record.declaration,
            sink_writer=self.record.transaction("sink") if self.writer.has_user_sink and RESULTS in rows else None,
            is_flush=batch.flushed,
            drain_file=batch.drain_file,
            resumed_us=batch.resumed_us,
        )
        self.lease.require_held()
        try:
            prepare(self.files, prepared, self.lease.start)
        except FileExistsError as error:
            raise self._recorded_first(batch.number) from error
        if self._last is None or self._last.large:  # Hadoop removes folders, but takes longer
            self._remove_all_but(prepared)
        else:
            self.files.remove(prepared_file(self._last.epoch, self._last.number))
        self._last = replace(prepared, rows={})
        return prepared, large

    def _recorded_first(self, number: int) -> CheckpointInUse:
        return CheckpointInUse(
            f"batch {number} of {self.files.root} was recorded by another process first: either of the two was "
            "suspended until the other one had taken over. Nothing that this process has computed of it is in a table; "
            "if no other process runs, start the job again, which completes the batch"
        )

    # Steps 4 and 5 at a start

    def _write_recorded(self, batch: PreparedBatch) -> None:
        wanted = {write.rows for write in batch.writes} | ({RESULTS} if batch.sink_writer is not None else set())
        with session_of_its_own(self.files.spark) as spark:  # as a query has one: commits set what is for them alone
            packed = None
            for folder in {batch.large[name] for name in wanted & batch.large.keys()}:
                if not self.files.exists(folder):
                    raise damaged(self.files, folder, "it is gone")
                packed, counts = read_large_rows(spark, self.files.path(folder)), batch.large_counts
                if rows_and_hashes(packed) != {tag: (rows, batch.large_hashes[tag]) for tag, rows in counts.items()}:
                    raise damaged(self.files, folder, f"it has not the rows that were recorded, {dict(counts)}")
            try:
                self.writer.write(spark, batch, packed, self.lease.require_held)
            except Exception as error:  # noqa: BLE001 -- raised again, as ours
                raise translate(error, self.record.name) from None

    def _target(self, write: TableWrite, number: int) -> TableWrite | None:
        """Return where rows are to be written: to their table, which may have been moved, or copied; None: nowhere."""
        spark, declared = self.files.spark, self.declared.get(write.role)
        if write.role not in self.declared or write.transaction != self.record.transaction(write.role):
            raise damaged(self.files, prepared_file(self.record.epoch, number), f"it writes as {write.transaction}")
        for path in filter(None, (declared, write.path)):
            table = self.writer.read(spark, path) if is_delta_table(spark, path) else None
            if table is not None and write.table in ("", table.id):
                require_lasting_transactions(table)  # by what the table says, the batch is written or skipped
                require_owned([table], self.record)
                if write.table == table.id:
                    require_remembered(self.record, write.role, table, begun=number)
                require_no_later_batch(self.files.root, self.record, {write.role: table}, begun=number)
                known = {"path": path, "id": write.table or table.id, "batch": write.after}
                require_has(self.record, write.role, table, known)
                return replace(write, path=path, table=table.id)
        what = f"batch {number} of job {self.record.name!r} has rows for the {write.role} {write.path}, which"
        is_declared = declared is not None and place_of(declared) == place_of(write.path)
        if kind_of(write.role) == "view" and not is_declared:  # the log has all that the view has
            _log.warning("%s is gone: they are left out", what)
            return None
        raise SinkError(
            f"{what} is gone, or is another table now. Mount its volume, or put it back; or, if it is lost, restore a "
            "savepoint, or reset the job to its initial state"
        )

    def _remove_all_but(self, needed: PreparedBatch | None) -> None:
        for name in not_needed(self.files, [] if needed is None else [needed]):
            self.lease.require_held()  # else it may be the record of a process that has taken over
            self.files.remove(name)


def _outputs(spec: JobSpec, rows: Collection[str]) -> dict[str, str]:
    """Return role of a table -> which rows of a batch it gets; in the order of their commits."""
    views = {window: tag_of(VIEW, window) for window in spec.parts}
    return {
        **{role_of("log", window): tag_of(RESULTS, window) for window in spec.parts},
        "quarantine": REJECTED,
        **{role_of("view", window): tag if tag in rows else tag_of(RESULTS, window) for window, tag in views.items()},
        "downtime": "downtime",
        "metrics": "metrics",
    }


def newest_by(spec: JobSpec) -> dict[str, Any]:
    """Return what a row of the view stands for: a partition and pane, or a partition; of one of several ports."""
    port = [PORT] if spec.other_ports else []
    pane = ["pane_start", "pane_end"] if spec.has_panes else []
    pane = ["session_start"] if spec.has_sessions else pane
    rank = [RANK] if spec.has_groups else []
    return {
        "keys": [*spec.keys.names, *port, *pane, *rank],
        "newer_by": "refinement" if spec.has_panes else "firing",
        # Delta compares a time without a zone with an instant by way of the session's zone.
        "since": pane[0] if pane and spec.pane_time == TIMESTAMP else None,
        "replaces": "replaces" if spec.has_sessions else None,
    }


def _recorded_rows(batch: BatchOutput, spec: JobSpec, context: MetricsContext) -> dict[str, pa.Table]:
    """Return what is recorded of each kind of rows; those that are too many for the driver without their rows."""
    schemas = {
        tag_of(kind, window): part.results_schema for window, part in spec.parts.items() for kind in (RESULTS, VIEW)
    }
    schemas[REJECTED] = spec.rejected_schema
    rows = {
        tag: schema.empty_table() if tag in batch.large_tags else with_columns(batch.driver_tables[tag], schema)
        for tag, schema in schemas.items()
        if batch.output_counts.get(tag)
    }
    has_metrics = bool(rows or batch.counts["rows_in"])
    if context.downtime is not None:
        rows["downtime"] = _one_row(DOWNTIME, context.downtime.row())
    if has_metrics:
        metrics: dict[str, Any] = {
            "batch": batch.number,
            "batch_time": to_datetime(context.started_us),
            **batch.counts,
            "balanced": batch.balanced,
            "watermark": to_datetime_if_any(batch.watermark),
            "open_panes": context.open_panes,
            "state_bytes": context.state_bytes,
            "firings": batch.firings,
            "late_ms": None if batch.late_us is None else batch.late_us // 1000,
            "errors": [*batch.errors_by_reason.items()],
            "missed_panes": batch.missed_panes,
            "seconds": round((now_us() - context.started_us) / 1e6, 3),
        }
        rows["metrics"] = _one_row(METRICS, tuple(metrics[name] for name in METRICS.names))
    return rows


def _one_row(schema: StructType, values: tuple[Any, ...]) -> pa.Table:
    row = dict(zip(schema.names, values, strict=True))
    return pa.Table.from_pylist([row], schema=arrow_schema(schema))
