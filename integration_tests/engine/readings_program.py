"""A program that processes the readings in a folder and ends; the kill tests run it as a process of its own.

python readings_program.py FOLDER [immediate | changed | end-spark | POINT:BATCH]

With `end-spark` it runs until its Java side gets SIGTERM, after its first batch. With `changed` it has one more rule
for rows. With POINT:BATCH it kills itself and its Java virtual machine when that
batch reaches that fault point.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Literal

from integration_tests.drills.faults import armed
from panekeeper import TimeInterval, agg, session, windowed


def main(folder: Path, how: str) -> None:
    """Run the job over what is there, or until it is to end."""
    trigger: Literal["available_now", "immediate"] = (
        "immediate" if how in ("immediate", "end-spark") else "available_now"
    )
    reject = {"late": "value = 16"} if how == "changed" else {}
    spark = session("readings", cores=2, **{"spark.sql.shuffle.partitions": 4})
    reader = spark.readStream.schema("sensor string, at timestamp, value bigint")
    rows = reader.option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    job = (
        windowed(rows, name="readings", partition_by="sensor", event_time="at", key_groups=2, reject=reject)
        .window(TimeInterval(60, discard_age=120))
        .aggregate(total=agg.sum("value"), n=agg.count())
        .to_delta(folder / "log", view=folder / "view")
        .start(checkpoint=folder / "checkpoint", trigger=trigger)
    )
    if how == "end-spark":
        job.on_batch(lambda report: os.kill(os.getppid(), signal.SIGTERM) if report.batch == 0 else None)
    job.await_end()
    sys.stdout.write(f"{job.status().state.value} after batch {job.status().batch}\n")
    spark.stop()


class Kill:
    """A fault that kills the process at one place, given as POINT:BATCH."""

    def __init__(self, place: str) -> None:
        self.place = place

    def matches(self, point: str, batch: int) -> bool:
        return f"{point}:{batch}" == self.place

    def trigger(self) -> None:
        armed.kill_process()


if __name__ == "__main__":
    folder, how = (*sys.argv[1:], "")[:2]
    if ":" in how:
        armed.arm(Kill(how))
    main(Path(folder), how)
