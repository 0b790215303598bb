"""What comes in, from a seed, and what happened in which order: all that the oracle is told.

Pure. Times are whole seconds from the beginning of `DAY`.
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
        id: its number, from 1: no two rows are alike.
        sensor: which windows it belongs to.
        at: when it arrived; rises from row to row.
        seen: when it was measured: at most of the rows not long before, at some long before, at a few not known.
        value: what was measured.
    """

    id: int
    sensor: str
    at: int
    seen: int | None
    value: int


@dataclass(frozen=True, kw_only=True)
class Started:
    """A run of the job began; `clock` is what the wall clock said."""

    clock: int


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """One file was read: one micro-batch."""

    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Drained:
    """The job was drained."""


Moment = Started | Arrived | Drained
History = tuple[Moment, ...]


def generate(seed: int, *, files: int, rows: int = 6) -> tuple[Arrived, ...]:
    """Return the files of a drill; the same seed gives the same rows."""
    dice = random.Random(seed)  # noqa: S311 -- data, not secrets
    made, at = [], 0
    for number in range(files):
        batch = []
        for place in range(rows):
            at += dice.randint(1, _LONGEST_GAP)
            lag = dice.choice((0, 60, 600, 3600, dice.randint(0, _LONGEST_LAG)))
            seen = None if dice.random() < 0.05 else at - lag  # noqa: PLR2004 -- one row in twenty
            batch.append(
                Row(
                    id=number * rows + place + 1,
                    sensor=dice.choice(SENSORS),
                    at=at,
                    seen=seen,
                    value=dice.randint(0, 12),
                )
            )
        made.append(Arrived(rows=tuple(batch)))
    return tuple(made)


def write(folder: Path, number: int, arrived: Arrived) -> None:
    """Write one file into the input folder, whole or not at all; it is read after all files before it."""
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
