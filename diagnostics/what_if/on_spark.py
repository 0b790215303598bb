"""A declaration over the batches of a job on Spark, for what does not fit in memory: rows, state or results.

Key groups do not matter to each other. So each is rehearsed by one task, batch after batch, in the order of the
recorded ones: it has the rows of one batch at a time, its state, and what comes out. The watermark of each batch is
known before, by the rows of those before it. Rows go to a scratch folder as they are packed for the windows, with the
state in front of them, and results behind them; results are compared by partition.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper.diagnostics.tables.written import BATCH
from panekeeper.diagnostics.what_if.comparison import Compared, Run, Shape, Written
from panekeeper.diagnostics.what_if.recorded_input import RecordedInput, read_batches
from panekeeper.diagnostics.what_if.rehearsal import (
    COUNTS,
    Start,
    Tally,
)
from panekeeper.framework.core.packed_rows import PACKED, PACKED_SCHEMA, PackedRow, from_segment, to_segment
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.flow.packing import EVENT_TIME_COLUMN
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.engine.session.columns import column
from panekeeper.framework.engine.session.python_workers import prepare_workers
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.framework.engine.sink.batch_output import read_whole
from panekeeper.framework.testing.memory_job import Control, Declared, MemoryGroup, control_of, followed_watermark
from panekeeper.recovery.storage.locations import Location, scratch_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.runs import RunRecord
from panekeeper.state.codec import with_columns
from panekeeper.state.spark_store import TIMER
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.flow.packing import Packer
    from panekeeper.recovery.jobs.recorded_rows import RecordedBatches

_ROWS = f"{PACKED_SCHEMA}, batch bigint, latest bigint"
"""Packed rows with their batch, and the greatest event time of their task so far, us."""
_ARROW_ROWS = pa.schema([*PACKED, pa.field("batch", pa.int64()), pa.field("latest", pa.int64())])
_STATE = -1
"""As batch: what a key group begins with, at least a row for each."""
_SEGMENT = "segment"
"""As kind: a stored segment, which `lot`, `pos` and `n` are the kind, slot and seq of."""
_RESULTS = "window string, batch bigint, body binary"
"""Rows of the log of a window, as a segment; without a window: what a key group has counted, as a JSON object."""
_ARROW_RESULTS = pa.schema([("window", pa.string()), ("batch", pa.int64()), ("body", pa.binary())])
_BUCKETS = 256
"""Into so many parts results are put, by their partitions, to be compared."""


@contextmanager
def new_folder(place: Location, s3: S3Options | None) -> Iterator[str]:
    """Provide a new folder while the block lasts. Raises `DeclarationError` if it has something."""
    folder = scratch_at(place, s3)
    if folder.names("") or folder.sizes():
        raise DeclarationError(f"the scratch folder {folder.root} is there and not empty; name a new one")
    try:
        yield folder.root
    finally:
        folder.clear()


def read_packed(recorded: RecordedBatches, start: Start, *, first: int, folder: str) -> RecordedInput:
    """Put the rows of the batches into a folder, packed, and the state that they begin with.

    Raises as `read_tables_of`.
    """
    spark, ids = recorded.pipeline.intake.df.sparkSession, recorded.record.group_ids
    place = f"{folder}/rows"
    groups = [(group, 0, "group", None, 0, 0, 0, None, _STATE, None) for group in ids]
    spark.createDataFrame(groups, _ROWS).write.parquet(place)
    if start.before is not None:
        with format_of_state(spark):
            stored = stored_state(spark, recorded.folder.place, start.before).where(F.col("kind") != TIMER)
            key = [
                F.col(stored_name).alias(name) for stored_name, name in (("kind", "lot"), ("slot", "pos"), ("seq", "n"))
            ]
            zero, kind = F.lit(0), F.lit(_SEGMENT)
            entries = stored.select("g", zero.alias("port"), kind.alias("kind"), *key, zero.alias("part"), "body")
            entries = entries.withColumns({"batch": F.lit(_STATE), "latest": F.lit(None)})
            columns = [F.col(field.name).cast(field.dataType) for field in spark_schema(_ARROW_ROWS)]
            entries.select(*columns).write.mode("append").parquet(place)
    checked = [port.checked(ids, None, quarantines=True) for port in start.pipeline.ports]

    def keep(number: int, port: int, rows: DataFrame) -> None:
        rows.mapInArrow(_Pack(checked[port][1], number), _ROWS).write.mode("append").parquet(place)

    control = read_batches(recorded, start.pipeline, [rows for rows, _ in checked], keep, first=first)
    rows = read_whole(spark.read.schema(_ROWS), place).where(F.col("batch") != _STATE)
    greatest = rows.groupBy("batch", "port").agg(F.max("latest")).collect()
    reached = {(int(batch), int(port)): us for batch, port, us in greatest}
    return RecordedInput(first=first, last=recorded.last, control=control, reached=reached, ports=len(checked))


@dataclass(frozen=True)
class _Pack:
    """Packs what an input partition has of a batch. Picklable; called by Spark's `mapInArrow`."""

    packer: Packer
    number: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack it; each packed row says how far the event times are."""
        latest: int | None = None

        def seen() -> Iterator[pa.RecordBatch]:
            nonlocal latest
            for batch in batches:
                batch_latest = pc.max(batch.column(EVENT_TIME_COLUMN).cast(pa.int64())).as_py()
                latest = max((us for us in (latest, batch_latest) if us is not None), default=None)
                yield batch

        for packed in self.packer(seen()):
            more = [pa.array([value] * packed.num_rows, pa.int64()) for value in (self.number, latest)]
            yield pa.RecordBatch.from_arrays([*packed.columns, *more], schema=_ARROW_ROWS)


def rehearse(
    recorded: RecordedBatches, start: Start, given: RecordedInput, *, folder: str
) -> tuple[dict[str, int], int | None]:
    """Run a computation over what `read_packed` has put into a folder, and put the results there (`log_of`).

    Returns where rows went, by the names of `COUNTS`, and the watermark that was reached, us.
    """
    spark, pipeline = recorded.pipeline.intake.df.sparkSession, start.pipeline
    prepare_workers(spark)
    latest, timers = given.latest(start.latest_us), pipeline.uses_watermark_timer
    watermarks = {
        number: followed_watermark(pipeline, us, start.watermark_us) if timers else None
        for number, us in latest.items()
    }
    first_run = RunRecord(no_batch_committed=start.before is None)
    run = _Run(Declared.of(pipeline), first_run, watermarks, given.control)
    rows = read_whole(spark.read.schema(_ROWS), f"{folder}/rows").drop("latest")
    groups = rows.repartition(len(recorded.record.group_ids), "g").sortWithinPartitions("g", "batch")
    groups.mapInArrow(run, _RESULTS).write.parquet(f"{folder}/results")
    tallies = [json.loads(bytes(body)) for (body,) in _results(spark, folder, None).select("body").collect()]
    acted = max((tally["acted_us"] for tally in tallies if tally["acted_us"] is not None), default=None)
    return {name: sum(tally[name] for tally in tallies) for name in COUNTS}, watermarks[given.last] if timers else acted


@dataclass(frozen=True)
class _Run:
    """Rehearses key groups, one after the other. Picklable; called by Spark's `mapInArrow`.

    Attributes:
        declared: what is run.
        run: the run of the job, for state handlers.
        watermarks: that of each batch, us, where Spark keeps it; the batches are in order.
        control: the time and the commands of each batch.
    """

    declared: Declared
    run: RunRecord
    watermarks: Mapping[int, int | None]
    control: Mapping[int, tuple[Control, ...]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rehearse the key groups of rows that are sorted by key group and batch."""
        rows = (row for batch in batches for row in batch.to_pylist())
        for group, own in groupby(rows, key=itemgetter("g")):
            for window, number, body in self._group(group, groupby(own, key=itemgetter("batch"))):
                yield pa.RecordBatch.from_pylist(
                    [{"window": window, "batch": number, "body": body}], schema=_ARROW_RESULTS
                )

    def _group(
        self, group: int, batches: Iterator[tuple[int, Iterator[dict[str, Any]]]]
    ) -> Iterator[tuple[str | None, int, bytes]]:
        _, stored = next(batches)
        store = MemoryStore.of(
            {(row["lot"], row["pos"], row["n"]): row["body"] for row in stored if row["kind"] == _SEGMENT}
        )
        memory_group, tally, following = MemoryGroup(self.declared, group, store), Tally(), next(batches, None)
        for number, watermark_us in self.watermarks.items():
            packed = control_of(self.control[number], group)
            if following is not None and following[0] == number:
                packed += [PackedRow(**{name: row[name] for name in PACKED.names}) for row in following[1]]
                following = next(batches, None)
            if memory_group.wakes(packed, watermark_us):
                batch = memory_group.in_order(packed, number=number, watermark_us=watermark_us, run=self.run)
                for window, rows in tally.add(memory_group.run(batch)):
                    yield window, number, to_segment(rows)
        counted = {**tally.counts, "acted_us": tally.acted_us}
        yield None, _STATE, json.dumps(counted).encode()


