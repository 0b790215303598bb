"""Loggers: their names, the fields of each record, and that nothing is printed where no handler is set."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from panekeeper.state.log import log_fields, logger
from tests.project.sources import PRODUCT, ROOT, name_of


def test_a_record_has_the_job_and_the_batch_of_its_context(caplog: pytest.LogCaptureFixture) -> None:
    """In threads that the batch starts, too; None elsewhere, so that a format may name both fields."""
    log = logger("sink")
    formatter = logging.Formatter("%(name)s %(job)s %(batch)s %(message)s")
    log.warning("before")
    with log_fields(job="readings", batch=3), ThreadPoolExecutor(1) as pool:
        log.warning("within")
        pool.submit(copy_context().run, log.warning, "in a thread").result()
        log.warning("by itself", extra={"batch": 4})
    log.warning("after")
    assert [formatter.format(record) for record in caplog.records] == [
        "panekeeper.sink None None before",
        "panekeeper.sink readings 3 within",
        "panekeeper.sink readings 3 in a thread",
        "panekeeper.sink readings 4 by itself",
        "panekeeper.sink None None after",
    ]


def test_a_program_without_handlers_sees_nothing_on_stderr() -> None:
    """Whatever the level; a handler of its own gets all."""
    program = """
import logging, sys
from panekeeper.state.log import logger
logger("job").error("not printed")
logging.basicConfig(format="%(name)s: %(message)s", stream=sys.stdout)
logger("job").error("printed")
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("panekeeper.job: printed\n", "")


def test_only_the_command_line_writes_to_the_terminal() -> None:
    """No other names a stream of the process; drills are a command, a job file may print, a shutdown flushes.

    `job.live()` is called to be looked at.

    A job that has failed and was never awaited is reported as the program ends: nothing else can report it then.
    """
    streams = re.compile(r"sys\.stderr|sys\.stdout|\bprint\(")
    allowed = (
        "cli/",
        "recovery/drill.py",
        "recovery/upgrade/job_file.py",
        "python_workers.py",
        "engine/job/live.py",
        "engine/job/shutdown.py",
    )
    found = {
        name_of(path)
        for path in PRODUCT
        for line in path.read_text(encoding="utf-8").splitlines()
        if streams.search(line) and ">>>" not in line and "`print(" not in line
    }
    assert sorted(name for name in found if not any(one in name for one in allowed)) == []
