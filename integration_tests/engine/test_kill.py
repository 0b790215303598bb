"""The process is killed, Java machine and all, at each step of the commit protocol; the next one goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework.engine.fault import POINTS
from integration_tests.engine.story import FILES, LOG

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

PROGRAM = Path(__file__).with_name("readings_program.py")
ROOT = PROGRAM.parents[2]


def run(folder: Path, **environment: str) -> int:
    """Run the program on a folder in a process of its own and return how it ended."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)],
        env=os.environ | {"PYTHONPATH": path} | environment,
        stdout=subprocess.DEVNULL,
        timeout=600,
        check=False,
    )
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_step_loses_nothing_and_repeats_nothing(readings: Readings, point: str) -> None:
    """The tables are those of a run that nobody disturbed."""
    for rows in FILES:
        readings.put(*rows)
    assert run(readings.folder, PANEKEEPER_FAULT=f"{point}:2") == -signal.SIGKILL
    assert readings.numbers("commits") == [0, 1]
    assert run(readings.folder) == 0

    assert readings.log() == LOG
    assert readings.log("view") == LOG[1:]
    assert len(readings.rows("log_quarantine")) == 1
    assert sum(row["rows_in"] for row in readings.rows("log_metrics")) == 8
