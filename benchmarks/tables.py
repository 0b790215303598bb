"""Jobs that write Delta tables, Panekeeper's and Spark's own: how each is started, ended and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchmarks.contenders import TimedBatch, query_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from panekeeper import BatchReport, Job
    from panekeeper.framework.builder.outputs import Computation

CHECKPOINT, LOG, VIEW = "checkpoint", "log", "view"
"""Names of the folders of a job."""


class RunningTableJob(Protocol):
    """A job that runs."""

    def await_end(self) -> None:
        """Wait until it has processed what there is."""
        ...

    def stop(self) -> None:
        """End it between two batches."""
        ...

    def batches(self) -> list[TimedBatch]:
        """Return its micro-batches so far, in order."""
        ...


class TableJob(Protocol):
    """A job that writes its results to a Delta table, the folder `LOG` of the folder it gets."""

    @property
    def name(self) -> str:
        """Its name in the results."""
        ...

    def start(self, sources: Sequence[DataFrame], folder: Path, *, continuous: bool) -> RunningTableJob:
        """Start it, or resume it from the folder; it ends by itself unless it is `continuous`."""
        ...


@dataclass(frozen=True, kw_only=True)
class SparkTableJob:
    """Spark's own query into a Delta table."""

    name: str
    query: Callable[..., DataFrame]
    """A `Query`, or one of several streams."""

    def start(self, sources: Sequence[DataFrame], folder: Path, *, continuous: bool) -> RunningTableJob:
        """Start the query."""
        checkpoint = str(folder / CHECKPOINT)
        writer = self.query(*sources, checkpoint).writeStream.format("delta").option("checkpointLocation", checkpoint)
        trigger = writer.trigger(processingTime="0 seconds") if continuous else writer.trigger(availableNow=True)
        return _RunningQuery(trigger.start(str(folder / LOG)))


@dataclass(frozen=True, kw_only=True)
class PanekeeperTableJob:
    """A Panekeeper job into its Delta tables: log, quarantine, metrics, and a view if there is to be one."""

    name: str
    computed: Callable[..., Computation]
    view: bool = False

    def start(self, sources: Sequence[DataFrame], folder: Path, *, continuous: bool) -> RunningTableJob:
        """Start the job."""
        began = time.monotonic()
        target = self.computed(*sources).to_delta(folder / LOG, view=folder / VIEW if self.view else None)
        job = target.start(checkpoint=folder / CHECKPOINT, trigger="immediate" if continuous else "available_now")
        return _RunningJob(job, began)


class _RunningQuery:
    def __init__(self, query: StreamingQuery) -> None:
        self._query = query

    def await_end(self) -> None:
        self._query.awaitTermination()

    def stop(self) -> None:
        self._query.processAllAvailable()
        self._query.stop()

    def batches(self) -> list[TimedBatch]:
        return query_batches(self._query)


class _RunningJob:
    """A batch lasts from the end of the one before it to its own end."""

    def __init__(self, job: Job, began: float) -> None:
        self._job = job
        self._ended: list[tuple[float, BatchReport]] = []
        self._began = began
        job.on_batch(lambda report: self._ended.append((time.monotonic(), report)))

    def await_end(self) -> None:
        self._job.await_end()

    def stop(self) -> None:
        self._job.process_available()
        self._job.stop()

    def batches(self) -> list[TimedBatch]:
        starts = [self._began, *(at for at, _ in self._ended)]
        pairs = zip(starts, self._ended, strict=False)
        return [TimedBatch(report.rows, at - start) for start, (at, report) in pairs]
