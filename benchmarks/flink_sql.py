"""Flink's embedded SQL as a contender, for query 7 of Nexmark.

It is optional: `PANEKEEPER_FLINK` is the Python of an environment with `apache-flink`. The whole input is one CSV file,
as Flink reads several files in any order; each file of the input counts as a batch of the same duration. Nothing is
written for a restart, which favours it.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from benchmarks.contenders import RunEnvironment, TimedBatch
from benchmarks.data import Input
from examples.nexmark.events import LATEST

WORKERS = 2
_TYPES = {"string": "STRING", "bigint": "BIGINT", "timestamp": "TIMESTAMP(6)"}
_ARROW = {"BIGINT": pa.int64(), "TIMESTAMP(6)": pa.timestamp("us")}
_BOUNDS = "pane_start TIMESTAMP(6), pane_end TIMESTAMP(6)"
_TEN = "TUMBLE(TABLE bids, DESCRIPTOR(row_time), INTERVAL '10' SECOND)"

QUERIES = {
    "q7": (
        f"{_BOUNDS}, auction BIGINT, bidder BIGINT, price BIGINT, `at` TIMESTAMP(6)",
        f"""SELECT window_start, window_end, auction, bidder, price, `at` FROM (
                SELECT *, row_number() OVER (
                    PARTITION BY window_start, window_end ORDER BY price DESC, number ASC) AS place
                FROM TABLE({_TEN})) WHERE place = 1""",  # noqa: S608
    ),
}
"""Query -> the columns of its results with their types, and its text."""


def installed() -> bool:
    """Return whether there is a Python with Flink."""
    return "PANEKEEPER_FLINK" in os.environ


@dataclass(frozen=True, kw_only=True)
class FlinkContender:
    """A query of Nexmark by Flink."""

    query: str
    name: str = "flink SQL"

    def measure(self, given: Input, environment: RunEnvironment) -> list[TimedBatch]:
        """Run over the input. Each file counts as a batch of the same duration."""
        seconds = self._run(given, environment, None) / given.files
        return [TimedBatch(given.rows, seconds)] * given.files

    def results(self, given: Input, environment: RunEnvironment) -> pa.Table:
        """Run over the input and return the results of panes that are complete before it ends."""
        folder = environment.new_folder() / "results"
        self._run(given, environment, folder)
        named = [column.replace("`", "").split(maxsplit=1) for column in QUERIES[self.query][0].split(", ")]
        how = csv.ReadOptions(column_names=[name for name, _ in named])
        types = csv.ConvertOptions(column_types={name: _ARROW[kind] for name, kind in named}, null_values=[""])
        files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size)
        table = pa.concat_tables(csv.read_csv(path, how, convert_options=types) for path in files)
        latest = max(pc.max(pq.read_table(path, columns=["at"])["at"]).as_py() for path in given.paths)
        end = (latest - LATEST).replace(tzinfo=None)
        table = table.filter(pc.field("pane_end") <= pa.scalar(end, pa.timestamp("us")))
        in_utc = [
            pa.field(one.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(one.type) else one.type)
            for one in table.schema
        ]
        return table.cast(pa.schema(in_utc))

    def _run(self, given: Input, environment: RunEnvironment, output: Path | None) -> float:
        results, query = QUERIES[self.query]
        columns = [column.split() for column in given.columns.split(", ")]
        request = {
            "input": str(_as_csv(given, environment)),
            "columns": ", ".join(f"`{name}` {_TYPES[kind]}" for name, kind in columns),
            "results": results,
            "query": query,
            "output": None if output is None else str(output),
            "delay": round(LATEST.total_seconds()),
            "workers": WORKERS,
        }
        program = Path(__file__).with_name("flink_program.py")
        command = [os.environ["PANEKEEPER_FLINK"], str(program), json.dumps(request)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"Flink has failed: {done.stderr[-2000:]}")
        return float(done.stdout.splitlines()[-1])


def _as_csv(given: Input, environment: RunEnvironment) -> Path:
    """Return the input as a file for Flink; it is made once."""
    path = environment.folder / f"{given.folder.name}-{given.files}.csv"
    if not path.exists():
        table = pa.concat_tables(pq.read_table(one) for one in given.paths)
        without_zones = [
            pa.field(one.name, pa.timestamp("us") if pa.types.is_timestamp(one.type) else one.type)
            for one in table.schema
        ]
        csv.write_csv(table.cast(pa.schema(without_zones)), path, csv.WriteOptions(include_header=False))
    return path
