"""A restore puts the checkpoint back as it was, under a new epoch, and can be killed and run again at every step."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from recovery.errors import DamagedSavepoint, SavepointError, SavepointRefused
from recovery.restore.clone import clone
from recovery.restore.intent import STEPS
from recovery.restore.restore import restore
from recovery.restore.superseded import mark_superseded
from recovery.storage.delta_log import SavedTable
from recovery.storage.local_files import LocalFiles
from recovery.storage.locations import checkpoint_at
from state.checkpoint.job_record import JobRecord, read_record
from state.checkpoint.layout import FLUSHED_FILE, JOB_FILE, SUPERSEDED_FILE
from state.errors import CorruptState
from tests.recovery.conftest import FakeCheckpoint, savepoint

if TYPE_CHECKING:
    from tests.recovery.storage.memory_archive import MemoryArchive


HARMLESS = {("commits/3", 3), ("sources/1/0", 0), ("sources/1/0", 1), ("sources/1/0", 3)}
"""Cut between two lines: Spark reads such a commit, and other sources keep logs that name no file of the pulse."""


class Killed(Exception):
    """Stands for the end of the process."""


def killed_at(step: str, archive: MemoryArchive) -> None:
    """Begin to restore savepoint "one" and die after a step."""

    def reached(at: str) -> None:
        if at == step:
            raise Killed

    with pytest.raises(Killed):
        restore(archive, "one", on_step=reached)


def record(folder: Path | str) -> JobRecord:
    """What a checkpoint says of its job."""
    found = read_record(checkpoint_at(folder))
    assert found is not None
    return found


def without_record(contents: dict[str, str]) -> dict[str, str]:
    """All but the file that a restore changes on purpose."""
    return {path: text for path, text in contents.items() if path != JOB_FILE}


def test_a_restore_brings_back_every_file_and_raises_the_epoch(placed: FakeCheckpoint, archive: MemoryArchive) -> None:
    """What came after the savepoint is gone, leases and marks too; nothing is left beside the folder."""
    before = placed.contents()
    savepoint(placed.place, "one", to=archive)
    placed.run(2).beat(2)
    placed.put(FLUSHED_FILE, '{"batch": 4}')
    placed.lease(pid=2**22 + 1)
    plan = restore(archive, "one")

    assert without_record(placed.contents()) == without_record(before)
    assert (plan.epoch, plan.forgotten, plan.batch, plan.replaces) == (1, (3, 4), 2, True)
    assert (record(placed.place).id, record(placed.place).epoch) == ("0123456789ab", 1)
    assert placed.beside() == ["checkpoint"]


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


def test_a_dry_run_changes_nothing(placed: FakeCheckpoint, archive: MemoryArchive) -> None:
    """It tells the same plan."""
    savepoint(placed.place, "one", to=archive)
    before = placed.run().contents()
    plan = restore(archive, "one", dry_run=True)
    assert placed.contents() == before
    assert placed.beside() == ["checkpoint"]
    assert restore(archive, "one") == plan


@pytest.mark.parametrize("step", STEPS)
def test_a_restore_killed_after_any_step_is_completed_by_the_same_call(
    placed: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """With the result of one that nobody disturbed."""
    before = placed.contents()
    savepoint(placed.place, "one", to=archive)
    placed.run(2)
    killed_at(step, archive)
    restore(archive, "one")
    assert without_record(placed.contents()) == without_record(before)
    assert record(placed.place).epoch == 1
    assert placed.beside() == ["checkpoint"]


def test_an_interrupted_restore_must_be_completed_before_another(
    placed: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Its tables may have gone back already."""
    savepoint(placed.place, "one", to=archive)
    savepoint(placed.run().place, "two", to=archive)
    killed_at("tables", archive)
    with pytest.raises(SavepointRefused, match=r"a restore of savepoint 'one' .* was interrupted"):
        restore(archive, "two")
    with pytest.raises(SavepointRefused, match=r"a restore of .* was interrupted"):
        savepoint(placed.place, "three", to=archive)
    restore(archive, "one")
    restore(archive, "two")


def test_an_interrupted_restore_whose_copy_is_gone_begins_anew(placed: FakeCheckpoint, archive: MemoryArchive) -> None:
    """It is never taken for done."""
    savepoint(placed.place, "one", to=archive)
    placed.run()
    killed_at("tables", archive)
    placed.files.parent().child("checkpoint.incoming").clear()
    restore(archive, "one")
    assert not placed.files.exists("commits/3")
    assert placed.beside() == ["checkpoint"]


