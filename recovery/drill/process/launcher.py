"""Starts the programs of a drill and says how they ended; the errors of jobs are kept by job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import recovery
from framework.engine.session.session import SHORT_LIVED
from recovery.drill.faults.damage import Missed
from recovery.drill.faults.faulty_s3 import CREDENTIALS
from recovery.drill.process.messages import SURVIVED_NOT, Errand, told

TIMEOUT_SECONDS = 600.0
_TAIL = 600


class Launcher:
    """The programs of one attempt, one at a time.

    Attributes:
        failed: by job, what went wrong for good.
        recovered: by job, seconds from the start of the last program to its first batch in the tables.
        first_result: by job, seconds until it had results, if it had any.
    """

    def __init__(self, folder: Path, common: dict[str, Any]) -> None:
        self._folder = folder
        self._common = common
        self._started = 0
        self.failed: dict[str, str] = {}
        self.recovered: dict[str, float] = {}
        self.first_result: dict[str, float] = {}

    def run(self, *, recovering: bool = False, **errand: Any) -> None:
        """Run a program that should succeed; a job that fails has failed the drill."""
        code, began, lines = self._program(**errand)
        self._keep_errors(errand["do"], lines)
        for line in lines:
            if recovering and line["what"] == "batch":
                self.recovered.setdefault(line["check"], line["at"] - began)
                if line["firings"]:
                    self.first_result.setdefault(line["check"], line["at"] - began)
        if code not in (0, SURVIVED_NOT):
            raise Missed(f"a program that should {errand['do']} ended with {code}: {self._tail()}")

    def run_and_die(self, **errand: Any) -> None:
        """Run a program that should be killed by its own hand."""
        code, _, lines = self._program(**errand)
        self._keep_errors(errand["do"], lines)
        if code != -signal.SIGKILL:
            raise Missed(f"a program that should have been killed ended with {code}: {self._tail()}")

    def run_and_lose(self, victim: Literal["workers", "executors"], batch: int) -> int:
        """Run a program whose workers or executors are killed; its jobs may fail by that, for they are run again.

        Returns how many jobs were stopped by it. Raises `Missed` if none of the victims was there, or if no task
        failed while Python workers were killed: most of them may have been idle.
        """
        code, _, lines = self._program(do="run", point="mid-batch", batch=batch, victim=victim)
        if code not in (0, SURVIVED_NOT):
            raise Missed(f"the program ended with {code}: {self._tail()}")
        kills = [line for line in lines if line["what"] == "killed" and line["number"]]
        if not kills:
            raise Missed(f"there were no {victim} to kill")
        if victim == "workers" and not any(line["noticed"] for line in kills):
            raise Missed("no task of Spark's failed while its Python workers were killed")
        return len(_errors(lines))

    def run_and_fail(self, says: tuple[str, ...], *, everybody: bool) -> None:
        """Run a program whose jobs should fail with a clear error."""
        code, _, lines = self._program(do="run")
        if code not in (0, SURVIVED_NOT):
            raise Missed(f"the program ended with {code}: {self._tail()}")
        errors = _errors(lines)
        for check in self._common["checks"]:
            if check not in errors and (everybody or not errors):
                self.failed.setdefault(check, "the damage was not noticed")
            elif check in errors and not any(words in errors[check] for words in says):
                self.failed.setdefault(check, f"the error does not say what to do: {errors[check]}")

    def _keep_errors(self, do: str, lines: list[dict[str, Any]]) -> None:
        for check, error in _errors(lines).items():
            self.failed.setdefault(check, f"{do}: {error}")

    def _program(self, *, own_store: bool = False, **errand: Any) -> tuple[int, float, list[dict[str, Any]]]:
        self._started += 1
        path = self._folder / f"errand-{self._started:02d}.json"
        lines = path.with_suffix(".told")
        Errand(**(self._common | errand), told=str(lines)).save(path)
        began = time.time()
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
                raise Missed(f"a program did not end within {TIMEOUT_SECONDS:g} s: {self._tail()}") from None
            finally:
                _end_session(program.pid)
                program.wait()
        return code, began, list(told(lines))

    @property
    def _log(self) -> Path:
        return self._folder / f"program-{self._started:02d}.log"

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-_TAIL:].strip()


def _errors(lines: list[dict[str, Any]]) -> dict[str, str]:
    """Return job -> its error, the first if there were several."""
    errors: dict[str, str] = {}
    for line in lines:
        if line["what"] == "error":
            errors.setdefault(line["check"], f"{line['kind']}: {line['text']}")
    return errors


def _end_session(session: int) -> None:
    """Kill what a program left behind: nothing of it may work on while the next one begins."""
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return


def environment() -> dict[str, str]:
    """The program imports what we import, wherever it is started; no proxy stands between it and the drill's S3."""
    path = os.pathsep.join(filter(None, [str(Path(recovery.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    java = os.environ.get("SPARK_SUBMIT_OPTS", SHORT_LIVED)
    proxy = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return os.environ | {"PYTHONPATH": path, "SPARK_SUBMIT_OPTS": java} | proxy
