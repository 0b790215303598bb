"""Programs are killed with all that they started, started again, and given up when they end again and again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from benchmarks.soak.supervisor import JobCannotRun, Program, Supervisor

SERVER = ("http.server", ["0", "--bind", "127.0.0.1"])  # runs until it is ended


def test_a_killed_program_is_started_again(tmp_path: Path) -> None:
    """In a process of its own; when it was killed is noted."""
    supervisor = Supervisor(*SERVER, tmp_path / "log")
    first = supervisor.pid
    supervisor.kill_and_start()
    supervisor.keep_running()
    assert supervisor.pid != first
    assert len(supervisor.killed) == 1
    assert supervisor.killed[0] >= supervisor.started
    assert supervisor.failures == []
    supervisor.close()


def test_a_program_is_killed_by_sigkill_and_terminated_by_sigterm(tmp_path: Path) -> None:
    """The exit code says which signal it was."""
    killed, terminated = (Program(*SERVER, tmp_path / "log") for _ in range(2))
    killed.kill()
    assert killed.exit_code == -signal.SIGKILL
    assert terminated.terminate(60) == -signal.SIGTERM


def test_a_program_that_ends_by_itself_again_and_again_is_given_up(tmp_path: Path) -> None:
    """The error has what it printed last."""
    supervisor = Supervisor("benchmarks.no_such_program", [], tmp_path / "log")

    def keep_running() -> None:
        while True:
            supervisor.keep_running()

    with pytest.raises(JobCannotRun, match=r"5 times(?s:.*)no_such_program"):
        keep_running()
    assert len(supervisor.failures) == 5
