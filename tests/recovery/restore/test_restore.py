"""A restore puts the checkpoint back as it was, under a new epoch, and can be killed and run again at every step."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper.recovery.errors import DamagedSavepoint, SavepointError, SavepointRefused
from panekeeper.recovery.restore.clone import clone
from panekeeper.recovery.restore.intent import STEPS
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.restore.superseded import mark_superseded
from panekeeper.recovery.storage.delta_log import SavedTable
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.recovery.storage.locations import checkpoint_at
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.checkpoint.layout import FLUSHED_FILE, JOB_FILE, SAVEPOINT_FILE, SUPERSEDED_FILE
from tests.recovery.conftest import FakeCheckpoint, savepoint

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
    found = read_record(checkpoint_at(folder))
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

    with pytest.raises(SavepointRefused, match="has committed batch 3, after 2, and would lose what it has done"):
        restore(archive, "one", if_unchanged=True, on_step=run_meanwhile)
    after = stored_job.contents()
    restore(archive, "one", dry_run=True)
    assert (stored_job.contents(), record(stored_job.root).epoch) == (after, 0)
    savepoint(stored_job.root, "two", to=archive)
    restore(archive, "two", if_unchanged=True)


def test_a_restore_brings_back_every_file_and_raises_the_epoch(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """What came after the savepoint is gone, with leases and markers; nothing is left beside the folder."""
    before = stored_job.contents()
    savepoint(stored_job.root, "one", to=archive)
    stored_job.run(2).write_control_file(2)
    stored_job.put(FLUSHED_FILE, '{"batch": 4}')
    stored_job.lease(pid=2**22 + 1)
    plan = restore(archive, "one")

    assert without_record(stored_job.contents()) == without_record(before)
    assert (plan.epoch, plan.forgotten, plan.batch, plan.replaces) == (1, (3, 4), 2, True)
    assert (record(stored_job.root).id, record(stored_job.root).epoch) == ("0123456789ab", 1)
    assert stored_job.siblings() == ["checkpoint"]


def test_each_restore_has_a_greater_epoch_than_any_before(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """Of the savepoint and of the present checkpoint the greater counts."""
    savepoint(job.folder, "one", to=archive)
    assert [restore(archive, "one").epoch for _ in range(3)] == [1, 2, 3]
    savepoint(job.folder, "two", to=archive)
    assert restore(archive, "two").epoch == 4
    assert record(job.folder).epoch == 4


def test_where_earlier_epochs_are_not_known_the_checkpoint_gets_a_new_id(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """In a new folder, and over a damaged record: no transaction id is ever used twice."""
    savepoint(job.folder, "one", to=archive)
    restore(archive, "one", checkpoint=tmp_path / "b")
    restore(archive, "one", checkpoint=tmp_path / "c")
    job.put(JOB_FILE, "{")
    restore(archive, "one")
    ids = [record(folder).id for folder in (tmp_path / "b", tmp_path / "c", job.folder)]
    assert len({"0123456789ab", *ids}) == 4


def test_a_dry_run_changes_nothing(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """It returns the same preview as the restore."""
    savepoint(stored_job.root, "one", to=archive)
    before = stored_job.run().contents()
    plan = restore(archive, "one", dry_run=True)
    assert stored_job.contents() == before
    assert stored_job.siblings() == ["checkpoint"]
    assert restore(archive, "one") == plan


@pytest.mark.parametrize("step", STEPS)
def test_a_restore_killed_after_any_step_is_completed_by_the_same_call(
    stored_job: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """With the result of one that was not interrupted."""
    before = stored_job.contents()
    savepoint(stored_job.root, "one", to=archive)
    stored_job.run(2)
    killed_at(step, archive)
    restore(archive, "one")
    assert without_record(stored_job.contents()) == without_record(before)
    assert record(stored_job.root).epoch == 1
    assert stored_job.siblings() == ["checkpoint"]


def test_an_interrupted_restore_must_be_completed_before_another(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Its tables may have gone back already."""
    savepoint(stored_job.root, "one", to=archive)
    savepoint(stored_job.run().root, "two", to=archive)
    killed_at("tables", archive)
    with pytest.raises(SavepointRefused, match=r"a restore of savepoint 'one' .* was interrupted"):
        restore(archive, "two")
    with pytest.raises(SavepointRefused, match=r"a restore of .* was interrupted"):
        savepoint(stored_job.root, "three", to=archive)
    restore(archive, "one")
    restore(archive, "two")


