"""The downtime report: what an outage did, as a row of a Delta table and as lines to read.

Made by the first batch after a stop, in which everything overdue happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType, TimestampType

from panekeeper.framework.declarations.durations import to_datetime
from panekeeper.state.duration_text import duration_text

DOWNTIME = StructType(
    [
        StructField("batch", LongType()),
        StructField("job", StringType()),
        StructField("stopped_at", TimestampType()),
        StructField("started_at", TimestampType()),
        StructField("seconds", DoubleType()),
        StructField("clean", BooleanType()),
        StructField("timers_overdue", LongType()),
        StructField("results", LongType()),
        StructField("tuples_aged_out", LongType()),
        StructField("partitions_aged_out", LongType()),
        StructField("late_seconds", DoubleType()),
        StructField("clock_back_seconds", DoubleType()),
    ]
)
"""One row for each start of a job after its first, written with the first batch of the run."""


@dataclass(frozen=True, kw_only=True)
class Downtime:
    """What happened between two runs of a job, by the clock of the driver.

    Attributes:
        job: the job's name.
        batch: the batch in which what was overdue happened.
        stopped_at: when the run before ended; if it crashed, the time of its last heartbeat.
        started_at: when this run began.
        seconds: the time between; negative if the clock went back.
        clean: whether the run before ended by a drain, a stop or a flush, or because its source was exhausted.
        timers_overdue: partitions with a tumble, a trigger or a batch that had fallen due.
        results: rows of the log that this led to.
        tuples_aged_out: tuples that left their windows at once.
        partitions_aged_out: partitions that went because nothing had come for so long.
        late_seconds: how long after its instant the most overdue work was done.
        clock_back_seconds: how far the clock was behind what the windows had seen; they wait, and fire nothing twice.
    """

    job: str
    batch: int
    stopped_at: datetime
    started_at: datetime
    seconds: float
    clean: bool
    timers_overdue: int
    results: int
    tuples_aged_out: int
    partitions_aged_out: int
    late_seconds: float
    clock_back_seconds: float

    def row(self) -> tuple[Any, ...]:
        """Return the values of `DOWNTIME`."""
        fields = asdict(self)
        return tuple(fields[name] for name in DOWNTIME.names)

    def __str__(self) -> str:
        ended = "ended" if self.clean else "was last seen"
        rows = [
            ("down for", f"{duration_text(self.seconds)} ({ended} at {self.stopped_at:%Y-%m-%dT%H:%M:%SZ})"),
            ("timers overdue", f"{self.timers_overdue:,}, the oldest by {duration_text(self.late_seconds)}"),
            ("results caught up", f"{self.results:,}"),
            ("tuples aged out", f"{self.tuples_aged_out:,}"),
            ("partitions aged out", f"{self.partitions_aged_out:,}"),
            ("clock went back", duration_text(self.clock_back_seconds) if self.clock_back_seconds else "no"),
        ]
        lines = [f"  {name:<20} {value}" for name, value in rows]
        return "\n".join([f"job {self.job!r} is back:", *lines])


def build_report(
    job: str,
    batch: int,
    *,
    stopped_us: int,
    started_us: int,
    clean: bool,
    outage: Mapping[str, int],
    late_us: int | None,
) -> Downtime:
    """Return the report of an outage; times in us since the epoch, `outage` as `BatchOutput.outage_counts` has it."""
    return Downtime(
        job=job,
        batch=batch,
        stopped_at=to_datetime(stopped_us),
        started_at=to_datetime(started_us),
        seconds=round((started_us - stopped_us) / 1e6, 3),
        clean=clean,
        timers_overdue=outage["timers"],
        results=outage["results"],
        tuples_aged_out=outage["tuples"],
        partitions_aged_out=outage["partitions"],
        late_seconds=round((late_us or 0) / 1e6, 3),
        clock_back_seconds=round(outage["back_us"] / 1e6, 3),
    )
