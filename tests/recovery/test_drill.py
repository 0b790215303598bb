"""The drills of a user's own job: which there are, how tables are compared, and how results are shown."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main
from panekeeper.framework.engine.sink import fault_points
from panekeeper.framework.engine.sink.fault_points import STEPS
from panekeeper.recovery import drill as drills
from panekeeper.recovery.drill import (
    DRILLS,
    TABLES,
    DrillResult,
    Drills,
    Order,
    _drill,
    _Failed,
    _NotBroken,
    _Run,
    hook_of,
)
from panekeeper.state.checkpoint.clock import Deadline
from tests.project.sources import ROOT

ROWS: dict[str, list[Any]] = {"sensor": ["a", "a", "b"], "total": [1, 1, 2], "fired_at": [1, 2, 3]}


def write(run: _Run, rows: dict[str, list[Any]]) -> None:
    """Let the job write its log."""
    write_deltalake(run.folder / TABLES / "log", pa.table(rows), mode="append")


@pytest.fixture
def expected(tmp_path: Path) -> drills.Rows:
    """The rows of an undisturbed run."""
    run = _Run("job.py", tmp_path / "undisturbed")
    write(run, ROWS)
    return run.rows()


def drilled(monkeypatch: pytest.MonkeyPatch, folder: Path, expected: drills.Rows, what: Any) -> DrillResult:
    """Run a drill in which this happens."""
    monkeypatch.setitem(DRILLS, "fake", what)
    return _drill("fake", _Run("job.py", folder), expected)


def test_a_drill_passes_with_the_rows_of_the_undisturbed_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, expected: drills.Rows
) -> None:
    """Each as often; when a row was written does not count."""
    result = drilled(monkeypatch, tmp_path / "1", expected, lambda run: write(run, ROWS | {"fired_at": [7, 8, 9]}))
    assert (result.outcome, result.rows, result.missing, result.extra, result.why) == ("passed", 3, 0, 0, "")
    result = drilled(monkeypatch, tmp_path / "2", expected, lambda run: write(run, ROWS | {"total": [1, 3, 2]}))
    assert (result.outcome, result.missing, result.extra) == ("failed", 1, 1)
    result = drilled(monkeypatch, tmp_path / "3", expected, lambda _: None)
    assert (result.outcome, result.missing, result.extra) == ("failed", 3, 0)


@pytest.mark.parametrize(("error", "outcome"), [(_Failed, "failed"), (_NotBroken, "unknown")])
def test_a_job_that_was_not_broken_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, expected: drills.Rows, error: type[Exception], outcome: str
) -> None:
    """One that does not start again has failed."""

    def raise_error(_: _Run) -> None:
        raise error("because")

    result = drilled(monkeypatch, tmp_path / "run", expected, raise_error)
    assert (result.outcome, result.why) == (outcome, f"because; its folder is {tmp_path / 'run'}")


def test_a_process_is_broken_at_its_step_of_its_batch_or_a_later_one_once(tmp_path: Path) -> None:
    """And nowhere without an order; an installed job has no hook."""
    checkpoint, away = tmp_path / "checkpoint", tmp_path / "checkpoint.away"
    order = Order(
        do="run", job="", folder=str(tmp_path), breakage="take checkpoint away", step="before-delta", number=2
    )
    hook = hook_of(order)
    assert hook is not None
    checkpoint.mkdir()
    hook("before-delta", 1, "")
    hook("before-plan", 2, "")
    assert checkpoint.exists()
    hook("before-delta", 3, "")
    assert away.exists()
    hook("before-delta", 4, "")
    assert hook_of(Order(do="run", job="", folder="")) is None
    assert fault_points.hook is None


def test_the_command_lists_its_drills(capsys: pytest.CaptureFixture[str]) -> None:
    """One for each step of a batch, savepoint, restore, pause and outages; a wrong name is an error in one line."""
    assert main(["drill", "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [f"kill at {step}" for step in STEPS] == [name for name in listed if name.startswith("kill at ")]
    others = {name for name in listed if not name.startswith("kill at ")}
    assert others >= {"no fault", "kill during a savepoint", "kill during a restore", "pause past the lease"}
    assert others >= {"checkpoint away", "tables away"}
    assert main(["drill", "--list", "--only", "nobody"]) == 1
    assert "no drill is called 'nobody'" in capsys.readouterr().err
    assert main(["drill"]) == 1
    assert "name the file that declares it: --job FILE" in capsys.readouterr().err


def test_the_command_ends_with_an_error_after_a_difference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And prints a table, with the reasons below it."""
    results = [
        DrillResult(drill="no fault", outcome="passed", rows=3, seconds=1.0),
        DrillResult(drill="tables away", outcome="failed", rows=3, missing=2, why="the tables differ"),
    ]
    monkeypatch.setattr(drills, "run_drills", lambda *_: Drills(job="own", at="2024-05-01T12:00:00Z", results=results))
    assert main(["drill", "--job", "job.py"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["drill", "outcome", "rows", "missing", "extra", "seconds"]
    assert printed[-1] == "tables away: the tables differ"
    results.pop()
    assert main(["drill", "--job", "job.py", "--json"]) == 0


def test_a_drill_that_is_ended_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    """SIGTERM, as of a system that shuts down: the job of the drill is of a process group of its own."""
    job = tmp_path / "job.py"
    job.write_text(f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'x').write(str(os.getpid()))\ntime.sleep(600)")
    command = [sys.executable, "-m", "panekeeper.cli.main", "drill", "--job", str(job)]
    (tmp_path / "temporary").mkdir()
    environment = os.environ | {"TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(command, cwd=ROOT, env=environment) as drill:
        deadline = Deadline(120)
        while not (pid := (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else ""):
            deadline.require()
            time.sleep(0.05)
        drill.terminate()
        assert drill.wait(60) == ExitCode.TERMINATED
    assert not Path("/proc", pid).exists()
    assert list((tmp_path / "temporary").glob("panekeeper-drill-*")) == []
