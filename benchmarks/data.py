"""The input of every benchmark: deterministic rows in Parquet files, one file a micro-batch.

File n covers the 100 seconds of event time that begin 100 n seconds after the start. Times are all different and
rise from row to row; keys and values are uniform. The same arguments give the same bytes of content, so files are
written once and reused.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
    """

    folder: Path
    files: int
    rows: int
    keys: int

    @property
    def paths(self) -> list[Path]:
        """The files, in the order in which they are read."""
        return [self.folder / _name(number) for number in range(self.files)]

    @property
    def glob(self) -> str:
        """A pattern that the names of these files match, and no other."""
        return "{" + ",".join(path.name for path in self.paths) + "}"


def write_input(cache: Path, *, files: int, rows: int, keys: int) -> Input:
    """Return an input of `files` files of `rows` rows each; write those that do not exist yet."""
    folder = cache / f"{rows}-rows-{keys}-keys"
    folder.mkdir(parents=True, exist_ok=True)
    given = Input(folder=folder, files=files, rows=rows, keys=keys)
    for number, path in enumerate(given.paths):
        if not path.exists():
            part = path.with_name(f".{path.name}.part")
            pq.write_table(_table(number, rows, keys), part, row_group_size=-(-rows // _ROW_GROUPS))
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
