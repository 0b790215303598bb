"""What is particular to a checkpoint on S3: names, markers, interrupted copies, and errors of S3."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.core import set_initial_no_auth_action_count

from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main
from panekeeper.recovery.errors import ArchiveDenied, ArchiveNotFound, SavepointRefused
from panekeeper.recovery.jobs.drain import checkpoint_folder
from panekeeper.recovery.jobs.status import status
from panekeeper.recovery.restore.clone import clone
from panekeeper.recovery.restore.prune import prune_epochs
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import verify
from panekeeper.recovery.storage.locations import checkpoint_at, open_archive
from panekeeper.state.checkpoint.epochs import is_begun
from panekeeper.state.checkpoint.folder import JOB_FILE, RUNNING_FILE, claim_file
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.own_paths import with_new_path
from tests.fake_checkpoint import SECRET, FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive


@pytest.fixture
def s3_job(bucket: str) -> FakeCheckpoint:
    """A job on S3 that did three batches and was stopped."""
    return FakeCheckpoint(f"{bucket}/jobs/checkpoint").run(3)


class Killed(BaseException):
    """Stands for the end of the process."""


class KillAtCall:
    """Kills the caller at the call of this number that changes anything on S3; 0 only counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        session = boto3.session.Session()
        session.events.register("before-call.s3", self._count)
        monkeypatch.setattr(boto3.session, "Session", lambda **_: session)
        self.at = 0
        self.calls = 0

    def _count(self, model: Any, **_: Any) -> None:
        if not model.name.startswith(("Get", "Head", "List")):
            self.calls += 1
            if self.calls == self.at:
                raise Killed


