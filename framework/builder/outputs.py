"""Where results go: the last two steps of a declaration, from a computation to a running job.

Nothing is checked against the outside world before `start()` (or `transform()`): then the session, the checkpoint and
the tables, in this order, and the query begins.
"""

from __future__ import annotations

import os
from dataclasses import asdict, astuple, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from panekeeper.framework.builder.named_tables import NamedTables
from panekeeper.framework.builder.places import (
    Place,
    cluster_columns,
    qualified_path,
    require_view,
    tables_in_catalog,
    tables_in_folders,
)
from panekeeper.framework.declarations.errors import DeclarationError, ForeignCheckpoint
from panekeeper.framework.engine.flow.pipeline import Pipeline, unpack
from panekeeper.framework.engine.job.lease import Lease
from panekeeper.framework.engine.job.query import QueryTrigger, trigger_options
from panekeeper.framework.engine.job.start import acquire_for_start
from panekeeper.state.checkpoint.control_files import write_control_file
from panekeeper.state.checkpoint.job_record import read_record, read_tables
from panekeeper.state.checkpoint.run_record import is_new

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.engine.job.job import Job
    from panekeeper.framework.engine.job.reset import ResetPreview
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.tables import TableLayout, Tables
    from panekeeper.framework.engine.user_sinks.protocol import Sink
    from panekeeper.state.checkpoint.job_record import JobRecord


@dataclass(frozen=True)
class Computation:
    """A stream, its window and what is computed from it. Made by `.aggregate(...)` and `.operator(...)`."""

    _pipeline: Pipeline

    def to_delta(
        self,
        path: Place | None = None,
        *,
        table: str | None = None,
        view: Place | None = None,
        quarantine: Place | None = None,
        metrics: Place | None = None,
        downtime: Place | None = None,
        properties: Mapping[str, str] | None = None,
        cluster_by: str | Sequence[str] = (),
    ) -> DeltaJob:
        """Declare the Delta tables: all by folder or URL (`s3a://bucket/log`), or all by name in the session's catalog.

        Args:
            path: the log, by its folder: one row a firing, never changed.
            table: the log, by its name, such as `"prod.metrics.worst"`; the others are then given by names, too.
            view: the newest refinement of each pane, kept up to date by MERGE; none if not given.
            quarantine: rows that joined no window, and what could not be computed, with the reason;
                `<log>_quarantine` if not given.
            metrics: one row a batch; `<log>_metrics` if not given.
            downtime: one row for each start after the first, on what became due since the stop; `<log>_downtime` if
                not given.
            properties: of Delta, for the log and the view when they are created.
            cluster_by: column or columns by which OPTIMIZE clusters the log and the view, from their creation on.

        Raises:
            DeclarationError: neither path nor table, or both; two tables in one place; a name for a folder, or the
                other way round; `cluster_by` of no result column; or results that cannot be merged into a view.
        """
        from panekeeper.framework.engine.sink.tables import TableLayout

        others = {"view": view, "quarantine": quarantine, "metrics": metrics, "downtime": downtime}
        if (path is None) == (table is None):
            raise DeclarationError(
                "to_delta() takes path (a folder or URL) or table (a name in the catalog): give one of them"
            )
        columns = cluster_columns(cluster_by, self._pipeline.spec.results_schema.names) if cluster_by != () else ()
        layout = TableLayout(properties=dict(properties or {}), cluster_by=columns)
        tables = tables_in_folders(path or "", others) if table is None else tables_in_catalog(table, others)
        require_view(view, self._pipeline)
        return DeltaJob(self._pipeline, tables, _named=table is not None, _layout=layout)

    def transform(self, *, checkpoint: str | os.PathLike[str]) -> DataFrame:
        """Return the results as a streaming DataFrame, for a sink of your own.

        Each call is a start. Rows that joined no window are only in the tables of `to_delta`, and flush, drain and stop
        belong to its jobs. Spark stores the state of a batch when its rows are computed: a `foreachBatch` that skips a
        batch which it has (as Delta's `txnVersion` does) must run `batch.count()`, or the query cannot start again.

        Args:
            checkpoint: the folder that the query then gets as its `checkpointLocation`, too: ticks are written there.

        Raises:
            CheckpointError: as `DeltaJob.start`.
            SetupError: as `DeltaJob.start`.
            StateError: as `DeltaJob.start`.
        """
        from panekeeper.framework.engine.job.startup_checks import open_with_history
        from panekeeper.framework.engine.job.upgrade.start import record_upgrade
        from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
        from panekeeper.framework.engine.session.required_settings import require_state_settings

        files = CheckpointFiles(self._pipeline.intake.df.sparkSession, qualified_path(checkpoint))
        require_state_settings(files)
        record, pipeline = open_with_history(files, self._pipeline, own_query=True)
        record_upgrade(files, record)
        write_control_file(files, "resume")
        packed = pipeline.packed(files, record.group_ids)
        return unpack(packed, "results", pipeline.spec.results_schema)


