"""Divide a year of New York weather where the temperature has risen by more than 15 degrees Fahrenheit.

    python -m examples.temperature_swings [folder]

Each window begins with a reading and ends before the first one that exceeds it by more than 15 degrees.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from examples.command import run
from examples.flights.data import published_file
from panekeeper import Delta, Tumbling, agg, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main(spark: SparkSession, out: Path) -> DataFrame:
    """Run the example in `out` and return its results."""
    rows = weather(spark, out / "in")
    job = (
        windowed(rows, name="swings", partition_by="origin", arrival_time="hour")
        .window(Tumbling(Delta("temperature", 15)))
        .aggregate(
            begins=agg.first("hour"),
            ends=agg.last("hour"),
            coldest=agg.min("temperature"),
            warmest=agg.max("temperature"),
            hours=agg.count(),
        )
        .to_delta(out / "swings")
        .start(checkpoint=out / "checkpoint", trigger="available_now")
    )
    job.await_end()
    return spark.read.format("delta").load(str(out / "swings")).orderBy("origin", "fired_at")


def weather(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the hourly weather of 2013 as a stream: origin, hour, temperature. One reading has none: quarantined."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.read_csv(published_file("weather.csv"))
    hour = pd.to_datetime(table["time_hour"], utc=True).astype("datetime64[us, UTC]")
    frame = pd.DataFrame({"origin": table["origin"], "hour": hour, "temperature": table["temp"]})
    frame.sort_values(["hour", "origin"], kind="stable").to_parquet(folder / "weather.parquet", index=False)
    return spark.readStream.schema("origin string, hour timestamp, temperature double").parquet(str(folder))


if __name__ == "__main__":
    run(main)
