"""The job: the worst departure delays of each hour, by carrier and airport. A user of the library writes only this."""

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from examples.flights.tables import CHECKPOINT, LOG, VIEW
from panekeeper import TimeInterval, agg, hours, minutes, windowed

if TYPE_CHECKING:
    from panekeeper import Job
    from panekeeper.framework.builder.outputs import DeltaJob

COLUMNS = (
    "row BIGINT, carrier STRING, origin STRING, flight STRING, "
    "scheduled TIMESTAMP, departed TIMESTAMP, dep_time BIGINT, delay BIGINT"
)


def files(spark: SparkSession, folder: str) -> DataFrame:
    """Return the flights of a folder of files, one file a micro-batch."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(folder)


def topic(spark: SparkSession, servers: str, name: str) -> DataFrame:
    """Return the flights of a topic of Kafka, a JSON object each."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", name)
    messages = reader.option("startingOffsets", "earliest").load()
    return messages.select(F.from_json(F.col("value").cast("string"), COLUMNS).alias("flight")).select("flight.*")


def declared(flights: DataFrame, out: str) -> "DeltaJob":
    """Return the job over these flights, with its tables in `out`."""
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
    )


def start(flights: DataFrame, out: str) -> "Job":
    """Start the job over these flights; it resumes where the last run in `out` ended."""
    return declared(flights, out).start(checkpoint=f"{out}/{CHECKPOINT}", trigger="available_now")
