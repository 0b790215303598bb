"""Starts the programs of a drill, one at a time unless one is paused, and collects how they ended and failed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Literal

import panekeeper
from integration_tests.drills.faults.damage import FaultNotConfirmed
from integration_tests.drills.faults.faulty_s3 import CREDENTIALS
from integration_tests.drills.process.messages import EXIT_JOBS_FAILED, ProgramRequest
from integration_tests.drills.process.started_program import StartedProgram
from panekeeper.framework.engine.session.session import SHORT_LIVED

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
        self._paused: StartedProgram | None = None
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
        self.require_errors(self.run_for_errors(do="run"), messages, all_jobs=all_jobs)

    def run_for_errors(self, **request: Any) -> dict[str, str]:
        """Run a program whose jobs may fail, and return their errors by job.

        Args:
            request: fields of `ProgramRequest`.

        Raises:
            FaultNotConfirmed: the program itself failed.
        """
        code, _, events = self._program(**request)
        if code not in (0, EXIT_JOBS_FAILED):
            raise FaultNotConfirmed(f"the program ended with {code}: {self._tail()}")
        return _errors(events)

    def pause(self, **request: Any) -> None:
        """Run a program until it pauses itself. Others can be run then, until `continue_paused`.

        Args:
            request: fields of `ProgramRequest`.

        Raises:
            FaultNotConfirmed: it was not paused.
        """
        program = self._start(do="run", victim="pause", **request)
        program.wait_until_paused()
        self._paused = program

    def set_for_all(self, **fields: Any) -> None:
        """Set fields of the requests of all programs from now on.

        Args:
            fields: of `ProgramRequest`.
        """
        self._common |= fields

    def continue_paused(self, messages: tuple[str, ...]) -> None:
        """Continue the paused program. All its jobs should then fail with an error that says why they have ended.

        Args:
            messages: parts of error messages; one of them is enough.

        Raises:
            FaultNotConfirmed: no program is paused any more, or the program itself failed.
        """
        program = self._paused
        if program is None or not program.is_paused():
            raise FaultNotConfirmed("the program was not paused until now")
        program.continue_paused()
        code, _, events = program.result()
        self._paused = None
        if code not in (0, EXIT_JOBS_FAILED):
            raise FaultNotConfirmed(f"the paused program ended with {code}")
        self.require_errors(_errors(events), messages)

    def close(self) -> None:
        """Kill a program that is still paused."""
        if self._paused is not None:
            self._paused.close()

    def require_errors(self, errors: dict[str, str], messages: tuple[str, ...], *, all_jobs: bool = True) -> None:
        """Let the drills fail of jobs without an error, or with one that does not say what to do.

        Args:
            errors: by job.
            messages: parts of error messages; one of them is enough.
            all_jobs: whether each job must have one; otherwise at least one job.
        """
        for name in self._common["job_names"]:
            if name not in errors and (all_jobs or not errors):
                self.failed.setdefault(name, "it should have failed with an error, and did not")
            elif name in errors and not any(message in errors[name] for message in messages):
                self.failed.setdefault(name, f"the error does not say what to do: {errors[name]}")

    def _keep_errors(self, do: str, events: list[dict[str, Any]]) -> None:
        for name, error in _errors(events).items():
            self.failed.setdefault(name, f"{do}: {error}")

    def _program(self, *, own_store: bool = False, **request: Any) -> tuple[int, float, list[dict[str, Any]]]:
        return self._start(own_store=own_store, **request).result()

    def _start(self, *, own_store: bool = False, **request: Any) -> StartedProgram:
        self._started += 1
        path = self._folder / f"request-{self._started:02d}.json"
        events = path.with_suffix(".events")
        ProgramRequest(**(self._common | request), events_file=str(events)).save(path)
        command = [sys.executable, "-m", "integration_tests.drills.process.program", str(path)]
        return StartedProgram(command, events, self._log, environment() | (CREDENTIALS if own_store else {}))

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


def environment() -> dict[str, str]:
    """Return the environment of a program: it imports the same code and uses no proxy for S3."""
    path = os.pathsep.join(filter(None, [str(Path(panekeeper.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    java = os.environ.get("SPARK_SUBMIT_OPTS", SHORT_LIVED)
    proxy = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return os.environ | {"PYTHONPATH": path, "SPARK_SUBMIT_OPTS": java} | proxy
