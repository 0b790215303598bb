"""One broker for all tests, and a job on a topic of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from benchmarks.soak.broker import Broker
from integration_tests.engine.tables import rows_of
from panekeeper import Count, Sliding, agg, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper import Job
    from panekeeper.framework.builder.outputs import DeltaJob

SECONDS = "3"


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that the tests share; each has topics of its own."""
    made = Broker(tmp_path_factory.mktemp("broker"))
    yield made
    made.kill()


class Topic:
    """A topic, and a job that keeps the last three values of each sensor in it."""

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path, partitions: int) -> None:
        self.spark = spark
        self.broker = broker
        self.folder = folder
        self.name = broker.create_topic(partitions)
        self.sent = 0

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def send(self, count: int, *, sensors: int = 4, partition: int | None = None) -> None:
        """Send the next numbers, each to the partition of its sensor."""
        numbers = range(self.sent, self.sent + count)
        self.broker.send(self.name, [(f"s{n % sensors}", str(n)) for n in numbers], partition)
        self.sent += count

    def stream(self, **options: Any) -> DataFrame:
        given: dict[str, Any] = {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "subscribe": self.name,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": 7,
            # A broker that is away is noticed in seconds here, in a minute in production.
            "kafka.default.api.timeout.ms": f"{SECONDS}000",
            "kafka.request.timeout.ms": f"{SECONDS}000",
            "fetchOffset.numRetries": 1,
        }
        messages = self.spark.readStream.format("kafka").options(**(given | options)).load()
        return messages.select(
            F.col("key").cast("string").alias("sensor"),
            F.col("value").cast("string").try_cast("bigint").alias("n"),
            F.col("value").cast("string").alias("text"),
            "partition",
            "offset",
        )

    def declare(self, stream: DataFrame | None = None, **options: Any) -> DeltaJob:
        given: dict[str, Any] = {"name": "last-three", "partition_by": "sensor", "key_groups": 2}
        given |= {"order_by": ["partition", "offset"], "reject": {"NO_NUMBER": "n IS NULL"}}
        windows = windowed(self.stream() if stream is None else stream, **(given | options))
        computed = windows.window(Sliding(evict=Count(3))).aggregate(total=agg.sum("n"), newest=agg.last("n"))
        return computed.to_delta(self.folder / "log")

    def run(self, stream: DataFrame | None = None, **options: Any) -> Job:
        job = self.declare(stream, **options).start(checkpoint=self.checkpoint, trigger="available_now")
        assert job.await_end(timeout=300)
        return job

    def rows(self, table: str = "log") -> list[dict[str, Any]]:
        return rows_of(self.folder / table)

    def results(self) -> list[tuple[str, int, int]]:
        """Return (sensor, newest number, sum of the last three), sorted."""
        return sorted((row["sensor"], row["newest"], row["total"]) for row in self.rows())


def expected(count: int, sensors: int = 4) -> list[tuple[str, int, int]]:
    """Return the results for the numbers below `count`."""
    found = []
    for n in range(count):
        last = [m for m in (n, n - sensors, n - 2 * sensors) if m >= 0]
        found.append((f"s{n % sensors}", n, sum(last)))
    return sorted(found)


@pytest.fixture
def topic(spark: SparkSession, broker: Broker, tmp_path: Path) -> Iterator[Topic]:
    """An empty topic of three partitions; jobs that still run are stopped."""
    yield Topic(spark, broker, tmp_path, 3)
    for query in spark.streams.active:
        query.stop()
