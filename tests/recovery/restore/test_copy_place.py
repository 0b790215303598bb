"""A restore writes its copy beside the checkpoint, to a folder that may be somebody else's by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.storage.locations import checkpoint_at
from panekeeper.state.checkpoint.layout import JOB_FILE
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.restore.test_restore import Killed, killed_at

if TYPE_CHECKING:
    from panekeeper.recovery.storage.blobs import TransferProgress
    from tests.recovery.storage.memory_archive import MemoryArchive


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_checkpoint_of_another_job_is_not_removed(
    stored_job: FakeCheckpoint, archive: MemoryArchive, *, dry_run: bool
) -> None:
    """Job `orders.incoming` beside job `orders`; nor one of the same name that runs."""
    savepoint(stored_job.root, "one", to=archive)
    other = FakeCheckpoint(f"{stored_job.root}.incoming", job="another").run(2)
    before = other.contents()
    with pytest.raises(SavepointRefused, match=r"incoming is there.* it is the checkpoint of job 'another'"):
        restore(archive, "one", dry_run=dry_run)
    assert other.contents() == before
    same = FakeCheckpoint(f"{stored_job.root}.incoming").run(2)
    same.lease(pid=1, host="elsewhere")
    with pytest.raises(SavepointRefused, match=r"incoming is there.* a job has run on it"):
        restore(archive, "one", dry_run=dry_run)
    assert same.files.exists(JOB_FILE)


@pytest.mark.parametrize(
    "file", ["2026-11-23.json", "_delta_log/00000000000000000000.json", "offsets/0", "state/x", f"{12 * 'a'}/x.csv"]
)
def test_a_folder_of_other_files_is_not_removed(stored_job: FakeCheckpoint, archive: MemoryArchive, file: str) -> None:
    """Files that are to be read, a table, a checkpoint of Spark's own."""
    savepoint(stored_job.root, "one", to=archive)
    folder = checkpoint_at(f"{stored_job.root}.incoming")
    folder.put_bytes(file, b"{}")
    with pytest.raises(SavepointRefused, match=r"is there.* it holds other files.* Move it"):
        restore(archive, "one")
    assert folder.read(file) == b"{}"
    folder.remove(file)
    restore(archive, "one")


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_checkpoint_with_other_files_in_its_folder_is_not_replaced(
    stored_job: FakeCheckpoint, archive: MemoryArchive, *, dry_run: bool
) -> None:
    """They would be removed with it: the files that the job reads, for example."""
    savepoint(stored_job.root, "one", to=archive)
    stored_job.put("in/1.json", "{}")
    with pytest.raises(SavepointRefused, match=r"holds more than the checkpoint \(in\).*move it to another place"):
        restore(archive, "one", dry_run=dry_run)
    assert stored_job.files.read("in/1.json") == b"{}"
    stored_job.files.remove("in/1.json")
    stored_job.files.child("in").clear()
    restore(archive, "one")


def test_a_part_of_a_copy_gives_way_whatever_it_lacks(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """A restore that was paused goes on to write its own copy, of which another one has removed what was there."""
    savepoint(stored_job.root, "one", to=archive)
    place = checkpoint_at(f"{stored_job.root}.incoming")
    place.put_bytes("0123456789ab/offsets/0", b"{}")
    restore(archive, "one")
    assert not place.sizes()


def test_what_a_restore_left_that_was_killed_gives_way_to_the_next_one(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """After any file of its copy, or with the whole of it: the first file says whose it is."""
    savepoint(stored_job.root, "one", to=archive)
    for files in range(1, 20, 4):
        left = files

        def kill(_: TransferProgress) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise Killed

        with pytest.raises(Killed):
            restore(archive, "one", progress=kill)
        copies = checkpoint_at(f"{stored_job.root}.incoming")
        assert [copies.child(one).exists(JOB_FILE) for one in copies.folders()] == [True]
    killed_at("copied", archive)
    restore(archive, "one")
    assert not checkpoint_at(f"{stored_job.root}.incoming").sizes()
