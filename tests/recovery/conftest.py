"""A checkpoint folder as Spark leaves it, made without Spark, and an archive that remembers what it was told."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from framework.engine.holder import RUNNING_FILE
from framework.engine.process import started_at
from recovery.archive import Sink
from state.job_record import JOB_FILE, TABLES_FILE, JobRecord


class FakeCheckpoint:
    """The checkpoint of a stopped job: two state partitions, a file source and the pulse. It writes no tables."""

    def __init__(self, folder: Path, *, job: str = "readings", job_id: str = "0123456789ab") -> None:
        self.folder = folder
        self.batch = -1
        self.beats = 0
        record = JobRecord(
            name=job,
            id=job_id,
            declaration={"window.kind": "timeInterval"},
            group_ids=(3, 1),
            versions={"pyspark": "4.2.0"},
        )
        self.put(JOB_FILE, json.dumps(record.to_json()))
        self.put("metadata", '{"id":"d67f7f72-a27a-4b4f-b54b-ae80d426c863"}')
        self.put("state/0/_metadata/v2/0", f'v2\n{{"paths":["file:{folder}/state/0/_stateSchema/default/0_x"]}}')
        self.put("state/0/_stateSchema/default/0_x", "schema")
        self.beat(1)

    def put(self, path: str, text: str) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def lease(self, *, pid: int, host: str | None = None) -> None:
        """Let a process hold the lease."""
        said = {"name": "readings", "host": host or socket.gethostname(), "pid": pid, "started": started_at(pid)}
        self.put(RUNNING_FILE, json.dumps({**said, "token": "t", "since": 0, "seen": 0}))

    def tables(self, **paths: str | None) -> None:
        self.put(TABLES_FILE, json.dumps(paths))

    def beat(self, number: int) -> None:
        """Let the next batch read a beat, which is written now unless it was before."""
        name = f"{number:012d}.json"
        self.beats = number
        if not (self.folder / "pulse" / name).exists():
            self.put(f"pulse/{name}", f'{{"kind": "tick", "us": 0, "number": {number}}}')
        self.put(
            f"sources/1/{number - 1}", f'v1\n{{"path":"file://{self.folder}/pulse/{name}","batchId":{number - 1}}}'
        )

    def begin(self) -> None:
        """Log the offsets of the next batch, and let its state be written."""
        number = self.batch + 1
        settings = json.dumps({"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": "2"}})
        self.put(f"sources/0/{number}", f'v1\n{{"path":"file:///in/{number}.json"}}')
        self.put(f"offsets/{number}", f'v1\n{settings}\n{{"logOffset":{number}}}\n{{"logOffset":{self.beats - 1}}}')
        for partition in (0, 1):
            self.put(f"state/0/{partition}/{number + 1}_u{number}.changelog", f"{number} of {partition} " * 20)

    def run(self, batches: int = 1) -> FakeCheckpoint:
        """Do whole batches."""
        for _ in range(batches):
            self.begin()
            self.batch += 1
            self.put(f"commits/{self.batch}", 'v2\n{"nextBatchWatermarkMs":0}')
        return self

    def contents(self) -> dict[str, str]:
        """Path -> text of all that is there."""
        return {
            path.relative_to(self.folder).as_posix(): path.read_text()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


class MemoryArchive:
    """An archive in a dictionary."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.puts: list[str] = []

    @property
    def location(self) -> str:
        return "memory"

    def put_file(self, name: str, path: Path) -> None:
        self.put_bytes(name, path.read_bytes())

    def put_bytes(self, name: str, data: bytes) -> None:
        self.puts.append(name)
        self.files[name] = data

    def get(self, name: str, into: Sink) -> None:
        into.write(self.files[name])

    def sizes(self, prefix: str = "") -> dict[str, int]:
        return {name: len(data) for name, data in sorted(self.files.items()) if name.startswith(prefix)}

    def exists(self, name: str) -> bool:
        return name in self.files

    def delete(self, name: str) -> None:
        self.files.pop(name, None)


@pytest.fixture
def job(tmp_path: Path) -> FakeCheckpoint:
    """A job that did three batches and was stopped."""
    return FakeCheckpoint(tmp_path / "checkpoint").run(3)


@pytest.fixture
def archive() -> MemoryArchive:
    """An empty archive."""
    return MemoryArchive()
