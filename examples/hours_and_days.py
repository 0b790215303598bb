"""Departures by the hour and by the day: two windows in one job, on one pass over the flights.

    python -m examples.hours_and_days [folder]

The delay of one flight is known hours later: too late for its hour, so it is in the quarantine; its day waits for it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from examples.command import run
from panekeeper import Calendar, TimeInterval, agg, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = [
    [("CDG", "2024-05-01T06:10", 5), ("CDG", "2024-05-01T06:40", 25), ("ORY", "2024-05-01T06:30", 0)],
    [("CDG", "2024-05-01T21:55", 15), ("ORY", "2024-05-01T22:10", 40)],
    [("CDG", "2024-05-01T06:50", 900)],
    [("ORY", "2024-05-03T08:00", 10)],
]


def main(spark: SparkSession, out: Path) -> DataFrame:
    """Run the example in `out` and return the log of the days, which end at midnight in Paris."""
    job = (
        windowed(flights(spark, out / "in"), name="departures", partition_by="airport", event_time="at")
        .windows(
            hour=TimeInterval("1 hour", discard_age="2 hours"),
            day=Calendar("day", zone="Europe/Paris", discard_age="1 day"),
        )
        .aggregate(flights=agg.count(), worst=agg.max("delay"))
        .to_delta(out / "departures", view=out / "now")
        .start(checkpoint=out / "checkpoint", trigger="available_now")
    )
    job.await_end()
    return spark.read.format("delta").load(str(out / "departures_day")).orderBy("airport", "pane_start", "refinement")


def flights(spark: SparkSession, folder: Path) -> DataFrame:
    """Return a stream of flights: airport, at, delay in minutes; a file is a micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(FILES):
        lines = [{"airport": airport, "at": f"{at}:00Z", "delay": delay} for airport, at, delay in rows]
        path = folder / f"{number}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        os.utime(path, (1_700_000_000 + number,) * 2)
    reader = spark.readStream.schema("airport string, at timestamp, delay bigint")
    return reader.option("maxFilesPerTrigger", 1).json(str(folder))


if __name__ == "__main__":
    run(main)
