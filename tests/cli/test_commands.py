"""The subcommands around savepoints, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main
from panekeeper.recovery.errors import ArchiveDenied, ArchiveError
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.recovery.storage.locations import open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import JOB_FILE

if TYPE_CHECKING:
    from tests.fake_checkpoint import FakeCheckpoint


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Run a command with `--json` and return what it prints."""
    assert main([*map(str, arguments), "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_savepoints_life_on_the_command_line(
    job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Made, listed, shown, verified, restored, cloned, pruned."""
    location = tmp_path / "savepoints"
    to = ["--to", location, "--no-decode"]
    made = run_json(capsys, "savepoint", job.folder, "one", *to)
    assert made["batch"] == 2
    assert run_json(capsys, "savepoint", job.run().folder, "two", *to)["bytes_reused"] == made["bytes_sent"]
    assert [one["name"] for one in run_json(capsys, "savepoints", location)["savepoints"]] == ["one", "two"]
    assert run_json(capsys, "show", location, "one")["job"] == "readings"
    assert run_json(capsys, "verify", location, "one")["files"] == made["files"]
    assert run_json(capsys, "restore", location, "one", "--dry-run")["forgotten"] == [3, 3]
    assert run_json(capsys, "restore", location, "one")["epoch"] == 1
    assert run_json(capsys, "clone", location, "one", "--into", tmp_path / "c")["checkpoint"] == str(
        tmp_path / "c/checkpoint"
    )
    assert run_json(capsys, "prune", location, "--keep", 1)["removed"] == ["one"]


def test_the_same_printed_as_lines(job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for what was done."""
    location = str(tmp_path / "savepoints")
    job.begin()
    commands = [
        (["savepoint", str(job.folder), "one", "--to", location, "--no-decode"], "batch 3 was begun and not committed"),
        (["savepoints", location], "one: "),
        (["show", location, "one"], "window.kind: timeInterval"),
        (["verify", location, "one"], "savepoint one is intact"),
        (["restore", location, "one", "--dry-run"], "would be taken back"),
        (["restore", location, "one"], "was taken back"),
        (["clone", location, "one", "--into", str(tmp_path / "c")], "was cloned"),
        (["prune", location, "--keep", "1"], "removed: none"),
    ]
    for arguments, words in commands:
        assert main(arguments) == 0
        assert words in capsys.readouterr().out


def test_a_manifest_that_cannot_be_read_is_listed_with_its_reason(
    job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are still listed."""
    location = tmp_path / "savepoints"
    run_json(capsys, "savepoint", job.folder, "one", "--to", location, "--no-decode")
    (location / "savepoints" / "two.json").write_text("{}")
    listed = {one["name"]: one for one in run_json(capsys, "savepoints", location)["savepoints"]}
    assert "was not written by Panekeeper" in listed["two"]["problem"]
    assert listed["one"]["job"] == "readings"


def test_an_error_is_one_line_and_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is that of a failure."""
    assert main(["verify", str(tmp_path), "one"]) == ExitCode.FAILED
    assert capsys.readouterr().err.startswith("panekeeper verify: there is no savepoint 'one'")


def test_an_error_of_the_disk_is_one_line_too(
    job: FakeCheckpoint, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be read, and one that this user may not read; `--json` prints it as an object."""
    record = Path(job.files.place, JOB_FILE)
    record.unlink()
    record.mkdir()
    assert main(["status", str(job.folder)]) == ExitCode.FAILED
    assert capsys.readouterr().err == f"panekeeper status: {record} cannot be used: Is a directory\n"

    def refuse(folder: LocalFiles, name: str) -> bytes:
        raise PermissionError(13, "Permission denied", str(folder.path / name))

    monkeypatch.setattr(LocalFiles, "read", refuse)
    assert main(["savepoint", str(job.folder), "one", "--to", str(job.folder) + "-saved", "--json"]) == ExitCode.FAILED
    printed = capsys.readouterr()
    words = f"{job.folder / 'job.json'} cannot be used: Permission denied; run this as the user who runs the job"
    assert printed.err == f"panekeeper savepoint: {words}\n"
    assert json.loads(printed.out)["kind"] == "PermissionError"


def test_an_invalid_location_is_refused_without_repeating_a_secret() -> None:
    """Another scheme, no bucket, credentials in the URL, a key without its encryption."""
    with pytest.raises(ArchiveError, match=r"savepoints cannot be kept in gs://"):
        open_archive("gs://bucket")
    with pytest.raises(ArchiveError, match="names no bucket"):
        open_archive("s3://")
    for location in ("s3://AKIA:hunter2@bucket/prefix", "s3://AKIA:hun/ter2@bucket/x", "s3a://hunter2@bucket"):
        with pytest.raises(ArchiveError, match="credentials do not belong") as refused:
            open_archive(location)
        assert not any(part in str(refused.value) for part in ("AKIA", "hun", "ter2"))
    with pytest.raises(ArchiveError, match="aws:kms"):
        S3Options(kms_key="k")


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    """A file has its name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="cannot be used") as refused:
        open_archive(tmp_path / "file").put_bytes("blobs/x", b"x")
    assert not isinstance(refused.value, ArchiveDenied)


def test_a_folder_lists_stored_files_and_no_unfinished_one(tmp_path: Path) -> None:
    """A file of a killed process is not listed."""
    archive = open_archive(tmp_path / "new")
    assert archive.sizes() == {}
    archive.put_bytes("blobs/x", b"123")
    (tmp_path / "new/blobs/.y.77.part").write_bytes(b"1")
    assert archive.sizes("blobs/") == {"blobs/x": 3}
    archive.remove("blobs/x")
    assert not archive.exists("blobs/x")
