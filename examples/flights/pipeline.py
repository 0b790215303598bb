"""The job: the worst departure delays of each hour, by carrier and airport. A user of the library writes only this."""

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from examples.flights.tables import CHECKPOINT, LOG, VIEW
from panekeeper import TimeInterval, agg, hours, minutes, windowed

if TYPE_CHECKING:
    from panekeeper import Job

COLUMNS = (
    "row BIGINT, carrier STRING, origin STRING, flight STRING, "
    "scheduled TIMESTAMP, departed TIMESTAMP, dep_time BIGINT, delay BIGINT"
)


def start(spark: SparkSession, files: str, out: str) -> "Job":
    """Start the job over the folder of files, one file a micro-batch; it resumes where the last run in `out` ended."""
    flights = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(files)
    return (
        windowed(
            flights,
            name="worst-delay",
            partition_by=["carrier", "origin"],
            event_time="scheduled",
            watermark=minutes(30),
            reject={"cancelled: no departure time": "dep_time IS NULL"},
        )
        .window(TimeInterval(hours(1), creation_period=minutes(20), discard_age=hours(6)))
        .aggregate(
            worst=agg.max("delay"),
            flight=agg.arg_max("delay", "flight"),
            mean=agg.mean("delay"),
            n=agg.count(),
        )
        .to_delta(f"{out}/{LOG}", view=f"{out}/{VIEW}")
        .start(checkpoint=f"{out}/{CHECKPOINT}", trigger="available_now")
    )
