"""How the command `panekeeper` is called, and how it ends: options, exit codes, errors that are not ours."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError

from panekeeper.cli.command import Command, ExitCode
from panekeeper.cli.commands import COMMANDS
from panekeeper.cli.main import main, make_parser
from panekeeper.framework.builder.places import qualified_path
from panekeeper.framework.declarations.display import Result
from panekeeper.framework.declarations.errors import DeclarationError, PanekeeperError
from panekeeper.recovery.drill import DrillNames
from panekeeper.recovery.errors import ArchiveError
from panekeeper.recovery.storage.locations import files_at
from panekeeper.state.log import progress
from tests.project.sources import ROOT

if TYPE_CHECKING:
    from tests.fake_checkpoint import FakeCheckpoint


class Failing:
    """A command `fail` that raises an error."""

    def __init__(self, error: BaseException, cause: BaseException | None = None) -> None:
        self.error, self.cause = error, cause

    def run(self, options: argparse.Namespace) -> Result:
        raise self.error from self.cause

    def installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one = Command(name="fail", help="", arguments=(), run=self.run)
        monkeypatch.setitem(COMMANDS, "fail", one)


def test_the_version_is_that_of_the_installed_package(capsys: pytest.CaptureFixture[str]) -> None:
    """One line, without a command."""
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"panekeeper {metadata.version('panekeeper')}\n"


def test_json_may_stand_before_or_after_the_name_of_the_command(
    job: FakeCheckpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same is printed in all places, and without it none of it."""
    folder = str(job.folder)
    for arguments in (["--json", "status", folder], ["status", "--json", folder], ["status", folder, "--json"]):
        assert main(arguments) == 0
        assert json.loads(capsys.readouterr().out)["job"] == "readings"
    assert main(["status", folder]) == 0
    assert capsys.readouterr().out.startswith("job 'readings'")


def test_ctrl_c_ends_a_command_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is that of a program that SIGINT ended."""
    Failing(KeyboardInterrupt()).installed(monkeypatch)
    assert main(["fail"]) == 130
    assert capsys.readouterr().err == "panekeeper fail: interrupted\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_releases_what_it_holds(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """A lease, the process of a drill: nothing is left until a timeout. The exit code is that of SIGTERM."""
    released = []

    def run(_: argparse.Namespace) -> Result:
        try:
            os.kill(os.getpid(), number)
            raise AssertionError("it goes on")
        finally:
            released.append("lease")

    monkeypatch.setitem(COMMANDS, "fail", replace(COMMANDS["status"], name="fail", arguments=(), run=run))
    before = signal.signal(number, signal.SIG_DFL)  # these tests may run under nohup, too
    try:
        assert main(["fail"]) == ExitCode.TERMINATED
        assert released == ["lease"]
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    "failing",
    [
        Failing(Py4JError("An error occurred while calling o1.load.\n: java.io.IOException: no such store\n\tat x.Y")),
        Failing(
            PanekeeperError("java.io.IOException: no such store"), Py4JError("...\n: java.io.IOException\n\tat x.Y")
        ),
        Failing(ZeroDivisionError("java.io.IOException: no such store\n at x.Y")),
    ],
    ids=["Java", "caused by Java", "a defect"],
)
def test_an_error_that_is_not_ours_is_one_line_and_names_the_file_with_the_whole(
    failing: Failing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No traceback on the terminal; the file has it, the frames of Java too."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failing.installed(monkeypatch)
    assert main(["fail", "--json"]) == ExitCode.FAILED
    printed = capsys.readouterr()
    line = re.fullmatch(r"panekeeper fail: (.*java.io.IOException: no such store \(all of it: (\S+)\))\n", printed.err)
    assert line is not None
    assert json.loads(printed.out)["error"] == line[1]
    whole = Path(line[2]).read_text(encoding="utf-8")
    assert "Traceback" in whole
    assert "at x.Y" in whole


def test_what_the_library_warns_of_is_printed_by_the_command(
    job: FakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr; the result is as without it."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("panekeeper.recovery.savepoint.create.write_last_savepoint", refuse)
    assert main(["savepoint", str(job.folder), "one", "--to", str(tmp_path / "s"), "--no-decode"]) == ExitCode.DONE
    printed = capsys.readouterr()
    assert "savepoint one of job readings" in printed.out
    assert re.fullmatch(r"panekeeper savepoint: warning: .* could not be noted in it: .*denied\n", printed.err)


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("arguments", [["slow"], ["slow", "--json"]], ids=["text", "JSON"])
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_terminal_is_told_what_takes_long(
    arguments: list[str],
    stream: type[io.StringIO],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On standard error, each step as it begins, and nothing that a terminal would obey; elsewhere nothing is said."""

    def run(_: argparse.Namespace) -> Result:
        progress.info("reading the quarantine %s", "out/\x1b[2J")
        return DrillNames(drills=[])

    monkeypatch.setitem(COMMANDS, "slow", Command(name="slow", help="", arguments=(), run=run))
    for _ in range(2):
        monkeypatch.setattr(sys, "stderr", told := stream())
        assert main(arguments) == ExitCode.DONE
        is_said = stream is Terminal and "--json" not in arguments
        line = "panekeeper slow: reading the quarantine out/\\x1b[2J ...\n"
        assert told.getvalue() == (line if is_said else "")
        assert "reading" not in capsys.readouterr().out
    monkeypatch.setattr(sys, "stderr", told := Terminal())
    progress.info("of a program")
    assert not told.getvalue()


