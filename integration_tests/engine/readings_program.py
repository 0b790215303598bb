"""A program that processes the readings in a folder and ends; the kill tests run it as a process of its own.

python readings_program.py FOLDER [immediate | changed | POINT:BATCH]

With `changed` it has one more rule for rows. With POINT:BATCH it kills itself and its Java virtual machine when that
batch reaches that fault point.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from framework.engine.sink import fault_points
from panekeeper import TimeInterval, agg, session, windowed


def main(folder: Path, trigger: Literal["available_now", "immediate"], reject: dict[str, str]) -> None:
    """Run the job over what is there, or until it is to end."""
    spark = session("readings", cores=2, **{"spark.sql.shuffle.partitions": 4})
    reader = spark.readStream.schema("sensor string, at timestamp, value bigint")
    rows = reader.option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    job = (
        windowed(rows, name="readings", partition_by="sensor", event_time="at", key_groups=4, reject=reject)
        .window(TimeInterval(60, discard_age=120))
        .aggregate(total=agg.sum("value"), n=agg.count())
        .to_delta(folder / "log", view=folder / "view")
        .start(checkpoint=folder / "checkpoint", trigger=trigger)
    )
    job.await_end()
    spark.stop()


class Kill:
    """A fault that kills the process at one place, given as POINT:BATCH."""

    def __init__(self, place: str) -> None:
        self.place = place

    def matches(self, point: str, batch: int) -> bool:
        return f"{point}:{batch}" == self.place

    def trigger(self) -> None:
        fault_points.kill_process()


if __name__ == "__main__":
    folder, *how = sys.argv[1:]
    if how and ":" in how[0]:
        fault_points.arm(Kill(how[0]))
    rules = {"late": "value = 16"} if how == ["changed"] else {}
    main(Path(folder), "immediate" if how == ["immediate"] else "available_now", rules)
