"""Starts the programs of a drill, one at a time, and collects how they ended and which jobs failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import recovery
from framework.engine.session.session import SHORT_LIVED
from recovery.drill.faults.damage import FaultNotConfirmed
from recovery.drill.faults.faulty_s3 import CREDENTIALS
from recovery.drill.process.messages import EXIT_JOBS_FAILED, ProgramRequest, read_events
from state.checkpoint.clock import now_us

TIMEOUT_SECONDS = 600.0
_TAIL = 600


class Launcher:
    """The programs of one scenario run.

    Attributes:
        failed: by job, the error that makes its drill fail.
        recovered: by job, seconds from the start of the resuming program to its first batch in the tables.
        first_result: by job, seconds from that start to the first batch with results; missing if there was none.
    """

    def __init__(self, folder: Path, common: dict[str, Any]) -> None:
        self._folder = folder
        self._common = common
        self._started = 0
        self.failed: dict[str, str] = {}
        self.recovered: dict[str, float] = {}
        self.first_result: dict[str, float] = {}

    def run(self, *, recovering: bool = False, **request: Any) -> None:
        """Run a program that should succeed. The drill of a job that fails in it has failed.

        Args:
            recovering: whether this run resumes the jobs, so that the times to recover are measured.
            request: fields of `ProgramRequest`.

        Raises:
            FaultNotConfirmed: the program itself failed.
        """
        code, began, events = self._program(**request)
        self._keep_errors(request["do"], events)
        for event in events:
            if recovering and event["what"] == "batch":
                self.recovered.setdefault(event["job"], event["at"] - began)
                if event["firings"]:
                    self.first_result.setdefault(event["job"], event["at"] - began)
        if code not in (0, EXIT_JOBS_FAILED):
            raise FaultNotConfirmed(f"the program of '{request['do']}' ended with {code}: {self._tail()}")

    def run_until_killed(self, **request: Any) -> None:
        """Run a program that should kill itself at a fault point.

        Args:
            request: fields of `ProgramRequest`.

        Raises:
            FaultNotConfirmed: it ended in another way.
        """
        code, _, events = self._program(**request)
        self._keep_errors(request["do"], events)
        if code != -signal.SIGKILL:
            raise FaultNotConfirmed(f"a program that should have been killed ended with {code}: {self._tail()}")

    def run_with_victim(self, victim: Literal["workers", "executors"], batch: int) -> int:
        """Run a program whose workers or executors are killed. Its jobs may fail by that; they are resumed later.

        Args:
            victim: what is killed.
            batch: the first batch in which it is killed.

        Returns:
            How many jobs failed.

        Raises:
            FaultNotConfirmed: no victim was found; or no task failed while Python workers were killed, which shows
                nothing, since idle workers can be killed without effect.
        """
        code, _, events = self._program(do="run", point="mid-batch", batch=batch, victim=victim)
        if code not in (0, EXIT_JOBS_FAILED):
            raise FaultNotConfirmed(f"the program ended with {code}: {self._tail()}")
        kills = [event for event in events if event["what"] == "killed" and event["number"]]
        if not kills:
            raise FaultNotConfirmed(f"there were no {victim} to kill")
        if victim == "workers" and not any(event["task_failed"] for event in kills):
            raise FaultNotConfirmed("no Spark task failed while Python workers were killed")
        return len(_errors(events))

    def run_expecting_error(self, messages: tuple[str, ...], *, all_jobs: bool) -> None:
        """Run a program whose jobs should fail with an error that says what to do.

        Args:
            messages: parts of error messages; one of them is enough.
            all_jobs: whether each job must fail; otherwise at least one.

        Raises:
            FaultNotConfirmed: the program itself failed.
        """
        code, _, events = self._program(do="run")
        if code not in (0, EXIT_JOBS_FAILED):
            raise FaultNotConfirmed(f"the program ended with {code}: {self._tail()}")
        errors = _errors(events)
        for name in self._common["job_names"]:
            if name not in errors and (all_jobs or not errors):
                self.failed.setdefault(name, "it should have failed with an error, and did not")
            elif name in errors and not any(message in errors[name] for message in messages):
                self.failed.setdefault(name, f"the error does not say what to do: {errors[name]}")

    def _keep_errors(self, do: str, events: list[dict[str, Any]]) -> None:
        for name, error in _errors(events).items():
            self.failed.setdefault(name, f"{do}: {error}")

    def _program(self, *, own_store: bool = False, **request: Any) -> tuple[int, float, list[dict[str, Any]]]:
        self._started += 1
        path = self._folder / f"request-{self._started:02d}.json"
        events = path.with_suffix(".events")
        ProgramRequest(**(self._common | request), events_file=str(events)).save(path)
        began = now_us() / 1e6
        with self._log.open("ab") as log:
            program = subprocess.Popen(
                [sys.executable, "-m", "recovery.drill.process.program", str(path)],
                env=environment() | (CREDENTIALS if own_store else {}),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                code = program.wait(timeout=TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                raise FaultNotConfirmed(f"a program did not end within {TIMEOUT_SECONDS:g} s: {self._tail()}") from None
            finally:
                _end_session(program.pid)
                program.wait()
        return code, began, list(read_events(events))

    @property
    def _log(self) -> Path:
        return self._folder / f"program-{self._started:02d}.log"

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-_TAIL:].strip()


def _errors(events: list[dict[str, Any]]) -> dict[str, str]:
    """Return, by job, its first error."""
    errors: dict[str, str] = {}
    for event in events:
        if event["what"] == "error":
            errors.setdefault(event["job"], f"{event['kind']}: {event['text']}")
    return errors


def _end_session(session: int) -> None:
    """Kill the processes that a program has left running, before the next program starts."""
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return


def environment() -> dict[str, str]:
    """Return the environment of a program: it imports the same code and uses no proxy for S3."""
    path = os.pathsep.join(filter(None, [str(Path(recovery.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    java = os.environ.get("SPARK_SUBMIT_OPTS", SHORT_LIVED)
    proxy = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return os.environ | {"PYTHONPATH": path, "SPARK_SUBMIT_OPTS": java} | proxy
