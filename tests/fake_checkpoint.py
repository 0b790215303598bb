"""A checkpoint as Spark leaves it, made without Spark, on a disk or on S3."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from panekeeper.recovery.savepoint.create import savepoint as savepoint_of_any
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import files_at
from panekeeper.state.checkpoint.epochs import (
    BEGIN_FILE,
    Pointer,
    create_pointer,
    epoch_folder,
    epoch_numbers,
    stored_pointer,
)
from panekeeper.state.checkpoint.folder import JOB_FILE, PREPARED_FOLDER, RUNNING_FILE, SAVEPOINT_FILE, TABLES_FILE
from panekeeper.state.checkpoint.job_record import JobRecord
from panekeeper.state.checkpoint.lease_owner import started_at
from tests.recovery.storage.memory_archive import MemoryArchive
from tests.state.test_spark_logs import STATE_SCHEMA

savepoint = partial(savepoint_of_any, decode=False)
"""A fake's state holds nothing that Spark could decode."""


class FakeCheckpoint:
    """The checkpoint of a stopped job without tables: two shuffle partitions, a file source, the control stream."""

    def __init__(self, root: Path | str, *, job: str = "readings", job_id: str = "0123456789ab") -> None:
        self.root = str(root)
        top = files_at(root)
        assert top is not None
        self.top = top
        self.url = self.files.place if "://" in self.files.place else f"file://{self.files.place}"
        self.batch = -1
        self.control_files = 0
        record = JobRecord(
            name=job,
            id=job_id,
            declaration={"window.kind": "timeInterval"},
            group_ids=(3, 1),
            versions={"pyspark": "4.2.0"},
        )
        self.put(JOB_FILE, json.dumps(record.to_json()))
        create_pointer(top, Pointer(name=job, id=job_id, epoch=0))
        self.put("metadata", '{"id":"d67f7f72-a27a-4b4f-b54b-ae80d426c863"}')
        short = self.url.replace("file://", "file:")  # as Spark spells it there
        self.put("state/0/_metadata/v2/0", f'v2\n{{"paths":["{short}/state/0/_stateSchema/default/0_x"]}}')
        self.put("state/0/_stateSchema/default/0_x", STATE_SCHEMA)
        self.write_control_file(1)

    @property
    def files(self) -> Files:
        """The folder of its current epoch."""
        pointer = stored_pointer(self.top)
        return epoch_folder(self.top, 0 if pointer is None else pointer.epoch)

    @property
    def folder(self) -> Path:
        """Where it is, on a local disk."""
        return Path(self.root)

    @property
    def epochs(self) -> list[int]:
        """The epochs that have a folder."""
        return epoch_numbers(self.top)

    def put(self, path: str, text: str) -> None:
        self.files.put_bytes(path, text.encode())

    def lease(self, *, pid: int, host: str | None = None) -> None:
        """Let a process be the owner of the lease."""
        owner = {"name": "readings", "host": host or socket.gethostname(), "pid": pid, "started": started_at(pid)}
        self.put(RUNNING_FILE, json.dumps({**owner, "token": "t", "since": 0, "seen": 0}))

    def tables(self, **paths: str | None) -> None:
        self.put(TABLES_FILE, json.dumps(paths))

    def write_control_file(self, number: int) -> None:
        """Let the next batch read a control file, which is written now unless it is there."""
        name = f"{number:012d}.json"
        self.control_files = number
        if not self.files.exists(f"pulse/{name}"):
            self.put(f"pulse/{name}", f'{{"kind": "tick", "us": 0, "number": {number}}}')
        self.put(f"sources/1/{number - 1}", f'v1\n{{"path":"{self.url}/pulse/{name}","batchId":{number - 1}}}')

    def begin(self) -> None:
        """Log the offsets of the next batch, and let its state be written."""
        number = self.batch + 1
        settings = json.dumps(
            {"batchWatermarkMs": 0, "batchTimestampMs": 1000 + number, "conf": {"spark.sql.shuffle.partitions": "2"}}
        )
        self.put(f"sources/0/{number}", f'v1\n{{"path":"file:///in/{number}.json"}}')
        self.put(
            f"offsets/{number}", f'v1\n{settings}\n{{"logOffset":{number}}}\n{{"logOffset":{self.control_files - 1}}}'
        )
        for partition in (0, 1):
            self.put(f"state/0/{partition}/{number + 1}_u{number}.changelog", f"{number} of {partition} " * 20)

    def run(self, batches: int = 1) -> FakeCheckpoint:
        """Commit batches."""
        for _ in range(batches):
            self.begin()
            self.batch += 1
            self.put(f"commits/{self.batch}", 'v2\n{"nextBatchWatermarkMs":0}')
        return self

    @staticmethod
    def at(root: Path | str) -> FakeCheckpoint:
        """Return one that is there already."""
        found = object.__new__(FakeCheckpoint)
        top = files_at(root)
        assert top is not None
        found.root, found.top = str(root), top
        return found

    def contents(self, epoch: int | None = None) -> dict[str, str]:
        """Path -> text of all that is in an epoch, but for the notes that a savepoint and a restore leave."""
        files = self.files if epoch is None else epoch_folder(self.top, epoch)
        notes = {SAVEPOINT_FILE, BEGIN_FILE}
        names = [name for name in files.sizes() if name not in notes and not name.startswith(PREPARED_FOLDER)]
        here = files.place.encode()  # Spark's files have the name of the epoch's folder
        return {name: files.read(name).replace(here, b"HERE").decode() for name in names}


SECRET = "wJalrXUtnFEMI"  # noqa: S105 -- moto takes any


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, conditional_writes: None) -> Iterator[str]:  # noqa: ARG001 -- what it needs
    """The URL of an empty bucket of an S3 in this process."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    import boto3
    from moto import mock_aws

    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="bucket")
        yield "s3a://bucket"


@pytest.fixture(params=["disk", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty folder: once on a disk, once on S3."""
    return str(tmp_path) if request.param == "disk" else f"{request.getfixturevalue('bucket')}/jobs"


@pytest.fixture
def job(tmp_path: Path) -> FakeCheckpoint:
    """A job that committed three batches and was stopped."""
    return FakeCheckpoint(tmp_path / "checkpoint").run(3)


@pytest.fixture
def stored_job(storage: str) -> FakeCheckpoint:
    """The same, on a disk and on S3."""
    return FakeCheckpoint(f"{storage}/checkpoint").run(3)


@pytest.fixture
def archive() -> MemoryArchive:
    """An empty archive."""
    return MemoryArchive()


@pytest.fixture(params=["", "-new"], ids=["to the same folder", "to another one"])
def target(stored_job: FakeCheckpoint, request: pytest.FixtureRequest) -> str:
    """Where a savepoint is restored to; the job runs where it was made."""
    return f"{stored_job.root}{request.param}"
