"""What is printed reaches nobody, or a terminal would obey it: the command does its work, and shows no traceback."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO

import pytest

from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main
from tests.fake_checkpoint import FakeCheckpoint


def without_reader() -> TextIO:
    """A pipe whose reader has ended, as `head`."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


@pytest.mark.parametrize("command", ["--help", "status --help", "status {}", "status {} --json"])
def test_a_reader_that_has_ended_ends_the_command_silently(
    job: FakeCheckpoint, command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As `panekeeper --help | head`: by its exit code, and no traceback, also not as Python ends."""
    with without_reader() as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert main(command.format(job.root).split()) == ExitCode.FAILED
    assert capfd.readouterr().err == ""


def test_what_was_done_is_done_where_stdout_is_closed(
    job: FakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it may be for a program that a daemon starts; an error is still one by the exit code."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    to = ["--to", str(tmp_path / "savepoints"), "--no-decode"]
    assert main(["savepoint", job.root, "one", *to]) == ExitCode.DONE
    assert main(["savepoint", job.root, "one", *to]) == ExitCode.FAILED


def test_a_result_that_cannot_be_written_is_an_error_in_one_line(
    job: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As into a file on a full disk."""
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["status", job.root]) == ExitCode.FAILED
    assert capfd.readouterr().err == "panekeeper status: its output cannot be written: No space left on device\n"


def test_names_in_a_checkpoint_give_a_terminal_no_orders_and_no_lines_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of all checkpoints in a folder, one may be somebody else's."""
    FakeCheckpoint(tmp_path / "theirs", job="x\x1b]0;y\x07\x1b[2J\nours  running  healthy").run()
    assert main(["jobs", str(tmp_path)]) == ExitCode.DONE
    printed = capsys.readouterr().out
    assert r"x\x1b]0;y\x07\x1b[2J\nours  running  healthy" in printed
    assert printed.count("\n") == 3


def test_a_name_that_an_encoding_lacks_is_shown_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than that the command fails after its work."""
    stdout = io.TextIOWrapper(written := io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)
    assert main(["status", FakeCheckpoint(tmp_path / "wörld").run().root]) == ExitCode.DONE
    assert rb"w\xf6rld" in written.getvalue()


class PanicException(BaseException):
    """What the library `deltalake` raises for a defect of its own: no `Exception`."""


def test_a_panic_of_a_library_is_one_line_also_if_its_traceback_cannot_be_kept(
    job: FakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk for temporary files may be full, which may be the cause of both."""

    def panic(*_: object, **__: object) -> None:
        raise PanicException("index out of bounds")

    monkeypatch.setattr("panekeeper.cli.commands.status", panic)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert main(["status", job.root]) == ExitCode.FAILED
    line = "PanicException: index out of bounds (all of it: could not be written, No such file or directory)"
    assert capsys.readouterr().err == f"panekeeper status: {line}\n"
