"""Visits to a shop: the clicks of a user that are at most half an hour apart, however late some of them come.

    python -m examples.sessions [folder]

A click of ann comes late, and lies between two of her visits: they become one, whose result replaces theirs. The log
names in `replaces` the one that has another start, and the view loses it in the commit that brings the result.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from examples.command import run
from panekeeper import Session, agg, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = [
    [
        ("ann", "09:00", "look", 0), ("ann", "09:05", "buy", 30),
        ("ann", "09:50", "look", 0), ("ann", "09:55", "buy", 5),
        ("bob", "09:10", "look", 0),
        ("ann", "12:00", "look", 0),
    ],
    [("bob", "12:10", "buy", 7)],
    [("ann", "09:28", "look", 0), ("ann", "15:00", "look", 0)],
    [("bob", "18:00", "look", 0)],
]  # fmt: skip


def main(spark: SparkSession, out: Path) -> DataFrame:
    """Run the example in `out` and return its results: the log, in which the merged visit replaces its parts."""
    job = (
        windowed(clicks(spark, out / "in"), name="visits", partition_by="user", event_time="at")
        .window(Session("30 minutes", discard_age="12 hours"))
        .aggregate(clicks=agg.count(), bought=agg.count_if("action = 'buy'"), spent=agg.sum("price"))
        .to_delta(out / "visits", view=out / "visits_now")
        .start(checkpoint=out / "checkpoint", trigger="available_now")
    )
    job.await_end()
    return spark.read.format("delta").load(str(out / "visits")).orderBy("user", "session_start", "refinement")


def clicks(spark: SparkSession, folder: Path) -> DataFrame:
    """Return a stream of clicks: user, at, action, price; a file is a micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(FILES):
        columns = ("user", "at", "action", "price")
        lines = [dict(zip(columns, (user, f"2024-05-01T{at}:00Z", *rest), strict=True)) for user, at, *rest in rows]
        path = folder / f"{number}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        os.utime(path, (1_700_000_000 + number,) * 2)
    reader = spark.readStream.schema("user string, at timestamp, action string, price bigint")
    return reader.option("maxFilesPerTrigger", 1).json(str(folder))


if __name__ == "__main__":
    run(main)
