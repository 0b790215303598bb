"""A restore or a clone that was paused until another process took its place changes nothing more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from panekeeper import CheckpointInUse
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.restore.clone import clone
from panekeeper.recovery.restore.exclusive import begin, without_jobs
from panekeeper.recovery.restore.intent import STEPS, RestoreIntent, read_intent
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import show
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.job_record import read_record, write_record
from panekeeper.state.checkpoint.layout import CLAIMS_FOLDER, LOCK_FILE, RUNNING_FILE
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.restore.test_restore import killed_at
from tests.recovery.storage.memory_archive import MemoryArchive


def lose_lease(checkpoint: Files) -> None:
    """Let the claim of whoever holds the lease of a folder be gone, as once another has taken over: it may start.

    So is its lock, as for a host that does not see it.
    """
    checkpoint.remove(LOCK_FILE)
    for number in checkpoint.names(CLAIMS_FOLDER):
        checkpoint.remove(f"{CLAIMS_FOLDER}/{number}")
    checkpoint.remove(RUNNING_FILE)  # without a claim, no heartbeat writes it again


@pytest.mark.parametrize("step", STEPS)
def test_a_restore_that_another_one_has_completed_changes_nothing_more(
    stored_job: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """Whichever step it was at; a job runs by then, whose files and tables stay, and no intent is left."""
    savepoint(stored_job.root, "one", to=archive)
    stored_job.run(2)
    after: dict[str, str] = {}

    def paused(at: str) -> None:
        if at == step:
            lose_lease(RestorePaths(checkpoint=stored_job.files).lease_folder)
            if step == "intended":  # it holds that of the checkpoint, too
                lose_lease(stored_job.files)
            restore(archive, "one")
            stored_job.batch = 2
            after.update(stored_job.run(3).contents())

    with pytest.raises(CheckpointInUse, match=r"the restore of job 'readings' .*It changes nothing more"):
        restore(archive, "one", on_step=paused)
    assert stored_job.contents() == after
    assert stored_job.siblings() == ["checkpoint"]
    restore(archive, "one")
    assert stored_job.siblings() == ["checkpoint"]


def test_a_copy_among_which_others_have_written_is_made_again(
    stored_job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just when it had become the checkpoint. Offsets of another process would be taken for those of the next batch."""
    savepoint(stored_job.root, "one", to=archive)
    before = stored_job.contents()
    stored_job.run()
    move, paths = type(stored_job.files).move_to, RestorePaths(checkpoint=stored_job.files)

    def meanwhile(source: Files, target: Files, before_change: Callable[[], None]) -> None:
        move(source, target, before_change)
        if target.root == paths.folder.root:
            target.put_bytes("offsets/3", b"of a process that was paused")

    with monkeypatch.context() as patch:
        patch.setattr(type(stored_job.files), "move_to", meanwhile)
        with pytest.raises(SavepointRefused, match="files were written to"):
            restore(archive, "one")
    restore(archive, "one")
    assert stored_job.contents().keys() == before.keys()
    assert stored_job.siblings() == ["checkpoint"]


def test_a_restore_that_was_paused_does_not_write_to_the_copy_of_another_one(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """It looks at its lease again once it has written all of its copy."""
    savepoint(stored_job.root, "one", to=archive)
    one = stored_job.contents()
    savepoint(stored_job.run().root, "two", to=archive)
    paths = RestorePaths(checkpoint=stored_job.files)
    copies: list[dict[str, bytes]] = []

    def copy() -> dict[str, bytes]:
        intent = read_intent(paths)
        assert intent is not None
        files = paths.copy(intent.copy)
        return {name: files.read(name) for name in files.sizes()}

    def paused(_: object) -> None:
        if not copies:
            lose_lease(paths.lease_folder)
            killed_at("intended", archive)
            copies.append(copy())

    with pytest.raises(CheckpointInUse, match=r"It changes nothing more"):
        restore(archive, "two", progress=paused)
    assert copy() == copies[0]
    restore(archive, "one")
    assert stored_job.contents().keys() == one.keys()
    assert stored_job.siblings() == ["checkpoint"]


def test_a_job_that_is_reset_while_the_copy_is_made_has_the_epoch_of_the_copy(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """What it has written since would be taken for rows of the restored job. No lease of it is held meanwhile."""
    savepoint(stored_job.root, "one", to=archive)
    record = read_record(stored_job.files)
    assert record is not None

    def reset(_: object) -> None:
        write_record(stored_job.files, replace(record, epoch=1))

    with pytest.raises(SavepointRefused, match=r"was reset or restored while the copy was made\. Nothing was changed"):
        restore(archive, "one", progress=reset)
    restore(archive, "one")
    after = read_record(stored_job.files)
    assert after is not None
    assert after.epoch == 2


def test_a_restore_that_was_paused_until_a_job_began_leaves_no_intent(
    job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """It has looked at its leases, and is paused before it writes: the job finds no intent, and so it runs."""
    savepoint(job.root, "one", to=archive)
    paths, manifest = RestorePaths(checkpoint=job.files), show(archive, "one")
    intent = RestoreIntent(location=archive.location, name="one", epoch=1, replaces=True, files=1)
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        begin(paths, manifest, intent, None, partial(lose_lease, job.files), lambda _: None, if_unchanged=False)
    assert read_intent(paths) is None


def test_the_leases_of_all_folders_are_looked_at(tmp_path: Path) -> None:
    """Of the checkpoint, and of each one from which a job writes to the same tables."""
    folders = [FakeCheckpoint(tmp_path / name).files for name in ("one", "two")]
    with without_jobs(folders, "readings") as require_no_job:
        require_no_job()
        lose_lease(folders[1])
        with pytest.raises(CheckpointInUse, match="two"):
            require_no_job()


def test_a_clone_does_not_take_the_place_of_another_one(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Its folder was removed while it was paused, and the savepoint was cloned to it once more."""
    savepoint(job.root, "one", to=archive)

    left = [tmp_path / "clone"]

    def paused(_: object) -> None:
        if left:
            left.pop().rename(tmp_path / "removed")
            clone(archive, "one", into=tmp_path / "clone")

    with pytest.raises(SavepointRefused, match="another process has made a clone"):
        clone(archive, "one", into=tmp_path / "clone", progress=paused)
    made = read_record(job.files.parent().child("clone").child("checkpoint"))
    assert made is not None
    assert made.epoch == 1
