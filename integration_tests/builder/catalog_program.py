"""A program with a catalog on disk; runs the job of the readings into tables by name: `catalog_program.py FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from panekeeper import TimeInterval, agg, session, windowed


def main(folder: Path) -> None:
    """Run the job over what is there, in the schema `default`."""
    metastore = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
    settings: dict[str, Any] = {
        "spark.sql.shuffle.partitions": 4,
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
    }
    spark = session("catalog", cores=2, **settings)
    reader = spark.readStream.schema("sensor string, at timestamp, value bigint")
    rows = reader.option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    job = (
        windowed(rows, name="readings", partition_by="sensor", event_time="at", key_groups=4)
        .window(TimeInterval(60, discard_age=120))
        .aggregate(total=agg.sum("value"), n=agg.count())
        .to_delta(table="default.totals")
        .start(checkpoint=folder / "checkpoint", trigger="available_now")
    )
    job.await_end()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
