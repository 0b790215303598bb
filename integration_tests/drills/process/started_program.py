"""A program of a drill that has been started: how it is awaited, and how it is paused and continued."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from integration_tests.drills.faults.damage import FaultNotConfirmed
from integration_tests.drills.process.messages import read_events
from panekeeper.state.checkpoint.clock import Deadline, now_us

TIMEOUT_SECONDS = 600.0
_TAIL = 600
_STOPPED = "T"  # the state of a process after SIGSTOP, in /proc


class StartedProgram:
    """A process in a session of its own, with all that it starts.

    Attributes:
        began: when it was started, seconds since the epoch.
    """

    def __init__(self, command: Sequence[str], events: Path, log: Path, environment: dict[str, str]) -> None:
        """Start it.

        Args:
            command: its command line.
            events: the file to which it appends its events.
            log: what it prints is appended to this file.
            environment: of the process.
        """
        self._events = events
        self._log = log
        self.began = now_us() / 1e6
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command],
                env=environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def result(self) -> tuple[int, float, list[dict[str, Any]]]:
        """Wait until it has ended; return its exit code, when it began, and its events.

        Raises:
            FaultNotConfirmed: it did not end in time.
        """
        try:
            code = self._process.wait(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            raise FaultNotConfirmed(f"a program did not end within {TIMEOUT_SECONDS:g} s: {self._tail()}") from None
        finally:
            self.close()
        return code, self.began, list(read_events(self._events))

    def wait_until_paused(self) -> None:
        """Wait until the program has stopped its Java virtual machine and itself.

        Raises:
            FaultNotConfirmed: it has ended, or was not paused in time.
        """
        deadline = Deadline(TIMEOUT_SECONDS)
        while not self.is_paused():
            ended = self._process.poll() is not None
            if ended or deadline.has_passed():
                self.close()
                how = f"ended with {self._process.returncode}" if ended else f"was not within {TIMEOUT_SECONDS:g} s"
                raise FaultNotConfirmed(f"a program that should have been paused {how}: {self._tail()}")
            time.sleep(0.05)  # polls: a stopped process reports nothing

    def is_paused(self) -> bool:
        """Return whether the system reports both processes as stopped."""
        java = self._java()
        return java is not None and {_state(java), _state(self._process.pid)} == {_STOPPED}

    def continue_paused(self) -> None:
        """Let both processes go on where they were paused."""
        java = self._java()
        assert java is not None  # it was paused
        for pid in (java, self._process.pid):
            os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill the program and what it has left running, paused or not."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            self._process.wait()

    def _java(self) -> int | None:
        pids = [event["java"] for event in read_events(self._events) if event["what"] == "paused"]
        return pids[-1] if pids else None

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-_TAIL:].strip()


def _state(pid: int) -> str | None:
    """Return the state of a process as Linux reports it; None if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