def log_of(spark: SparkSession, folder: str, window: str, spec: JobSpec) -> DataFrame:
    """Return the rows of the log of a window that `rehearse` has put into a folder, with their `BATCH`."""
    unpack = _Unpack(spec.results_schema)
    return _results(spark, folder, window).mapInArrow(unpack, spark_schema(unpack.with_batch))


@dataclass(frozen=True)
class _Unpack:
    """Returns the rows in segments, with their batch. Picklable; called by Spark's `mapInArrow`."""

    schema: pa.Schema

    @property
    def with_batch(self) -> pa.Schema:
        """The schema of the rows."""
        return self.schema.append(pa.field(BATCH, pa.int64()))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack one partition."""
        for batch in batches:
            for row in batch.to_pylist():
                rows = with_columns(from_segment(row["body"]), self.schema)
                numbers = pa.array([row["batch"]] * rows.num_rows, pa.int64())
                yield from rows.append_column(self.with_batch.field(BATCH), numbers).to_batches()


def _results(spark: SparkSession, folder: str, window: str | None) -> DataFrame:
    every = read_whole(spark.read.schema(_RESULTS), f"{folder}/results")
    return every.where(F.col("window").eqNullSafe(F.lit(window)))


def compared(
    logs: tuple[DataFrame, DataFrame],
    runs: tuple[Run, Run],
    spec: JobSpec,
    latest: Mapping[int, int | None],
    *,
    limit: int,
) -> Compared:
    """Compare what two runs have written, as `Compared.of` does: two logs with their `BATCH`, by their partitions.

    `runs` say how far they are, and have no rows.
    """
    shape, (before, after) = Shape.of(spec), runs

    def of_bucket(rows_before: pa.Table, other: pa.Table) -> pa.Table:
        first, second = (
            replace(run, written=_by_batch(rows.drop_columns([_BUCKET])))
            for run, rows in ((before, rows_before), (after, other))
        )
        part = Compared.of(first, second, shape, latest, limit=limit)
        return pa.table({"found": pa.array([pickle.dumps(part)], pa.binary())})

    buckets_before, other = (log.withColumn(_BUCKET, _bucket(log, spec)).groupBy(_BUCKET) for log in logs)
    parts = buckets_before.cogroup(other).applyInArrow(of_bucket, "found binary").collect()
    return Compared.together([pickle.loads(bytes(body)) for (body,) in parts], limit=limit)  # noqa: S301 -- our own


def _by_batch(rows: pa.Table) -> Written:
    """Return rows of a log by their column `BATCH`, those of each pane in the order in which it has fired."""
    names = [BATCH, *(["refinement"] if "refinement" in rows.column_names else [])]
    rows = rows.sort_by([(name, "ascending") for name in names])
    batches, rows = rows.column(BATCH).to_numpy(), rows.drop_columns([BATCH])
    slices = zip(*np.unique(batches, return_index=True, return_counts=True), strict=True)
    return [(int(number), rows.slice(start, count)) for number, start, count in slices]


_BUCKET = "_pk_bucket"


def _bucket(log: DataFrame, spec: JobSpec) -> Any:
    """Return in which part a result is compared: by its partition, and its pane, but for sessions, which may merge."""
    names = [*spec.keys.names, *([] if spec.has_sessions or not spec.has_panes else ["pane_start"])]
    texts = [column(name).cast("string") for name in names if name in log.columns]
    return F.pmod(F.xxhash64(*texts), F.lit(_BUCKETS)) if texts else F.lit(0).cast("long")
