"""A savepoint that somebody else wrote changes nothing but the checkpoint at hand, unless the caller names it."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from panekeeper.recovery.errors import DamagedSavepoint, SavepointRefused, UntrustedSavepoint
from panekeeper.recovery.restore.checks import SharedTables, target_at, unconfirmed_tables
from panekeeper.recovery.restore.clone import clone
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import show, verify
from panekeeper.recovery.savepoint.checkpoint_copy import temporary_copy
from panekeeper.recovery.savepoint.create import Savepoint
from panekeeper.recovery.savepoint.manifest import KEY_VARIABLE, manifest_file
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.state.checkpoint.folder import JOB_FILE, TABLES_FILE
from panekeeper.state.checkpoint.job_record import MAX_EPOCH
from panekeeper.state.errors import CorruptState
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

USES: dict[str, Callable[[Archive, Path], Any]] = {
    "restore": lambda archive, _: restore(archive, "one"),
    "clone": lambda archive, folder: clone(archive, "one", into=folder / "clone"),
    "verify": lambda archive, _: verify(archive, "one"),
}

COPIES = USES | {"verify": lambda archive, _: temporary_copy(archive, show(archive, "one")).__enter__()}
"""What writes a copy that Spark reads; `verify` does so if it is deep."""


def with_tables(job: FakeCheckpoint) -> FakeCheckpoint:
    """Let a job have a table, in a Delta log of one commit."""
    folder = LocalFiles(job.folder.parent / "log")
    folder.put_bytes("_delta_log/00000000000000000000.json", b"{}")
    job.tables(log=folder.root, view=None)
    return job


def forge(archive: MemoryArchive, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest of savepoint "one", and its checksum with it."""
    whole = json.loads(archive.files[manifest_file("one")])
    change(whole["content"])
    whole["sha256"] = hashlib.sha256(json.dumps(whole["content"], sort_keys=True).encode()).hexdigest()
    archive.files[manifest_file("one")] = json.dumps(whole).encode()


def add_file(archive: MemoryArchive, path: str, data: bytes = b"{}") -> None:
    """Add a file to savepoint "one", in place of one of that path."""
    digest = hashlib.sha256(data).hexdigest()
    archive.files[f"blobs/{digest}"] = data

    def change(content: dict[str, Any]) -> None:
        others = [file for file in content["files"] if file["path"] != path]
        content["files"] = [*others, {"path": path, "size": len(data), "sha256": digest}]

    forge(archive, change)


@pytest.fixture
def made(job: FakeCheckpoint, archive: MemoryArchive) -> Savepoint:
    """Savepoint "one" of the job."""
    return savepoint(job.folder, "one", to=archive)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("path", ["../planted", "/planted", "state/../../planted", "state//x", "begin.json", "a/b"])
