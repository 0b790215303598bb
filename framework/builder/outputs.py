"""Where results go: the last two steps of a declaration, from what is computed to a running job.

Nothing is looked at before `start()` (or `transform()`); then the session, the checkpoint and the tables are, in
this order, and the query begins.
"""

from __future__ import annotations

import os
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING

from framework.declarations.errors import DeclarationError, ForeignCheckpoint
from framework.engine.flow.pipeline import Pipeline, unpack
from framework.engine.job.query import Trigger, trigger_options
from state.checkpoint.job_record import TABLES_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.engine.job.job import Job
    from framework.engine.job.reset import Forgotten
    from framework.engine.session.checkpoint_files import CheckpointFiles
    from framework.engine.sink.tables import Tables
    from state.checkpoint.job_record import JobRecord


@dataclass(frozen=True)
class Computed:
    """A complete computation, waiting for where its results go."""

    _pipeline: Pipeline

    def to_delta(
        self,
        path: str | os.PathLike[str],
        *,
        view: str | os.PathLike[str] | None = None,
        quarantine: str | os.PathLike[str] | None = None,
        metrics: str | os.PathLike[str] | None = None,
        downtime: str | os.PathLike[str] | None = None,
    ) -> ToDelta:
        """Declare the Delta tables, by their folders.

        Args:
            path: the log: one row a firing, never changed.
            view: the newest refinement of each pane, kept up to date by MERGE; none if not given.
            quarantine: rows that joined no window, with the reason; `<path>_quarantine` if not given.
            metrics: one row a batch; `<path>_metrics` if not given.
            downtime: one row for each start after the first: what the time in between did; `<path>_downtime` if not
                given.

        Raises:
            DeclarationError: two tables in one folder, or a view of ports of which only some have panes.
        """
        from framework.engine.sink.tables import Tables

        if view is not None and self._pipeline.spec.mixes_window_kinds:
            raise DeclarationError(
                f"view is {view!r}, but some ports are time intervals and others are not: no row of one can be newer "
                "than a row of the other; read the log instead"
            )
        log = _folder(path)
        tables = Tables(
            log=log,
            view=None if view is None else _folder(view),
            quarantine=_folder(quarantine or f"{log}_quarantine"),
            metrics=_folder(metrics or f"{log}_metrics"),
            downtime=_folder(downtime or f"{log}_downtime"),
        )
        folders = [folder for folder in astuple(tables) if folder]
        if len(set(folders)) < len(folders):
            raise DeclarationError(f"two tables have the same folder: {', '.join(folders)}")
        return ToDelta(self._pipeline, tables)

    def transform(self, *, checkpoint: str | os.PathLike[str]) -> DataFrame:
        """Return the results as a streaming DataFrame, for a sink of your own.

        Start it with this very folder as `checkpointLocation`: the pulse that wakes the windows after a restart
        lives there. Each call counts as a start. Rows that joined no window are not in it; use `to_delta` to keep
        them. Flushing and cooperative stops belong to jobs; this is a plain DataFrame.

        Raises as `ToDelta.start`, tables apart.
        """
        from framework.engine.flow.control_stream import beat
        from framework.engine.job.startup_checks import check_state_settings
        from framework.engine.session.checkpoint_files import CheckpointFiles

        files = CheckpointFiles(self._pipeline.intake.df.sparkSession, _folder(checkpoint))
        check_state_settings(files.spark, files.root)
        record = _open(files, self._pipeline)
        beat(files, "resume")
        packed = self._pipeline.packed(files, record.group_ids)
        return unpack(packed, "results", self._pipeline.spec.results_schema)


