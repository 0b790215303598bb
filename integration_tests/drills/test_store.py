"""The S3 store of drills fails and is slow as requested, and an archive works with it."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration_tests.drills.faults.faulty_s3 import BUCKET, CREDENTIALS, FaultyStore
from panekeeper.recovery.storage.locations import open_archive
from panekeeper.recovery.storage.s3 import S3Options


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStore]:
    """A store that works at first."""
    for name, value in (CREDENTIALS | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}).items():
        monkeypatch.setenv(name, value)
    made = FaultyStore()
    yield made
    made.close()


def test_an_archive_retries_until_a_failing_store_works_again(store: FaultyStore, tmp_path: Path) -> None:
    """Some requests are refused, and the archive reads back what it wrote."""
    archive = open_archive(f"s3://{BUCKET}/some", S3Options(endpoint=store.endpoint))
    store.set_mode("fails", seconds=0.5)
    path = tmp_path / "file"
    for number in range(10):
        path.write_bytes(bytes([number]) * 1000)
        archive.put_file(f"file-{number}", path)
    assert store.refused > 0
    assert archive.sizes() == {f"file-{number}": 1000 for number in range(10)}
    into = io.BytesIO()
    archive.get("file-7", into)
    assert into.getvalue() == bytes([7]) * 1000
    assert archive.exists("file-1")
    assert not archive.exists("file-99")


def test_a_slow_store_delays_each_response(store: FaultyStore) -> None:
    """One request takes more than 0.2 s."""
    archive = open_archive(f"s3://{BUCKET}/some", S3Options(endpoint=store.endpoint))
    archive.put_bytes("one", b"1")
    store.set_mode("slow")
    began = time.monotonic()
    archive.put_bytes("two", b"2")
    assert time.monotonic() - began > 0.2