def test_a_restore_killed_at_any_change_on_s3_is_completed_by_the_same_call(
    bucket: str, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amid the copy, before and after the one request that switches, and amid what is noted after it."""
    kill = KillAtCall(monkeypatch)

    def job(name: str) -> tuple[FakeCheckpoint, dict[str, str]]:
        made = FakeCheckpoint(f"{bucket}/{name}/checkpoint").run(1)
        before = made.contents()
        savepoint(made.root, name, to=archive)
        made.run(1)
        return made, before

    counts: dict[str, int] = {}
    job("lives")
    kill.calls = 0
    restore(archive, "lives", on_step=lambda step: counts.update({step: kill.calls}))
    copied, current, end = counts["copied"], counts["current"], counts["owned"]
    for at in (1, copied // 2, copied, *range(current - 1, end + 1)):
        made, before = job(f"crashes-at-{at}")
        after = made.contents()
        kill.calls, kill.at = 0, at
        with pytest.raises(Killed):
            restore(archive, f"crashes-at-{at}")
        kill.at = 0
        if made.files.place.endswith("0000"):
            lease = (RUNNING_FILE, claim_file(1))
            assert {name: text for name, text in made.contents().items() if name not in lease} == after
        restore(archive, f"crashes-at-{at}")
        found = made.contents()
        assert {name: text for name, text in found.items() if name != JOB_FILE} == {
            name: text for name, text in before.items() if name != JOB_FILE
        }
        assert is_begun(made.files)


def test_a_savepoint_is_restored_from_one_storage_to_another(
    s3_job: FakeCheckpoint, job: FakeCheckpoint, bucket: str, tmp_path: Path, archive: MemoryArchive
) -> None:
    """From S3 to a folder, from a folder to S3, and within S3; Spark finds the names that it would have written."""
    savepoint(s3_job.root, "far", to=archive)
    savepoint(job.root, "near", to=archive)
    moves = [
        ("far", str(tmp_path / "here"), f"file://{tmp_path}/here"),
        ("near", f"{bucket}/there", f"{bucket}/there"),
        ("far", f"{bucket}/jobs/other", f"{bucket}/jobs/other"),
    ]
    for name, location, root in moves:
        restore(archive, name, checkpoint=location)
        files, url = checkpoint_at(location).child("epochs/0001"), f"{root}/epochs/0001"
        assert f'"path":"{url}/pulse/000000000001.json"' in files.read("sources/1/0").decode()
        assert f'["{url}/state/0/_stateSchema/default/0_x"]' in files.read("state/0/_metadata/v2/0").decode()
    savepoint(tmp_path / "here", "back", to=archive)
    assert json.loads(archive.files["savepoints/back.json"])["content"]["checkpoint"] == str(tmp_path / "here")


def test_names_are_quoted_where_spark_quotes_them() -> None:
    """In the log of a source as in a URL, in the metadata as they are."""
    old, new = "s3a://bucket/jobs", "/a/my job"
    assert with_new_path("sources/0/0", b"s3a://bucket/jobs/x", old=old, new=new) == b"file:///a/my%20job/x"
    assert with_new_path("state/0/_metadata/v2/0", b"s3a://bucket/jobs/x", old=old, new=new) == b"file:///a/my job/x"
    assert with_new_path("sources/0/0", b"file:///a/my%20job/x", old=new, new=old) == b"s3a://bucket/jobs/x"
    assert with_new_path("state/0/_metadata/v2/0", b"file:/a/my job/x", old=new, new=old) == b"s3a://bucket/jobs/x"


def test_a_clone_of_a_job_on_s3_is_another_job(
    s3_job: FakeCheckpoint, bucket: str, tmp_path: Path, archive: MemoryArchive
) -> None:
    """In a local folder, and on S3; the original is not changed."""
    before = s3_job.contents()
    savepoint(s3_job.root, "one", to=archive)
    for into in (str(tmp_path / "clone"), f"{bucket}/clone"):
        made = clone(archive, "one", into=into)
        record = read_record(checkpoint_at(made.checkpoint).child("epochs/0001"))
        assert record is not None
        assert (made.checkpoint, record.id != "0123456789ab") == (f"{into}/checkpoint", True)
        with pytest.raises(SavepointRefused, match="not empty"):
            clone(archive, "one", into=into)
    assert s3_job.contents() == before


def test_markers_that_hadoop_leaves_for_folders_are_no_files(
    s3_job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not saved, and are removed with an epoch, each after what is in its folder.

    A store that keeps objects as files refuses to remove a folder that is not empty.
    """
    before = s3_job.contents()
    removed: list[str] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        removed.extend(one["Key"] for one in params["Delete"]["Objects"])

    session = boto3.session.Session()
    session.events.register("before-parameter-build.s3.DeleteObjects", note)
    monkeypatch.setattr(boto3.session, "Session", lambda **_: session)
    client = boto3.client("s3")
    for marker in ("checkpoint/", "checkpoint/epochs/0000/", "checkpoint/epochs/0000/state/0/"):
        client.put_object(Bucket="bucket", Key=f"jobs/{marker}", Body=b"")
    made = savepoint(s3_job.root, "one", to=archive)
    assert {file.path for file in made.manifest.files} == set(before)
    restore(archive, "one")
    prune_epochs(s3_job.root)
    keys = [one["Key"] for one in client.list_objects_v2(Bucket="bucket")["Contents"]]
    assert not [key for key in keys if "/0000/" in key]
    places = {key: number for number, key in enumerate(removed)}
    folder = "jobs/checkpoint/epochs/0000/"
    assert all(places[folder] > number for key, number in places.items() if key.startswith(folder) and key != folder)


def test_checkpoint_and_savepoints_may_both_be_on_s3(
    s3_job: FakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By command; s3:// is s3a://, a second savepoint sends only what is new, and no copy is left on this host."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run_json(*arguments: str) -> dict[str, Any]:
        assert main([*arguments, "--json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    location, url = "s3://bucket/savepoints", s3_job.root.replace("s3a:", "s3:")
    first = run_json("savepoint", url, "one", "--to", location, "--no-decode")
    s3_job.run()
    second = run_json("savepoint", s3_job.root, "two", "--to", location, "--no-decode")
    assert (first["batch"], second["batch"], second["bytes_reused"]) == (2, 3, first["bytes_sent"])
    assert verify(open_archive(location), "one").files == first["files"]
    assert run_json("restore", location, "one", "--dry-run")["forgotten"] == [3, 3]
    assert run_json("restore", location, "one")["checkpoint"] == s3_job.root
    assert run_json("status", url)["last_commit"] == 2
    assert list(tmp_path.iterdir()) == []


def test_tables_on_s3_are_saved_as_of_the_batch_while_the_job_runs(
    s3_job: FakeCheckpoint, bucket: str, archive: MemoryArchive
) -> None:
    """The job commits a batch more meanwhile, whose rows are in its table; the log is read from its checkpoint on."""
    log = checkpoint_at(f"{bucket}/tables/log")
    for version in range(6):
        actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": version, "operation": "WRITE"}}]
        if version:
            actions.append({"txn": {"appId": "readings/log@0123456789ab#0", "version": version - 1}})
        log.put_bytes(f"_delta_log/{version:020d}.json", "\n".join(map(json.dumps, actions)).encode())
    log.put_bytes(f"_delta_log/{1:020d}.checkpoint.parquet", b"of Spark's, with nothing that is looked for")
    log.put_bytes(f"_delta_log/{0:020d}.json", b"an old commit, in which nobody needs to look")
    s3_job.tables(log=log.root, view=None)
    s3_job.lease(pid=os.getpid())

    def work(_: float) -> None:
        s3_job.write_control_file(2)  # the command, which savepoint() wrote
        s3_job.run(2)

    made = savepoint(s3_job.root, "one", to=archive, sleep=work)
    assert (made.manifest.batch, made.manifest.tables["log"].version) == (3, 4)


def test_two_commands_never_take_the_same_number(s3_job: FakeCheckpoint) -> None:
    """A file that must not be there is created with a condition."""
    with pytest.raises(FileExistsError, match=r"pulse/000000000001\.json in s3a://bucket/jobs/checkpoint"):
        s3_job.files.write_json("pulse/000000000001.json", {})
    s3_job.files.write_json("pulse/000000000001.json", {"kind": "tick"}, replace=True)
    assert s3_job.files.read_json("pulse/000000000001.json") == {"kind": "tick"}
    assert s3_job.files.read_json("pulse/000000000002.json") is None


def test_status_of_a_job_on_s3_needs_no_spark(s3_job: FakeCheckpoint) -> None:
    """It reads the same small files."""
    result = status(checkpoint_folder(s3_job.root))
    assert (result.checkpoint, result.job, result.last_commit, result.resumable) == (s3_job.root, "readings", 2, True)


def test_a_bucket_that_is_not_there_is_reported(s3_job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path) -> None:
    """Nothing can be saved or restored there; but a job whose bucket is gone is restored elsewhere."""
    with pytest.raises(ArchiveNotFound, match="there is no bucket 'nowhere'"):
        savepoint("s3a://nowhere/checkpoint", "one", to=archive)
    savepoint(s3_job.root, "one", to=archive)
    with pytest.raises(ArchiveNotFound, match="there is no bucket 'nowhere'"):
        restore(archive, "one", checkpoint="s3a://nowhere/checkpoint")
    s3_job.top.clear()
    boto3.client("s3").delete_bucket(Bucket="bucket")
    restore(archive, "one", checkpoint=tmp_path / "here")
    assert (tmp_path / "here/epochs/0001/commits/2").is_file()


def test_no_message_and_no_manifest_holds_a_secret(
    s3_job: FakeCheckpoint, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused permissions, a wrong endpoint, credentials in the URL."""
    savepoint(s3_job.root, "one", to=archive)
    assert SECRET.encode() not in b"".join(archive.files.values())

    @set_initial_no_auth_action_count(0)  # from now on permissions are looked at, and there are none
    def refused(act: Callable[[], object]) -> str:
        with pytest.raises(ArchiveDenied, match=r"refuses the credentials, .* permit listing") as denied:
            act()
        return str(denied.value)

    for act in (
        lambda: savepoint(s3_job.root, "two", to=archive),
        lambda: restore(archive, "one"),
        lambda: clone(archive, "one", into=f"{s3_job.root}-clone"),
    ):
        text = refused(act)
        assert SECRET not in text
        assert "AKIATEST" not in text
    monkeypatch.setenv("AWS_ENDPOINT_URL", "nonsense://me:hunter2@host")
    for checkpoint in (s3_job.root, "s3a://AKIA:hunter2@bucket/checkpoint"):
        assert main(["savepoint", checkpoint, "two", "--to", "/nowhere"]) == ExitCode.FAILED
        text = capsys.readouterr().err
        assert len(text.splitlines()) == 1
        assert "hunter2" not in text
