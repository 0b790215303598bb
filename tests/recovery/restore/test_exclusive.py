"""While a checkpoint is restored, and afterwards, no job, no other restore and no paused process interferes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from panekeeper import CheckpointInUse
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.restore.intent import read_intent
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.manifest import manifest_file
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.state.checkpoint.claims import note_takeover, unaccounted_after, unaccounted_files
from panekeeper.state.checkpoint.layout import RUNNING_FILE, UNACCOUNTED_FOLDER, claim_file
from panekeeper.state.checkpoint.owner import LeaseOwner, read_owner
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive


def test_no_job_starts_while_the_intent_is_written(
    stored_job: FakeCheckpoint, archive: MemoryArchive, target: str
) -> None:
    """The restore holds the lease until then; afterwards the intent, or the mark of the restore, refuses the start."""
    savepoint(stored_job.root, "one", to=archive)
    refused = []

    def on_step(step: str) -> None:
        if step == "intended":
            with pytest.raises(CheckpointInUse) as raised:
                acquire(stored_job.files, "readings")
            refused.append(str(raised.value))

    restore(archive, "one", checkpoint=target, on_step=on_step)
    assert "the restore of job 'readings'" in refused[0]
    assert "wait until it has ended" in refused[0]
    assert not any("restor" in name and not name.endswith("-new") for name in stored_job.siblings())


def test_one_restore_at_a_time(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """A second one is refused; one that was paused until another took its place stops at its next step."""
    savepoint(stored_job.root, "one", to=archive)

    def again(step: str) -> None:
        if step == "tables":
            with pytest.raises(SavepointRefused, match=r"the restore of job 'readings' .*wait until it has ended"):
                restore(archive, "one")

    restore(archive, "one", on_step=again)

    def take_place(step: str) -> None:
        if step == "copied":
            RestorePaths(checkpoint=stored_job.files).lease_folder.remove(claim_file(1))

    before = stored_job.contents()
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        restore(archive, "one", on_step=take_place)
    assert stored_job.contents() == before


def test_a_process_that_may_only_be_paused_keeps_its_folder(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """Spark would write to it after the restore: another folder is taken, or the process is gone for certain."""
    savepoint(stored_job.root, "one", to=archive)
    stored_job.lease(pid=1, host="elsewhere")
    before = stored_job.contents()
    with pytest.raises(SavepointRefused) as raised:
        restore(archive, "one")
    assert "job 'readings' (host elsewhere, process 1" in str(raised.value)
    assert f"--checkpoint {stored_job.root}-restored" in str(raised.value)
    assert f"remove {RUNNING_FILE} and {UNACCOUNTED_FOLDER} in {stored_job.root}" in str(raised.value)
    assert stored_job.contents() == before
    restore(archive, "one", checkpoint=f"{stored_job.root}-restored")
    stored_job.files.remove(RUNNING_FILE)
    stored_job.files.child(UNACCOUNTED_FOLDER).clear()
    restore(archive, "one", checkpoint=stored_job.root)


def test_a_process_that_was_taken_over_is_recorded(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """Until the batch that it could log next is below the savepoint: then its number is taken for good."""
    batch = stored_job.batch
    savepoint(stored_job.root, "early", to=archive)
    stored_job.run(2).lease(pid=1, host="elsewhere")
    lost = read_owner(stored_job.files)
    note_takeover(stored_job.files, lost)
    note_takeover(stored_job.files, lost)
    note_takeover(stored_job.files, LeaseOwner.of_this_process("readings"))
    stored_job.files.remove(RUNNING_FILE)
    assert [one.pid for one in unaccounted_after(stored_job.files, batch)] == [1]
    with pytest.raises(SavepointRefused, match="host elsewhere, process 1"):
        restore(archive, "early")
    stored_job.run()
    savepoint(stored_job.root, "late", to=archive)
    restore(archive, "late")
    with pytest.raises(SavepointRefused, match="host elsewhere, process 1"):
        restore(archive, "early")


def test_a_process_that_was_paused_while_the_copy_was_made_keeps_its_folder(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """No lease is held then. The restore takes it when the process has not renewed it for long enough."""
    savepoint(stored_job.root, "one", to=archive)

    def start_and_pause(step: str) -> None:
        if step == "copied":
            stored_job.run().lease(pid=1, host="elsewhere")

    with pytest.raises(SavepointRefused, match=r"host elsewhere, process 1.*, whose end is not known"):
        restore(archive, "one", on_step=start_and_pause)
    assert read_intent(RestorePaths(checkpoint=stored_job.files)) is None


def test_a_process_that_was_taken_over_is_known_when_its_folder_was_moved_aside(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """A restore that was killed has moved it, and another one is to take its place, to an earlier batch."""
    savepoint(stored_job.root, "early", to=archive)
    stored_job.run(2).lease(pid=1, host="elsewhere")
    note_takeover(stored_job.files, read_owner(stored_job.files))
    stored_job.files.remove(RUNNING_FILE)
    for name in ("later", "late"):
        stored_job.run()
        savepoint(stored_job.root, name, to=archive)

    def killed(step: str) -> None:
        if step == "aside":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(archive, "late", on_step=killed)
    archive.remove(manifest_file("late"))
    with pytest.raises(SavepointRefused, match=r"host elsewhere, process 1.*, whose end is not known") as raised:
        restore(archive, "early")
    aside = RestorePaths(checkpoint=stored_job.files).replaced(1)
    assert f"remove {RUNNING_FILE} and {UNACCOUNTED_FOLDER} in {aside.root}," in str(raised.value)
    assert restore(archive, "later").epoch == 2
    with pytest.raises(SavepointRefused, match=r"host elsewhere, process 1.*, whose end is not known"):
        restore(archive, "early")
    stored_job.files.child(UNACCOUNTED_FOLDER).clear()
    restore(archive, "early")


def test_a_command_that_is_killed_hides_no_process_that_may_only_be_paused(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """It had the lease, so its own process is in running.json; that one is gone for certain."""
    savepoint(stored_job.root, "one", to=archive)
    stored_job.lease(pid=1, host="elsewhere")
    acquire(stored_job.files, "readings", what="the upkeep of job")
    stored_job.lease(pid=2**22)  # no process has this number
    with pytest.raises(SavepointRefused, match=r"job 'readings' \(host elsewhere, process 1"):
        restore(archive, "one")


def test_a_command_that_ends_leaves_the_lease_as_it_was(stored_job: FakeCheckpoint) -> None:
    """The owner from which it took it over, which has lost it for good, stays recorded."""
    stored_job.lease(pid=1, host="elsewhere")
    names, before = {*stored_job.contents()}, read_owner(stored_job.files)
    assert before is not None
    acquire(stored_job.files, "readings", what="the repair of job").roll_back()
    [file] = unaccounted_files(stored_job.files)
    assert ({*stored_job.contents()}, read_owner(stored_job.files)) == (names | {file}, before)
    assert unaccounted_after(stored_job.files, -1) == [before]


def test_a_process_that_is_paused_in_a_takeover_hides_no_other_one(
    stored_job: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is about to record the owner before; meanwhile another one takes over, is lost, and is recorded."""
    stored_job.lease(pid=1, host="elsewhere")
    first = read_owner(stored_job.files)
    assert first is not None
    second = replace(first, pid=2, token="u")  # noqa: S106 -- of a lease
    stored_job.files.remove(RUNNING_FILE)
    files, write = stored_job.files, type(stored_job.files).write_json

    def paused(*args: Any, **options: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(type(files), "write_json", write)
            note_takeover(files, first)
            note_takeover(files, second)
        write(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(files), "write_json", paused)
        note_takeover(files, first)
    assert {one.pid for one in unaccounted_after(files, -1)} == {1, 2}