def test_a_reader_that_has_enough_ends_the_command_silently(job: FakeCheckpoint) -> None:
    """As `panekeeper status ... | head -0` does."""
    program = "import os, sys; from panekeeper.cli.main import main; os.close(1); r, w = os.pipe(); os.close(r); "
    program += f"os.dup2(w, 1); sys.exit(main(['status', {str(job.folder)!r}]))"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (ExitCode.FAILED, "")


def commands_with_a_wrong_folder(folder: str) -> dict[str, list[str]]:
    """Each subcommand, with `folder` in place of a checkpoint or of a location."""
    return {
        "status": ["status", folder],
        "jobs": ["jobs", folder],
        "drain": ["drain", folder],
        "savepoint": ["savepoint", folder, "one", "--to", f"{folder}-saved", "--no-decode"],
        "savepoints": ["savepoints", folder],
        "show": ["show", folder, "one"],
        "offsets": ["offsets", folder],
        "verify": ["verify", folder, "one"],
        "prune": ["prune", folder, "--keep", "1"],
        "restore": ["restore", folder, "one", "--checkpoint", f"{folder}-restored"],
        "clone": ["clone", folder, "one", "--into", f"{folder}-clone"],
        "maintain": ["maintain", folder],
        "plan": ["plan", folder, "one", f"{folder}.py"],
        "panes": ["panes", folder],
        "try": ["try", folder, "--job", f"{folder}.py"],
        "advise": ["advise", folder, "--job", f"{folder}.py"],
        "diff": ["diff", folder, "one", "two"],
        "why": ["why", folder, "--key", "sensor=a", "--pane", "2024-05-01T10:00"],
        "replay": ["replay", folder, "--batch", "1", "--job", f"{folder}.py"],
        "capsule": ["capsule", folder, "--batch", "1", "--key", "sensor=a", "--job", f"{folder}.py"],
        "partitions": ["partitions", folder, "--key", "sensor=a"],
        "settle": ["settle", folder, "--job", f"{folder}.py"],
        "rescale": ["rescale", folder, "--partitions", "4", "--to", f"{folder}-saved"],
        "report": ["report", folder, "-o", f"{folder}.html"],
        "drill": ["drill", "--job", f"{folder}.py"],
    }


WITHOUT_FOLDER = {"doctor"}
"""Those that try out a place which need not exist."""


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in WITHOUT_FOLDER])
def test_a_misspelled_folder_is_an_error_and_is_not_created(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No command creates what it was to read, nor anything beside it."""
    wrong = str(tmp_path / "mistyped")
    before = sorted(tmp_path.iterdir())
    assert main(commands_with_a_wrong_folder(wrong)[name]) == ExitCode.FAILED
    printed = capsys.readouterr()
    assert "mistyped" in printed.err
    assert len(printed.err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", list(COMMANDS))
def test_an_empty_path_is_an_error_and_not_the_folder_one_is_in(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of a variable that was not set, for each argument of each command; nothing is created."""
    monkeypatch.chdir(tmp_path)
    commands = commands_with_a_wrong_folder("mistyped") | {"doctor": ["doctor", "mistyped"]}
    places = [at for at, value in enumerate(commands[name]) if "mistyped" in value]
    assert places
    for at in places:
        arguments = ["" if number == at else value for number, value in enumerate(commands[name])]
        with pytest.raises(SystemExit, match=str(int(ExitCode.USAGE))):
            main(arguments)
        assert "is empty, as a variable of the shell is that was not set" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_path_is_refused_in_python_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It would name the current folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArchiveError, match="the path is empty"):
        files_at("")
    with pytest.raises(DeclarationError, match="the path of a folder is empty"):
        qualified_path("")
    assert qualified_path("/") == "/"


@pytest.mark.parametrize("name", ["why", "panes", "capsule"])
def test_a_null_is_one_of_the_values_of_a_key(name: str) -> None:
    """It is given beside the others, in any order."""
    more = ["--batch", "1", "--job", "job.py"] if name == "capsule" else []
    options = make_parser().parse_args([name, "c", *more, "--null", "customer", "--key", "shop=1", "--null", "day"])
    assert options.key == {"customer": None, "shop": "1", "day": None}
