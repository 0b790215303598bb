"""Any history of savepoints: what is kept can be restored, and what was sent is not sent again."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper.recovery.errors import NoSuchSavepoint, SavepointRefused
from panekeeper.recovery.savepoint.catalog import prune, savepoints, show, verify
from panekeeper.recovery.savepoint.manifest import KEY_VARIABLE, manifest_file
from panekeeper.recovery.storage.archive import ByteSink
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

HISTORY = st.lists(
    st.tuples(st.sampled_from("ab"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3))), min_size=1
)
"""Which job is saved, and what three of its files hold then; equal contents occur in both jobs."""

BLOB = "00" * 32

FEW = settings(max_examples=settings().max_examples // 4)


def save_all(folder: Path, history: list[tuple[str, dict[str, int]]], archive: MemoryArchive) -> None:
    """Make one savepoint for each entry, a minute apart."""
    jobs = {name: FakeCheckpoint(folder / name, job=name).run() for name in "ab"}
    for number, (name, files) in enumerate(history):
        for file, content in files.items():
            jobs[name].put(f"state/0/0/SSTs/{file}.sst", str(content) * 9)
        made_at = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(minutes=number)
        savepoint(jobs[name].folder, f"s{number}", to=archive, made_at=made_at)


@FEW
@given(history=HISTORY, keep=st.integers(1, 3))
def test_prune_never_removes_a_blob_that_another_savepoint_needs(
    history: list[tuple[str, dict[str, int]]], keep: int
) -> None:
    """The newest of each job stay whole; nothing else stays."""
    archive = MemoryArchive()
    with tempfile.TemporaryDirectory() as folder:
        save_all(Path(folder), history, archive)
    done = prune(archive, keep=keep)

    expected = {f"s{n}" for job in "ab" for n in [n for n, (name, _) in enumerate(history) if name == job][-keep:]}
    assert set(savepoints(archive)) == set(done.kept) == expected
    for name in expected:
        verify(archive, name)
    needed = {blob for one in savepoints(archive).values() for blob in one.blobs}  # type: ignore[union-attr]
    assert set(archive.sizes("blobs/")) == needed


@FEW
@given(history=HISTORY)
def test_no_content_is_sent_twice(history: list[tuple[str, dict[str, int]]]) -> None:
    """Whichever job or savepoint brought it first."""
    archive = MemoryArchive()
    with tempfile.TemporaryDirectory() as folder:
        save_all(Path(folder), history, archive)
    assert len(archive.puts) == len(set(archive.puts))


def test_the_newest_savepoint_is_that_of_the_last_batch_whatever_the_clock_was(
    job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """One that was made while the clock was a month ahead does not outlive those that follow."""
    ahead = datetime(2024, 6, 1, tzinfo=UTC)
    savepoint(job.folder, "clock-ahead", to=archive, made_at=ahead)
    savepoint(job.run(5).folder, "newest", to=archive, made_at=ahead - timedelta(days=30))
    assert prune(archive, keep=1).kept == ("newest",)


def test_a_clone_of_a_job_does_not_take_the_place_of_its_savepoints(
    tmp_path: Path, job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """It has the name of the job, and may save to the same location."""
    clone = FakeCheckpoint(tmp_path / "clone", job_id="aaaaaaaaaaaa").run(9)
    savepoint(job.folder, "production", to=archive)
    savepoint(clone.folder, "trial", to=archive)
    assert set(prune(archive, keep=1).kept) == {"production", "trial"}


def test_an_unsigned_savepoint_does_not_take_the_place_of_a_signed_one(
    job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has no key could have every savepoint removed by one of a far batch; older unsigned ones are pruned, too."""
    savepoint(job.folder, "before-there-was-a-key", to=archive)
    monkeypatch.setenv(KEY_VARIABLE, "a key of the job's owners")
    savepoint(job.run().folder, "old", to=archive)
    savepoint(job.run().folder, "new", to=archive)
    monkeypatch.setenv(KEY_VARIABLE, "a key of somebody else")
    savepoint(job.run(9).folder, "far", to=archive)
    monkeypatch.setenv(KEY_VARIABLE, "a key of the job's owners")
    assert set(prune(archive, keep=1).kept) == {"new", "far"}


def test_prune_removes_nothing_while_a_manifest_cannot_be_read(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """The blobs it needs are not known."""
    savepoint(job.folder, "one", to=archive)
    savepoint(job.run().folder, "two", to=archive)
    archive.files[manifest_file("two")] = archive.files[manifest_file("two")][:100]
    before = dict(archive.files)
    with pytest.raises(SavepointRefused, match="nothing was removed"):
        prune(archive, keep=1)
    assert archive.files == before


def test_prune_removes_what_a_killed_savepoint_left(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """Blobs without a manifest."""
    savepoint(job.folder, "one", to=archive)
    archive.files[f"blobs/{BLOB}"] = b"left"
    assert prune(archive, keep=1).blobs == 1
    verify(archive, "one")


def test_files_of_others_in_a_location_are_no_savepoints_and_stay(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """As an editor, a desktop or a file system leaves them; or all of a folder, if `blobs` is a link to it."""
    others = (
        "savepoints/.DS_Store",
        "savepoints/one.json~",
        "savepoints/a b.json",
        "blobs/letter.txt",
        "blobs/a/" + BLOB,
    )
    savepoint(job.folder, "one", to=archive)
    archive.files |= dict.fromkeys(others, b"theirs")
    assert list(savepoints(archive)) == ["one"]
    with pytest.raises(NoSuchSavepoint, match=r"it holds one$"):
        show(archive, "two")
    assert prune(archive, keep=1).blobs == 0
    assert {archive.files[name] for name in others} == {b"theirs"}


def test_a_savepoint_that_is_removed_while_they_are_listed_is_left_out(
    job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """By a prune in another process."""

    class Pruned(MemoryArchive):
        def get(self, name: str, into: ByteSink) -> None:
            self.files.pop(manifest_file("one"), None)
            super().get(name, into)

    savepoint(job.folder, "one", to=archive)
    savepoint(job.folder, "two", to=archive)
    pruned = Pruned()
    pruned.files = archive.files
    assert list(savepoints(pruned)) == ["two"]


def test_prune_keeps_at_least_one(archive: MemoryArchive) -> None:
    """To keep none is refused."""
    with pytest.raises(SavepointRefused, match="keep is 0"):
        prune(archive, keep=0)
