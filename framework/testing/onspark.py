"""Plays a vector on Spark: a real streaming query through intake, packing, processor and state store.

The input is written as files, one a micro-batch, with watermarks and marks as rows in their place. Only the Delta
tables are left out: in place of the sink stands a list. A stop between micro-batches is the end of the query; what
follows is a new query on the same checkpoint.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from framework.core.plan import EVENT_TIME, TIMESTAMP
from framework.core.steps import Mark, Rows, Step, Tick, Watermark
from framework.engine.batch import collect
from framework.engine.checkpoint_files import CheckpointFiles
from framework.engine.job import Job, Launch
from framework.engine.packing import MARK, MARK_VALUE
from framework.engine.pulse import beat
from framework.engine.query import trigger_options
from framework.engine.startup import open_checkpoint
from framework.errors import DeclarationError
from framework.stream import windowed
from framework.testing.cuts import Batch
from framework.testing.feed import steps_of
from framework.testing.recorder import KEY, OUTPUT, TUPLE, Recorder, recorded
from framework.testing.vector import Checkpoint, Reset, Vector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.engine.batch import Batch as Done
    from framework.engine.sink import DeltaSink
    from framework.results import Computed

_TIME = "event_time"
_INPUT = pa.schema(
    [
        pa.field(KEY, pa.string()),
        pa.field(TUPLE, pa.string()),
        pa.field(_TIME, TIMESTAMP),
        pa.field(MARK, pa.string()),
        pa.field(MARK_VALUE, pa.int64()),
    ]
)
_CARRIED = pa.schema([_INPUT.field(KEY), _INPUT.field(TUPLE)])
_INPUT_SQL = f"{KEY} string, {TUPLE} string, {_TIME} timestamp, {MARK} string, {MARK_VALUE} bigint"


def play_on_spark(vector: Vector, batches: Iterable[Batch], spark: SparkSession | None) -> list[dict[str, Any]]:
    """Run the micro-batches of a vector and return its events.

    Raises:
        DeclarationError: the window goes by the wall clock; that is played in memory only, so far.
    """
    if vector.declared.ready_us is not None:
        raise DeclarationError("windows in arrival order cannot be played on Spark yet; time intervals can")
    if spark is None:
        from framework.engine.session import session

        spark = session()
    with tempfile.TemporaryDirectory(prefix="panekeeper-play-", ignore_cleanup_errors=True) as folder:
        return SparkRun(vector, spark, Path(folder)).play(batches)


class SparkRun:
    """One vector on Spark, in a folder of its own. Everything that lasts is in its checkpoint."""

    def __init__(self, vector: Vector, spark: SparkSession, folder: Path) -> None:
        self.vector = vector
        self.spark = spark
        self.input = folder / "input"
        self.checkpoint = folder / "checkpoint"
        self.saved = folder / "saved"
        self.input.mkdir()
        self.sink = Listed()
        self.files: list[Path] = []
        self.done = 0  # files that a finished query has read

    def play(self, batches: Iterable[Batch]) -> list[dict[str, Any]]:
        """Run the micro-batches, with a query for each stretch between two stops, and return the events."""
        for batch in batches:
            match batch.items:
                case (Checkpoint(name=name),):
                    self.run_query()
                    self.save(name)
                case (Reset(name=name),):
                    self.run_query()
                    self.reset(name)
                case items:
                    self.write(steps_of(items, _CARRIED))
            if batch.restart:
                self.run_query()
        self.run_query()
        return self.sink.events

    def write(self, steps: Iterable[Step]) -> None:
        """Write one micro-batch as one file, its modification time after that of all before."""
        number = len(self.files)
        path = self.input / f"{number:06d}.parquet"
        pq.write_table(pa.concat_tables([as_rows(step) for step in steps]), path)
        os.utime(path, (1_600_000_000 + number,) * 2)  # the file source reads in this order, whatever the clock does
        self.files.append(path)

    def run_query(self) -> None:
        """Start a query on the checkpoint, let it read what was written since the last one, and end it."""
        if self.done == len(self.files):
            return
        self._job().await_end()
        self.done = len(self.files)

    def save(self, name: str) -> None:
        """Keep a copy of the checkpoint as it stands between two queries."""
        shutil.rmtree(self._saved(name), ignore_errors=True)
        if self.checkpoint.exists():
            shutil.copytree(self.checkpoint, self._saved(name))

    def reset(self, name: str | None) -> None:
        """Put back the checkpoint of that name, or none, and take away the input that came after it."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        if name is not None and self._saved(name).exists():
            shutil.copytree(self._saved(name), self.checkpoint)
        for path in self.files:
            path.unlink(missing_ok=True)

    def computed(self) -> Computed:
        """The declaration of the job."""
        rows = self.spark.readStream.schema(_INPUT_SQL).option("maxFilesPerTrigger", 1).parquet(str(self.input))
        stream = windowed(
            rows,
            name="play",
            partition_by=KEY if self.vector.partitioned else None,
            event_time=_TIME,
            max_ahead=None,
            key_groups=1,
            _marks=True,
        )
        return stream.window(self.vector.window).operator(Recorder(), output=OUTPUT)

    def _job(self) -> Job:
        """Start the job as `to_delta().start()` does, with the list in place of the tables."""
        pipeline = self.computed()._pipeline  # noqa: SLF001 -- the kit is part of the framework
        files = CheckpointFiles(self.spark, str(self.checkpoint))
        record = open_checkpoint(files, name="play", declaration=pipeline.declaration(), key_groups=1)
        beat(files, "tick")
        return Job(
            Launch(
                name=record.name,
                files=files,
                ids=record.group_ids,
                pipeline=pipeline,
                sink=cast("DeltaSink", self.sink),
                trigger=trigger_options("available_now"),
            )
        )

    def _saved(self, name: str) -> Path:
        return self.saved / quote(name, safe="")


class Listed:
    """A sink that keeps the events of each micro-batch; takes the calls that the job makes to its Delta sink."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def run_plan(self, packed: DataFrame, number: int) -> Done:
        """Run the stateful plan, once."""
        return collect(packed, number, groups=1)

    def commit(self, packed: DataFrame, batch: Done, **_: Any) -> None:
        """Add the events of a finished micro-batch."""
        missing = {tag for tag, rows in batch.rows.items() if rows and tag not in batch.small}
        if missing:
            raise ValueError(f"the {', '.join(missing)} of micro-batch {batch.number} are too large to play")
        self.events += recorded(batch.small.get("results"), batch.small.get("rejected"))


def as_rows(step: Step) -> pa.Table:
    """The rows of the input that make one step: tuples as they are, anything else as a mark."""
    match step:
        case Rows(table):
            times = table.column(EVENT_TIME).cast(TIMESTAMP)
            none = pa.nulls(table.num_rows)
            return pa.table([table.column(KEY), table.column(TUPLE), times, none, none], _INPUT.names).cast(_INPUT)
        case Watermark(us):
            return _mark("watermark", us)
        case Tick(us):
            return _mark("tick", us)
        case Mark(kind):
            return _mark(kind, None)
    raise ValueError(f"{step} cannot be played")


def _mark(kind: str, value: int | None) -> pa.Table:
    return pa.Table.from_pylist([{MARK: kind, MARK_VALUE: value}], schema=_INPUT)
