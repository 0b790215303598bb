"""Plays a vector on Spark: a real streaming query through intake, packing, processor and state store.

The input is written as files, one a micro-batch, with watermarks and marks as rows in their place. The Delta tables are
replaced by a list. A stop between micro-batches is the end of the query; the next one is a new query on the same
checkpoint. A lifecycle vector has one micro-batch a step.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panekeeper.framework.builder.windowed import windowed
from panekeeper.framework.core.job_spec import EVENT_TIME, TIMESTAMP
from panekeeper.framework.core.steps import EvictPartitions, Mark, Rows, Step, Tick, Watermark
from panekeeper.framework.engine.flow.packing import MARK, MARK_TEXT, MARK_VALUE
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.engine.job.batch_journal import BatchJournal
from panekeeper.framework.engine.job.declaration_record import record_to_go_on_with, with_history
from panekeeper.framework.engine.job.query import QueryTrigger, trigger_options
from panekeeper.framework.engine.job.start import lease_of_current_epoch, point_to, run_job
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles, HeldFiles
from panekeeper.framework.engine.session.settings import query_settings
from panekeeper.framework.engine.sources.inputs import inputs_of
from panekeeper.framework.testing.batch_files import BatchFiles, session_of_one_group
from panekeeper.framework.testing.lifecycle import Call, LifecycleDeclaration, LifecycleStep, run_step
from panekeeper.framework.testing.steps import (
    KEY,
    OUTPUT,
    TUPLE,
    VectorBatch,
    items_to_steps,
    job_spec_for,
    measure_type,
    read_events,
    recorder_for,
)
from panekeeper.framework.testing.vector import Item, Vector, column_of
from panekeeper.state.prepared import PreparedBatch
from panekeeper.state.spark_store import SparkStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from panekeeper.framework.builder.outputs import Computation
    from panekeeper.framework.engine.job.job import Job


_TIME = "event_time"


def input_schema(vector: Vector) -> pa.Schema:
    """Return the columns of the input files: key, row, fields that policies read, event time if any, and marks."""
    fields = [pa.field(KEY, pa.string()), pa.field(TUPLE, pa.string())]
    fields += [pa.field(column_of(name), measure_type(vector, name)) for name in vector.attributes]
    if vector.event_time is not None:
        fields.append(pa.field(_TIME, TIMESTAMP))
    marks = [pa.field(MARK, pa.string()), pa.field(MARK_VALUE, pa.int64()), pa.field(MARK_TEXT, pa.string())]
    return pa.schema([*fields, *marks])


def play_on_spark(vector: Vector, batches: Iterable[VectorBatch], spark: SparkSession | None) -> list[dict[str, Any]]:
    """Run the micro-batches of a vector and return its events."""
    with tempfile.TemporaryDirectory(prefix="panekeeper-play-", ignore_cleanup_errors=True) as folder:
        return SparkRun(vector, spark, Path(folder)).play(batches)


class SparkRun:
    """One vector on Spark, in a folder of its own. All its persisted state is in its checkpoint."""

    def __init__(self, vector: Vector, spark: SparkSession | None, folder: Path, name: str = "play") -> None:
        self.vector = vector
        self.name = name
        self.spark, self.folder = session_of_one_group(spark), folder
        self.checkpoint = folder / "checkpoint"
        self.saved = folder / "saved"
        self.sink = ListSink()
        self.schema = input_schema(vector)
        self.input = BatchFiles(folder / "input", spark_schema(self.schema))
        self.waiting: list[Step] = []  # steps that open the next micro-batch
        self.done = 0  # files that a finished query has read

    def play(self, batches: Iterable[VectorBatch]) -> list[dict[str, Any]]:
        """Run the micro-batches, with a query for each range between two stops, and return the events."""
        self.clock(self.vector.ready_us)
        for batch in batches:
            match batch.items:
                case (Item(kind="checkpoint", value=name, at_us=at),):
                    self.clock(at)
                    self.run_query()
                    self.save(name)
                case (Item(kind="reset", value=name, at_us=at),):
                    self.run_query()
                    self.reset(name)
                    self.clock(at, resume=name is not None)
                case items:
                    self.write(items_to_steps(items, job_spec_for(self.vector).columns))
            if batch.restart:
                self.run_query()
        self.run_query()
        return self.sink.events

    def clock(self, now: int | None, *, resume: bool = False) -> None:
        """Begin the next micro-batch with a tick; not for a time interval, which has no clock."""
        if now is not None and self.vector.ready_us is not None:
            self.waiting.append(Tick(now, resume=resume))

    def write(self, steps: Iterable[Step]) -> None:
        """Write one micro-batch."""
        opening, self.waiting = self.waiting, []
        self.input.write(pa.concat_tables([step_to_rows(step, self.schema) for step in [*opening, *steps]]))

    def run_query(self) -> None:
        """Start a query on the checkpoint, let it read what was written since the last one, and end it."""
        if self.waiting:
            self.write([])
        if self.done == len(self.input.written):
            return
        self.job("available_now").await_end()
        self.done = len(self.input.written)

    def save(self, name: str) -> None:
        """Keep a copy of the checkpoint as it stands between two queries."""
        shutil.rmtree(self._saved(name), ignore_errors=True)
        if self.checkpoint.exists():
            shutil.copytree(self.checkpoint, self._saved(name))

    def reset(self, name: str | None) -> None:
        """Restore the checkpoint of that name, or none, and remove the input that came after it."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        if name is not None and self._saved(name).exists():
            shutil.copytree(self._saved(name), self.checkpoint)
        for path in self.input.written:
            path.unlink(missing_ok=True)

    def computed(self) -> Computation:
        """The declaration of the job."""
        stream = windowed(
            self.input.stream(self.spark),
            name=self.name,
            partition_by=KEY if self.vector.partitioned else None,
            event_time=None if self.vector.event_time is None else _TIME,
            watermark=0,
            max_ahead=None,
            key_groups=1,
            _marks=True,
        )
        return stream.window(self.vector.window).operator(recorder_for(self.vector), output=OUTPUT)

    def job(self, trigger: QueryTrigger) -> Job:
        """Start the job as `to_delta().start()` does, with the list in place of the tables."""
        pipeline = self.computed()._pipeline  # noqa: SLF001 -- the kit is part of the framework
        root = CheckpointFiles(self.spark, str(self.checkpoint))
        with lease_of_current_epoch(root, self.name) as (files, lease):
            held = HeldFiles.of(files, lease.require_held)
            record = record_to_go_on_with(held, pipeline)
            point_to(held, record)
            journal = BatchJournal(files=files, record=record, writer=self.sink, lease=lease, declared={})
            journal.complete()
            sources = inputs_of([port.intake.df for port in pipeline.ports])
            return run_job(with_history(pipeline, record), trigger_options(trigger), journal, sources)

    def _saved(self, name: str) -> Path:
        return self.saved / quote(name, safe="")


