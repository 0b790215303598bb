"""Starts the job, kills it, and starts it again: what a service manager does, and what happens to a machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_MOST_FAILURES = 5
_TAIL = 2_000


class JobCannotRun(Exception):
    """The job ends by itself again and again; the message has what it printed last."""


class Program:
    """A Python program of this project in a process group of its own, with all that it starts.

    Args:
        module: its name.
        arguments: its command line.
        log: what it prints is appended to this file.
    """

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self._log = log
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it has ended; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Send SIGKILL to it and to its Java machine."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        finally:
            self._process.wait()

    def terminate(self, seconds: float) -> int:
        """Send SIGTERM to it, wait so long for its end, and return its exit code.

        Raises:
            TimeoutError: it did not end; it was killed.
        """
        self._process.terminate()
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the process did not end within {seconds:g} s of SIGTERM: {self.tail()}") from None
        finally:
            self.kill()

    def tail(self) -> str:
        """Return the end of what it and those before it have printed."""
        return self._log.read_text(errors="replace")[-_TAIL:].strip()


class Supervisor:
    """Keeps the job running.

    Attributes:
        started: when it was first started, seconds since the epoch.
        killed: when it was killed.
        failures: what the job printed last when it ended by itself, which it never should.
    """

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self._command = (module, arguments, log)
        self.started = time.time()
        self.killed: list[float] = []
        self.failures: list[str] = []
        self._program = Program(*self._command)

    @property
    def pid(self) -> int:
        """The process id of the job's driver."""
        return self._program.pid

    def kill_and_start(self) -> None:
        """Kill the job and start it again at once."""
        self.killed.append(time.time())
        self._program.kill()
        self._program = Program(*self._command)

    def keep_running(self) -> None:
        """Start the job again if it has ended.

        Raises:
            JobCannotRun: it has ended by itself too often.
        """
        if self._program.exit_code is None:
            return
        self.failures.append(self._program.tail())
        if len(self.failures) >= _MOST_FAILURES:
            raise JobCannotRun(
                f"the job has ended by itself {len(self.failures)} times; the last time:\n{self.failures[-1]}"
            )
        self._program.kill()  # what it has left behind
        self._program = Program(*self._command)

    def drain(self, seconds: float) -> int:
        """End the job as a service manager does; return its exit code. Raises `TimeoutError`."""
        return self._program.terminate(seconds)

    def close(self) -> None:
        """Kill the job."""
        self._program.kill()
