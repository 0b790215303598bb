"""A restore puts the checkpoint back as it was, under a new epoch, and can be killed and run again at every step."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper.framework.declarations.errors import CheckpointError, CheckpointInUse
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.recovery.errors import DamagedSavepoint, SavepointError, SavepointRefused
from panekeeper.recovery.jobs.checkpoint import holding_current
from panekeeper.recovery.restore.clone import clone
from panekeeper.recovery.restore.prune import prune_epochs
from panekeeper.recovery.restore.restore import STEPS, restore
from panekeeper.recovery.storage.locations import checkpoint_at
from panekeeper.state.checkpoint.epochs import Pointer, current_epoch, is_begun, read_begin, read_pointer, switch
from panekeeper.state.checkpoint.folder import (
    FLUSHED_FILE,
    JOB_FILE,
    RUNNING_FILE,
    SAVEPOINT_FILE,
    LocalFolder,
    claim_file,
)
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.checkpoint.lease_owner import read_owner
from tests.fake_checkpoint import FakeCheckpoint, savepoint

if TYPE_CHECKING:
    from tests.recovery.storage.memory_archive import MemoryArchive


class Killed(Exception):
    """Stands for the end of the process."""


def killed_at(step: str, archive: MemoryArchive, **options: Any) -> None:
    """Begin to restore savepoint "one" and be killed after a step."""

    def on_step(at: str) -> None:
        if at == step:
            raise Killed

    with pytest.raises(Killed):
        restore(archive, "one", on_step=on_step, **options)


def record(folder: Path | str) -> JobRecord:
    """The job record of a checkpoint."""
    current = current_epoch(checkpoint_at(folder))
    assert current is not None
    found = read_record(current)
    assert found is not None
    return found


def without_record(contents: dict[str, str]) -> dict[str, str]:
    """All but the files that a restore changes on purpose."""
    return {path: text for path, text in contents.items() if path not in {JOB_FILE, SAVEPOINT_FILE}}


def test_a_restore_that_is_to_lose_nothing_is_refused_once_a_job_has_run(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """As that of a rescale: the job was started after its savepoint, and has ended before the restore."""
    savepoint(stored_job.root, "one", to=archive)

    def run_meanwhile(step: str) -> None:
        if step == "copied":
            stored_job.run()

    with pytest.raises(SavepointRefused, match=r"has committed batch 3 since savepoint .* ends with batch 2"):
        restore(archive, "one", if_unchanged=True, on_step=run_meanwhile)
    after = stored_job.contents()
    restore(archive, "one", dry_run=True)
    assert (stored_job.contents(), record(stored_job.root).epoch) == (after, 0)
    savepoint(stored_job.root, "two", to=archive)
    restore(archive, "two", if_unchanged=True)


def test_a_restore_brings_back_every_file_in_a_new_epoch(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """What came after the savepoint is in the folder of the epoch before, which stays as it was."""
    before = stored_job.contents()
    savepoint(stored_job.root, "one", to=archive)
    stored_job.run(2).write_control_file(2)
    stored_job.put(FLUSHED_FILE, '{"batch": 4}')
    stored_job.lease(pid=2**22 + 1)
    after = stored_job.contents()
    plan = restore(archive, "one")

    assert without_record(stored_job.contents()) == without_record(before)
    assert (plan.epoch, plan.forgotten, plan.batch, plan.replaces) == (1, (3, 4), 2, True)
    assert (record(stored_job.root).id, record(stored_job.root).epoch) == ("0123456789ab", 1)
    assert read_pointer(stored_job.top) == Pointer(name="readings", id="0123456789ab", epoch=1)
    kept = stored_job.contents(epoch=0)
    assert kept.pop(RUNNING_FILE)  # of a job that had crashed
    assert kept == {name: text for name, text in after.items() if name != RUNNING_FILE}
    assert stored_job.epochs == [0, 1]


def test_each_restore_has_a_greater_epoch_than_any_before(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """Of the savepoint, of the folders that there are, and of those that never became current, the greatest counts."""
    savepoint(job.folder, "one", to=archive)
    assert [restore(archive, "one").epoch for _ in range(3)] == [1, 2, 3]
    savepoint(job.folder, "two", to=archive)
    assert restore(archive, "two").epoch == 4
    killed_at("copied", archive)
    assert restore(archive, "one").epoch == 6
    assert record(job.folder).epoch == 6


def test_a_new_folder_gets_an_id_of_its_own(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """No transaction id is ever used twice. A folder that has an id keeps it, be the rest of it damaged."""
    savepoint(job.folder, "one", to=archive)
    restore(archive, "one", checkpoint=tmp_path / "b")
    restore(archive, "one", checkpoint=tmp_path / "c")
    job.put(JOB_FILE, "{")
    restore(archive, "one")
    ids = [record(folder).id for folder in (tmp_path / "b", tmp_path / "c", job.folder)]
    assert len(set(ids)) == 3
    assert ids[-1] == "0123456789ab"


@pytest.mark.parametrize("lost", ["the pointer", "a part of the pointer", "the epoch", "all"])
def test_whatever_of_a_checkpoint_is_lost_a_restore_brings_it_back(
    stored_job: FakeCheckpoint, archive: MemoryArchive, lost: str
) -> None:
    """One command; which job it is says the savepoint, where the folder does not."""
    before = stored_job.contents()
    savepoint(stored_job.root, "one", to=archive)
    if lost == "the pointer":
        stored_job.top.remove("job.json")
    elif lost == "a part of the pointer":
        stored_job.top.put_bytes("job.json", b'{"name": "rea')
    else:
        (stored_job.top if lost == "all" else stored_job.files).clear()
    restore(archive, "one", checkpoint=stored_job.root)
    assert without_record(stored_job.contents()) == without_record(before)


def test_a_dry_run_changes_nothing(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """It returns the same preview as the restore."""
    savepoint(stored_job.root, "one", to=archive)
    before = stored_job.run().contents()
    plan = restore(archive, "one", dry_run=True)
    assert stored_job.contents() == before
    assert stored_job.epochs == [0]
    assert restore(archive, "one") == plan


@pytest.mark.parametrize("step", STEPS)
def test_a_restore_killed_after_any_step_is_completed_by_the_same_call(
    stored_job: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """Before the new epoch is current nothing has changed; after it, the same epoch is completed."""
    before = stored_job.contents()
    savepoint(stored_job.root, "one", to=archive)
    after = stored_job.run(2).contents()
    killed_at(step, archive)
    if step == "copied":
        assert stored_job.contents() == after
    else:
        assert without_record(stored_job.contents()) == without_record(before)
    restore(archive, "one")
    assert without_record(stored_job.contents()) == without_record(before)
    is_begun_again = step in ("copied", STEPS[-1])  # the last step was noted: a second restore
    assert record(stored_job.root).epoch == (2 if is_begun_again else 1)
    assert read_begin(stored_job.files) is not None
    assert is_begun(stored_job.files)
    assert not stored_job.files.exists(RUNNING_FILE)


@pytest.mark.parametrize("step", ["current", "fenced"])
def test_no_savepoint_is_made_amid_a_restore_and_another_one_takes_its_place(
    stored_job: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """The tables do not fit the checkpoint yet. A restore of another savepoint begins one more epoch."""
    savepoint(stored_job.root, "one", to=archive)
    savepoint(stored_job.run().root, "two", to=archive)
    killed_at(step, archive)
    with pytest.raises(SavepointRefused, match=r"a restore of the job of .* is not complete"):
        savepoint(stored_job.root, "three", to=archive)
    assert restore(archive, "two").epoch == 2
    assert stored_job.files.exists("commits/3")
    savepoint(stored_job.root, "three", to=archive)


def test_of_two_restores_at_the_same_time_one_is_refused(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """By the lease of the current epoch, while the copy is made; a job that starts is refused in the same way."""
    savepoint(stored_job.root, "one", to=archive)

    def start_another(step: str) -> None:
        if step == "copied":
            with pytest.raises(SavepointRefused, match=r"the restore of job 'readings' .* runs on"):
                restore(archive, "one")

    assert restore(archive, "one", on_step=start_another).epoch == 1


@pytest.mark.parametrize("killed", [False, True], ids=["at once", "completed after a kill"])
def test_no_job_starts_where_the_savepoint_was_made_until_it_is_restored_elsewhere(
    stored_job: FakeCheckpoint, archive: MemoryArchive, *, killed: bool
) -> None:
    """It has the tables: what it wrote after the fence would be nowhere, and what it wrote before would go back (A2).

    A supervisor starts it again at any time. Afterwards it is as it was, also what says that its last job has crashed.
    """
    savepoint(stored_job.root, "one", to=archive)
    stored_job.lease(pid=2**22 + 1)
    before, crashed = stored_job.contents(), read_owner(stored_job.files)
    tried, elsewhere = list[str](), f"{stored_job.root}-new"
    if killed:
        killed_at("current", archive, checkpoint=elsewhere)

    def start_origin(step: str) -> None:
        with pytest.raises(CheckpointInUse, match=r"the restore of job 'readings' .* runs on"):
            acquire(stored_job.files, "readings")
        tried.append(step)

    restore(archive, "one", checkpoint=elsewhere, on_step=start_origin)
    assert tried == [*STEPS[2 * killed :]]
    assert read_owner(stored_job.files) == crashed
    assert stored_job.contents() | {RUNNING_FILE: ""} == before | {RUNNING_FILE: ""}
    acquire(stored_job.files, "readings").release("ended")


def test_a_restore_elsewhere_stops_if_a_job_has_taken_over_where_the_savepoint_was_made(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """The restore was suspended for longer than its lease. The same call completes it once that job is stopped."""
    savepoint(stored_job.root, "one", to=archive)
    elsewhere = f"{stored_job.root}-new"

    def take_over(step: str) -> None:
        if step == "current":
            stored_job.files.remove(claim_file(1))  # as whoever takes over does
            stored_job.files.remove(RUNNING_FILE)
            stored_job.lease(pid=os.getpid())

    for _ in range(2):
        with pytest.raises((CheckpointInUse, SavepointRefused)):
            restore(archive, "one", checkpoint=elsewhere, on_step=take_over)
    assert not is_begun(FakeCheckpoint.at(elsewhere).files)
    stored_job.files.remove(RUNNING_FILE)
    restore(archive, "one", checkpoint=elsewhere)
    assert is_begun(FakeCheckpoint.at(elsewhere).files)


def test_a_savepoint_is_restored_elsewhere_if_nothing_can_be_written_where_it_was_made(
    job: FakeCheckpoint,
    archive: MemoryArchive,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after the loss of a region: no start can get a lease there either. The log says so."""
    savepoint(job.folder, "one", to=archive)
    write = LocalFolder.write

    def read_only(self: LocalFolder, name: str, content: bytes, *, replace: bool = False) -> None:
        if self.path.is_relative_to(job.folder):
            raise PermissionError(f"{name}: read-only file system")
        write(self, name, content, replace=replace)

    monkeypatch.setattr(LocalFolder, "write", read_only)
    with caplog.at_level("WARNING"):
        restore(archive, "one", checkpoint=tmp_path / "new")
    assert "no lease is held where the savepoint was made, so start no job there" in caplog.text
    assert record(tmp_path / "new").epoch == 1


