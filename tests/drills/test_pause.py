"""A program is paused as a whole, continues where it was, and has lost its lease meanwhile."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from integration_tests.drills.faults.damage import FaultNotConfirmed
from integration_tests.drills.faults.pause import PausingFault, let_lease_expire
from integration_tests.drills.process.started_program import StartedProgram
from panekeeper import CheckpointInUse
from panekeeper.framework.engine.job.lease import acquire
from panekeeper.state.checkpoint.folder import LocalFolder

PAUSES = """
import json, os, signal, subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
with open(sys.argv[1], "w") as events:
    events.write(json.dumps({"what": "paused", "java": other.pid}) + "\\n")
os.kill(other.pid, signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
other.communicate(b"go on")
sys.exit(7)
"""


def started(tmp_path: Path, code: str) -> StartedProgram:
    """A program of a few lines."""
    events = tmp_path / "events"
    return StartedProgram([sys.executable, "-c", code, str(events)], events, tmp_path / "log", dict(os.environ))


def test_a_program_is_paused_with_what_it_has_started_and_continues(tmp_path: Path) -> None:
    """The system reports both processes as stopped; both end when they are continued."""
    program = started(tmp_path, PAUSES)
    program.wait_until_paused()
    assert program.is_paused()
    program.continue_paused()
    code, _, events = program.result()
    assert (code, [event["what"] for event in events]) == (7, ["paused"])
    assert not program.is_paused()


def test_a_paused_program_can_be_killed(tmp_path: Path) -> None:
    """As at the end of a drill that has failed meanwhile."""
    program = started(tmp_path, PAUSES)
    program.wait_until_paused()
    program.close()
    assert not program.is_paused()


def test_a_program_that_ends_and_is_not_paused_is_no_confirmed_fault(tmp_path: Path) -> None:
    """The drill would show nothing."""
    program = started(tmp_path, "raise SystemExit('it came to an end')")
    with pytest.raises(FaultNotConfirmed, match="ended with 1: it came to an end"):
        program.wait_until_paused()


def test_all_jobs_wait_for_a_pause_and_go_on_after_it_once() -> None:
    """The process is paused when the last job is at the point, or has ended; later batches do not wait."""
    paused = Event()
    fault = PausingFault("lease-checked", 2, 3, paused.set)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(fault.trigger) for _ in range(2)]
        while fault._waiting < 2:
            pass
        assert not paused.is_set()
        assert fault.matches("lease-checked", 3)
        fault.job_ended()
        for one in waiting:
            one.result(timeout=60)
    assert paused.is_set()
    assert not fault.matches("lease-checked", 3)


def test_the_lease_of_a_paused_job_can_be_taken_over(tmp_path: Path) -> None:
    """It looks like that of another host which is silent; before, it is refused."""
    folder = LocalFolder(tmp_path)
    with pytest.raises(FaultNotConfirmed, match="has no lease"):
        let_lease_expire(tmp_path)
    first = acquire(folder, "batched")
    with pytest.raises(CheckpointInUse):
        acquire(folder, "batched")
    let_lease_expire(tmp_path)
    second = acquire(folder, "batched")
    assert second.replaced is not None
    assert not second.replaced.is_on_this_machine
    with pytest.raises(CheckpointInUse, match="has lost the lease"):
        first.require_held()
    second.release("ended")
