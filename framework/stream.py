"""`windowed(...)`: from a streaming DataFrame to a running job, one declaration after the other.

    windowed(df, name=..., ...)      where rows come from, which are good, what time it is
      .window(TimeInterval(...))     how they are gathered
      .aggregate(n=agg.count())      what is computed from them; or .operator(MyOperator(), output="...")
      .to_delta(path, view=...)      where results go; or .transform(checkpoint=...) for any other sink
      .start(checkpoint=...)         run it

Each step checks what it was given and returns a new object; nothing runs before `start()`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from framework.agg import Aggregate
from framework.core.plan import Plan
from framework.durations import Duration, days, to_us
from framework.engine.intake import Intake
from framework.engine.pipeline import Pipeline, unpack
from framework.engine.query import Trigger, trigger_options
from framework.errors import DeclarationError
from framework.operator import Operator
from framework.windows import TimeInterval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.engine.checkpoint_files import CheckpointFiles
    from framework.engine.job import Job
    from framework.engine.tables import Tables
    from state.job_record import JobRecord

_TAKEN = ("pane_start", "pane_end", "refinement", "reason")


def windowed(  # noqa: PLR0913 -- the declaration of a stream, all by keyword
    df: DataFrame,
    *,
    name: str,
    partition_by: str | Sequence[str] | None = None,
    event_time: str | None = None,
    watermark: Duration = 0,
    arrival_time: str | None = None,
    order_by: str | Sequence[str] | None = None,
    max_ahead: Duration | None = days(1),  # noqa: B008 -- a timedelta does not change
    reject: Mapping[str, str] | None = None,
    on_bad: Literal["quarantine", "fail"] = "quarantine",
    key_groups: int = 8,
    _marks: bool = False,
) -> Windowed:
    """Declare where rows come from.

    Args:
        df: any streaming DataFrame.
        name: names the job, for ever: it is part of its checkpoint and of its transactions.
        partition_by: each value of these columns has windows of its own.
        event_time: the timestamp column that says when a row happened.
        watermark: how far event time may lag behind the latest seen before a pane is taken to be complete.
        arrival_time: the timestamp column that says when a row arrived; the batch's own time if not given.
        order_by: columns that declare the order of arrival; without them it is the order of the input files.
        max_ahead: a row whose event time is further than this after its arrival is quarantined, because it would
            close every window; None for no limit.
        reject: reason -> SQL condition; rows for which it holds are quarantined with that reason.
        on_bad: keep such rows in the quarantine table, or fail the job on the first.
        key_groups: number of buckets that share out the partitions; the most tasks that can run at once. Fixed
            for the life of a checkpoint.

    Raises:
        DeclarationError: a column that is not there or has an unfit type, a bad name, rule or duration.
    """
    return Windowed(
        Intake(
            df=df,
            name=name,
            partition_by=_names(partition_by),
            event_time=event_time,
            watermark_us=to_us(watermark, "watermark"),
            arrival_time=arrival_time,
            order_by=_names(order_by),
            max_ahead_us=None if max_ahead is None else to_us(max_ahead, "max_ahead"),
            reject=dict(reject or {}),
            on_bad=on_bad,
            key_groups=key_groups if partition_by else 1,
            marked=_marks,
        )
    )


@dataclass(frozen=True)
class Windowed:
    """A stream that waits for its window."""

    _intake: Intake

    def window(self, window: TimeInterval) -> WindowedBy:
        """Declare how rows are gathered. Raises `DeclarationError` if the window needs a time that is not declared."""
        if not isinstance(window, TimeInterval):
            raise DeclarationError(f"window() takes a window such as TimeInterval(hours(1)), not {window!r}")
        if self._intake.event_time is None:
            raise DeclarationError("a TimeInterval is a range of event time: give windowed() an event_time column")
        return WindowedBy(self._intake, window)


@dataclass(frozen=True)
class WindowedBy:
    """A stream and its window, waiting for what to compute."""

    _intake: Intake
    _window: TimeInterval

    def aggregate(self, **aggregates: Aggregate) -> Computed:
        """Declare the result columns. Raises `DeclarationError` for an unknown column or an unfit type."""
        if not aggregates:
            raise DeclarationError("aggregate() needs at least one result column, such as n=agg.count()")
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise DeclarationError(f"aggregate {name}: {aggregate!r} is none; use agg.max('column') and the like")
            self._intake.require(f"aggregate {name}={aggregate}", aggregate.columns)
        read = {column for aggregate in aggregates.values() for column in aggregate.columns}
        columns = self._columns(read | set(self._intake.partition_by))
        output = pa.schema([pa.field(name, one.bind(columns).output) for name, one in aggregates.items()])
        return self._computed(columns, output, aggregates=dict(aggregates))

    def operator(self, operator: Operator, *, output: pa.Schema | str) -> Computed:
        """Declare who handles the window's events, and the columns it emits.

        Args:
            operator: an instance; it is sent to the workers, and sees all columns of the stream.
            output: the emitted columns, as an Arrow schema or as SQL: `"spread double, n bigint"`.
        """
        if not isinstance(operator, Operator):
            raise DeclarationError(f"operator() takes an instance of a subclass of Operator, not {operator!r}")
        return self._computed(self._columns(set(self._intake.user_columns)), _schema(output), operator=operator)

    def _columns(self, wanted: set[str]) -> pa.Schema:
        return self._intake.arrow_schema([name for name in self._intake.user_columns if name in wanted])

    def _computed(self, columns: pa.Schema, output: pa.Schema, **what: Any) -> Computed:
        for name in output.names:
            if name in (*self._intake.partition_by, *_TAKEN):
                raise DeclarationError(f"the result column {name!r} has the name of a column that every result has")
        keys = pa.schema([columns.field(name) for name in self._intake.partition_by])
        plan = Plan(window=self._window, keys=keys, columns=columns, output=output, **what)
        return Computed(Pipeline(intake=self._intake, plan=plan))


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
    ) -> ToDelta:
        """Declare the Delta tables, by their folders.

        Args:
            path: the log: one row a firing, never changed.
            view: the newest refinement of each pane, kept up to date by MERGE; none if not given.
            quarantine: rows that joined no window, with the reason; `<path>_quarantine` if not given.
            metrics: one row a batch; `<path>_metrics` if not given.
        """
        from framework.engine.tables import Tables

        log = _folder(path)
        tables = Tables(
            log=log,
            view=None if view is None else _folder(view),
            quarantine=_folder(quarantine or f"{log}_quarantine"),
            metrics=_folder(metrics or f"{log}_metrics"),
        )
        folders = [folder for folder in (tables.log, tables.view, tables.quarantine, tables.metrics) if folder]
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
        from framework.engine.checkpoint_files import CheckpointFiles
        from framework.engine.pulse import beat

        files = CheckpointFiles(self._pipeline.intake.df.sparkSession, _folder(checkpoint))
        record = _open(files, self._pipeline)
        beat(files, "tick")
        packed = self._pipeline.packed(files, record.group_ids)
        return unpack(packed, "results", self._pipeline.plan.results)


@dataclass(frozen=True)
class ToDelta:
    """A complete job, ready to start."""

    _pipeline: Pipeline
    _tables: Tables

    def start(self, *, checkpoint: str | os.PathLike[str], trigger: Trigger = "continuous") -> Job:
        """Start the job, or resume it: what survived is in `checkpoint`. Returns once the first batch runs.

        Args:
            checkpoint: a folder of this job's own, on any file system that Spark can write.
            trigger: `"available_now"` processes what is there and ends; `"continuous"` runs until stopped; a
                `timedelta` begins a batch every so often.

        Raises:
            CheckpointError: the folder belongs to another job or declaration, or the job was flushed.
            SinkError: a table cannot take the results.
            SetupError: the session cannot run it.
            StateError: what is stored cannot be used.
        """
        from framework.engine.checkpoint_files import CheckpointFiles
        from framework.engine.job import Job, Launch
        from framework.engine.pulse import beat
        from framework.engine.sink import DeltaSink
        from framework.engine.startup import check_session
        from framework.engine.tables import prepare

        pipeline = self._pipeline
        spark = pipeline.intake.df.sparkSession
        how = trigger_options(trigger)
        check_session(spark)
        files = CheckpointFiles(spark, _folder(checkpoint))
        record = _open(files, pipeline)
        prepare(spark, self._tables, pipeline.plan)
        beat(files, "tick")
        sink = DeltaSink(
            job=record.name,
            epoch=record.epoch,
            plan=pipeline.plan,
            tables=self._tables,
            groups=len(record.group_ids),
        )
        return Job(
            Launch(name=record.name, files=files, ids=record.group_ids, pipeline=pipeline, sink=sink, trigger=how)
        )


def _open(files: CheckpointFiles, pipeline: Pipeline) -> JobRecord:
    from framework.engine.startup import open_checkpoint

    intake = pipeline.intake
    return open_checkpoint(files, name=intake.name, declaration=pipeline.declaration(), key_groups=intake.key_groups)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


def _folder(path: str | os.PathLike[str]) -> str:
    return os.fspath(path).rstrip("/")


def _schema(output: pa.Schema | str) -> pa.Schema:
    if isinstance(output, pa.Schema):
        return output
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    try:
        return to_arrow_schema(StructType([*StructType.fromDDL(output)]), timezone="UTC")  # type: ignore[misc]
    except Exception as error:
        raise DeclarationError(f'output is {output!r}; write columns as SQL does: "spread double, n bigint"') from error
