"""Savepoints in S3, by boto3 against moto's server: a real HTTP endpoint in a thread of this process."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
from moto.server import ThreadedMotoServer

from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main
from panekeeper.recovery.errors import (
    ArchiveDenied,
    ArchiveError,
    ArchiveNotFound,
    ArchiveUnreachable,
    DamagedSavepoint,
)
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import prune, savepoints, verify
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.locations import open_archive
from panekeeper.recovery.storage.s3 import S3Options
from tests.fake_checkpoint import FakeCheckpoint, savepoint

SECRET = "wJalrXUtnFEMI"  # noqa: S105 -- moto takes any
PART = 5 * 1024 * 1024


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The URL of an S3 that lives in this process."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What boto3 finds in the environment; no proxy between here and the server."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def s3(endpoint: str) -> Any:
    """A client of the test's own, and an empty bucket."""
    urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")).close()  # noqa: S310 -- our own server
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="bucket")
    return client


@pytest.fixture
def options(endpoint: str) -> S3Options:
    """How the server is reached; parts as small as S3 permits."""
    return S3Options(endpoint=endpoint, part_size=PART)


@pytest.fixture
def archive(s3: Any, options: S3Options) -> Archive:  # noqa: ARG001 -- the bucket must be there
    """An archive under a prefix of the bucket."""
    return open_archive("s3://bucket/some/where/", options)


@pytest.fixture
def job(tmp_path: Path) -> FakeCheckpoint:
    """A job that did three batches and was stopped."""
    return FakeCheckpoint(tmp_path / "checkpoint").run(3)


def test_a_savepoint_in_s3_is_made_listed_verified_and_restored(
    job: FakeCheckpoint, archive: Archive, tmp_path: Path
) -> None:
    """As in a folder; a second one sends only what is new."""
    first = savepoint(job.folder, "one", to=archive)
    before = job.contents()
    second = savepoint(job.run().folder, "two", to=archive)
    assert first.location == "s3://bucket/some/where"
    assert second.bytes_reused == first.bytes_sent
    assert list(savepoints(archive)) == ["one", "two"]
    assert verify(archive, "one").files == len(before)
    restore(archive, "one", checkpoint=tmp_path / "other")
    assert (tmp_path / "other/epochs/0001/offsets/2").read_text() == before["offsets/2"]
    assert prune(archive, keep=1).removed == ("one",)
    verify(archive, "two")


def test_a_large_file_goes_in_parts_and_comes_back_whole(archive: Archive, s3: Any, tmp_path: Path) -> None:
    """Its checksum is that of the file."""
    data = os.urandom(PART * 2 + 17)
    (tmp_path / "large").write_bytes(data)
    archive.put_file("blobs/large", tmp_path / "large")
    tag = s3.head_object(Bucket="bucket", Key="some/where/blobs/large")["ETag"]
    assert tag.strip('"').endswith("-3")
    back = io.BytesIO()
    archive.get("blobs/large", back)
    assert hashlib.sha256(back.getvalue()).digest() == hashlib.sha256(data).digest()


def test_more_files_than_one_page_of_a_listing_are_all_seen(archive: Archive) -> None:
    """S3 lists a thousand at a time."""
    for number in range(1003):
        archive.put_bytes(f"blobs/{number:04d}", b"")
    assert len(archive.sizes("blobs/")) == 1003
    assert archive.sizes("savepoints/") == {}


def test_files_are_encrypted_as_the_options_say(s3: Any, endpoint: str, tmp_path: Path) -> None:
    """Blobs and manifests alike."""
    archive = open_archive("s3://bucket", S3Options(endpoint=endpoint, encryption="aws:kms", kms_key="key-1"))
    (tmp_path / "file").write_text("x")
    archive.put_file("file", tmp_path / "file")
    archive.put_bytes("bytes", b"x")
    for key in ("file", "bytes"):
        head = s3.head_object(Bucket="bucket", Key=key)
        assert (head["ServerSideEncryption"], "key-1" in head["SSEKMSKeyId"]) == ("aws:kms", True)