def test_a_savepoint_that_was_made_under_another_name_of_the_folder_is_restored(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Its lease is held once, and is that of both names."""
    savepoint(job.folder, "one", to=archive)
    (tmp_path / "link").symlink_to(job.folder)
    restore(archive, "one", checkpoint=tmp_path / "link")
    assert record(job.folder).epoch == 1


def test_a_command_that_holds_an_epoch_holds_the_current_one(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """A restore had begun and ended between the look at the pointer and the lease: a job may run by now (A2)."""
    savepoint(job.folder, "one", to=archive)
    then = record(job.folder)
    restore(archive, "one")
    with pytest.raises(SavepointRefused, match="was restored or reset meanwhile"), holding_current(job.top, then, "it"):
        pytest.fail("the epoch is over")
    with holding_current(job.top, record(job.folder), "it") as lease:
        lease.require_held()


def test_a_restore_that_was_paused_changes_nothing_once_another_one_is_complete(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """It has lost its lease meanwhile; and if it looks just before, the pointer is not what it was."""
    savepoint(stored_job.root, "one", to=archive)

    def pause(step: str) -> None:
        if step == "copied":
            stored_job.files.remove(claim_file(1))  # as whoever takes over does
            stored_job.files.remove(RUNNING_FILE)
            assert restore(archive, "one").epoch == 2

    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        restore(archive, "one", on_step=pause)
    assert record(stored_job.root).epoch == 2
    old = Pointer(name="readings", id="0123456789ab", epoch=0)
    with pytest.raises(CheckpointError, match=r"restored or reset .* meanwhile\. Nothing was changed"):
        switch(stored_job.top, old.to_bytes(), replace(old, epoch=1))
    assert record(stored_job.root).epoch == 2


def test_former_epochs_stay_until_they_are_pruned(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """So do copies that never became current, while a restore may be making one. The current one always stays."""
    savepoint(stored_job.root, "one", to=archive)
    for _ in range(3):
        restore(archive, "one")
    killed_at("copied", archive)
    before = stored_job.contents()
    assert stored_job.epochs == [0, 1, 2, 3, 4]
    stored_job.lease(pid=os.getpid())
    assert prune_epochs(stored_job.root, keep=1).removed == (0, 1)
    stored_job.files.remove(RUNNING_FILE)
    done = prune_epochs(stored_job.root)
    assert (done.removed, done.current, stored_job.epochs) == ((2, 4), 3, [3])
    assert done.bytes > 0
    assert prune_epochs(stored_job.root).removed == ()
    assert stored_job.contents() == before
    assert restore(archive, "one").epoch == 4


def test_a_damaged_savepoint_is_noticed_before_anything_is_changed(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """The checkpoint stays as it is, and jobs may start from it."""
    made = savepoint(stored_job.root, "one", to=archive)
    before = stored_job.run().contents()
    blob = made.manifest.files[-1].blob
    archive.files[blob] = archive.files[blob][:-1]
    with pytest.raises(DamagedSavepoint, match="is damaged"):
        restore(archive, "one")
    assert stored_job.contents() == before
    assert stored_job.epochs == [0]


def test_a_refused_restore_and_clone_leave_no_file(
    stored_job: FakeCheckpoint, archive: MemoryArchive, storage: str
) -> None:
    """In the folders that were named, which may be named again."""
    made = savepoint(stored_job.root, "one", to=archive)
    archive.files[made.manifest.files[-1].blob] += b"x"
    top = checkpoint_at(f"{storage}/new")
    with pytest.raises(DamagedSavepoint, match="is damaged"):
        restore(archive, "one", checkpoint=f"{storage}/new/deep/checkpoint")
    with pytest.raises(DamagedSavepoint, match="is damaged"):
        clone(archive, "one", into=f"{storage}/new/clone")
    assert top.sizes() == {}


@pytest.mark.parametrize("log", ["offsets/3", "commits/3", "sources/1/0"])
@pytest.mark.parametrize("kept", [0, 3, 60])
def test_a_checkpoint_with_truncated_logs_can_be_restored(
    job: FakeCheckpoint, archive: MemoryArchive, log: str, kept: int
) -> None:
    """Whatever Spark could not read there any more."""
    before = job.contents()
    savepoint(job.folder, "one", to=archive)
    job.run()
    whole = job.contents()[log]
    job.put(log, whole[: min(kept, len(whole) - 1)])
    restore(archive, "one")
    assert without_record(job.contents()) == without_record(before)


def test_a_running_job_is_not_restored(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """It would go on writing from what it has in memory."""
    savepoint(stored_job.root, "one", to=archive)
    stored_job.lease(pid=os.getpid())
    with pytest.raises(SavepointRefused, match="is in use"):
        restore(archive, "one")
    with pytest.raises(SavepointRefused, match="is in use"):  # its tables would go back under it
        restore(archive, "one", checkpoint=f"{stored_job.root}-other")


def test_a_folder_that_is_not_this_jobs_is_left_alone(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Another job's checkpoint, or other files."""
    savepoint(job.folder, "one", to=archive)
    other = FakeCheckpoint(tmp_path / "other", job="other").run()
    with pytest.raises(SavepointRefused, match="the checkpoint of job 'other'"):
        restore(archive, "one", checkpoint=other.folder)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "letter.txt").write_text("dear")
    with pytest.raises(SavepointRefused, match="holds files and no checkpoint"):
        restore(archive, "one", checkpoint=tmp_path / "files")


