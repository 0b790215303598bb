"""A program that runs the readings on a cluster whose executors get their Python and packages in an archive.

python packed_program.py FOLDER MASTER ARCHIVE
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from panekeeper import TimeInterval, agg, session, windowed


def main(folder: Path, master: str, archive: str) -> None:
    """Run the job over what is there; nothing says how many tasks it has."""
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    logging.getLogger("panekeeper.job").setLevel("INFO")
    settings: dict[str, Any] = {
        "spark.master": master,
        "spark.archives": f"{archive}#env",
        "spark.pyspark.python": "./env/bin/python",
        "spark.executor.cores": 1,
        "spark.cores.max": 1,
    }
    spark = session("packed", **settings)
    rows = spark.readStream.schema("sensor string, at timestamp, value bigint").json(str(folder / "in"))
    job = (
        windowed(rows, name="readings", partition_by="sensor", event_time="at", watermark=0)
        .window(TimeInterval(60))
        .aggregate(total=agg.sum("value"))
        .to_delta(folder / "log")
        .start(checkpoint=folder / "checkpoint", trigger="available_now")
    )
    job.await_end()
    job.flush()
    found = spark.read.format("delta").load(str(folder / "log")).orderBy("sensor").collect()
    sys.stdout.write(f"{[(row['sensor'], row['total']) for row in found]}\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
