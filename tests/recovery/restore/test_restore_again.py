"""Restores that meet a job, a mount point, an unfinished reset or a lost savepoint: each can be completed or undone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from panekeeper.recovery.errors import DamagedSavepoint, NoSuchSavepoint, SavepointRefused, TableVersionLost
from panekeeper.recovery.restore.intent import STEPS, read_intent, write_intent
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.manifest import manifest_file
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.recovery.storage.locations import checkpoint_at
from panekeeper.recovery.upgrade.rescale import rescale
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.checkpoint.last_savepoint import read_last_savepoint
from panekeeper.state.checkpoint.layout import RESET_FILE
from tests.recovery.conftest import FakeCheckpoint, savepoint
from tests.recovery.restore.test_restore import Killed, killed_at, without_record
from tests.recovery.storage.memory_archive import MemoryArchive
from tests.recovery.upgrade.test_rescale import SPARK


def killed_for_good(job: FakeCheckpoint, archive: MemoryArchive, step: str) -> dict[str, str]:
    """Kill a restore of "one" and remove that savepoint. Return what "two" holds, of a batch later."""
    savepoint(job.root, "one", to=archive)
    before = job.run().contents()
    savepoint(job.root, "two", to=archive)
    job.run()
    killed_at(step, archive)
    archive.remove(manifest_file("one"))
    return before


def identity(job: FakeCheckpoint) -> tuple[str, int]:
    """Id and epoch: no two runs of a job that write anything else may share them."""
    record = read_record(job.files)
    assert record is not None
    return record.id, record.epoch


def test_a_job_that_starts_while_the_copy_is_written_is_seen(
    stored_job: FakeCheckpoint, archive: MemoryArchive, target: str
) -> None:
    """It runs on the folder that is replaced, or writes to the tables that would be restored; no intent is left."""
    savepoint(stored_job.root, "one", to=archive)

    def on_step(step: str) -> None:
        if step == "copied":
            stored_job.lease(pid=os.getpid())

    before = stored_job.contents()
    with pytest.raises(SavepointRefused, match="is in use"):
        restore(archive, "one", checkpoint=target, on_step=on_step)
    assert without_lease(stored_job.contents()) == before
    assert not any(name.endswith(".restoring.json") for name in stored_job.siblings())


def without_lease(contents: dict[str, str]) -> dict[str, str]:
    """All files but the lease."""
    return {path: text for path, text in contents.items() if path != "panekeeper/running.json"}


@pytest.mark.parametrize("step", STEPS[1:])
def test_another_restore_takes_the_place_of_one_whose_savepoint_is_gone(
    stored_job: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """Whichever step that one has reached. It leaves nothing, and neither its epoch nor one before is used again."""
    used = {("0123456789ab", epoch) for epoch in (0, 1)}
    before = killed_for_good(stored_job, archive, step)
    restore(archive, "two")
    assert without_record(stored_job.contents()) == without_record(before)
    assert identity(stored_job) not in used
    assert stored_job.siblings() == ["checkpoint"]


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_savepoint_that_was_made_again_under_its_name_is_another(
    stored_job: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """Its files and the versions of its tables belong together: what the interrupted restore has copied is not used."""
    savepoint(stored_job.root, "one", to=archive)
    again = MemoryArchive()
    before = stored_job.run().contents()
    savepoint(stored_job.root, "one", to=again)
    killed_at(step, archive)
    archive.files |= again.files
    restore(archive, "one", checkpoint=stored_job.root)
    assert without_record(stored_job.contents()) == without_record(before)
    assert stored_job.siblings() == ["checkpoint"]


@pytest.mark.parametrize("step", STEPS)
def test_a_restore_that_takes_anothers_place_can_be_killed_too(
    stored_job: FakeCheckpoint, archive: MemoryArchive, step: str
) -> None:
    """The same call completes it, and removes what both have left."""
    before = killed_for_good(stored_job, archive, "aside")

    def on_step(at: str) -> None:
        if at == step:
            raise Killed

    with pytest.raises(Killed):
        restore(archive, "two", on_step=on_step)
    restore(archive, "two")
    assert without_record(stored_job.contents()) == without_record(before)
    assert stored_job.siblings() == ["checkpoint"]


def test_a_restore_that_must_not_take_anothers_place_leaves_it_as_it_was(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Its savepoint is damaged, of another job, or a job has started: the interrupted one still blocks starts."""
    killed_for_good(stored_job, archive, "tables")
    interrupted = read_intent(RestorePaths(checkpoint=stored_job.files))
    other = FakeCheckpoint(f"{stored_job.root}-other", job="other").run()
    made = savepoint(other.root, "other", to=archive)
    with pytest.raises(SavepointRefused, match=r"restore of job 'readings' .* the savepoint is of 'other'"):
        restore(archive, "other", checkpoint=stored_job.root)
    with pytest.raises(SavepointRefused, match="is in use"):
        restore(archive, "two", on_step=lambda step: stored_job.lease(pid=os.getpid()) if step == "copied" else None)
    stored_job.lease(pid=2**22 + 1)
    blob = made.manifest.files[0].blob
    archive.files[blob] = archive.files[blob][:-1]
    with pytest.raises(DamagedSavepoint):
        restore(archive, "other", checkpoint=other.root)
    assert read_intent(RestorePaths(checkpoint=stored_job.files)) == interrupted


