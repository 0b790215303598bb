"""Where results go: the last two steps of a declaration, from a computation to a running job.

Nothing is checked against the outside world before `start()` (or `transform()`): then the session, the checkpoint and
the tables, in this order, and the query begins.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from panekeeper.framework.builder.places import (
    Place,
    cluster_columns,
    create_in_catalog,
    declared_tables,
    existing_tables,
    qualified_path,
    require_view,
)
from panekeeper.framework.declarations.calls import named_options
from panekeeper.framework.declarations.errors import (
    CheckpointInUse,
    DeclarationError,
    ForeignCheckpoint,
    JobNotRunning,
    without_own_frames,
)
from panekeeper.framework.declarations.methods import require_plain, require_plain_methods
from panekeeper.framework.declarations.operator import OperatorWithListeners
from panekeeper.framework.declarations.steps import Step
from panekeeper.framework.engine.flow.pipeline import Pipeline, unpack
from panekeeper.framework.engine.job.query import QueryTrigger, trigger_options
from panekeeper.state.checkpoint.control_files import remove_ends_elsewhere, write_control_file
from panekeeper.state.checkpoint.epochs import POINTER_FILE, read_pointer
from panekeeper.state.duration_text import us_text
from panekeeper.state.own_paths import follow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.job.job import Job
    from panekeeper.framework.engine.job.reset import ResetPreview
    from panekeeper.framework.engine.sink.tables import TableLayout, Tables
    from panekeeper.framework.engine.user_sinks.protocol import Sink


@dataclass(frozen=True)
class Computation(Step):
    """A stream, its window and what is computed from it. Made by `.aggregate(...)` and `.operator(...)`."""

    _place = 2
    _pipeline: Pipeline

    def _described(self) -> tuple[str, dict[str, Any]]:
        return f"declaration of job {self._pipeline.intake.name}", _declared(self._pipeline)

    @named_options
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
            path: the log, by its folder: one row a firing, never changed. Of several windows, each has one with its
                name at the end: `out/flights` is `out/flights_hour` and `out/flights_day`; so has the view.
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
        parts, columns = self._pipeline.spec.parts, tuple[str, ...]()
        for part in parts.values() if cluster_by != () else ():
            columns = cluster_columns(cluster_by, part.results_schema.names)
        layout = TableLayout(properties=dict(properties or {}), cluster_by=columns)
        tables = declared_tables(table or path or "", others, named=table is not None, windows=[*parts])
        require_view(view, self._pipeline)
        return DeltaJob(self._pipeline, tables, _named=table is not None, _layout=layout)

    @named_options
    def transform(self, *, checkpoint: str | os.PathLike[str]) -> DataFrame:
        """Return the results as a streaming DataFrame, for a sink of your own.

        Each call is a start. Rows that joined no window are only in the tables of `to_delta`, and flush, drain and stop
        belong to its jobs. Spark stores the state of a batch when its rows are computed: a `foreachBatch` that skips a
        batch which it has (as Delta's `txnVersion` does) must run `batch.count()`, or the query cannot start again.

        Args:
            checkpoint: the folder that the query then gets as its `checkpointLocation`, too: ticks are written there. A
                query with another one fails in its first batch.

        Raises:
            DeclarationError: there are several windows, whose results have other columns than each other.
            CheckpointError: as `DeltaJob.start`.
            SetupError: as `DeltaJob.start`.
            StateError: as `DeltaJob.start`.
        """
        if names := self._pipeline.spec.windows:
            raise DeclarationError(
                f"transform() returns the results of one window, and here are {', '.join(names)}; use to_delta(), or a "
                "job for each window"
            )
        from panekeeper.framework.engine.job.declaration_record import (
            record_to_go_on_with,
            record_upgrade,
            with_history,
        )
        from panekeeper.framework.engine.job.own_query import require_its_checkpoint
        from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
        from panekeeper.framework.engine.session.settings import require_state_settings

        files = CheckpointFiles(self._pipeline.intake.df.sparkSession, qualified_path(checkpoint))
        if files.exists(POINTER_FILE):
            raise ForeignCheckpoint(
                f"{files.root} is the checkpoint of a job with tables (to_delta()), and a query of its own has no "
                "epochs; give it a folder of its own"
            )
        require_state_settings(files)
        follow(files)
        record = record_to_go_on_with(files, self._pipeline, own_query=True)
        pipeline = with_history(self._pipeline, record)
        record_upgrade(files, record)
        remove_ends_elsewhere(files)
        write_control_file(files, "resume")
        require_its_checkpoint(files)
        packed = pipeline.packed(files, record.group_ids, quarantines=False)
        return unpack(packed, "results", pipeline.spec.results_schema)


@dataclass(frozen=True)
class DeltaJob(Step):
    """A complete job that can be started. Made by `Computation.to_delta`."""

    _place = 3
    _pipeline: Pipeline
    _tables: Tables
    _sink: Sink | None = None
    _named: bool = False
    """Whether `_tables` are names in the catalog."""
    _layout: TableLayout | None = None

    def _described(self) -> tuple[str, dict[str, Any]]:
        tables = {name: place for name, place in self._tables.by_role.items() if place is not None}
        return f"job {self._pipeline.intake.name}", {**_declared(self._pipeline), "tables": tables}

    @property
    def pipeline(self) -> Pipeline:
        """The computation, for checks of a declaration that is not started."""
        return self._pipeline

    @property
    def tables(self) -> Tables:
        """The folders of its tables; of one that the catalog does not have yet, the name."""
        return existing_tables(self._spark, self._tables) if self._named else self._tables

    @property
    def _spark(self) -> SparkSession:
        return self._pipeline.intake.df.sparkSession

    @named_options
    def with_sink(self, sink: Sink) -> DeltaJob:
        """Return the job with a sink of your own beside its tables, which gets each row of the log, too.

        Args:
            sink: implements `prepare` and `commit`; its rows arrive at least once, and exactly once by batch number.

        Raises:
            DeclarationError: it does not have these methods, or the job has a sink already, or several windows.
        """
        from panekeeper.framework.engine.user_sinks.protocol import Sink

        if isinstance(sink, type) or not isinstance(sink, Sink):
            raise DeclarationError(f"with_sink() takes an object with the methods prepare and commit, not {sink!r}")
        require_plain_methods(sink, Sink, "store the rows before it returns")
        if names := self._pipeline.spec.windows:
            raise DeclarationError(
                f"a sink of your own gets the results of one window, and here are {', '.join(names)}; read their logs, "
                "or use a job for each window"
            )
        if self._sink is not None:
            raise DeclarationError(f"the job has the sink {self._sink!r} already; let one sink write to both places")
        return replace(self, _sink=sink)

    @property
    def has_user_sink(self) -> bool:
        """Whether a sink of the user's own gets the results, too."""
        return self._sink is not None

    @named_options
    def foreach_batch(self, function: Callable[[DataFrame, int], object]) -> DeltaJob:
        """Return the job with a function that gets the results of each batch, too, as `foreachBatch` of Spark's does.

        Args:
            function: called with the rows that the log gets and the number of the batch, in a thread of the driver,
                for batches that have results; again with the same after a crash; after a restore or a reset, with other
                rows for numbers that it has seen. If it raises, the job fails, and resumes with that batch.

        Raises:
            DeclarationError: it cannot be called, or the job has a sink already.
        """
        from panekeeper.framework.engine.user_sinks.protocol import ForeachBatch

        if not callable(function):
            raise DeclarationError(f"foreach_batch() takes a function of a DataFrame and a number, not {function!r}")
        require_plain(function, f"the function {getattr(function, '__qualname__', function)}()", "use the rows in it")
        return self.with_sink(ForeachBatch(function))

    @without_own_frames
    @named_options
    def start(
        self,
        *,
        checkpoint: str | os.PathLike[str],
        trigger: QueryTrigger = "immediate",
        attach: bool = False,
    ) -> Job:
        """Start the job, or resume it from `checkpoint`. Returns once the first batch runs; `Job.await_end` waits.

        Args:
            checkpoint: a folder of this job's own, on any file system that Spark can write (for S3: `s3a://bucket/path`
                and `session(s3=True)`). It may be renamed, moved, or reached by a link while no job runs.
            trigger: `"available_now"` processes what is there and ends; `"immediate"` runs until stopped; a duration
                such as `"10 seconds"`, of a millisecond or more, begins a batch at that period until stopped.
            attach: if this process runs the job already, by the same declaration, return that: so a cell of a notebook
                can be run again. It goes on with the code of operators and functions with which it was started.

        Returns:
            The running job.

        Raises:
            DeclarationError: `trigger` is none of these.
            CheckpointError: the folder belongs to another job, or to a declaration whose state does not fit; the job
                was flushed, or one runs on it.
            SinkError: a table cannot take the results.
            SetupError: the session cannot run it.
            StateError: the stored state cannot be used.
        """
        from panekeeper.framework.engine.job.job import job_of_this_process
        from panekeeper.framework.engine.job.start import Start, start_job
        from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles

        def make_tables(spark: SparkSession, spec: JobSpec, written: Mapping[str, str]) -> Tables:
            if self._named:
                return create_in_catalog(spark, self._tables, spec, written, self._layout)
            return self._tables

        place, options = qualified_path(checkpoint), trigger_options(trigger)
        if attach and (running := job_of_this_process(place)) is not None and running.running:
            if running.is_declared_as(self._pipeline, self.tables.by_role, options):
                return running
            raise CheckpointInUse(
                f"this process runs a job on {place} by another declaration, tables or trigger; end it by "
                f"panekeeper.job({str(checkpoint)!r}).stop(), then start this one"
            )
        start = Start(
            pipeline=self._pipeline,
            tables=self.tables,
            make_tables=make_tables,
            layout=self._layout,
            sink=self._sink,
            trigger=options,
        )
        return start_job(CheckpointFiles(self._spark, place), start)

    @named_options
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
            CheckpointError: the folder belongs to another job, or a job runs on it.
            SinkError: the declared view is not the one that the job has written.
        """
        from panekeeper.framework.engine.job.reset import reset_to_initial_state
        from panekeeper.framework.engine.job.start import lease_of_current_epoch
        from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles

        root = CheckpointFiles(self._spark, qualified_path(checkpoint))
        name = self._pipeline.intake.name
        pointer = read_pointer(root)
        if pointer is None or pointer.name != name:
            content = "no checkpoint of Panekeeper" if pointer is None else f"the checkpoint of job {pointer.name!r}"
            raise ForeignCheckpoint(f"{root.root} holds {content}; give the folder of job {name!r}")
        with lease_of_current_epoch(root, name) as (files, lease), lease.held():
            return reset_to_initial_state(files, self.tables, confirm=confirm, require_held=lease.require_held)


_OF_A_WINDOW = ("window", "aggregates", "operator", "listeners", "results")


def _declared(pipeline: Pipeline) -> dict[str, Any]:
    """Return what a notebook shows of a declaration."""
    spec, windows = pipeline.spec, [port.spec.window for port in pipeline.ports]
    if spec.windows:
        shown = _declared(replace(pipeline, spec=next(iter(spec.windows.values()))))
        of_each = {
            f"{what} {name}": value
            for name, part in spec.windows.items()
            for what, value in _declared(replace(pipeline, spec=part)).items()
            if what in _OF_A_WINDOW
        }
        return {name: value for name, value in shown.items() if name not in _OF_A_WINDOW} | of_each
    operator = spec.operator.operator if isinstance(spec.operator, OperatorWithListeners) else spec.operator
    listeners = spec.operator.listeners if isinstance(spec.operator, OperatorWithListeners) else ()
    return {
        "window": repr(windows[0]) if len(windows) == 1 else dict(enumerate(map(repr, windows))),
        "partition_by": ", ".join(spec.keys.names) or None,
        "event_time": pipeline.intake.event_time,
        "watermark": us_text(pipeline.intake.watermark_us) if pipeline.intake.event_time else None,
        "aggregates": spec.aggregates,
        "operator": None if operator is None else type(operator).__name__,
        "listeners": ", ".join(type(listener).__name__ for listener in listeners) or None,
        "results": {field.name: field.type for field in spec.results_schema},
    }


def job(checkpoint: str | os.PathLike[str]) -> Job:
    """Return the job that this process has started last on a checkpoint, running or not: its object may be lost.

    Args:
        checkpoint: its folder.

    Raises:
        JobNotRunning: this process has started none there.
    """
    from panekeeper.framework.engine.job.job import job_of_this_process

    place = qualified_path(checkpoint)
    if (running := job_of_this_process(place)) is None:
        raise JobNotRunning(
            f"this process has started no job on {place}; start() begins or resumes it, and "
            f"`panekeeper status {shlex.quote(place)}` shows one of another process"
        )
    return running
