"""Before an upgrade: drain the job, and let go of the sensors that have been silent for long.

    python -m examples.evict_before_upgrade [folder]

Their partitions are told with all they hold, so that nothing is lost, and the new version does not begin with what
nobody will ever complete. What the others hold stays, and goes on in the same window after the upgrade.
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


class Dozen(Operator):
    """Tells of each lot of twelve readings, and of the lots that were never completed."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION, EventType.PARTITION_EVICTION})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Tell how many readings there were, and their mean."""
        values = event.column("value")
        if len(values):  # a partition that has just told a full lot holds nothing
            emit(why=event.type.value, readings=len(values), mean=float(values.mean()))


class EvictWhenDrained(StateHandler):
    """Lets go of every partition to which nothing has come for too long, when the job is drained."""

    def __init__(self, idle: timedelta) -> None:
        self.idle = idle

    def drain(self, ctx: StateContext) -> None:
        """Called at the end of every batch; `ctx.reason` tells the drain of the job from an ordinary checkpoint."""
        if ctx.reason is not CheckpointReason.DRAIN or ctx.now is None:
            return
        for partition in ctx.partitions():
            if ctx.now - partition.last_insertion > self.idle:
                ctx.evict_partition(partition.key)


def main(spark: SparkSession, out: Path) -> DataFrame:
    """Run the example in `out` and return its results: half an hour, an upgrade, and what came after it."""
    put(out / "in", "before", kitchen=range(30), attic=range(4))
    job = start(spark, out)
    job.drain()  # SIGTERM and `panekeeper drain` do the same
    put(out / "in", "after", kitchen=range(30, 42), attic=range(30, 42))
    job = start(spark, out)
    job.drain()
    return spark.read.format("delta").load(str(out / "lots")).orderBy("firing")


def start(spark: SparkSession, out: Path) -> Job:
    """Start the job, or its next version. A key group has a clock of its own: with one group, one clock for all."""
    rows = spark.readStream.schema("sensor string, arrived timestamp, value double").json(str(out / "in"))
    return (
        windowed(rows, name="lots", partition_by="sensor", arrival_time="arrived", key_groups=1)
        .window(Tumbling(Count(12)))
        .operator(Dozen(), output="why string, readings bigint, mean double", handlers=[EvictWhenDrained(minutes(20))])
        .to_delta(out / "lots")
        .start(checkpoint=out / "checkpoint")
    )


def put(folder: Path, name: str, **sensors: range) -> None:
    """Write a file of readings: for each sensor the minutes at which it has one, whose number is its value."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"sensor": sensor, "arrived": (BEGIN + minutes(minute)).isoformat(), "value": float(minute)}
        for sensor, every in sensors.items()
        for minute in every
    ]
    rows.sort(key=lambda row: str(row["arrived"]))
    (folder / f"{name}.json").write_text("\n".join(json.dumps(row) for row in rows))


if __name__ == "__main__":
    run(main)
