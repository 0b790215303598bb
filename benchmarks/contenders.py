"""The two ways to run a contender: measured into a sink that throws rows away, and once into a sink that keeps them.

A `Side` reads an input one file a micro-batch, as fast as it can. What it computes is said elsewhere (`ours.py`,
`native.py`, `perkey.py`, `dataflow.py`); what its numbers mean is said in `measure.py`.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException

from benchmarks.data import COLUMNS, Input
from framework.engine.session.spark_errors import is_slow_worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from framework.builder.outputs import Computation
    from panekeeper import BatchReport

Query = Callable[["DataFrame", str], "DataFrame"]
"""Makes a streaming result of a streaming input and the folder of the query's checkpoint."""

_TRIES = 3  # a Python worker that does not come up in time ends a query before its first batch
_runs = itertools.count()


@dataclass(frozen=True)
class Batch:
    """One micro-batch: its rows, and how long all of it took."""

    rows: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where runs happen: the one Spark session, and a folder for what they write."""

    spark: SparkSession
    folder: Path

    def fresh(self) -> Path:
        """Return a new folder, for one run."""
        folder = self.folder / f"run-{next(_runs)}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def read(self, given: Input) -> DataFrame:
        """Return the input as a stream, one file a micro-batch."""
        source = self.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        return source.option("pathGlobFilter", given.glob).parquet(str(given.folder))


class Side(Protocol):
    """A contender in a workload."""

    @property
    def name(self) -> str:
        """What it is called in the results."""
        ...

    def measured(self, given: Input, place: Place) -> list[Batch]:
        """Run over the input and return its micro-batches, in order."""
        ...

    def answer(self, given: Input, place: Place) -> pa.Table:
        """Run over the input and return the results."""
        ...


@dataclass(frozen=True, kw_only=True)
class SparkSide:
    """A streaming query: measured into Spark's `noop` sink, which takes every row and keeps none."""

    name: str
    query: Query

    def measured(self, given: Input, place: Place) -> list[Batch]:
        """Run over the input and return its micro-batches, in order."""
        return _batches(self._run(given, place, sink="noop"))

    def answer(self, given: Input, place: Place) -> pa.Table:
        """Run over the input into Parquet files and return what they hold."""
        folder = place.fresh()
        self._run(given, place, sink="parquet", path=str(folder / "rows"))
        table = pq.read_table(folder / "rows")
        shutil.rmtree(folder)
        return table

    def _run(self, given: Input, place: Place, *, sink: str, **options: str) -> StreamingQuery:
        for attempt in itertools.count(1):
            folder = place.fresh()
            checkpoint = str(folder / "checkpoint")
            frame = self.query(place.read(given), checkpoint)
            writer = frame.writeStream.format(sink).options(**options, checkpointLocation=checkpoint)
            running = writer.trigger(availableNow=True).start()
            try:
                running.awaitTermination()
            except StreamingQueryException as error:
                if attempt == _TRIES or not is_slow_worker(error):
                    raise
            else:
                return running
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        raise AssertionError("unreachable: the last attempt returns or raises")


@dataclass(frozen=True, kw_only=True)
class DeltaSide:
    """Spark's own query into a Delta table."""

    name: str
    query: Query

    def measured(self, given: Input, place: Place) -> list[Batch]:
        """Run over the input and return its micro-batches, in order."""
        folder = place.fresh()
        batches = _batches(self._run(given, place, folder))
        shutil.rmtree(folder)
        return batches

    def answer(self, given: Input, place: Place) -> pa.Table:
        """Run over the input and return the table."""
        folder = place.fresh()
        self._run(given, place, folder)
        return _delta(place, folder)

    def _run(self, given: Input, place: Place, folder: Path) -> StreamingQuery:
        checkpoint = str(folder / "checkpoint")
        writer = self.query(place.read(given), checkpoint).writeStream.format("delta")
        running = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(str(folder / "log"))
        running.awaitTermination()
        return running


@dataclass(frozen=True, kw_only=True)
class JobSide:
    """One of our jobs into its Delta tables (log, quarantine, metrics)."""

    name: str
    computed: Callable[[DataFrame], Computation]
    columns: tuple[str, ...]

    def measured(self, given: Input, place: Place) -> list[Batch]:
        """Run over the input; a batch lasts from the end of the one before it to its own end."""
        folder = place.fresh()
        ended: list[tuple[float, BatchReport]] = []
        began = time.monotonic()
        self._run(given, place, folder, lambda report: ended.append((time.monotonic(), report)))
        shutil.rmtree(folder)
        starts = [began, *(at for at, _ in ended)]
        return [Batch(report.rows, at - start) for start, (at, report) in zip(starts, ended, strict=False)]

    def answer(self, given: Input, place: Place) -> pa.Table:
        """Run over the input and return the log, without our own columns."""
        folder = place.fresh()
        self._run(given, place, folder, None)
        return _delta(place, folder).select(self.columns)

    def _run(self, given: Input, place: Place, folder: Path, hear: Callable[[BatchReport], None] | None) -> None:
        target = self.computed(place.read(given)).to_delta(folder / "log")
        job = target.start(checkpoint=folder / "checkpoint", trigger="available_now")
        if hear is not None:
            job.on_batch(hear)
        job.await_end()


def _batches(query: StreamingQuery) -> list[Batch]:
    return [Batch(p.numInputRows, p.batchDuration / 1000) for p in query.recentProgress]


def _delta(place: Place, folder: Path) -> pa.Table:
    table = place.spark.read.format("delta").load(str(folder / "log")).toArrow()
    shutil.rmtree(folder)
    return table
