"""What a savepoint holds, what it leaves out, and what it refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from panekeeper.framework.declarations.errors import ForeignCheckpoint
from panekeeper.recovery.errors import DamagedSavepoint, NoSuchSavepoint, SavepointError, SavepointRefused
from panekeeper.recovery.savepoint import create
from panekeeper.recovery.savepoint.catalog import savepoints, show, verify
from panekeeper.recovery.savepoint.checkpoint_snapshot import CheckpointSnapshot, read_checkpoint
from panekeeper.recovery.savepoint.create import _copy_with_retry
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.delta_tables import SavedTable
from panekeeper.state.checkpoint.epochs import BEGIN_FILE, Begin, write_begin
from panekeeper.state.checkpoint.folder import FLUSHED_FILE, RUNNING_FILE, prepared_file
from panekeeper.state.own_paths import with_new_path
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive


def paths(manifest: Manifest) -> set[str]:
    """The checkpoint's files in a savepoint."""
    return {file.path for file in manifest.files}


def test_a_savepoint_holds_every_file_of_a_cleanly_stopped_job(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Nothing is left out but Hadoop's hidden checksums."""
    stored_job.put("offsets/.2.crc", "x")
    made = savepoint(stored_job.root, "one", to=archive)
    assert paths(made.manifest) == set(stored_job.contents()) - {"offsets/.2.crc"}
    assert (made.manifest.batch, made.manifest.unfinished) == (2, None)
    assert made.manifest.settings == {"spark.sql.shuffle.partitions": "2"}
    assert show(archive, "one") == made.manifest


def test_a_batch_without_its_commit_is_left_out_wherever_it_wrote(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Its offsets, its source's log, its state and its metadata: the copy is as of the last commit."""
    before = set(stored_job.contents())
    stored_job.begin()
    stored_job.put("state/0/_metadata/v2/3", "v2\n{}")
    stored_job.put(FLUSHED_FILE, '{"batch": 3}')
    stored_job.put(prepared_file(0, 3), "what it writes")
    stored_job.put(f"{prepared_file(0, 3)}-ab/part-0", "rows")
    made = savepoint(stored_job.root, "one", to=archive)
    assert paths(made.manifest) == before
    assert (made.manifest.batch, made.manifest.unfinished) == (2, 3)


def test_the_checkpoint_may_be_named_by_a_link(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """As of a checkpoint that was moved to another disk."""
    (tmp_path / "link").symlink_to(job.folder)
    assert paths(savepoint(tmp_path / "link", "one", to=archive).manifest) == set(job.contents())


def test_a_finished_job_stays_finished(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """The record of a committed flush is part of the savepoint; the lease never is."""
    stored_job.put(FLUSHED_FILE, '{"batch": 2}')
    stored_job.lease(pid=1, host="elsewhere")
    found = paths(savepoint(stored_job.root, "one", to=archive).manifest)
    assert FLUSHED_FILE in found
    assert RUNNING_FILE not in found


def test_a_second_savepoint_sends_only_what_is_new(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """One more batch costs the bytes of that batch."""
    first = savepoint(stored_job.root, "one", to=archive)
    again = savepoint(stored_job.root, "two", to=archive)
    later = savepoint(stored_job.run().root, "three", to=archive)
    assert (first.bytes_reused, again.bytes_sent) == (0, 0)
    assert again.bytes_reused == first.bytes_sent
    new = sum(len(text) for path, text in stored_job.contents().items() if path not in paths(first.manifest))
    assert 0 < later.bytes_sent <= new


def test_a_blob_that_an_earlier_savepoint_left_damaged_is_sent_again(
    job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """What is reused is read back like what is sent."""
    savepoint(job.folder, "one", to=archive)
    blob = next(iter(archive.sizes("blobs/")))
    archive.files[blob] = b"?" * len(archive.files[blob])
    savepoint(job.folder, "two", to=archive)
    assert verify(archive, "one").files == verify(archive, "two").files


class Altering:
    """An archive that alters what it is given."""

    def __init__(self, inner: MemoryArchive) -> None:
        self._inner = inner
        self.location = "altering"
        self.sizes, self.exists, self.get, self.remove = inner.sizes, inner.exists, inner.get, inner.remove

    def put_file(self, name: str, path: Path) -> None:
        self._inner.put_bytes(name, path.read_bytes()[:-1])

    def put_bytes(self, name: str, data: bytes) -> None:
        self._inner.put_bytes(name, data)

    def put_new(self, name: str, data: bytes) -> None:
        self._inner.put_new(name, data)


def test_no_manifest_is_written_if_the_copy_comes_back_altered(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """A savepoint exists only if all of it was read back."""
    with pytest.raises(DamagedSavepoint, match="what is read from there differs"):
        savepoint(job.folder, "one", to=Altering(archive))
    assert savepoints(archive) == {}


def test_verify_names_what_is_damaged_or_missing(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """One flipped byte, one file gone."""
    made = savepoint(job.folder, "one", to=archive)
    files = {file.path: file for file in made.manifest.files}
    damaged, gone = files["offsets/1"].blob, files["offsets/2"].blob
    archive.files[damaged] = bytes([archive.files[damaged][0] ^ 1]) + archive.files[damaged][1:]
    del archive.files[gone]
    with pytest.raises(DamagedSavepoint, match=r"2 files of savepoint 'one' .* offsets/1, offsets/2"):
        verify(archive, "one")


def test_a_running_job_is_saved_as_of_the_batch_it_takes_for_it(
    stored_job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Not as of a later one, which it may have committed meanwhile; what that one wrote and read is left out."""
    stored_job.lease(pid=os.getpid())

    def work(_: float) -> None:
        stored_job.write_control_file(2)  # the command, which savepoint() wrote
        stored_job.run(1)
        stored_job.write_control_file(3)
        stored_job.run(1)

    made = savepoint(stored_job.root, "one", to=archive, sleep=work)
    assert made.manifest.batch == 3
    kept = paths(made.manifest)
    assert {path for path in kept if path.startswith("pulse/")} == {f"pulse/{n:012d}.json" for n in (1, 2)}
    assert {"offsets/3", "commits/3", "state/0/1/4_u3.changelog"} <= kept
    assert not {"offsets/4", "commits/4", "state/0/1/5_u4.changelog"} & kept


def test_a_running_job_that_commits_no_batch_is_a_timeout(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """Only while the owner of the lease lives: that of a crashed process is not waited for."""
    stored_job.lease(pid=os.getpid())
    with pytest.raises(SavepointRefused, match=r"has committed no batch within 0s, .* drain it first"):
        savepoint(stored_job.root, "one", to=archive, timeout=0)
    stored_job.lease(pid=2**22 + 1)
    savepoint(stored_job.root, "two", to=archive)


def test_a_job_that_ends_instead_is_saved_as_it_ended(stored_job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """No batch reads the command any more, and it is no part of the savepoint."""
    stored_job.lease(pid=os.getpid())
    made = savepoint(stored_job.root, "one", to=archive, sleep=lambda _: stored_job.lease(pid=2**22 + 1))
    assert made.manifest.batch == 2
    assert "pulse/000000000002.json" not in paths(made.manifest)


def test_the_copy_is_tried_again_if_the_job_removes_a_file(job: FakeCheckpoint) -> None:
    """It then has the files that are there."""
    control_file = Path(job.files.place, "pulse/000000000001.json")

    class Meanwhile(MemoryArchive):
        def put_file(self, name: str, path: Path) -> None:
            control_file.unlink(missing_ok=True)  # the job does not need it any more
            super().put_file(name, path)

    archive = Meanwhile()
    made = savepoint(job.folder, "one", to=archive)
    assert "pulse/000000000001.json" not in paths(made.manifest)
    assert verify(archive, "one").files == len(made.manifest.files)


def test_the_copy_is_tried_again_if_the_job_ends_meanwhile(job: FakeCheckpoint) -> None:
    """It writes how it ended, after the file was read and before it was sent; what counts is the newest content."""
    job.put("panekeeper/stopped.json", '{"state": "ended"}')
    ended = iter(["failed"])

    class Meanwhile(MemoryArchive):
        def put_file(self, name: str, path: Path) -> None:
            if state := next(ended, None):
                job.put("panekeeper/stopped.json", f'{{"state": "{state}"}}')
            super().put_file(name, path)

        def put_bytes(self, name: str, data: bytes) -> None:
            if state := next(ended, None):
                job.put("panekeeper/stopped.json", f'{{"state": "{state}"}}')
            super().put_bytes(name, data)

    archive = Meanwhile()
    made = savepoint(job.folder, "one", to=archive)
    [file] = [one for one in made.manifest.files if one.path == "panekeeper/stopped.json"]
    assert file.size == len('{"state": "failed"}')
    assert verify(archive, "one").files == len(made.manifest.files)


def test_the_copy_is_tried_again_if_the_job_is_started_with_other_tables_meanwhile(
    job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore refuses a savepoint whose own file names other tables than its manifest."""
    job.tables(log="/data/log")

    def versions_meanwhile(found: CheckpointSnapshot) -> dict[str, SavedTable]:
        job.tables(log="/data/log", view="/data/view")
        return {role: SavedTable(path=path, version=0, sha256="") for role, path in found.tables.items()}

    monkeypatch.setattr(create, "table_versions", versions_meanwhile)
    found, tables, *_ = _copy_with_retry(job.files, None, archive, None)
    assert set(found.tables) == set(tables) == {"log", "view"}


def test_the_copy_is_given_up_after_five_attempts(job: FakeCheckpoint) -> None:
    """A job that removes files faster than they are copied must be drained first."""

    class Race(MemoryArchive):
        def put_file(self, name: str, path: Path) -> None:
            content = path.read_bytes()
            path.unlink()
            try:
                super().put_file(name, path)
            finally:
                path.write_bytes(content)  # the next time it is another one that goes

    archive = Race()
    with pytest.raises(SavepointError, match=r"has changed or removed files while they were copied, in each of 5"):
        savepoint(job.folder, "one", to=archive)
    assert savepoints(archive) == {}


def test_a_folder_that_is_no_checkpoint_is_refused(job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """A folder without a job, a job without a batch, a checkpoint far away."""
    with pytest.raises(ForeignCheckpoint, match="holds no checkpoint"):
        savepoint(tmp_path / "nowhere", "one", to=archive)
    for commit in Path(job.files.place, "commits").iterdir():
        commit.unlink()
    with pytest.raises(SavepointError, match=r"no batch .* was committed yet"):
        savepoint(job.folder, "one", to=tmp_path / "new/location")
    assert not [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    with pytest.raises(SavepointRefused, match="neither on a local disk nor on S3"):
        savepoint("hdfs://host/checkpoint", "one", to=archive)


@pytest.mark.parametrize("discarded", [(), ("commits/0", "commits/1", "commits/2")])
def test_a_job_whose_reset_was_interrupted_is_not_saved(
    stored_job: FakeCheckpoint, archive: MemoryArchive, discarded: tuple[str, ...]
) -> None:
    """The tables do not fit its state yet."""
    write_begin(stored_job.files, Begin(kind="reset"))
    for name in discarded:
        stored_job.files.remove(name)
    with pytest.raises(
        SavepointRefused, match=r"a reset of .* is not complete: .* Start the job once, which completes it"
    ):
        savepoint(stored_job.root, "one", to=archive)
    assert archive.files == {}


def test_a_reset_that_begins_meanwhile_is_not_copied(job: FakeCheckpoint) -> None:
    """The savepoint is as of the batch before it."""
    found = read_checkpoint(job.files)
    write_begin(job.files, Begin(kind="reset"))
    assert BEGIN_FILE not in found.files()
    assert {"offsets/2", "commits/2"} <= set(found.files())


def test_an_unknown_name_lists_the_known_ones(job: FakeCheckpoint, archive: MemoryArchive) -> None:
    """A typing error shows at once."""
    savepoint(job.folder, "before-upgrade", to=archive)
    with pytest.raises(NoSuchSavepoint, match="it holds before-upgrade"):
        show(archive, "before-upgrad")


def test_the_name_of_the_folder_is_changed_only_where_spark_wrote_it() -> None:
    """In the logs of file sources and the metadata of the state; with one slash or three, and as a URL quotes them."""
    old, new = "/a/my job", "/b"
    text_of = '{{"path":"file://{}/pulse/1.json"}}'.format
    assert with_new_path("sources/1/0", text_of("/a/é%20ü").encode(), old="/a/é ü", new="/b") == text_of("/b").encode()
    assert with_new_path("sources/1/0", text_of("/b").encode(), old="/b", new="/a/é ü") == text_of("/a/é%20ü").encode()
    text = b'{"path":"file:///a/my%20job/pulse/1.json"} file:/a/my job/state file:///a/my%20job2/x'
    changed = b'{"path":"file:///b/pulse/1.json"} file:/b/state file:///a/my%20job2/x'
    assert with_new_path("sources/1/0", text, old=old, new=new) == changed
    assert with_new_path("state/0/_metadata/v2/0", text, old=old, new=new) == changed
    assert with_new_path("state/0/0/1_u.zip", text, old=old, new=new) == text
