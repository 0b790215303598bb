"""Restores that met a job, a mount point, half a reset or a lost savepoint: none stays half done without a way out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recovery.errors import DamagedSavepoint, NoSuchSavepoint, SavepointRefused
from recovery.restore.intent import STEPS, read_intent
from recovery.restore.restore import restore
from recovery.savepoint.manifest import manifest_file
from recovery.savepoint.restore_paths import RestorePaths
from recovery.upgrade.rescale import rescale
from state.checkpoint.job_record import read_record
from state.checkpoint.layout import RESET_FILE
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.restore.test_restore import Killed, killed_at, without_record
from tests.recovery.storage.memory_archive import MemoryArchive
from tests.recovery.upgrade.test_rescale import SPARK


def killed_for_good(job: FakeCheckpoint, archive: MemoryArchive, step: str) -> dict[str, str]:
    """Kill a restore of "one" and remove that savepoint. Return what "two" holds, of a batch later."""
    savepoint(job.place, "one", to=archive)
    before = job.run().contents()
    savepoint(job.place, "two", to=archive)
    job.run()
    killed_at(step, archive)
    archive.remove(manifest_file("one"))
    return before


def identity(job: FakeCheckpoint) -> tuple[str, int]:
    """Id and epoch: no two runs of a job that write anything else may share them."""
    record = read_record(job.files)
    assert record is not None
    return record.id, record.epoch


@pytest.fixture(params=["", "-new"], ids=["to the same folder", "to another one"])
def target(placed: FakeCheckpoint, request: pytest.FixtureRequest) -> str:
    """Where the savepoint is restored to; the job runs where it was made."""
    return f"{placed.place}{request.param}"


def test_a_job_that_starts_while_the_copy_is_written_is_seen(
    placed: FakeCheckpoint, archive: MemoryArchive, target: str
) -> None:
    """It runs on the folder that is replaced, or writes to the tables that would go back; no intent stays behind."""
    savepoint(placed.place, "one", to=archive)

    def reached(step: str) -> None:
        if step == "copied":
            placed.lease(pid=os.getpid())

    before = placed.contents()
    with pytest.raises(SavepointRefused, match="is in use"):
        restore(archive, "one", checkpoint=target, on_step=reached)
    assert without_lease(placed.contents()) == before
    assert not any(name.endswith(".restoring.json") for name in placed.beside())


def test_an_intent_is_withdrawn_if_a_job_started_just_before_it(
    placed: FakeCheckpoint, archive: MemoryArchive, target: str
) -> None:
    """Neither has seen the other then: the job goes on, nothing of it is touched, and it can be restored later."""
    savepoint(placed.place, "one", to=archive)
    steps = []

    def reached(step: str) -> None:
        steps.append(step)
        if step == "intended":
            placed.lease(pid=os.getpid())

    before = placed.contents()
    with pytest.raises(SavepointRefused, match="is in use"):
        restore(archive, "one", checkpoint=target, on_step=reached)
    assert (steps[-1], without_lease(placed.contents())) == ("intended", before)
    assert not any(name.endswith(".restoring.json") for name in placed.beside())
    placed.lease(pid=2**22 + 1)
    restore(archive, "one", checkpoint=target)


def without_lease(contents: dict[str, str]) -> dict[str, str]:
    """All but the word of the process that runs the job."""
    return {path: text for path, text in contents.items() if path != "panekeeper/running.json"}


@pytest.mark.parametrize("step", STEPS[1:])
def test_another_restore_takes_the_place_of_one_whose_savepoint_is_gone(
    placed: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """However far that one got. Nothing of it stays, and neither its epoch nor one before is used again."""
    used = {("0123456789ab", epoch) for epoch in (0, 1)}
    before = killed_for_good(placed, archive, step)
    restore(archive, "two")
    assert without_record(placed.contents()) == without_record(before)
    assert identity(placed) not in used
    assert placed.beside() == ["checkpoint"]


@pytest.mark.parametrize("step", STEPS)
def test_one_that_takes_anothers_place_can_be_killed_too(
    placed: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """The same call completes it, and removes what both have left."""
    before = killed_for_good(placed, archive, "aside")

    def reached(at: str) -> None:
        if at == step:
            raise Killed

    with pytest.raises(Killed):
        restore(archive, "two", on_step=reached)
    restore(archive, "two")
    assert without_record(placed.contents()) == without_record(before)
    assert placed.beside() == ["checkpoint"]


def test_one_that_must_not_take_the_place_leaves_the_other_as_it_was(
    placed: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Its savepoint is damaged, of another job, or a job has started: no job starts from what is half done."""
    killed_for_good(placed, archive, "tables")
    interrupted = read_intent(RestorePaths(checkpoint=placed.files))
    other = FakeCheckpoint(f"{placed.place}-other", job="other").run()
    made = savepoint(other.place, "other", to=archive)
    with pytest.raises(SavepointRefused, match=r"restore of job 'readings' .* the savepoint is of 'other'"):
        restore(archive, "other", checkpoint=placed.place)
    with pytest.raises(SavepointRefused, match="is in use"):
        restore(archive, "two", on_step=lambda step: placed.lease(pid=os.getpid()) if step == "intended" else None)
    placed.lease(pid=2**22 + 1)
    blob = made.manifest.files[0].blob
    archive.files[blob] = archive.files[blob][:-1]
    with pytest.raises(DamagedSavepoint):
        restore(archive, "other", checkpoint=other.place)
    assert read_intent(RestorePaths(checkpoint=placed.files)) == interrupted


def test_a_restore_that_cannot_be_completed_says_the_way_out(placed: FakeCheckpoint, archive: MemoryArchive) -> None:
    """Whether the folder is named or not; a name that nobody has begun to restore is only unknown."""
    killed_for_good(placed, archive, "intended")
    way_out = rf"A restore of it to {placed.place} was interrupted .* another savepoint .* --checkpoint {placed.place}$"
    for checkpoint in (None, placed.place):
        with pytest.raises(NoSuchSavepoint, match=way_out):
            restore(archive, "one", checkpoint=checkpoint)
    with pytest.raises(NoSuchSavepoint, match=r"it holds two$"):
        restore(archive, "three")


def test_a_mount_point_is_refused_before_the_tables_go_back(
    job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be renamed, and a link that leads to it does not help; a folder below it can."""
    savepoint(job.folder, "one", to=archive)
    link = job.folder.with_name("link")
    link.symlink_to(job.folder)
    monkeypatch.setattr(Path, "is_mount", lambda path: path == job.folder)
    before = dict(archive.files)
    for folder in (job.folder, link):
        with pytest.raises(SavepointRefused, match=rf"is a mount point .* --checkpoint {folder}/checkpoint"):
            restore(archive, "one", checkpoint=folder)
    with pytest.raises(SavepointRefused, match="a mount point"):
        rescale(job.folder, 4, to=archive, spark=SPARK)
    assert archive.files == before
    assert job.beside() == ["checkpoint", "link"]
    restore(archive, "one", checkpoint=job.folder / "checkpoint")


def test_a_restore_gets_a_job_out_of_half_a_way_back_to_its_initial_state(
    job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """It is a stopped job like any other then."""
    savepoint(job.folder, "one", to=archive)
    job.put(RESET_FILE, '{"epoch": 1, "view": null}')
    assert restore(archive, "one").epoch == 1
    assert not (job.folder / RESET_FILE).exists()