def test_an_altered_object_is_found(job: FakeCheckpoint, archive: Archive, s3: Any) -> None:
    """Also if its size is right."""
    made = savepoint(job.folder, "one", to=archive)
    file = next(file for file in made.manifest.files if file.path == "metadata")
    s3.put_object(Bucket="bucket", Key=f"some/where/{file.blob}", Body=b"?" * file.size)
    with pytest.raises(DamagedSavepoint, match=file.path):
        verify(archive, "one")


@pytest.mark.usefixtures("s3")
def test_a_missing_bucket_is_reported(job: FakeCheckpoint, options: S3Options) -> None:
    """When a file is stored, listed or read."""
    missing = open_archive("s3://nowhere/x", options)
    with pytest.raises(ArchiveNotFound, match="there is no bucket 'nowhere'"):
        savepoint(job.folder, "one", to=missing)
    with pytest.raises(ArchiveNotFound, match="bucket 'nowhere'"):
        savepoints(missing)
    with pytest.raises(ArchiveNotFound, match="bucket 'nowhere'"):
        missing.put_file("x", job.folder / "job.json")


def test_missing_credentials_are_reported(archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With what to set up."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    boto3.setup_default_session()
    with pytest.raises(ArchiveDenied, match="refuses the credentials, or there are none"):
        archive.sizes()


def test_refused_permissions_are_reported_without_any_secret(archive: Archive, endpoint: str, tmp_path: Path) -> None:
    """The server checks permissions from now on, and these credentials have none."""
    path = tmp_path / "file"
    path.write_text("x")
    _check_permissions(endpoint, after=0)
    try:
        for act in (
            archive.sizes,
            lambda: archive.put_bytes("x", b"x"),
            lambda: archive.put_file("x", path),
            lambda: archive.exists("x"),
        ):
            with pytest.raises(ArchiveDenied) as refused:
                act()
            assert SECRET not in str(refused.value)
            assert "AKIATEST" not in str(refused.value)
    finally:
        _check_permissions(endpoint, after=10**9)


def _check_permissions(endpoint: str, *, after: int) -> None:
    """Let the server check permissions after a number of calls."""
    headers = {"Content-Type": "text/plain"}
    request = Request(f"{endpoint}/moto-api/reset-auth", data=str(after).encode(), headers=headers, method="POST")  # noqa: S310 -- ours
    urlopen(request).close()  # noqa: S310 -- as above


def test_an_endpoint_that_does_not_respond_is_reported_without_its_password() -> None:
    """A port that nothing listens on, and what is no URL."""
    dead = open_archive("s3://bucket", S3Options(endpoint="http://me:hunter2@127.0.0.1:9", attempts=1))
    with pytest.raises(ArchiveUnreachable, match=r"does not respond at http://127.0.0.1:9") as refused:
        dead.sizes()
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ArchiveUnreachable, match="is no URL"):
        open_archive("s3://bucket", S3Options(endpoint="nonsense")).sizes()


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not installed by default."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ArchiveError, match=r"pip install 'panekeeper\[s3\]'"):
        open_archive("s3://bucket")


def test_the_command_reaches_another_store(
    job: FakeCheckpoint, s3: Any, endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By options; an error is one line."""
    reach = ["--s3-endpoint", endpoint, "--s3-encryption", "AES256", "--json"]
    assert main(["savepoint", str(job.folder), "one", "--to", "s3://bucket/p", "--no-decode", *reach]) == 0
    assert json.loads(capsys.readouterr().out)["location"] == "s3://bucket/p"
    assert s3.head_object(Bucket="bucket", Key="p/savepoints/one.json")["ServerSideEncryption"] == "AES256"
    assert main(["savepoints", "s3://nowhere", "--s3-endpoint", endpoint]) == ExitCode.FAILED
    assert len(capsys.readouterr().err.splitlines()) == 1
