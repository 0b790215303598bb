"""Before an upgrade: drain the job, and evict the sensors that have had no reading for long.

    python -m examples.evict_before_upgrade [folder]

A result row is written for what an evicted partition holds, so nothing is lost, and the new version does not begin with
windows that no reading will ever complete. The other partitions keep theirs, and fill them after the upgrade.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from examples.command import run
from panekeeper import (
    CheckpointReason,
    Count,
    Emit,
    Event,
    EventType,
    Operator,
    StateContext,
    StateHandler,
    Tumbling,
    minutes,
    windowed,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper import Job

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class TwelveReadings(Operator):
    """Emits a row for each window of twelve readings, and for a window that is evicted before it is full."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION, EventType.PARTITION_EVICTION})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit the number of readings and their mean."""
        values = event.column("value")
        if len(values):  # a partition that has just tumbled holds nothing
            emit(why=event.type.value, readings=len(values), mean=float(values.mean()))


class EvictWhenDrained(StateHandler):
    """Evicts every partition without an insertion for too long, when the job is drained."""

    def __init__(self, idle: timedelta) -> None:
        self.idle = idle

    def drain(self, ctx: StateContext) -> None:
        """Evict what is idle in the drain of the job only: this is called at the end of every batch."""
        if ctx.reason is not CheckpointReason.DRAIN or ctx.now is None:
            return
        for partition in ctx.partitions():
            if ctx.now - partition.last_insertion > self.idle:
                ctx.evict_partition(partition.key)


def main(spark: SparkSession, out: Path) -> DataFrame:
    """Run the example in `out` and return its results: half an hour, an upgrade, and twelve minutes more."""
    put(out / "in", "before", kitchen=range(30), attic=range(4))
    job = start(spark, out)
    job.drain()  # SIGTERM and `panekeeper drain` do the same
    put(out / "in", "after", kitchen=range(30, 42), attic=range(30, 42))
    job = start(spark, out)
    job.drain()
    return spark.read.format("delta").load(str(out / "windows")).orderBy("firing")


def start(spark: SparkSession, out: Path) -> Job:
    """Start the job, or its next version. Each key group has its own clock; in one group all partitions share it."""
    rows = spark.readStream.schema("sensor string, arrived timestamp, value double").json(str(out / "in"))
    return (
        windowed(rows, name="windows", partition_by="sensor", arrival_time="arrived", key_groups=1)
        .window(Tumbling(Count(12)))
        .operator(
            TwelveReadings(),
            output="why string, readings bigint, mean double",
            handlers=[EvictWhenDrained(minutes(20))],
        )
        .to_delta(out / "windows")
        .start(checkpoint=out / "checkpoint")
    )


def put(folder: Path, name: str, **sensors: range) -> None:
    """Write a file of readings: for each sensor the minutes at which it has one, whose number is its value."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"sensor": sensor, "arrived": (BEGIN + minutes(minute)).isoformat(), "value": float(minute)}
        for sensor, at_minutes in sensors.items()
        for minute in at_minutes
    ]
    rows.sort(key=lambda row: str(row["arrived"]))
    (folder / f"{name}.json").write_text("\n".join(json.dumps(row) for row in rows))


if __name__ == "__main__":
    run(main)