def test_a_damaged_savepoint_is_noticed_before_anything_is_touched(
    placed: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """The checkpoint stays as it is, and jobs may start from it."""
    made = savepoint(placed.place, "one", to=archive)
    before = placed.run().contents()
    blob = made.manifest.files[-1].blob
    archive.files[blob] = archive.files[blob][:-1]
    with pytest.raises(DamagedSavepoint, match="is damaged"):
        restore(archive, "one")
    assert placed.contents() == before
    assert placed.beside() == ["checkpoint", "checkpoint.incoming"]


@pytest.mark.parametrize("log", ["offsets/3", "commits/3", "sources/1/0"])
@pytest.mark.parametrize("kept", [0, 1, 3, 12, 60])
def test_a_checkpoint_whose_logs_are_cut_short_is_told_and_can_be_restored(
    job: FakeCheckpoint, archive: MemoryArchive, log: str, kept: int
) -> None:
    """As by a disk that lost its last writes: no savepoint is made of it, and which batches go is not known."""
    before = job.contents()
    savepoint(job.folder, "one", to=archive)
    job.run()
    whole = job.contents()[log]
    job.put(log, whole[: min(kept, len(whole) - 1)])
    if (log, kept) not in HARMLESS:
        with pytest.raises(CorruptState, match=rf"{log} in {job.folder} is damaged; restore this checkpoint from"):
            savepoint(job.folder, "two", to=archive)
    plan = restore(archive, "one")
    assert plan.forgotten is None or log.startswith("sources") or (log, kept) in HARMLESS
    assert without_record(job.contents()) == without_record(before)


def test_a_running_job_is_not_restored(placed: FakeCheckpoint, archive: MemoryArchive) -> None:
    """It would go on writing from what it has in memory."""
    savepoint(placed.place, "one", to=archive)
    placed.lease(pid=os.getpid())
    with pytest.raises(SavepointRefused, match="is in use"):
        restore(archive, "one")
    with pytest.raises(SavepointRefused, match="is in use"):  # its tables would go back under it
        restore(archive, "one", checkpoint=f"{placed.place}-other")


def test_a_folder_that_is_not_this_jobs_is_left_alone(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Another job's checkpoint, or files of anyone."""
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
    """Else the pulse would be heard twice, and the state be read from the old folder."""
    savepoint(job.folder, "one", to=archive)
    new = tmp_path / "new"
    restore(archive, "one", checkpoint=new)
    assert f"file://{new}/pulse/000000000001.json" in (new / "sources/1/0").read_text()
    assert f"file:{new}/state/0/_stateSchema" in (new / "state/0/_metadata/v2/0").read_text()


def test_word_is_left_wherever_the_job_was(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """Tables fit one checkpoint: not the folder the savepoint is of, nor those to which it was restored before."""
    manifest = savepoint(job.folder, "one", to=archive).manifest
    manifest = replace(manifest, tables={"log": SavedTable(path=str(tmp_path / "log"), version=1)})
    new, newer = (LocalFiles(Path(FakeCheckpoint(tmp_path / name).place)) for name in ("new", "newer"))

    def moved() -> list[str | None]:
        found = [folder.read_json(SUPERSEDED_FILE) for folder in (job.files, new, newer)]
        return [None if one is None else Path(one["to"]).name for one in found]

    mark_superseded(manifest, new, None)
    assert moved() == ["new", None, None]
    mark_superseded(manifest, newer, None)
    assert moved() == ["newer", "newer", None]
    with pytest.raises(SavepointRefused, match="make the savepoint of that one"):
        savepoint(job.folder, "two", to=archive)
    mark_superseded(manifest, job.files, None)  # the folder itself is replaced by the copy after that
    assert moved() == ["newer", "newer", "checkpoint"]
    mark_superseded(
        replace(manifest, tables={}), LocalFiles(tmp_path / "other"), None
    )  # as a clone: no table of theirs
    assert moved() == ["newer", "newer", "checkpoint"]


def test_what_the_disk_says_is_told_as_our_error(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """With what to do."""
    savepoint(job.folder, "one", to=archive)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SavepointError, match="run the same restore again"):
        restore(archive, "one", checkpoint=tmp_path / "file" / "checkpoint")


def test_a_clone_is_another_job_beside_the_first(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """Its own id, epoch and query; the original is not touched, and the folder must be new."""
    savepoint(job.folder, "one", to=archive)
    before = job.contents()
    made = clone(archive, "one", into=tmp_path / "clone")
    assert job.contents() == before
    assert record(made.checkpoint).id != record(job.folder).id
    assert Path(made.checkpoint, "metadata").read_text() != before["metadata"]
    assert f"file://{made.checkpoint}/pulse/" in Path(made.checkpoint, "sources/1/0").read_text()
    with pytest.raises(SavepointRefused, match="not empty"):
        clone(archive, "one", into=tmp_path / "clone")
