"""Savepoints that somebody made to do harm, through the command line: each command refuses each of them in one line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main
from panekeeper.recovery.savepoint.manifest import KEY_VARIABLE
from tests.fake_checkpoint import FakeCheckpoint, savepoint

Content = dict[str, Any]
DATA = b"{}"
BLOB = hashlib.sha256(DATA).hexdigest()


class Location:
    """A folder of savepoints in which "one" is a true savepoint of a job, until it is changed."""

    def __init__(self, folder: Path, job: FakeCheckpoint) -> None:
        self.folder, self.job = folder / "savepoints", job
        self.manifest = self.folder / "savepoints" / "one.json"
        savepoint(job.folder, "one", to=self.folder)

    def forge(self, change: Callable[[Content], object]) -> None:
        """Change the manifest, and its checksum with it."""
        whole = json.loads(self.manifest.read_text())
        change(whole["content"])
        whole["sha256"] = hashlib.sha256(json.dumps(whole["content"], sort_keys=True).encode()).hexdigest()
        self.manifest.write_text(json.dumps(whole))

    def add(self, path: str, *, size: int = len(DATA)) -> Path:
        """Add a file to the savepoint, and return where its content belongs."""
        self.forge(lambda content: content["files"].append({"path": path, "size": size, "sha256": BLOB}))
        blob = self.folder / "blobs" / BLOB
        blob.write_bytes(DATA)
        return blob

    def replace(self, path: Path, make: Callable[[Path], object]) -> None:
        """Put something else in place of a file."""
        path.unlink()
        make(path)


def _link(to: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(to)


def _path(path: str) -> Callable[[Location], object]:
    return lambda at: at.add(path)


def _remove(content: Content, path: str) -> None:
    content["files"] = [file for file in content["files"] if file["path"] != path]


def _sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(2**40)


ATTACKS: dict[str, tuple[Callable[[Location], object], str]] = {
    **{
        f"the path {path}": (_path(path), "content that Panekeeper never writes")
        for path in ("../planted", "/planted", "state/../../planted", "state//x", "state\\x", "begin.json", ".hidden")
    },
    "more bytes than the manifest says": (
        lambda at: at.add("state/0/0/x").write_bytes(DATA * 1000),
        r"damaged|missing or altered",
    ),
    "fewer bytes than it says": (lambda at: at.add("state/0/0/x", size=2**40), r"damaged|missing or altered"),
    "a blob that never ends": (
        lambda at: at.replace(at.add("state/0/0/x", size=2**40), _link("/dev/zero")),
        "is not a regular file",
    ),
    "a blob that waits for a writer": (
        lambda at: at.replace(at.add("state/0/0/x"), os.mkfifo),
        "is not a regular file",
    ),
    "a blob that is a folder": (lambda at: at.replace(at.add("state/0/0/x"), Path.mkdir), "Is a directory"),
    "a blob that is somebody else's file": (
        lambda at: at.replace(at.add("state/0/0/x"), _link("/etc/passwd")),
        r"damaged|missing or altered",
    ),
    "a manifest that never ends": (lambda at: at.replace(at.manifest, _link("/dev/zero")), "is not a regular file"),
    "a manifest that waits for a writer": (lambda at: at.replace(at.manifest, os.mkfifo), "is not a regular file"),
    "a manifest of a terabyte": (lambda at: at.replace(at.manifest, _sparse), "more than 268435456 bytes"),
    "a manifest of brackets": (lambda at: at.manifest.write_text("[" * 10**6), "nested too deeply"),
    "a checkpoint that is elsewhere": (
        lambda at: at.forge(lambda content: content.update(checkpoint="/x/../../etc")),
        "content that Panekeeper never writes",
    ),
    "a checkpoint that is the root": (
        lambda at: at.forge(lambda content: content.update(checkpoint="/")),
        "content that Panekeeper never writes",
    ),
    "a table in no known role": (
        lambda at: at.forge(lambda content: content["tables"].update(secret={"path": "/x", "version": 0})),
        "content that Panekeeper never writes",
    ),
    **{
        f"the file {path} of a batch that is not committed": (_path(path), "content that Panekeeper never writes")
        for path in ("offsets/3", "offsets/0003", "offsets/x", "commits/3")
    },
    "a batch without its commit": (
        lambda at: at.forge(lambda content: _remove(content, "commits/2")),
        "content that Panekeeper never writes",
    ),
    "more epochs than there can be": (
        lambda at: at.forge(lambda content: content.update(epoch=2**60)),
        "content that Panekeeper never writes",
    ),
    "an id that is no number": (
        lambda at: at.forge(lambda content: content.update(job_id="x" * 12)),
        "content that Panekeeper never writes",
    ),
    "control characters": (
        lambda at: at.forge(lambda content: content.update(job="\x1b[2J")),
        "content that Panekeeper never writes",
    ),
}
COMMANDS: dict[str, Callable[[Location, Path], list[str]]] = {
    "restore": lambda at, _: ["restore", str(at.folder), "one"],
    "restore --dry-run": lambda at, _: ["restore", str(at.folder), "one", "--dry-run"],
    "clone": lambda at, folder: ["clone", str(at.folder), "one", "--into", str(folder / "clone")],
    "verify": lambda at, _: ["verify", str(at.folder), "one"],
    "verify --deep": lambda at, _: ["verify", str(at.folder), "one", "--deep"],
}


@pytest.fixture
def at(job: FakeCheckpoint, tmp_path: Path) -> Location:
    """A location with a savepoint of the job."""
    return Location(tmp_path, job)


def contents(folder: Path) -> dict[str, bytes | None]:
    """What is there, and what is in regular files of ours."""
    found = sorted(folder.rglob("*"))
    regular = {path: stat.S_ISREG(path.lstat().st_mode) and path.lstat().st_size < 2**20 for path in found}
    return {str(path): path.read_bytes() if is_ours else None for path, is_ours in regular.items()}


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command, which fails, and return its one line."""
    capsys.readouterr()
    assert main(arguments) == ExitCode.FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    return line


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_savepoint_is_refused_in_one_line(
    attack: str, at: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing waits, nothing is read for ever, and nothing outside of the folders of the command is written."""
    change, said = ATTACKS[attack]
    change(at)
    before = contents(tmp_path)
    for command, arguments in COMMANDS.items():
        assert re.search(said, refused(arguments(at, tmp_path), capsys)), command
    own = tuple(str(tmp_path / name) for name in ("checkpoint/epochs/0000/panekeeper/claims", "clone"))
    after = {name: content for name, content in contents(tmp_path).items() if not name.startswith(own)}
    assert after == before


@pytest.mark.parametrize("name", ["../savepoints/one", "/etc/passwd", "..", ""])
def test_the_name_of_a_savepoint_leads_nowhere_else(
    name: str, at: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program may have it from somewhere else."""
    for command in COMMANDS.values():
        arguments = [name if one == "one" else one for one in command(at, tmp_path)]
        assert "name" in refused(arguments, capsys)


@pytest.mark.parametrize("made_with", ["", "the key of another team"])
def test_with_a_key_nothing_is_done_with_a_savepoint_that_is_not_signed_with_it(
    made_with: str, at: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not signed at all, or with another key."""
    if made_with:
        monkeypatch.setenv(KEY_VARIABLE, made_with)
        at.manifest.unlink()
        savepoint(at.job.folder, "one", to=at.folder)
    monkeypatch.setenv(KEY_VARIABLE, "the key of this team")
    before = contents(tmp_path)
    for command in COMMANDS.values():
        assert "signed" in refused(command(at, tmp_path), capsys)
    assert contents(tmp_path) == before


def test_a_foreign_table_is_not_taken_back(at: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line has the command that confirms it; a dry run has the same line."""
    (tmp_path / "theirs" / "_delta_log").mkdir(parents=True)
    (tmp_path / "theirs" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    foreign = {"path": str(tmp_path / "theirs"), "version": 0, "sha256": "0" * 64}
    at.forge(lambda content: content["tables"].update(log=foreign))
    line = refused(COMMANDS["restore"](at, tmp_path), capsys)
    assert f"--table {tmp_path}/theirs" in line
    assert refused(COMMANDS["restore --dry-run"](at, tmp_path), capsys) == line


def test_no_file_is_written_through_a_link_in_the_target(
    at: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody has put it where the copy is to be."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "checkpoint").symlink_to(tmp_path / "outside")
    assert refused(COMMANDS["clone"](at, tmp_path), capsys)
    assert list((tmp_path / "outside").iterdir()) == []
