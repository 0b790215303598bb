"""The rules of an archive, on a disk, on S3 and in memory; and how a location names it."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from panekeeper.recovery.errors import ArchiveError
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import prune, savepoints, show, verify
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.locations import open_archive
from tests.fake_checkpoint import savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

if TYPE_CHECKING:
    from tests.fake_checkpoint import FakeCheckpoint


@pytest.fixture(params=["disk", "s3", "memory"])
def any_archive(request: pytest.FixtureRequest, tmp_path: Path) -> Archive:
    """An empty archive of each kind."""
    if request.param == "memory":
        return MemoryArchive()
    return open_archive(tmp_path if request.param == "disk" else f"{request.getfixturevalue('bucket')}/saved")


def content(archive: Archive, name: str) -> bytes:
    """The bytes of a stored file."""
    into = io.BytesIO()
    archive.get(name, into)
    return into.getvalue()


def test_a_stored_file_is_found_and_can_be_replaced(any_archive: Archive, tmp_path: Path) -> None:
    """By every method, and under a name with folders in it."""
    (tmp_path / "local").write_bytes(b"from a file")
    any_archive.put_file("blobs/a", tmp_path / "local")
    any_archive.put_bytes("blobs/a", b"new")
    any_archive.put_bytes("blobs/deep/b", b"")
    assert content(any_archive, "blobs/a") == b"new"
    assert any_archive.sizes("blobs/") == {"blobs/a": 3, "blobs/deep/b": 0}
    assert any_archive.sizes("blobs/d") == {"blobs/deep/b": 0}
    assert any_archive.exists("blobs/a")


def test_a_file_that_is_not_there_is_reported_as_such(any_archive: Archive) -> None:
    """Reading it fails, removing it does nothing."""
    with pytest.raises(FileNotFoundError):
        content(any_archive, "blobs/none")
    any_archive.remove("blobs/none")
    assert not any_archive.exists("blobs/none")
    assert any_archive.sizes() == {}


def test_a_removed_file_is_gone_and_its_name_is_free(any_archive: Archive) -> None:
    """For `put_new`, too."""
    any_archive.put_new("savepoints/a.json", b"1")
    any_archive.remove("savepoints/a.json")
    any_archive.put_new("savepoints/a.json", b"2")
    assert content(any_archive, "savepoints/a.json") == b"2"


def test_of_two_that_create_the_same_file_one_succeeds(any_archive: Archive) -> None:
    """The content is that of the one that did."""

    def create(data: bytes) -> bytes | None:
        try:
            any_archive.put_new("savepoints/a.json", data)
        except FileExistsError:
            return None
        return data

    with ThreadPoolExecutor(4) as pool:
        created = [data for data in pool.map(create, (b"1", b"2", b"3", b"4")) if data is not None]
    assert created == [content(any_archive, "savepoints/a.json")]


def test_savepoints_live_in_any_archive(job: FakeCheckpoint) -> None:
    """Made, listed, verified, restored and pruned there, by the methods of an archive alone."""
    archive, before = MemoryArchive(), job.contents()
    savepoint(job.folder, "one", to=archive)
    savepoint(job.run().folder, "two", to=archive)
    assert list(savepoints(archive)) == ["one", "two"]
    assert verify(archive, "one").files == len(show(archive, "one").files)
    assert restore(archive, "one").forgotten == (3, 3)
    assert set(job.contents()) == set(before)
    assert prune(archive, keep=1).removed == ("one",)


def test_a_tilde_that_no_shell_has_expanded_is_refused() -> None:
    """As in `--to=~/savepoints`: it would be a folder of that name."""
    with pytest.raises(ArchiveError, match=f"write {Path.home()}/savepoints"):
        open_archive("~/savepoints")


def test_a_place_where_no_savepoints_can_be_is_refused() -> None:
    """Only Spark reaches it."""
    with pytest.raises(ArchiveError, match=r"cannot be kept in gs://\.\.\.; use a local folder or s3://bucket/prefix"):
        open_archive("gs://bucket/savepoints")
