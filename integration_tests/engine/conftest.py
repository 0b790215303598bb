"""A small stream of readings with everything a job needs around it: input folder, tables, checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.moto_s3 import bucket
from integration_tests.engine.tables import rows_of
from panekeeper import TimeInterval, agg, windowed
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.checkpoint.epochs import epoch_name, read_pointer
from panekeeper.state.checkpoint.folder import LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper import Job
    from panekeeper.framework.builder.outputs import Computation, DeltaJob

__all__ = ["Readings", "bucket", "readings"]

Row = dict[str, Any]
Reading = tuple[str, str | None, int | None]
"""(sensor, time of day, value)"""


class Readings:
    """Readings of sensors, one JSON file a micro-batch, on their way through minute windows into Delta tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.files = 0
        self.jobs: list[Job] = []
        (folder / "in").mkdir()

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def epoch(self) -> Path:
        """The folder of the current epoch in the checkpoint."""
        pointer = read_pointer(LocalFolder(self.checkpoint))
        return self.checkpoint / epoch_name(0 if pointer is None else pointer.epoch)

    def put(self, *rows: Reading) -> None:
        """Write one file of (sensor, time of day, value); it is read after all files before it."""
        path = self.folder / "in" / f"{self.files:04d}.json"
        day = "2024-05-01T"
        lines = [{"sensor": s, "at": None if at is None else f"{day}{at}Z", "value": value} for s, at, value in rows]
        path.write_text("\n".join(json.dumps(line) for line in lines))
        os.utime(path, (1_600_000_000 + self.files,) * 2)
        self.files += 1

    def stream(self, **options: Any) -> DataFrame:
        reader = self.spark.readStream.schema("sensor string, at timestamp, value bigint")
        return reader.options(maxFilesPerTrigger=1, **options).json(str(self.folder / "in"))

    def computed(
        self,
        *,
        window: Window | None = None,
        total: str = "sum",
        deduplicated: bool = False,
        **options: Any,
    ) -> Computation:
        given: dict[str, Any] = {"name": "readings", "partition_by": "sensor", "event_time": "at", "key_groups": 2}
        read = self.stream()
        stream = windowed(read.dropDuplicates(["value"]) if deduplicated else read, **(given | options))
        by_minute = stream.window(window or TimeInterval(60, discard_age=120))
        return by_minute.aggregate(total=getattr(agg, total)("value"), n=agg.count())

    def declare(self, **options: Any) -> DeltaJob:
        return self.computed(**options).to_delta(self.folder / "log", view=self.folder / "view")

    def start(self, trigger: Any = "available_now", *, attach: bool = False, **options: Any) -> Job:
        job = self.declare(**options).start(checkpoint=self.checkpoint, trigger=trigger, attach=attach)
        self.jobs.append(job)
        return job

    def run(self, **options: Any) -> Job:
        """Start the job, let it process what is there, and return it ended."""
        job = self.start(**options)
        assert job.await_end(timeout=300)
        return job

    def frame(self, table: str) -> DataFrame:
        """Return a table as Spark reads it."""
        return self.spark.read.format("delta").load(str(self.folder / table))

    def rows(self, table: str) -> list[Row]:
        """Return the rows of a table, in no order, read without Spark."""
        return rows_of(self.folder / table)

    def log(self, table: str = "log") -> list[tuple[Any, ...]]:
        return shown(self.rows(table))

    def numbers(self, folder: str) -> list[int]:
        """Return the batch numbers in one of Spark's own logs."""
        return sorted(int(path.name) for path in (self.epoch / folder).iterdir() if path.name.isdigit())


def shown(rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Return (sensor, minute, total, n, refinement, reason) of each result row, sorted."""
    return sorted(
        (r["sensor"], f"{r['pane_start']:%H:%M}", r["total"], r["n"], r["refinement"], r["reason"]) for r in rows
    )


@pytest.fixture
def readings(spark: SparkSession, tmp_path: Path) -> Iterator[Readings]:
    """An empty stream of readings in a folder of its own; jobs that still run are stopped."""
    made = Readings(spark, tmp_path)
    yield made
    for query in spark.streams.active:
        query.stop()
