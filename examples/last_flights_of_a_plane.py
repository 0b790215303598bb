"""The moving average of the departure delay over the last five flights of each plane.

    python -m examples.last_flights_of_a_plane [folder]

A plane without a flight for sixty days is evicted, so that the state does not grow with planes that were sold.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from examples.command import run
from examples.flights.data import published_file
from panekeeper import Count, PartitionAge, Sliding, agg, days, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def main(spark: SparkSession, out: Path) -> DataFrame:
    """Run the example in `out` and return its results: the planes that are worst at the end."""
    job = (
        windowed(
            flights(spark, out / "in"),
            name="planes",
            partition_by="tailnum",
            arrival_time="departed",
            reject={"no tail number": "tailnum IS NULL"},
        )
        .window(Sliding(evict=Count(5), partition_eviction=PartitionAge(days(60))))
        .aggregate(delay=agg.mean("delay"), flights=agg.count())
        .to_delta(out / "planes", view=out / "planes_now")
        .start(checkpoint=out / "checkpoint", trigger="available_now")
    )
    job.await_end()
    planes = spark.read.format("delta").load(str(out / "planes_now"))
    return planes.where("flights = 5").orderBy("delay", "tailnum", ascending=False)


def flights(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the departures of January 2013, in the order in which they happened: tailnum, departed, delay."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.read_csv(published_file("flights.csv.zip")).query("month == 1 and dep_time == dep_time")
    scheduled = pd.to_datetime(table[["year", "month", "day"]], utc=True)
    scheduled += pd.to_timedelta(table["sched_dep_time"] // 100 * 60 + table["sched_dep_time"] % 100, unit="min")
    departed = (scheduled + pd.to_timedelta(table["dep_delay"], unit="min")).astype("datetime64[us, UTC]")
    frame = pd.DataFrame({"tailnum": table["tailnum"], "departed": departed, "delay": table["dep_delay"]})
    frame.sort_values("departed", kind="stable").to_parquet(folder / "flights.parquet", index=False)
    return spark.readStream.schema("tailnum string, departed timestamp, delay double").parquet(str(folder))


if __name__ == "__main__":
    run(main)
