"""The program that is killed: a job that reads Kafka and writes a Delta table, as a user would write it.

It has no part in the load test: it is started with its options, again and again, and SIGTERM drains it.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import TimeInterval, agg, session, windowed

if TYPE_CHECKING:
    from panekeeper import Job

LOG, METRICS, QUARANTINE, CHECKPOINT = "log", "log_metrics", "log_quarantine", "checkpoint"


def start(options: argparse.Namespace) -> Job:
    """Start the job; it resumes where the last process ended."""
    spark = session("soak", kafka=True)
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", options.servers)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.most_rows)
        .load()
    )
    columns = F.from_json(F.col("value").cast("string"), "key BIGINT, at BIGINT, value BIGINT")
    rows = messages.select(columns.alias("row")).select(
        "row.key", F.timestamp_micros("row.at").alias("at"), "row.value"
    )
    return (
        windowed(
            rows,
            name="soak",
            partition_by="key",
            event_time="at",
            watermark=options.watermark,
            reject={"not a row": "value IS NULL"},
        )
        .window(TimeInterval(options.pane, discard_age=options.discard_age))
        .aggregate(n=agg.count(), total=agg.sum("value"), greatest=agg.max("value"))
        .to_delta(f"{options.out}/{LOG}")
        .start(checkpoint=f"{options.out}/{CHECKPOINT}", trigger=options.trigger)
    )


def main(arguments: list[str]) -> int:
    """Run the job until it is drained."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.job")
    for option in ("servers", "topic", "out", "pane", "watermark", "discard-age", "trigger"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--most-rows", type=int, required=True)
    start(parser.parse_args(arguments)).await_end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