@pytest.mark.parametrize("lost", ["manifest", "copy"])
def test_another_restore_takes_the_place_of_one_that_cannot_be_completed(
    stored_job: FakeCheckpoint, archive: MemoryArchive, lost: str
) -> None:
    """Its manifest was damaged meanwhile; or its copy was removed, and a file of its savepoint is damaged."""
    stored_job.put("panekeeper/runs.json", '{"runs": 1}')
    made = savepoint(stored_job.root, "one", to=archive).manifest
    stored_job.put("panekeeper/runs.json", '{"runs": 2}')
    before = stored_job.run().contents()
    (only,) = set(made.blobs) - set(savepoint(stored_job.root, "two", to=archive).manifest.blobs)
    killed_at("tables", archive)
    if lost == "manifest":
        archive.files[manifest_file("one")] = archive.files[manifest_file("one")][:-9]
    else:
        RestorePaths(checkpoint=stored_job.files).incoming.clear()
        archive.files[only] = b"damaged"
    with pytest.raises(DamagedSavepoint, match="use another savepoint"):
        restore(archive, "one", checkpoint=stored_job.root)
    restore(archive, "two")
    assert without_record(stored_job.contents()) == without_record(before)
    assert stored_job.siblings() == ["checkpoint"]


def test_the_copy_of_another_restore_is_not_taken_for_that_of_an_interrupted_one(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Its savepoint was away for a while, and another restore was killed before it had taken its place."""
    before = stored_job.contents()
    savepoint(stored_job.root, "one", to=archive)
    stored_job.put("metadata", '{"id":"another one, in as many files"}')
    savepoint(stored_job.root, "two", to=archive)
    killed_at("tables", archive)
    away = archive.files.pop(manifest_file("one"))

    def on_step(_: str) -> None:
        raise Killed

    with pytest.raises(Killed):
        restore(archive, "two", on_step=on_step)
    archive.files[manifest_file("one")] = away
    restore(archive, "one")
    assert without_record(stored_job.contents()) == without_record(before)


class Delta:
    """Stands for a session that reads a table at a version, all files of which are there."""

    def __getattr__(self, _: str) -> Callable[..., Delta]:
        return lambda *_: self

    def inputFiles(self) -> list[str]:  # noqa: N802 -- as Spark calls it
        return []


DELTA: Any = type("Session", (), {"read": Delta()})()


def job_with_versions(job: FakeCheckpoint, archive: MemoryArchive) -> LocalFiles:
    """Savepoint "one" of version 0 of a table, "two" of version 1; a restore of "one" was killed. Return the table."""
    table = LocalFiles(job.folder.parent).child("log")
    job.tables(log=table.root)
    for version, name in enumerate(("one", "two")):
        table.put_bytes(f"_delta_log/{version:020d}.json", b"{}")
        savepoint(job.root, name, to=archive)
    killed_at("intended", archive, spark=DELTA)
    return table


def test_another_restore_takes_the_place_of_one_whose_tables_have_lost_its_version(
    job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """By a VACUUM, or because Delta has cleaned up the log; the error of the same restore says so."""
    table = job_with_versions(job, archive)
    with pytest.raises(SavepointRefused, match="complete it first"):
        restore(archive, "two", dry_run=True, spark=DELTA)
    table.put_bytes(f"_delta_log/{1:020d}.checkpoint.parquet", b"")
    table.remove(f"_delta_log/{0:020d}.json")
    with pytest.raises(TableVersionLost, match=rf"takes its place: .* LOCATION NAME --checkpoint {job.root}$"):
        restore(archive, "one", spark=DELTA)
    assert restore(archive, "two", dry_run=True, spark=DELTA).epoch == 2


def test_tables_that_are_restored_already_may_lose_the_version(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """What is left of the restore needs it no more."""
    table, paths = job_with_versions(job, archive), RestorePaths(checkpoint=job.files)
    intent = read_intent(paths)
    assert intent is not None
    write_intent(paths, replace(intent, done="tables"))
    table.remove(f"_delta_log/{0:020d}.json")
    with pytest.raises(SavepointRefused, match="complete it first"):
        restore(archive, "two", dry_run=True, spark=DELTA)
    assert restore(archive, "one", spark=DELTA).epoch == identity(job)[1] == 1


def test_a_restore_that_cannot_be_completed_says_how_to_recover(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Whether the folder is named or not; a name without an interrupted restore is only unknown."""
    killed_for_good(stored_job, archive, "intended")
    way_out = (
        rf"A restore of it to {stored_job.root} was interrupted .* another savepoint .* --checkpoint {stored_job.root}$"
    )
    for checkpoint in (None, stored_job.root):
        with pytest.raises(NoSuchSavepoint, match=way_out):
            restore(archive, "one", checkpoint=checkpoint)
    with pytest.raises(NoSuchSavepoint, match=r"it holds two$"):
        restore(archive, "three")


def test_a_mount_point_is_refused_before_the_tables_are_restored(
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
    assert job.siblings() == ["checkpoint", "link"]
    restore(archive, "one", checkpoint=job.folder / "checkpoint")


def test_a_job_whose_reset_was_interrupted_can_be_restored(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """Like any stopped job; in an epoch after that of the reset, which some of its tables may have."""
    savepoint(job.folder, "one", to=archive)
    job.put(RESET_FILE, '{"epoch": 1, "view": null}')
    assert restore(archive, "one").epoch == 2
    assert not (job.folder / RESET_FILE).exists()


def test_a_restored_checkpoint_has_its_newest_savepoint_noted(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """Without it the upkeep of its tables would remove what the savepoints need, and reports would show none."""
    early, late = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
    savepoint(job.folder, "one", to=archive, made_at=early)
    savepoint(job.folder, "two", to=MemoryArchive("memory://other"), made_at=late)

    def newest(folder: Path) -> tuple[str, str]:
        noted = read_last_savepoint(checkpoint_at(folder))
        assert noted is not None
        return noted.name, noted.location

    restore(archive, "one")
    assert newest(job.folder) == ("two", "memory://other")
    restore(archive, "one", checkpoint=tmp_path / "new")
    assert newest(tmp_path / "new") == ("one", archive.location)
