"""The upkeep of tables on S3: by the store and the credentials that boto3 finds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from moto.server import ThreadedMotoServer

from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.framework.engine.sink.library_table import LibraryTable
from panekeeper.recovery.storage.delta_tables import delta_options
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.recovery.storage.s3 import S3Files, S3Options
from panekeeper.recovery.upkeep.maintain import maintain
from tests.fake_checkpoint import SECRET, FakeCheckpoint
from tests.recovery.upkeep.conftest import SCHEMA


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket of an S3 in this process, found as boto3 finds it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name in [one for one in os.environ if one.startswith("AWS_") or one.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    boto3.client("s3").create_bucket(Bucket="bucket")
    yield "s3a://bucket"
    server.stop()


def test_tables_on_s3_are_vacuumed_and_compacted_only_while_no_job_runs(store: str) -> None:
    """Two commits of Spark and of a job might both win there; files are removed without a commit."""
    job = FakeCheckpoint(f"{store}/jobs/checkpoint").run(3)
    table, options = f"{store}/jobs/log", delta_options(S3Files.at(f"{store}/jobs/log", S3Options()))
    job.tables(log=table)
    DeltaTable.create(table, schema=SCHEMA, storage_options=options)
    for number in range(2):
        rows = pa.table({"sensor": ["a"], "n": [number]}, schema=SCHEMA)
        LibraryTable(table, options).append(rows, "readings/log@0123456789ab#0", number)
    job.lease(pid=os.getpid())
    (done,) = maintain(job.root).tables
    assert "take a stopped job" in (done.problem or "")
    assert (done.compacted, done.removed) == (0, 0)
    rows = DeltaTable(table, storage_options=options).to_pyarrow_table()
    write_deltalake(table, rows, mode="overwrite", storage_options=options)
    job.lease(pid=2**22 + 1)
    (done,) = maintain(job.root, retain=0, allow_short_retention=True).tables
    assert (done.problem, done.compacted, done.removed) == (None, 0, 2)
    assert DeltaTable(table, storage_options=options).to_pyarrow_table().num_rows == 2


def test_a_table_whose_objects_are_encrypted_by_a_key_is_left_to_spark(store: str) -> None:
    """As small commits to it are; an endpoint that was given counts more than that of the environment."""
    with pytest.raises(UnsupportedTable, match="encrypted by aws:kms"):
        delta_options(S3Files.at(f"{store}/log", S3Options(encryption="aws:kms")))
    assert (
        delta_options(S3Files.at(f"{store}/log", S3Options(endpoint="http://other:1")))["aws_endpoint"]
        == "http://other:1"
    )
    assert delta_options(LocalFiles(Path("/data/log"))) == {}
