"""What the tables, the state and the source of a stopped job say of some panes. Only reads.

The rows of the panes come from the source, by the offsets in the checkpoint (`recovery/jobs/recorded_rows.py`). They
pass the intake of the job, are sorted and computed for each key group by one task, so the driver gets results alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from panekeeper.framework.core.group_batch import BatchRunner
from panekeeper.framework.core.job_spec import EVENT_TIME, TIMESTAMP, WINDOW, JobSpec
from panekeeper.framework.core.packed_rows import PACKED_SCHEMA, PackedRow
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.engine.flow.checked_rows import checked_rows
from panekeeper.framework.engine.flow.pipeline import frame_of, spark_schema
from panekeeper.framework.engine.flow.row_checks import FUTURE_ARRIVAL_TIME, FUTURE_EVENT_TIME
from panekeeper.framework.engine.session.columns import as_utc, column
from panekeeper.recovery.settle.panes import ROWS, Pairs, complete_results, require_supported
from panekeeper.state.codec import with_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from panekeeper.framework.engine.flow.pipeline import InputPort, Pipeline
    from panekeeper.recovery.jobs.recorded_rows import RecordedBatches

_TABLE = "_pk_table"
_MOST_RANGES = 64
"""So many ranges of time are told to the source; of more, only where the first begins and the last ends."""


def quarantined_rows(
    spark: SparkSession,
    path: str,
    pipeline: Pipeline,
    reasons: Iterable[str],
    since: int | datetime | None,
    window: str = "",
) -> tuple[pa.Table, pa.Table]:
    """Return the keys and event times (us) of quarantined rows, each pair once, and how many there are of it.

    `window` is which one of several has refused them.

    What could not be computed of a pane is told by its end, with which the last of its instants is meant. The second
    table has those of all rows that were refused for being ahead of the clock.
    """
    intake, spec = pipeline.intake, pipeline.spec
    chosen = F.col("reason").isin([*reasons])
    if isinstance(since, datetime):
        chosen &= F.col("quarantined_at") >= F.lit(since if since.tzinfo else since.replace(tzinfo=UTC))
    elif since is not None:
        chosen &= F.col("batch") >= since
    if window:
        chosen &= F.col(WINDOW) == window
    ahead = F.col("reason").isin(FUTURE_EVENT_TIME, FUTURE_ARRIVAL_TIME)
    parts = [StructField(name, intake.df.schema[name].dataType) for name in intake.partition_by]
    row = F.from_json("row", StructType([*parts, StructField("pane_end", StringType())]))
    end = F.unix_micros(row.getField("pane_end").cast(TimestampType())) - 1
    rows = spark.read.format("delta").load(path).where(chosen | ahead)
    times = rows.select(
        *[row.getField(name).alias(f"k{place}") for place, name in enumerate(intake.partition_by)],
        F.coalesce(F.unix_micros("event_time"), end).alias("at"),
        ahead.alias("ahead"),
    )
    table = times.groupBy(*times.columns).agg(F.count("*").alias("rows")).toArrow()
    is_ahead = table.column("ahead")
    table = table.drop_columns(["ahead"]).rename_columns([*spec.keys.names, EVENT_TIME, ROWS])
    kinds = [*spec.keys, pa.field(EVENT_TIME, pa.int64()), pa.field(ROWS, pa.int64())]
    table = with_columns(table, pa.schema([field.with_nullable(True) for field in kinds]))
    return table.filter(pc.invert(is_ahead)), table.filter(is_ahead)


def last_results(
    spark: SparkSession, paths: Iterable[str], spec: JobSpec, keys: PartitionKeys, pairs: Pairs
) -> list[pa.Table]:
    """Return the rows of each of these tables of results for these partitions in the time of these panes."""
    geometry = _geometry(spec)
    low, high = geometry.starts(pairs.panes).min(), geometry.ends(pairs.panes).max()
    start, end = (column(name) if spec.pane_time == TIMESTAMP else as_utc(name) for name in ("pane_start", "pane_end"))
    frames = [
        _with_all(spark.read.format("delta").load(path), spec)
        .where((start >= _instant(low)) & (end <= _instant(high)))
        .withColumn(_TABLE, F.lit(number))
        for number, path in enumerate(paths)
    ]
    rows = _of_keys(
        reduce(lambda frame, other: frame.unionByName(other), frames), keys, pairs, spec.keys.names
    ).toArrow()
    number = rows.column(_TABLE)
    return [
        with_columns(rows.filter(pc.equal(number, table_number)), spec.results_schema)  # type: ignore[attr-defined,unused-ignore]
        for table_number in range(len(frames))
    ]


def _with_all(df: DataFrame, spec: JobSpec) -> DataFrame:
    """Return the columns of results of a table, which may lack those of a later declaration."""
    kinds = spark_schema(spec.results_schema)
    return df.select(
        *[
            column(field.name) if field.name in df.columns else F.lit(None).cast(field.dataType).alias(field.name)
            for field in kinds
        ]
    )


def results_of_all_rows(recorded: RecordedBatches, pipeline: Pipeline, keys: PartitionKeys, pairs: Pairs) -> pa.Table:
    """Return the results of some panes from all rows that the job has read, and of some more. Raises as `rows`."""
    (port,) = pipeline.ports
    spec, intake = port.spec, port.intake
    geometry = _geometry(spec)
    ranges = _ranges(geometry.starts(pairs.panes), geometry.ends(pairs.panes))
    assert intake.event_time is not None
    time = column(intake.event_time) if intake.pane_time == TIMESTAMP else as_utc(intake.event_time)
    within = [(time >= _instant(low)) & (time < _instant(high)) for low, high in ranges]
    compute = _Complete(
        runner=BatchRunner(spec=spec, orderings=(port.ordering(),)),
        starts=tuple(np.unique(geometry.starts(pairs.panes)).tolist()),
    )

    def of_group(packed: pa.Table) -> pa.Table:  # Spark counts the arguments of a method with `self`
        return compute(packed)

    def results(df: DataFrame) -> pa.Table:
        chosen = _of_keys(
            df.where(reduce(lambda condition, other: condition | other, within)), keys, pairs, intake.partition_by
        )
        packed = _packed(port, chosen, recorded.record.group_ids)
        table: pa.Table = packed.groupBy("g").applyInArrow(of_group, spark_schema(spec.results_schema)).toArrow()
        return with_columns(table, spec.results_schema)

    return recorded.rows(results, last=recorded.last)


@dataclass(frozen=True, kw_only=True)
class _Complete:
    """The results of one key group in panes that begin at some instants, us. Picklable; sent to the workers."""

    runner: BatchRunner
    starts: tuple[int, ...]

    def __call__(self, packed: pa.Table) -> pa.Table:
        """Return the results of packed rows."""
        batch = self.runner.in_order(PackedRow.each(packed), number=0, group=0)
        results = complete_results(self.runner.spec, pa.concat_tables([step.table for step in batch.steps]))  # type: ignore[union-attr]
        starts = results.column("pane_start").cast(pa.int64()).to_numpy()
        return results.filter(pa.array(np.isin(starts, self.starts)))


def _packed(port: InputPort, df: DataFrame, ids: tuple[int, ...]) -> DataFrame:
    """Return good rows of a frame as the job packs them, but none is folded: they are sorted behind the shuffle."""
    intake = replace(port.intake.of_rows(df), key_groups=len(ids), idle=None, watermark_by=None)
    rows = checked_rows(intake, port.carried_columns, arrived=port.has_arrival_times, watermark=False)
    packer = replace(
        port.packer(ids, None, has_rest=False),
        folding=None,
        watermark_delay_us=None,
        tells_when=False,
        by_partition=False,
        fail_on_error=False,
    )
    return rows.mapInArrow(packer, PACKED_SCHEMA).where(F.col("kind") == "rows")


def _of_keys(df: DataFrame, keys: PartitionKeys, pairs: Pairs, names: Iterable[str]) -> DataFrame:
    """Return the rows of a frame whose columns of these names are one of the keys."""
    names = [*names]
    if not names:
        return df
    wanted = keys.take(np.unique(pairs.codes)).rename_columns([f"_pk_{place}" for place in range(len(names))])
    frame = frame_of(df.sparkSession, wanted)
    same = [column(name).eqNullSafe(F.col(f"_pk_{place}")) for place, name in enumerate(names)]
    return df.join(F.broadcast(frame), reduce(lambda condition, other: condition & other, same), "left_semi")


def _ranges(starts: np.ndarray, ends: np.ndarray) -> list[tuple[int, int]]:
    """Return the ranges of time that panes cover, in order; one for all if they are many."""
    ranges: list[tuple[int, int]] = []
    for start, end in sorted({*zip(starts.tolist(), ends.tolist(), strict=True)}):
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((start, end))
    return ranges if len(ranges) <= _MOST_RANGES else [(ranges[0][0], ranges[-1][1])]


def _instant(us: int) -> Column:
    return F.timestamp_micros(F.lit(int(us)))


def _geometry(spec: JobSpec) -> Geometry:
    return Geometry.of(require_supported(spec), spec.history)