def test_an_interrupted_restore_whose_copy_is_gone_begins_again(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """It is never taken for complete."""
    savepoint(stored_job.root, "one", to=archive)
    stored_job.run()
    killed_at("tables", archive)
    stored_job.files.parent().child("checkpoint.incoming").clear()
    restore(archive, "one")
    assert not stored_job.files.exists("commits/3")
    assert stored_job.siblings() == ["checkpoint"]


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
    assert stored_job.siblings() == ["checkpoint", "checkpoint.incoming"]


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
    """The folder it leads to is replaced, on its own disk."""
    link = tmp_path / "link"
    link.symlink_to(job.folder)
    savepoint(link, "one", to=archive)
    job.run()
    restore(archive, "one")
    assert link.is_symlink()
    assert not (job.folder / "commits/3").exists()


def test_in_another_folder_the_names_that_spark_wrote_are_changed(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Else control files would be processed twice, and the state be read from the old folder."""
    savepoint(job.folder, "one", to=archive)
    new = tmp_path / "new"
    restore(archive, "one", checkpoint=new)
    assert f"file://{new}/pulse/000000000001.json" in (new / "sources/1/0").read_text()
    assert f"file:{new}/state/0/_stateSchema" in (new / "state/0/_metadata/v2/0").read_text()


def test_every_other_checkpoint_of_the_tables_is_marked_as_superseded(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Tables fit one checkpoint: not the folder the savepoint is of, nor those to which it was restored before."""
    manifest = savepoint(job.folder, "one", to=archive).manifest
    manifest = replace(manifest, tables={"log": SavedTable(path=str(tmp_path / "log"), version=1)})
    new, newer = (LocalFiles(Path(FakeCheckpoint(tmp_path / name).root)) for name in ("new", "newer"))

    def superseded_by() -> list[str | None]:
        found = [folder.read_json(SUPERSEDED_FILE) for folder in (job.files, new, newer)]
        return [None if one is None else Path(one["to"]).name for one in found]

    mark_superseded(manifest, new, None)
    assert superseded_by() == ["new", None, None]
    mark_superseded(manifest, newer, None)
    assert superseded_by() == ["newer", "newer", None]
    with pytest.raises(SavepointRefused, match="its tables fit that checkpoint only; give that one"):
        savepoint(job.folder, "two", to=archive)
    mark_superseded(manifest, job.files, None)  # the folder itself is replaced by the copy after that
    assert superseded_by() == ["newer", "newer", "checkpoint"]
    mark_superseded(
        replace(manifest, tables={}), LocalFiles(tmp_path / "other"), None
    )  # as a clone: no table of theirs
    assert superseded_by() == ["newer", "newer", "checkpoint"]


def test_an_error_of_the_disk_is_raised_as_a_savepoint_error(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """It says how to complete the restore."""
    savepoint(job.folder, "one", to=archive)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SavepointError, match="run the same command again"):
        restore(archive, "one", checkpoint=tmp_path / "file" / "checkpoint")


def test_a_clone_is_another_job_beside_the_first(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """Its own id, epoch and query; the original is not changed, and the folder must be new."""
    savepoint(job.folder, "one", to=archive)
    before = job.contents()
    made = clone(archive, "one", into=tmp_path / "clone")
    assert job.contents() == before
    assert record(made.checkpoint).id != record(job.folder).id
    assert Path(made.checkpoint, "metadata").read_text() != before["metadata"]
    assert f"file://{made.checkpoint}/pulse/" in Path(made.checkpoint, "sources/1/0").read_text()
    with pytest.raises(SavepointRefused, match="not empty"):
        clone(archive, "one", into=tmp_path / "clone")
