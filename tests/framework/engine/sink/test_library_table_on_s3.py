"""Small commits to tables on S3: conditional writes decide who was first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from moto.server import ThreadedMotoServer

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.sink.library_rules import UnreachableTable, UnsupportedTable, storage_options
from panekeeper.framework.engine.sink.library_table import FENCED, LibraryTable

SCHEMA = pa.schema([("sensor", pa.string()), ("firing", pa.int64())])


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch, conditional_writes: None) -> Iterator[dict[str, str]]:  # noqa: ARG001 -- what it needs
    """The library's options for an S3 in this process, which has a bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name in [one for one in os.environ if one.startswith("AWS_") or one.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    settings = {
        "endpoint": f"http://{host}:{port}",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": "AKIATEST",
        "secret.key": "wJalrXUtnFEMI",
    }
    found = storage_options(settings)
    client_of(found).create_bucket(Bucket="bucket")
    yield found
    server.stop()


def client_of(options: dict[str, str]) -> Any:
    """What changes its objects behind the library's back."""
    return boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint"],
        region_name="us-east-1",
        aws_access_key_id="AKIATEST",
        aws_secret_access_key="wJalrXUtnFEMI",  # noqa: S106 -- moto takes any
    )


def rows(sensor: str, firing: int) -> pa.Table:
    """One row."""
    return pa.table({"sensor": [sensor], "firing": [firing]}, schema=SCHEMA)


def test_two_processes_commit_side_by_side_and_each_batch_once(options: dict[str, str]) -> None:
    """Appends and merges; a repeat is skipped, and a fenced epoch ends with an error, as on a local disk."""
    url = "s3a://bucket/tables/log"
    DeltaTable.create(url, schema=SCHEMA, storage_options=options, configuration={"delta.checkpointInterval": "4"})
    one, two = LibraryTable(url, options), LibraryTable(url, options, sleep=lambda _: None)
    assert two.append(rows("a", 0), "job one", 0)
    assert one.append(rows("b", 0), "job two", 0)
    assert one.append(rows("c", 0), "job one", 1)
    assert not two.append(rows("c", 0), "job one", 1)
    assert two.merge(rows("a", 7), "job one", 2, keys=["sensor"], newer_by="firing")
    assert one.merge(rows("b", 8), "job two", 1, keys=["sensor"], newer_by="firing")
    found = DeltaTable(url, storage_options=options).to_pyarrow_table().sort_by("sensor")
    assert found.to_pylist() == [
        {"sensor": "a", "firing": 7},
        {"sensor": "b", "firing": 8},
        {"sensor": "c", "firing": 0},
    ]
    LibraryTable(url, options).note({"job one": FENCED})
    with pytest.raises(SinkError):
        two.append(rows("d", 0), "job one", 3)


def test_a_store_that_is_away_is_no_table_that_the_library_cannot_write(options: dict[str, str]) -> None:
    """It may be back for the next batch. What it refuses, or does not have, it refuses and lacks then, too."""
    url = "s3a://bucket/tables/away"
    DeltaTable.create(url, schema=SCHEMA, storage_options=options)
    with pytest.raises(UnreachableTable, match=r"Generic S3 error .* after 10 retries.* Connection refused"):
        LibraryTable(url, options | {"aws_endpoint": "http://127.0.0.1:9"})
    with pytest.raises(UnsupportedTable) as error:
        LibraryTable("s3a://other/tables/quarantine", options)
    assert not isinstance(error.value, UnreachableTable)


def test_a_table_that_is_replaced_on_s3_while_a_job_has_it_open_gets_no_batch(options: dict[str, str]) -> None:
    """An older copy lacks batches, another table all: the lower version is no writer that came first (A6)."""
    client, waited = client_of(options), list[float]()
    for name in ("older", "view", "other", "later"):
        url, log = f"s3a://bucket/{name}", f"{name}/_delta_log"
        DeltaTable.create(url, schema=SCHEMA, storage_options=options)
        kept = LibraryTable(url, options, sleep=waited.append)
        for batch in range(4):
            assert kept.append(rows("a", batch), "job", batch)
        if name == "later":  # it was opened again since, as it is now and then
            kept.reopen()
        for version in (3, 4) if name != "other" else range(5):
            client.delete_object(Bucket="bucket", Key=f"{log}/{version:020d}.json")
        if name == "other":
            DeltaTable.create(url, schema=SCHEMA, storage_options=options)
        before = DeltaTable(url, storage_options=options).version()
        why = r"its id is \S+, not" if name == "other" else "version 2 is its newest, and version 4 was written to it"
        act = partial(kept.merge, keys=["sensor"], newer_by="firing") if name == "view" else kept.append
        with pytest.raises(SinkError, match=rf"was replaced .*while the job ran: {why}"):
            act(rows("b", 4), "job", 4)
        assert DeltaTable(url, storage_options=options).version() == before
    assert waited == []


def test_an_older_copy_to_which_others_have_committed_since_gets_no_batch(options: dict[str, str]) -> None:
    """Its version is no lower when the job looks again; the newest batch that it has is (A6)."""
    url = "s3a://bucket/copied"
    DeltaTable.create(url, schema=SCHEMA, storage_options=options)
    kept, other = (LibraryTable(url, options, sleep=lambda _: None) for _ in range(2))
    for batch in range(4):
        assert kept.append(rows("a", batch), "job", batch)
    kept.reopen()
    for version in (3, 4):
        client_of(options).delete_object(Bucket="bucket", Key=f"copied/_delta_log/{version:020d}.json")
    for batch in range(3):
        other.append(rows("b", batch), "another program", batch)
    with pytest.raises(SinkError, match="batch 1 is its newest of this job, and batch 3 was written to it"):
        kept.append(rows("b", 4), "job", 4)


def test_a_batch_on_s3_pays_nothing_for_the_look_at_its_table(options: dict[str, str]) -> None:
    """A table that nobody has replaced is not opened again, nor is anything of it read twice."""
    url = "s3a://bucket/kept"
    DeltaTable.create(url, schema=SCHEMA, storage_options=options, configuration={"delta.checkpointInterval": "100"})
    kept, id_ = LibraryTable(url, options), str(DeltaTable(url, storage_options=options).metadata().id)
    opened = kept._open
    for batch in range(4):
        kept.require_as_recorded(id_, "job", batch - 1)
        assert kept.append(rows("a", batch), "job", batch)
    assert kept._open is opened
