"""An alert every ten seconds: the readings of the last fifteen that exceed the limit, each reading once.

    python -m examples.batched_alert [folder]

The operator receives the rows that entered the window with each window batch; one in which nothing changed is no event.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from examples.command import run
from examples.readings import readings
from panekeeper import Batched, Emit, Event, EventType, Operator, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Alert(Operator):
    """Emits how many readings above a limit entered the window, and the highest."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.INSERTION})

    def __init__(self, limit: float) -> None:
        self.limit = limit

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit a row if a reading that entered is above the limit."""
        values = event.column("value")
        high = values[values > self.limit]
        if len(high):
            emit(readings=len(high), highest=float(high.max()))


def main(spark: SparkSession, out: Path) -> DataFrame:
    """Run the example in `out` and return its results."""
    job = (
        windowed(readings(spark, out / "in"), name="alerts", partition_by="sensor", arrival_time="arrived")
        .window(Batched(within=15, every=10))
        .operator(Alert(22.5), output="readings bigint, highest double")
        .to_delta(out / "alerts")
        .start(checkpoint=out / "checkpoint", trigger="available_now")
    )
    job.await_end()
    return spark.read.format("delta").load(str(out / "alerts")).orderBy("sensor", "fired_at")


if __name__ == "__main__":
    run(main)
