"""The jobs whose checkpoints are frozen, what they read before and after, and what they must say in all.

Never change a job here: its frozen checkpoint would no longer be its own. A new kind of state is a new job.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from panekeeper import Batched, Count, Operator, Sliding, Time, TimeInterval, Tumbling, agg, windowed
from panekeeper.framework.declarations.events import EventType
from panekeeper.state.handler import StateContext, StateHandler

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper import Emit, Event, Job
    from panekeeper.framework.builder.outputs import Computation

HERE = Path(__file__).parent

Reading = tuple[str, str, str, int]
"""(sensor, when it was read, when it arrived, value); times of one day, on whose order the expected rows rest."""

BEFORE: Sequence[Sequence[Reading]] = [
    [("a", "10:00:10", "12:00:00", 1), ("b", "10:00:20", "12:00:10", 2), ("a", "10:00:40", "12:00:20", 3)],
    [
        ("a", "10:01:10", "12:00:30", 4),
        ("a", "10:01:20", "12:00:40", 5),
        ("b", "10:02:10", "12:00:50", 6),
        ("a", "10:00:50", "12:01:00", 7),
    ],
]
"""One file each, read before the checkpoint was frozen."""
AFTER: Sequence[Sequence[Reading]] = [
    [("b", "10:00:30", "12:01:10", 8), ("a", "10:02:20", "12:01:20", 9), ("b", "10:02:30", "12:01:30", 10)],
    [("a", "10:06:00", "12:01:40", 11), ("c", "10:06:10", "12:01:50", 12)],
]
"""One file each, read by the job that resumes."""


class Counting(Operator, StateHandler):
    """Emits the raw contents of a window and which firing of its sensor this is, a number it keeps itself."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER})

    def __init__(self) -> None:
        self.fired: dict[str, int] = {}

    def handle_event(self, event: Event, emit: Emit) -> None:
        self.fired[event.key] = self.fired.get(event.key, 0) + 1
        emit(content=[int(value) for value in event.column("value")], number=self.fired[event.key])

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("fired", self.fired)

    def reset(self, ctx: StateContext) -> None:
        self.fired = ctx.read("fired", {})


def _panes(rows: DataFrame) -> Computation:
    """Panes that were refined, with a partial result of every shape."""
    stream = windowed(rows, name="panes", partition_by="sensor", event_time="at", key_groups=2)
    return stream.window(TimeInterval(60, discard_age=120)).aggregate(
        content=agg.collect("value"),
        total=agg.sum("value"),
        mean=agg.mean("value"),
        spread=agg.stddev("value"),
        latest=agg.arg_max("at", "value"),
        kinds=agg.approx_distinct("value"),
    )


def _tumbling(rows: DataFrame) -> Computation:
    """Partial results of half-full windows."""
    stream = windowed(rows, name="tumbling", partition_by="sensor", key_groups=2)
    return stream.window(Tumbling(Count(3))).aggregate(content=agg.collect("value"), total=agg.sum("value"))


def _sliding(rows: DataFrame) -> Computation:
    """Raw contents that leave by their age, and an operator with state of its own."""
    stream = windowed(rows, name="sliding", partition_by="sensor", arrival_time="arrived", key_groups=2)
    window = Sliding(evict=Time(45), trigger=Count(2))
    return stream.window(window).operator(Counting(), output="content array<bigint>, number bigint")


def _batched(rows: DataFrame) -> Computation:
    """Tuples that wait for their batch."""
    stream = windowed(rows, name="batched", partition_by="sensor", key_groups=2)
    return stream.window(Batched(retain=3, every=2)).aggregate(content=agg.collect("value"))


JOBS: Mapping[str, Callable[[DataFrame], Computation]] = {
    "panes": _panes,
    "tumbling": _tumbling,
    "sliding": _sliding,
    "batched": _batched,
}

# Worked out by hand from the readings above: (sensor, pane or number of the firing, content, ...).
EXPECTED: Mapping[str, Sequence[tuple[Any, ...]]] = {
    "panes": [
        ("a", "10:00", [1, 3, 7], 11, 0, "WATERMARK"),
        ("a", "10:01", [4, 5], 9, 0, "WATERMARK"),
        ("a", "10:02", [9], 9, 0, "WATERMARK"),
        ("b", "10:00", [2], 2, 0, "WATERMARK"),
        ("b", "10:00", [2, 8], 10, 1, "LATE"),  # the pane had fired before it was frozen
        ("b", "10:02", [6, 10], 16, 0, "WATERMARK"),
    ],
    "tumbling": [("a", [1, 3, 4], 8), ("a", [5, 7, 9], 21), ("b", [2, 6, 8], 16)],
    "sliding": [
        ("a", [1, 3], 1),
        ("a", [1, 3, 4, 5], 2),
        ("a", [5, 7, 9], 3),  # 3 and 4 are older than 45 s
        ("b", [2, 6], 1),
        ("b", [6, 8, 10], 2),
    ],
    "batched": [("a", [1, 3]), ("a", [3, 4, 5]), ("a", [5, 7, 9]), ("b", [2, 6]), ("b", [6, 8, 10])],
}


def archive(version: int) -> Path:
    """Return the file that holds the frozen jobs of a state version."""
    return HERE / f"state_{version}.tar.gz"


def put(folder: Path, files: Sequence[Sequence[Reading]], *, first: int) -> None:
    """Write files of readings, numbered from `first`; they are read in this order."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(files, first):
        day = "2024-05-01T"
        lines = [{"sensor": s, "at": f"{day}{at}Z", "arrived": f"{day}{came}Z", "value": v} for s, at, came, v in rows]
        path = folder / f"{number:02d}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        os.utime(path, (1_700_000_000 + number,) * 2)


def start(spark: SparkSession, folder: Path, name: str) -> Job:
    """Start one of the jobs in its folder, a file a batch."""
    schema = "sensor string, at timestamp, arrived timestamp, value bigint"
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    job = JOBS[name](rows).to_delta(folder / "log", view=folder / "view")
    return job.start(checkpoint=folder / "checkpoint", trigger="available_now")


def results(spark: SparkSession, folder: Path, name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a job's log in the form of `EXPECTED`, in its order."""
    rows = spark.read.format("delta").load(str(folder / "log")).collect()
    if name == "panes":
        return sorted(
            (r["sensor"], f"{r['pane_start']:%H:%M}", r["content"], r["total"], r["refinement"], r["reason"])
            for r in rows
        )
    last = {"tumbling": ["total"], "sliding": ["number"], "batched": []}[name]
    ordered = sorted(rows, key=lambda row: (row["sensor"], row["firing"]))
    return [(r["sensor"], r["content"], *(r[column] for column in last)) for r in ordered]