def test_a_file_outside_of_a_checkpoint_is_never_written(
    archive: MemoryArchive, tmp_path: Path, use: str, path: str
) -> None:
    """Nor one that would have the next start discard the job's state; nothing at all is written."""
    add_file(archive, path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DamagedSavepoint, match="content that Panekeeper never writes"):
        USES[use](archive, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.usefixtures("made")
def test_a_blob_that_is_larger_than_its_manifest_says_is_not_read_to_its_end(archive: MemoryArchive) -> None:
    """It would fill the disk."""
    add_file(archive, "state/0/0/x")
    blob = next(name for name in archive.files if archive.files[name] == b"{}")
    archive.files[blob] = b"{}" + b"0" * 1000
    with pytest.raises(DamagedSavepoint, match="more than 2 bytes"):
        restore(archive, "one")


def test_a_table_that_only_the_manifest_names_is_not_taken_back(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """The message has the whole command that confirms it."""
    savepoint(with_tables(job).folder, "one", to=archive)
    other = LocalFiles(tmp_path / "other")
    other.put_bytes("_delta_log/00000000000000000000.json", b"{}")
    foreign = {"path": other.root, "version": 0, "sha256": "0" * 64}
    forge(archive, lambda content: content["tables"].update(metrics=foreign))
    with pytest.raises(SavepointRefused) as refused:
        restore(archive, "one")
    assert f"does not name {other.root} as its own" in str(refused.value)
    flags = f"--checkpoint {job.folder} --table {other.root}"
    assert str(refused.value).endswith(f"panekeeper restore memory://test one {flags}")


def test_tables_are_confirmed_by_the_checkpoint_or_the_caller(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """In any spelling of their path."""
    manifest = savepoint(with_tables(job).folder, "one", to=archive).manifest
    here, new = (
        SharedTables.of(manifest, target_at(root, "readings")) for root in (job.top, LocalFiles(tmp_path / "new"))
    )
    assert unconfirmed_tables(here, ()) == ()
    assert unconfirmed_tables(new, ()) == (f"{tmp_path}/log",)
    assert unconfirmed_tables(new, [f"file:{tmp_path}/x/../log"]) == ()
    assert unconfirmed_tables(new, [tmp_path / "log"]) == ()


@pytest.mark.parametrize("lost", ["folder", TABLES_FILE])
def test_after_a_loss_the_message_has_the_command(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path, lost: str
) -> None:
    """The whole checkpoint, or the file that names its tables."""
    savepoint(with_tables(job).folder, "one", to=archive)
    if lost == "folder":
        job.top.clear()
    else:
        job.put(lost, "{")
    with pytest.raises(SavepointRefused, match=rf"--checkpoint {job.folder} --table {tmp_path}/log$"):
        restore(archive, "one")


@pytest.mark.usefixtures("made")
def test_a_folder_that_only_the_manifest_names_is_not_created(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """A lost checkpoint without tables is restored once its folder is named."""
    job.top.clear()
    with pytest.raises(SavepointRefused, match=rf"one --checkpoint {job.folder}$"):
        restore(archive, "one")
    assert list(tmp_path.iterdir()) == []
    assert restore(archive, "one", checkpoint=job.folder).replaces is False


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("content", [b'{"log": "/other/table"}', b"{", b"[1]", b'{"log": 1}'])
def test_a_savepoint_whose_own_file_names_other_tables_is_refused(archive: MemoryArchive, content: bytes) -> None:
    """The next restore would rely on that file."""
    add_file(archive, TABLES_FILE, content)
    with pytest.raises((DamagedSavepoint, CorruptState), match=rf"{TABLES_FILE}.* (does not fit|is damaged)"):
        restore(archive, "one")


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("change", [{"id": "no number"}, {"id": "ba9876543210"}, {"epoch": 2**60}, {"name": "other"}])
def test_a_savepoint_whose_own_record_is_anothers_is_refused_before_anything_is_changed(
    job: FakeCheckpoint, archive: MemoryArchive, change: dict[str, Any]
) -> None:
    """The tables would be restored, and could then not be given to a checkpoint with such an id or epoch."""
    record = json.loads(job.contents()[JOB_FILE]) | change
    add_file(archive, JOB_FILE, json.dumps(record).encode())
    with pytest.raises(DamagedSavepoint, match=rf"{JOB_FILE} .* does not fit its manifest"):
        restore(archive, "one")
    assert job.epochs == [0]


def snapshot(local_name: str) -> bytes:
    """A snapshot of the state that names a file."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as one:
        files = [{"localFileName": local_name, "dfsSstFileName": "1.sst", "sizeBytes": 2}]
        one.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files}))
    return written.getvalue()


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("use", COPIES)
@pytest.mark.parametrize(
    ("path", "data"),
    [("state/0/0/3_u2.zip", snapshot("../x")), ("commits/2", b'v2\n{"stateUniqueIds":{"0":[["../x"]]}}')],
    ids=["snapshot", "commit"],
)
def test_names_by_which_spark_would_write_elsewhere_are_refused(
    archive: MemoryArchive, tmp_path: Path, use: str, path: str, data: bytes
) -> None:
    """Those of files in a snapshot, and the ids in a commit, by which it looks for snapshots."""
    add_file(archive, path, data)
    with pytest.raises(DamagedSavepoint, match=rf"{path} .* content that Spark never writes"):
        COPIES[use](archive, tmp_path)


@pytest.mark.parametrize("use", USES)
def test_with_a_key_only_savepoints_signed_with_it_are_used(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """Not one without a signature, of another key, or changed afterwards; they are still listed and shown."""
    savepoint(job.folder, "one", to=archive)
    unsigned = archive.files.pop(manifest_file("one"))
    monkeypatch.setenv(KEY_VARIABLE, "the key of another team")
    savepoint(job.folder, "one", to=archive)
    other = archive.files.pop(manifest_file("one"))
    monkeypatch.setenv(KEY_VARIABLE, "the key of this team")
    savepoint(job.folder, "one", to=archive)
    signed = archive.files[manifest_file("one")]
    for data, why in ((unsigned, "is not signed"), (other, "is wrongly signed")):
        archive.files[manifest_file("one")] = data
        with pytest.raises(UntrustedSavepoint, match=why):
            USES[use](archive, tmp_path)
        assert show(archive, "one").job == "readings"
    archive.files[manifest_file("one")] = signed
    forge(archive, lambda content: content.update(epoch=7))
    with pytest.raises(UntrustedSavepoint, match="is wrongly signed"):
        USES[use](archive, tmp_path)
    archive.files[manifest_file("one")] = signed
    USES[use](archive, tmp_path)


def test_a_short_key_is_refused_before_anything_is_stored(
    job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one as well, as from a secret that is missing; the message does not repeat it."""
    for key in ("", "hunter2"):
        monkeypatch.setenv(KEY_VARIABLE, key)
        with pytest.raises(SavepointRefused, match=rf"has {len(key)} bytes") as refused:
            savepoint(job.folder, "one", to=archive)
        assert "hunter2" not in str(refused.value)
    assert archive.files == {}


def test_without_a_key_a_signed_savepoint_is_used_as_any_other(
    job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content is the same."""
    monkeypatch.setenv(KEY_VARIABLE, "0123456789abcdef")
    made = savepoint(job.folder, "one", to=archive)
    monkeypatch.delenv(KEY_VARIABLE)
    assert show(archive, "one") == made.manifest
    with temporary_copy(archive, made.manifest) as folder:
        assert (Path(folder) / "metadata").read_text() == job.contents()["metadata"]


def test_a_savepoint_after_which_no_other_one_could_be_made_is_refused(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path
) -> None:
    """The restored job would have an epoch that no manifest may have: nothing could be saved or rescaled any more."""
    savepoint(job.folder, "one", to=archive)
    record = json.loads(job.contents()[JOB_FILE]) | {"epoch": MAX_EPOCH}
    add_file(archive, JOB_FILE, json.dumps(record).encode())
    forge(archive, lambda content: content.update(epoch=MAX_EPOCH))
    before = job.contents()
    for folder in (job.folder, tmp_path / "new"):
        with pytest.raises(DamagedSavepoint, match="would have epoch 100001, and Panekeeper writes none after"):
            restore(archive, "one", checkpoint=folder)
    assert job.contents() == before