@dataclass(frozen=True)
class ToDelta:
    """A complete job, ready to start."""

    _pipeline: Pipeline
    _tables: Tables

    @property
    def pipeline(self) -> Pipeline:
        """What it computes; for those who look at a declaration without starting it."""
        return self._pipeline

    @property
    def tables(self) -> Tables:
        """Where its results go."""
        return self._tables

    def start(self, *, checkpoint: str | os.PathLike[str], trigger: Trigger = "continuous") -> Job:
        """Start the job, or resume it: what survived is in `checkpoint`. Returns once the first batch runs.

        Args:
            checkpoint: a folder of this job's own, on any file system that Spark can write (for S3: `s3a://bucket/path`
                and `session(s3=True)`).
            trigger: `"available_now"` processes what is there and ends; `"continuous"` runs until stopped; a
                `timedelta` begins a batch every so often.

        Raises:
            CheckpointError: the folder belongs to another job or declaration, the job was flushed, or one runs on it.
            SinkError: a table cannot take the results.
            SetupError: the session cannot run it.
            StateError: what is stored cannot be used.
        """
        from framework.engine.job.job import Job
        from framework.engine.job.launch import Launch
        from framework.engine.job.lease import starting
        from framework.engine.job.startup_checks import check_session, is_fresh, require_no_half_restore
        from framework.engine.session.checkpoint_files import CheckpointFiles
        from framework.engine.session.spark_errors import full_disk_told
        from framework.engine.sink.delta_sink import DeltaSink
        from framework.engine.sink.tables import prepare

        pipeline = self._pipeline
        spark = pipeline.intake.df.sparkSession
        how = trigger_options(trigger)
        files = CheckpointFiles(spark, _folder(checkpoint))
        check_session(spark, [files.root, *filter(None, astuple(self._tables))])
        require_no_half_restore(files)
        name = pipeline.intake.name
        with full_disk_told(name), starting(files, name) as lease:
            record = _open(files, pipeline)
            prepare(spark, self._tables, pipeline.spec, fresh=is_fresh(files) and not record.epoch)
            files.write_json(TABLES_FILE, asdict(self._tables), replace=True)
            sink = DeltaSink(record=record, spec=pipeline.spec, tables=self._tables)
            return Job(Launch.resume(files, record, pipeline, sink, how, lease))

    def reset_to_initial_state(self, *, checkpoint: str | os.PathLike[str], confirm: str | None = None) -> Forgotten:
        """Let a stopped job forget everything: its next start begins as though it had just been created [S3].

        Contents are discarded without any event, state handlers hear `reset_to_initial_state`, sources are read from
        their beginning, and the tables take the results as a new epoch. May be killed and called again.

        Args:
            checkpoint: the job's folder.
            confirm: the job's name, to say that all of it is meant to be forgotten.

        Raises:
            NotConfirmed: not confirmed; the error names what would be forgotten.
            CheckpointError: the folder belongs to another job.
        """
        from framework.engine.job.lease import starting
        from framework.engine.job.reset import reset_to_initial_state
        from framework.engine.job.startup_checks import read_record
        from framework.engine.session.checkpoint_files import CheckpointFiles

        files = CheckpointFiles(self._pipeline.intake.df.sparkSession, _folder(checkpoint))
        record = read_record(files)
        name = self._pipeline.intake.name
        if record is None or record.name != name:
            held = "no checkpoint of Panekeeper" if record is None else f"the checkpoint of job {record.name!r}"
            raise ForeignCheckpoint(f"{files.root} holds {held}; give the folder of job {name!r}")
        with starting(files, name) as lease:
            try:
                return reset_to_initial_state(files, record, self._tables, confirm=confirm)
            finally:
                lease.abandon()


def _open(files: CheckpointFiles, pipeline: Pipeline) -> JobRecord:
    from framework.engine.job.startup_checks import open_checkpoint

    intake = pipeline.intake
    return open_checkpoint(files, name=intake.name, declaration=pipeline.declaration(), key_groups=intake.key_groups)


def _folder(path: str | os.PathLike[str]) -> str:
    """Return a folder by its full name: Delta takes a relative one for the name of a table."""
    name = os.fspath(path).rstrip("/")
    if name.startswith("s3://"):
        raise DeclarationError(f"{name} is not how Spark names a place on S3: write s3a{name.removeprefix('s3')}")
    return name if ":/" in name else os.path.abspath(name)  # noqa: PTH100 -- resolve() would follow links
