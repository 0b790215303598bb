"""The two ways to run a contender: measured, into a sink that discards rows, and once into a sink that keeps them.

A `Contender` reads an input one file a micro-batch, as fast as it can. What it computes is in
`panekeeper_jobs.py`, `spark_windows.py`, `spark_per_key.py` and `bytewax_flow.py`; what its numbers mean is in
`measure.py`. Contenders that write Delta tables are in `into_delta.py`.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException

from benchmarks.data import Input, file_start_us
from panekeeper.framework.engine.session.spark_errors import is_worker_timeout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Query = Callable[["DataFrame", str], "DataFrame"]
"""Returns the streaming results for a streaming input and the folder of the query's checkpoint."""

_MAX_ATTEMPTS = 3  # a Python worker that does not start in time fails a query before its first batch
_runs = itertools.count()


@dataclass(frozen=True)
class TimedBatch:
    """One micro-batch: its rows, and how long it took."""

    rows: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class RunEnvironment:
    """What runs share: the one Spark session, and a folder for what they write."""

    spark: SparkSession
    folder: Path

    def new_folder(self) -> Path:
        """Return a new folder, for one run."""
        folder = self.folder / f"run-{next(_runs)}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def read(self, given: Input, stream: str = "0") -> DataFrame:
        """Return the input as a stream of this name, one file a micro-batch."""
        source = self.spark.readStream.schema(given.columns).option("maxFilesPerTrigger", 1)
        return source.options(pathGlobFilter=given.glob, stream=stream).parquet(str(given.folder))


class Contender(Protocol):
    """A contender in a workload."""

    @property
    def name(self) -> str:
        """Its name in the results."""
        ...

    def measure(self, given: Input, environment: RunEnvironment) -> list[TimedBatch]:
        """Run over the input and return its micro-batches, in order."""
        ...

    def results(self, given: Input, environment: RunEnvironment) -> pa.Table:
        """Run over the input and return the results."""
        ...


@dataclass(frozen=True, kw_only=True)
class SparkContender:
    """A streaming query: measured into Spark's `noop` sink, which takes every row and keeps none."""

    name: str
    query: Query
    compared_before: str | None = None
    """Only results with a time in this column that is before the end of the input are compared."""

    def measure(self, given: Input, environment: RunEnvironment) -> list[TimedBatch]:
        """Run over the input and return its micro-batches, in order."""
        return query_batches(self._run(given, environment, sink="noop"))

    def results(self, given: Input, environment: RunEnvironment) -> pa.Table:
        """Run over the input into Parquet files and return what they hold."""
        folder = environment.new_folder()
        self._run(given, environment, sink="parquet", path=str(folder / "rows"))
        table = pq.read_table(folder / "rows")
        shutil.rmtree(folder)
        return table if self.compared_before is None else before_the_end(table, self.compared_before, given)

    def _run(self, given: Input, environment: RunEnvironment, *, sink: str, **options: str) -> StreamingQuery:
        for attempt in itertools.count(1):
            folder = environment.new_folder()
            checkpoint = str(folder / "checkpoint")
            frame = self.query(environment.read(given), checkpoint)
            writer = frame.writeStream.format(sink).options(**options, checkpointLocation=checkpoint)
            running = writer.trigger(availableNow=True).start()
            try:
                running.awaitTermination()
            except StreamingQueryException as error:
                if attempt == _MAX_ATTEMPTS or not is_worker_timeout(error):
                    raise
            else:
                return running
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        raise AssertionError("unreachable: the last attempt returns or raises")


def before_the_end(table: pa.Table, column: str, given: Input) -> pa.Table:
    """Return the results with a time in a column that is before the end of the input.

    A join of Spark gives out pairs of a pane before it is complete, so in the end there are more of them.
    """
    return table.filter(pc.field(column) < pa.scalar(file_start_us(given.files), pa.timestamp("us", "UTC")))


def query_batches(query: StreamingQuery) -> list[TimedBatch]:
    """Return the micro-batches of a query that has ended, in order.

    A batch lasts until the next one begins: what Spark does between two belongs to it. The last one has its own end.
    """
    progress = query.recentProgress
    begins = [datetime.fromisoformat(one.timestamp).timestamp() for one in progress]
    lasts = [later - begin for begin, later in pairwise(begins)] + [one.batchDuration / 1000 for one in progress[-1:]]
    return [TimedBatch(one.numInputRows, seconds) for one, seconds in zip(progress, lasts, strict=True)]
