"""The input rows of a drill, generated from a seed, and the history of a job: all that an oracle gets.

Times are whole seconds since the beginning of `DAY`.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

DAY = datetime(2024, 5, 1, tzinfo=UTC)
SENSORS = ("a", "b", "c")
COLUMNS = "id bigint, sensor string, at timestamp, seen timestamp, value bigint"

_LONGEST_GAP = 1500
_LONGEST_LAG = 4 * 3600


@dataclass(frozen=True, kw_only=True)
class Row:
    """One reading.

    Attributes:
        id: number of the row, from 1; unique.
        sensor: the partition key.
        at: arrival time; greater than that of the row before.
        seen: event time: for most rows shortly before `at`, for some long before, for a few None.
        value: the measured value, 0 to 12.
    """

    id: int
    sensor: str
    at: int
    seen: int | None
    value: int


@dataclass(frozen=True, kw_only=True)
class RunStarted:
    """A run of the job began when the wall clock was `clock`."""

    clock: int


@dataclass(frozen=True, kw_only=True)
class FileArrived:
    """One input file was processed, as one micro-batch."""

    rows: tuple[Row, ...]


@dataclass(frozen=True)
class JobDrained:
    """The job was drained."""


@dataclass(frozen=True)
class OperatorChanged:
    """From here on the operator emits the negative of each sum, or no longer does."""


HistoryEvent = RunStarted | FileArrived | JobDrained | OperatorChanged
History = tuple[HistoryEvent, ...]


def generate(seed: int, *, files: int, rows: int = 6) -> tuple[FileArrived, ...]:
    """Return the input files of a drill; the same seed gives the same rows.

    Args:
        seed: of the random rows.
        files: how many files.
        rows: how many rows each file has.
    """
    rng = random.Random(seed)
    made, at = [], 0
    for number in range(files):
        batch = []
        for place in range(rows):
            at += rng.randint(1, _LONGEST_GAP)
            lag = rng.choice((0, 60, 600, 3600, rng.randint(0, _LONGEST_LAG)))
            seen = None if rng.random() < 0.05 else at - lag
            batch.append(
                Row(
                    id=number * rows + place + 1,
                    sensor=rng.choice(SENSORS),
                    at=at,
                    seen=seen,
                    value=rng.randint(0, 12),
                )
            )
        made.append(FileArrived(rows=tuple(batch)))
    return tuple(made)


def write(folder: Path, number: int, arrived: FileArrived) -> None:
    """Write one file into the input folder, atomically.

    Args:
        folder: the input folder.
        number: of the file; Spark reads the files in the order of their numbers.
        arrived: its rows.
    """
    lines = [
        {"id": row.id, "sensor": row.sensor, "at": _time(row.at), "seen": _time(row.seen), "value": row.value}
        for row in arrived.rows
    ]
    path = folder / f"{number:06d}.json"
    unfinished = folder / f".{path.name}"
    unfinished.write_text("\n".join(json.dumps(line) for line in lines))
    os.utime(unfinished, (1_600_000_000 + number,) * 2)  # the source reads the oldest first
    unfinished.rename(path)


def _time(second: int | None) -> str | None:
    return None if second is None else f"{DAY + timedelta(seconds=second):%Y-%m-%dT%H:%M:%SZ}"