def test_a_link_to_the_checkpoint_stays_a_link(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """The epochs are in the folder that it leads to."""
    link = tmp_path / "link"
    link.symlink_to(job.folder)
    savepoint(link, "one", to=archive)
    job.run()
    restore(archive, "one")
    assert link.is_symlink()
    assert not job.files.exists("commits/3")


def test_in_another_folder_the_names_that_spark_wrote_are_changed(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Else control files would be processed twice, and the state be read from the old folder."""
    savepoint(job.folder, "one", to=archive)
    new = tmp_path / "new"
    restore(archive, "one", checkpoint=new)
    epoch = new / "epochs/0001"
    assert f"file://{epoch}/pulse/000000000001.json" in (epoch / "sources/1/0").read_text()
    assert f"file:{epoch}/state/0/_stateSchema" in (epoch / "state/0/_metadata/v2/0").read_text()


def test_of_a_checkpoint_that_was_renamed_a_savepoint_is_made_and_restored(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Spark's files have the old name until the next start; a restore changes whatever stands there."""
    before = job.contents()
    job.folder.rename(moved := tmp_path / "moved [1] to")
    savepoint(moved, "one", to=archive)
    restore(archive, "one")
    found = FakeCheckpoint.at(moved)
    assert found.epochs == [0, 1]
    quoted = {name: text.replace(f"file://{moved}".replace(" ", "%20"), "?") for name, text in found.contents().items()}
    assert str(job.folder) not in "".join(quoted.values())
    assert sorted(quoted) == sorted(before)


def test_an_error_of_the_disk_is_raised_as_a_savepoint_error(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """It says how to complete the restore."""
    savepoint(job.folder, "one", to=archive)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SavepointError, match="run the same restore again"):
        restore(archive, "one", checkpoint=tmp_path / "file" / "checkpoint")


def test_a_clone_is_another_job_beside_the_first(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """Its own id, epoch and query; the original is not changed, and the folder must be new."""
    savepoint(job.folder, "one", to=archive)
    before = job.contents()
    made = clone(archive, "one", into=tmp_path / "clone")
    assert job.contents() == before
    assert record(made.checkpoint).id != record(job.folder).id
    folder = Path(made.checkpoint, "epochs/0001")
    assert (folder / "metadata").read_text() != before["metadata"]
    assert f"file://{folder}/pulse/" in (folder / "sources/1/0").read_text()
    with pytest.raises(SavepointRefused, match="not empty"):
        clone(archive, "one", into=tmp_path / "clone")
