"""A job with real Delta tables, made without Spark, and the passage of time in their logs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from panekeeper.framework.engine.sink.library_table import LibraryTable
from panekeeper.recovery.savepoint.manifest import Manifest
from tests.fake_checkpoint import FakeCheckpoint, savepoint

SCHEMA = pa.schema([("sensor", pa.string()), ("n", pa.int64())])
_DAY_MS = 86_400_000
_TIMES = ("deletionTimestamp", "modificationTime", "timestamp")


class JobWithTable:
    """A stopped job of three batches, whose log is a Delta table; each append is a file of one row."""

    def __init__(self, folder: Path) -> None:
        self.table = folder / "log"
        self.location = folder / "savepoints"
        self.checkpoint = FakeCheckpoint(folder / "checkpoint").run(3)
        self.checkpoint.tables(log=str(self.table))
        DeltaTable.create(self.table, schema=SCHEMA, configuration={"delta.checkpointInterval": "100"})
        self.appended = 0

    @property
    def root(self) -> str:
        return self.checkpoint.root

    def append(self, times: int = 1, *, to_the_table_only: bool = False) -> None:
        """Commit batches of one row each; or only to the table, as those that the checkpoint does not have."""
        for number in range(self.appended, self.appended + times):
            rows = pa.table({"sensor": ["a"], "n": [number]}, schema=SCHEMA)
            if number > self.checkpoint.batch and not to_the_table_only:
                self.checkpoint.run()
            assert LibraryTable(str(self.table)).append(rows, "readings/log@0123456789ab#0", number)
        self.appended += times

    def compact(self) -> None:
        """Replace all files by one, with the same rows."""
        write_deltalake(self.table, DeltaTable(self.table).to_pyarrow_table(), mode="overwrite")

    def save(self, name: str) -> Manifest:
        return savepoint(self.root, name, to=self.location).manifest

    def rows(self, version: int | None = None) -> list[int]:
        """The rows of a version, all files of which must be there."""
        return sorted(DeltaTable(self.table, version=version).to_pyarrow_table().column("n").to_pylist())

    def files(self) -> set[str]:
        """The Parquet files that are there, in whatever version they are."""
        return {path.name for path in self.table.glob("*.parquet")}

    def contents(self) -> dict[str, bytes]:
        """Everything in the table's folder."""
        return {str(path): path.read_bytes() for path in self.table.rglob("*") if path.is_file()}

    def age(self, days: int) -> None:
        """Let everything that was done with the table have been done so many days earlier."""
        for path in self.table.glob("_delta_log/*.json"):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for action in (action for line in lines for action in line.values()):
                for name in set(_TIMES) & set(action):
                    action[name] -= days * _DAY_MS
            path.write_text("\n".join(map(json.dumps, lines)))
        for path in self.table.glob("*.parquet"):
            at = path.stat().st_mtime - days * _DAY_MS / 1000
            os.utime(path, (at, at))


@pytest.fixture
def tabled(tmp_path: Path) -> JobWithTable:
    """A job whose table has no row yet."""
    return JobWithTable(tmp_path)