class ListSink:
    """Collects the events of each micro-batch in place of tables; a `JournalWriter`."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    has_user_sink = False

    def write(self, spark: SparkSession, batch: PreparedBatch, *_: Any) -> None:
        """Add the events of a micro-batch; there are no tables."""
        if batch.large:
            raise ValueError(f"the {', '.join(batch.large)} of micro-batch {batch.number} are too large to play")
        self.events += read_events(batch.rows.get("results"), batch.rows.get("rejected"))

    def prepare_user_sink(self, spark: SparkSession, results: pa.Schema) -> None:
        """There is none."""

    def read(self, spark: SparkSession, path: str) -> NoReturn:
        """There are no tables."""
        raise FileNotFoundError(path)


def step_to_rows(step: Step, schema: pa.Schema) -> pa.Table:
    """Return the input rows of one step: rows as they are, anything else as a mark."""
    match step:
        case Rows(table):
            if EVENT_TIME in table.column_names:
                table = table.append_column(_TIME, table.column(EVENT_TIME).cast(TIMESTAMP))
            absent = pa.nulls(table.num_rows)
            columns = [table.column(name) if name in table.column_names else absent for name in schema.names]
            return pa.table(columns, names=schema.names).cast(schema)
        case Watermark(us):
            return _mark(schema, "watermark", us)
        case Tick(us, resume, is_last_at_instant):
            return _mark(schema, "resume" if resume else "clock" if is_last_at_instant else "tick", us)
        case Mark(kind):
            return _mark(schema, kind)
        case EvictPartitions(keys):
            return _mark(schema, "evict", text=json.dumps([*keys.to_pylist()[0].values()]))
    raise ValueError(f"{step} cannot be played")


def _mark(schema: pa.Schema, kind: str, value: int | None = None, *, text: str | None = None) -> pa.Table:
    return pa.Table.from_pylist([{MARK: kind, MARK_VALUE: value, MARK_TEXT: text}], schema=schema)


class StepProcessor(StatefulProcessor):
    """Runs the step of a micro-batch on the store of the key group and emits the calls."""

    def __init__(self, declaration: LifecycleDeclaration) -> None:
        self._declared = declaration

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the store."""
        self._store = SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Run the step in each row; there is one."""
        for row in rows:
            calls = run_step(LifecycleStep(**json.loads(row.step)), self._declared, self._store)
            yield Row(calls=json.dumps(calls))

    def close(self) -> None:
        """Do nothing: the store is Spark's."""


def play_lifecycle_on_spark(
    declaration: LifecycleDeclaration, steps: Iterable[LifecycleStep], spark: SparkSession | None
) -> list[Call]:
    """Run the steps, with a query for each run, and return the calls in order."""
    spark, calls, run = session_of_one_group(spark), list[Call](), 1
    columns = pa.schema([("step", pa.string())])
    with tempfile.TemporaryDirectory(prefix="panekeeper-play-", ignore_cleanup_errors=True) as folder:
        source = BatchFiles(Path(folder, "input"), spark_schema(columns))
        for step in steps:
            if step.run != run:
                _run_query(declaration, source.stream(spark), Path(folder), calls)
                run = step.run
            source.write(pa.table({"step": [json.dumps(asdict(step))]}, schema=columns))
        _run_query(declaration, source.stream(spark), Path(folder), calls)
    return calls


def _run_query(declaration: LifecycleDeclaration, rows: DataFrame, folder: Path, calls: list[Call]) -> None:
    calls_stream = (
        rows.withColumn("g", F.lit(0))
        .groupBy("g")
        .transformWithState(
            statefulProcessor=StepProcessor(declaration),
            outputStructType="calls string",
            outputMode="Append",
            timeMode="None",
        )
    )

    def keep(frame: DataFrame, _: int) -> None:
        for row in frame.collect():
            calls.extend(json.loads(row.calls))

    files = CheckpointFiles(rows.sparkSession, str(folder / "checkpoint"))
    writer = calls_stream.writeStream.foreachBatch(keep).option("checkpointLocation", files.place)
    with query_settings(files):
        query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
