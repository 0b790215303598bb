"""A savepoint's name is given once, also to concurrent savepoints, and is no path to another place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from panekeeper.recovery.errors import ArchiveError, SavepointRefused
from panekeeper.recovery.savepoint.catalog import show
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.blobs import TransferProgress
from panekeeper.recovery.storage.files import LocalFiles
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive


def test_a_name_is_given_once(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """A savepoint is never overwritten."""
    savepoint(job.folder, "one", to=archive)
    with pytest.raises(SavepointRefused, match="'one' in memory://test already"):
        savepoint(job.folder, "one", to=archive)


def test_of_two_savepoints_of_one_name_made_at_the_same_time_the_first_stays(stored_job: FakeCheckpoint) -> None:
    """The second one is refused, on a disk and on S3."""
    location = f"{stored_job.root}-savepoints"
    other = FakeCheckpoint(f"{stored_job.root}-other").run()
    made: list[Manifest] = []

    def meanwhile(_: TransferProgress) -> None:
        if not made:
            made.append(savepoint(other.root, "one", to=location).manifest)

    with pytest.raises(SavepointRefused, match=r"there is a savepoint 'one' in .* already"):
        savepoint(stored_job.root, "one", to=location, progress=meanwhile)
    assert show(location, "one") == made[0]


def test_a_manifest_that_was_stored_by_a_call_that_failed_is_not_taken_for_anothers(job: FakeCheckpoint) -> None:
    """The call is tried again, and the store reports that the file is there."""

    class Stuttering(MemoryArchive):
        def put_new(self, name: str, data: bytes) -> None:
            super().put_new(name, data)
            super().put_new(name, data)

    archive = Stuttering()
    made = savepoint(job.folder, "one", to=archive)
    assert show(archive, "one") == made.manifest


def test_a_new_file_is_created_on_disks_without_links_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and with nothing left beside it; a file where its folder should be is another error."""
    files = LocalFiles(tmp_path)
    files.put_new("a/one", b"1")

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    files.put_new("a/two", b"2")
    for name in ("a/one", "a/two"):
        with pytest.raises(FileExistsError, match=f"{name} in {tmp_path} is already there"):
            files.put_new(name, b"3")
    assert {path.name: path.read_text() for path in (tmp_path / "a").iterdir()} == {"one": "1", "two": "2"}
    with pytest.raises(ArchiveError, match="cannot be used"):
        files.put_new("a/one/three", b"3")


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "ü", "x" * 101])
def test_a_name_that_could_lead_elsewhere_is_refused(job: FakeCheckpoint, archive: MemoryArchive, name: str) -> None:
    """Letters, digits, dots, underscores and dashes only."""
    with pytest.raises(SavepointRefused, match="cannot be the name of a savepoint"):
        savepoint(job.folder, name, to=archive)
