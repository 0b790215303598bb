"""Smooth a noisy sensor: the mean of the last five seconds, after every second reading.

    python -m examples.sensor_smoothing [folder]

The readings carry the time at which they arrived, so the results are the same whenever the job runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from examples.command import run
from examples.readings import readings
from panekeeper import Count, Sliding, Time, agg, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main(spark: SparkSession, out: Path) -> DataFrame:
    """Run the example in `out` and return its results."""
    rows = readings(spark, out / "in")
    job = (
        windowed(rows, name="smoothing", partition_by="sensor", arrival_time="arrived")
        .window(Sliding(evict=Time(5), trigger=Count(2)))
        .aggregate(smooth=agg.mean("value"), deviation=agg.stddev("value"), n=agg.count())
        .to_delta(out / "smooth", view=out / "smooth_now")
        .start(checkpoint=out / "checkpoint", trigger="available_now")
    )
    job.await_end()
    return spark.read.format("delta").load(str(out / "smooth")).orderBy("sensor", "fired_at")


if __name__ == "__main__":
    run(main)
