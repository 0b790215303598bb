"""The input of every benchmark: deterministic rows in Parquet files, one file a micro-batch.

What is in them is of the kind `ROWS` or `EVENTS`.

File n covers the 100 seconds of event time that begin 100 n seconds after the start. Times are all different and
rise from row to row; keys and values are uniform. The same arguments give the same bytes of content, so files are
written once and reused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from examples.nexmark.events import BEGIN_US, SCHEMAS, TURN, events

COLUMNS = "ts TIMESTAMP, key BIGINT, v DOUBLE"
FILE_SECONDS = 100
_START_US = 1_700_000_000_000_000
_ROW_GROUPS = 8  # so that Spark can share one file between its tasks


@dataclass(frozen=True, kw_only=True)
class Input:
    """Some files of rows, read one a micro-batch.

    Attributes:
        folder: where the files are, perhaps among others.
        files: number of files of this input: the first ones of the folder.
        rows: number of rows of one file.
        keys: number of different keys.
        columns: what is in them, for Spark.
    """

    folder: Path
    files: int
    rows: int
    keys: int
    columns: str = COLUMNS

    @property
    def paths(self) -> list[Path]:
        """The files, in the order in which they are read."""
        return [self.folder / _name(number) for number in range(self.files)]

    @property
    def glob(self) -> str:
        """A pattern that the names of these files match, and no other."""
        return "{" + ",".join(path.name for path in self.paths) + "}"


@dataclass(frozen=True, kw_only=True)
class InputKind:
    """A kind of rows.

    Attributes:
        name: part of the names of folders.
        columns: theirs, for Spark.
        table: returns those of a file, for its number, the number of rows and that of keys.
    """

    name: str
    columns: str
    table: Callable[[int, int, int], pa.Table]


def write_input(cache: Path, *, files: int, rows: int, keys: int, kind: InputKind | None = None) -> Input:
    """Return an input of `files` files of `rows` rows each; write those that do not exist yet."""
    kind = kind or ROWS
    folder = cache / (f"{rows}-rows-{keys}-keys" if kind is ROWS else f"{rows}-{kind.name}")
    folder.mkdir(parents=True, exist_ok=True)
    given = Input(folder=folder, files=files, rows=rows, keys=keys, columns=kind.columns)
    for number, path in enumerate(given.paths):
        if not path.exists():
            part = path.with_name(f".{path.name}.part")
            pq.write_table(kind.table(number, rows, keys), part, row_group_size=-(-rows // _ROW_GROUPS))
            os.utime(part, (_START_US // 1_000_000 + number,) * 2)  # Spark reads files by the time of their last change
            part.rename(path)
    return given


def file_start_us(number: int) -> int:
    """Return the first instant of event time that file n covers; panes of 50 s begin there, too."""
    return _START_US + number * FILE_SECONDS * 1_000_000


def _name(number: int) -> str:
    return f"part-{number:04d}.parquet"


def _table(number: int, rows: int, keys: int) -> pa.Table:
    random = np.random.default_rng([7, number])
    step = FILE_SECONDS * 1_000_000 // rows
    at = file_start_us(number) + np.arange(rows) * step + random.integers(0, step, rows)
    return pa.table(
        {
            "ts": pa.array(at, pa.timestamp("us", tz="UTC")),
            "key": pa.array(random.integers(0, keys, rows), pa.int64()),
            "v": pa.array(random.random(rows) * 100),
        }
    )


def _events(number: int, rows: int, file_seconds: int, *, disorder: int) -> pa.Table:
    """Return the events of an auction house that are those of one file: its persons, auctions and bids, in order.

    Each file has numbers, ids and times of its own.
    """
    spacing = timedelta(seconds=file_seconds) / rows
    turns = -(-rows // len(TURN))
    auctions = turns * int((TURN == "auctions").sum())
    further = {"number": rows, "id": turns, "seller": turns, "auction": auctions, "bidder": turns}
    parts = []
    for stream, table in events(rows, seed=number, spacing=spacing, disorder=disorder).items():
        moved = {name: table[name] for name in table.column_names}
        own = further | ({"id": auctions} if stream == "auctions" else {})
        for name in own.keys() & moved.keys():
            moved[name] = pc.add(moved[name], number * own[name])
        later = timedelta(microseconds=_START_US - BEGIN_US, seconds=number * file_seconds)
        for name in {"at", "expires"} & moved.keys():
            moved[name] = pc.add(moved[name], pa.scalar(later))
        parts.append(pa.table({"stream": pa.array([stream] * table.num_rows), **moved}))
    merged: pa.Table = pa.concat_tables(parts, promote_options="default").sort_by("number")
    return merged


_EVENT_COLUMNS = ", ".join(
    dict.fromkeys(["stream string", *(column for schema in SCHEMAS.values() for column in schema.split(", "))])
)
ROWS = InputKind(name="rows", columns=COLUMNS, table=_table)
EVENTS = InputKind(
    name="events",
    columns=_EVENT_COLUMNS,
    table=lambda n, rows, _: _events(n, rows, FILE_SECONDS, disorder=min(40, 1 + rows * 3 // FILE_SECONDS)),
)
"""The events of Nexmark, 100 seconds a file, a few of them out of order."""