@dataclass(frozen=True)
class DeltaJob:
    """A complete job that can be started. Made by `Computation.to_delta`."""

    _pipeline: Pipeline
    _tables: Tables
    _sink: Sink | None = None
    _named: bool = False
    """Whether `_tables` are names in the catalog."""
    _layout: TableLayout | None = None

    @property
    def pipeline(self) -> Pipeline:
        """The computation, for checks of a declaration that is not started."""
        return self._pipeline

    @property
    def tables(self) -> Tables:
        """The folders of its tables; of one that the catalog does not have yet, the name."""
        return NamedTables(self._tables).existing(self._spark) if self._named else self._tables

    @property
    def _spark(self) -> SparkSession:
        return self._pipeline.intake.df.sparkSession

    def with_sink(self, sink: Sink) -> DeltaJob:
        """Return the job with a sink of your own beside its tables, which gets each row of the log, too.

        Args:
            sink: implements `prepare` and `commit`; its rows arrive at least once, and exactly once by batch number.

        Raises:
            DeclarationError: it does not have these methods, or the job has a sink already.
        """
        from panekeeper.framework.engine.user_sinks.protocol import Sink

        if isinstance(sink, type) or not isinstance(sink, Sink):
            raise DeclarationError(f"with_sink() takes an object with the methods prepare and commit, not {sink!r}")
        if self._sink is not None:
            raise DeclarationError(f"the job has the sink {self._sink!r} already; let one sink write to both places")
        return replace(self, _sink=sink)

    def foreach_batch(self, function: Callable[[DataFrame, int], object]) -> DeltaJob:
        """Return the job with a function that gets the results of each batch, too, as `foreachBatch` of Spark's does.

        Args:
            function: called with the rows that the log gets and the number of the batch, in a thread of the driver,
                for batches that have results; again with the same after a crash; after a restore or a reset, with other
                rows for numbers that it has seen. If it raises, the job fails, and resumes with that batch.

        Raises:
            DeclarationError: it cannot be called, or the job has a sink already.
        """
        from panekeeper.framework.engine.user_sinks.foreach_batch import ForeachBatch

        if not callable(function):
            raise DeclarationError(f"foreach_batch() takes a function of a DataFrame and a number, not {function!r}")
        return self.with_sink(ForeachBatch(function))

    def start(
        self,
        *,
        checkpoint: str | os.PathLike[str],
        trigger: QueryTrigger = "immediate",
        accept_batch: int | None = None,
    ) -> Job:
        """Start the job, or resume it from `checkpoint`. Returns once the first batch runs; `Job.await_end` waits.

        Args:
            checkpoint: a folder of this job's own, on any file system that Spark can write (for S3: `s3a://bucket/path`
                and `session(s3=True)`).
            trigger: `"available_now"` processes what is there and ends; `"immediate"` runs until stopped; a duration
                such as `"10 seconds"`, of a millisecond or more, begins a batch at that period until stopped.
            accept_batch: number of an unfinished batch that may go on without what is lost of it, as an error has said:
                input files, a table, or what was recorded of it (docs/lifecycle.md).

        Returns:
            The running job.

        Raises:
            DeclarationError: `trigger` is none of these.
            CheckpointError: the folder belongs to another job, or to a declaration whose state does not fit; the job
                was flushed, one runs on it, or a batch is unfinished and something of it is lost.
            SinkError: a table cannot take the results.
            SetupError: the session cannot run it.
            StateError: the stored state cannot be used.
        """
        from panekeeper.framework.engine.job.startup_checks import (
            check_session,
            require_no_interrupted_restore,
            require_separate_folders,
        )
        from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
        from panekeeper.framework.engine.session.spark_errors import translate_full_disk
        from panekeeper.framework.engine.sink.tables import require_no_rows

        how = trigger_options(trigger)
        files = CheckpointFiles(self._spark, qualified_path(checkpoint))
        tables = self.tables
        check_session(self._spark, [files.root, *filter(None, astuple(tables))])
        require_no_interrupted_restore(files)
        require_separate_folders(files.root, asdict(tables))
        if not files.names(""):
            require_no_rows(self._spark, tables)  # before the lease makes the folder: its volume may be missing
        name = self._pipeline.intake.name
        with translate_full_disk(name), acquire_for_start(files, name) as (lease, held):
            return self._start(held, how, lease, accept_batch)

    def _start(self, files: CheckpointFiles, how: Mapping[str, Any], lease: Lease, accepted: int | None) -> Job:
        from panekeeper.framework.engine.job.batch_journal import BatchJournal
        from panekeeper.framework.engine.job.job import Job
        from panekeeper.framework.engine.job.launch import JobLaunch
        from panekeeper.framework.engine.job.startup_checks import open_with_history
        from panekeeper.framework.engine.job.table_checks import require_fitting_tables
        from panekeeper.framework.engine.job.upgrade.start import take_tables, with_columns_found
        from panekeeper.framework.engine.sink.small_commits import SmallTables
        from panekeeper.framework.engine.sink.table_writer import TableWriter
        from panekeeper.framework.engine.sink.tables import create_or_check
        from panekeeper.framework.engine.sources.backlog import require_bounded_batch
        from panekeeper.state.spark_logs.source_logs import found_files

        writer = TableWriter(small=SmallTables(), user_sink=self._sink)
        journal = partial(BatchJournal, files=files, writer=writer, lease=lease, accepted=accepted)

        def complete(record: JobRecord) -> object:
            return journal(record=record, declared=asdict(self.tables)).complete()

        record, pipeline = open_with_history(files, self._pipeline, accepted=accepted, complete=complete)
        spec, layout, spark, new, made = pipeline.spec, self._layout, files.spark, is_new(files), read_tables(files)
        for port in pipeline.ports:
            require_bounded_batch(port.intake.df, partial(found_files, files))
        written = {} if new else made
        files.before_change()
        tables = NamedTables(self._tables).create(spark, spec, written, layout) if self._named else self._tables
        paths, small, owned, fresh = asdict(tables), writer.small, written.values(), new and not record.epoch
        files.before_change()
        found = create_or_check(spark, tables, spec, fresh=fresh, written=owned, made=made, layout=layout, small=small)
        record, pipeline = with_columns_found(record, pipeline, found)
        known = require_fitting_tables(files, record, paths, small, metadata=found, made=made)
        take_tables(files, record, tables, pipeline.spec, writer)
        batches = journal(record=record, declared=paths, tables=known)
        return Job(JobLaunch.resume(files, record, pipeline, how, batches))

    def reset_to_initial_state(self, *, checkpoint: str | os.PathLike[str], confirm: str | None = None) -> ResetPreview:
        """Discard the state of a stopped job: its next start begins as a new job would (docs/semantics.md section 7.4).

        Contents are discarded without any event, `reset_to_initial_state` of state handlers is called, sources are read
        from their beginning, and the tables take the results as a new epoch. May be killed and called again.

        Args:
            checkpoint: the job's folder.
            confirm: the job's name, as a confirmation that its state is to be discarded.

        Returns:
            What was discarded.

        Raises:
            NotConfirmed: `confirm` is not the job's name; the error names what would be discarded.
            CheckpointError: the folder belongs to another job, a job runs on it, or it was restored to another folder.
            SinkError: the declared view is not the one that the job has written.
        """
        from panekeeper.framework.engine.job.reset import reset_to_initial_state
        from panekeeper.framework.engine.job.startup_checks import require_no_interrupted_restore
        from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles

        files = CheckpointFiles(self._spark, qualified_path(checkpoint))
        record = read_record(files)
        name = self._pipeline.intake.name
        if record is None or record.name != name:
            found = "no checkpoint of Panekeeper" if record is None else f"the checkpoint of job {record.name!r}"
            raise ForeignCheckpoint(f"{files.root} holds {found}; give the folder of job {name!r}")
        with acquire_for_start(files, name) as (lease, held):
            try:
                require_no_interrupted_restore(files)
                return reset_to_initial_state(held, record, self.tables, confirm=confirm)
            finally:
                lease.roll_back()
