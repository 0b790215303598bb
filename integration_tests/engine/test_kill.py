"""The process is killed, Java machine and all, at each step of the commit protocol; the next one goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests.drills.faults.armed import IN_OTHER_THREADS, POINTS, release_commits
from integration_tests.engine.readings import FILES, LOG
from panekeeper.cli import main as cli

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

PROGRAM = Path(__file__).with_name("readings_program.py")
ROOT = PROGRAM.parents[2]
FIRST = "between-delta"
BY_KILLS = tuple(point for point in POINTS if point in IN_OTHER_THREADS)
OTHERS = tuple(point for point in POINTS if point not in {FIRST, *BY_KILLS})
"""At these `test_restart.py` lets a batch fail in a process that goes on. Both are in the order of a batch."""


def begin(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Begin the program on a folder in a process of its own."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), *arguments],
        env=os.environ | {"PYTHONPATH": path} | environment,
        stdout=subprocess.DEVNULL,
    )


def run(folder: Path, *arguments: str, **environment: str) -> int:
    """Run the program to its end and return how it ended."""
    return begin(folder, *arguments, **environment).wait(timeout=600)


@pytest.mark.parametrize(
    "points",
    [
        pytest.param((FIRST,), id="one of them", marks=pytest.mark.spark_4_1),
        pytest.param(BY_KILLS, id="those that only a kill ends", marks=pytest.mark.extended),
        pytest.param(OTHERS, id="the others", marks=pytest.mark.release),
    ],
)
def test_a_kill_at_every_step_loses_nothing_and_repeats_nothing(readings: Readings, points: tuple[str, ...]) -> None:
    """One batch is killed at each step in turn; the tables are those of a run that nobody disturbed."""
    for rows in FILES:
        readings.put(*rows)
    for point in points:
        assert run(readings.folder, f"{point}:2") == -signal.SIGKILL
        assert readings.numbers("commits") == [0, 1]
        release_commits(readings.folder / "log")
    assert run(readings.folder, PANEKEEPER_FAULT="before-plan:2") == 0  # a variable alone arms nothing

    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]
    assert len(readings.rows("log_quarantine")) == 1
    assert sum(row["rows_in"] for row in readings.rows("log_metrics")) == 8


@pytest.mark.extended
def test_a_job_is_drained_from_another_process(readings: Readings, capsys: pytest.CaptureFixture[str]) -> None:
    """`panekeeper drain` returns once the job has ended with every batch committed, and says what it left open."""
    for rows in FILES[:2]:
        readings.put(*rows)
    program = begin(readings.folder, "immediate")
    while program.poll() is None and not (readings.epoch / "commits" / "1").exists():
        time.sleep(0.2)  # until it runs, however long that takes
    code = cli.main(["drain", str(readings.checkpoint), "--timeout", "300", "--json"])

    assert code == 0
    assert program.wait(timeout=300) == 0
    assert readings.numbers("offsets") == readings.numbers("commits")
    printed = json.loads(capsys.readouterr().out)
    assert printed["open"]["panes"] > 0
    assert cli.main(["drain", str(readings.checkpoint)]) == 1
    assert "no job runs on" in capsys.readouterr().err

    for rows in FILES[2:]:
        readings.put(*rows)
    assert run(readings.folder) == 0
    assert readings.log() == LOG
