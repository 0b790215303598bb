"""Sessions that end when the user says so: all actions up to a log-out, and what was spent.

    python -m examples.marked_sessions [folder]

A row with `action = 'logout'` is the last of its session: a window mark follows it. Each row of the results ends a
window as well (`window_mark`), so a second job can read the first one's log: it adds up sessions until one spent
10 or more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from examples.command import run
from panekeeper import Punctuation, Tumbling, agg, windowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLICKS = [
    ("look", 0), ("look", 0), ("buy", 30), ("logout", 0),
    ("look", 0), ("logout", 0),
    ("buy", 5), ("buy", 7), ("look", 0), ("logout", 0),
]  # fmt: skip


def main(spark: SparkSession, out: Path) -> DataFrame:
    """Run the example in `out` and return its results."""
    first = (
        windowed(clicks(spark, out / "in"), name="sessions", punctuation="action = 'logout'")
        .window(Tumbling(Punctuation()))
        .aggregate(actions=agg.count(), spent=agg.sum("price"))
        .to_delta(out / "sessions")
        .start(checkpoint=out / "checkpoint", trigger="available_now")
    )
    first.await_end()
    log = spark.readStream.format("delta").load(str(out / "sessions"))
    second = (
        windowed(log, name="best-session", punctuation="window_mark AND spent >= 10", arrival_time="fired_at")
        .window(Tumbling(Punctuation()))
        .aggregate(sessions=agg.count(), takings=agg.sum("spent"))
        .to_delta(out / "takings")
        .start(checkpoint=out / "checkpoint_takings", trigger="available_now")
    )
    second.await_end()
    return spark.read.format("delta").load(str(out / "takings")).orderBy("firing")


def clicks(spark: SparkSession, folder: Path) -> DataFrame:
    """Return a stream of clicks: action, price."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"action": action, "price": price}) for action, price in CLICKS]
    (folder / "clicks.json").write_text("\n".join(lines))
    return spark.readStream.schema("action string, price bigint").json(str(folder))


if __name__ == "__main__":
    run(main)
