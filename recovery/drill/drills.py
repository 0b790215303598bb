"""The drills of a user's own job: it is broken, started again, and its tables are compared with an undisturbed run.

Each drill has a folder of its own with the job's tables and checkpoint, and each start is a process of its own
(`own_process.py`). The job must give the same results twice: windows of the wall clock do not, nor does a source that
grows meanwhile. The first drill breaks nothing, and shows whether that is so.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from deltalake import DeltaTable

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.session.session import SHORT_LIVED
from panekeeper.framework.engine.sink.fault_points import STEPS
from panekeeper.recovery.drill.own_process import AWAY, BATCHES, CHECKPOINT, TABLES, Breakage, Order
from panekeeper.state.checkpoint.clock import monotonic_seconds
from panekeeper.state.checkpoint.lease import HEARTBEAT_TIMEOUT_US

Outcome = Literal["passed", "failed", "unknown"]
Rows = dict[str, Counter[str]]
"""By name of a table, its rows as JSON."""

_COMPARED = ("log", "view")
_WRITTEN_AT = "fired_at"  # differs between two runs


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one drill.

    Attributes:
        drill: its name.
        outcome: unknown if the job was not broken as it should have been, which shows nothing.
        rows: number of rows of the undisturbed run.
        missing: number of them that are not in the tables.
        extra: number of rows of the tables that the undisturbed run does not have.
        seconds: how long the drill took.
        why: of an outcome that is not "passed".
    """

    drill: str
    outcome: Outcome
    rows: int = 0
    missing: int = 0
    extra: int = 0
    seconds: float = 0.0
    why: str = ""


class _Failed(Exception):
    """The job did what it must not do; the message says what."""


class _NotBroken(Exception):
    """The job was not broken as it should have been."""


class _Run:
    """One job in a folder of its own, through all its starts."""

    def __init__(self, job: str, folder: Path, batch: int = 0) -> None:
        """Make the folder.

        Args:
            job: the file that declares it.
            folder: a new one.
            batch: in which it is broken.
        """
        folder.mkdir()
        self.folder, self.batch = folder, batch
        self._job = job

    def do(self, what: Literal["run", "savepoint", "restore"], **order: Any) -> None:
        """Start a process that should end well."""
        with self._started(what, **order) as process:
            if process.wait():
                raise _Failed(f"{what} failed: {self._last_line()}")

    def kill(self, what: Literal["run", "savepoint", "restore"], *, number: int, step: str = "") -> bool:
        """Start a process that kills itself; return whether it did. It may end well instead."""
        with self._started(what, breakage="kill", step=step, number=number) as process:
            code = process.wait()
        if code not in (0, -signal.SIGKILL):
            raise _Failed(f"{what} failed: {self._last_line()}")
        return code != 0

    def pause(self, meanwhile: Callable[[], None]) -> None:
        """Start a process that is paused before a commit, past its lease; it goes on after `meanwhile`."""
        with self._started("run", breakage="pause", step="before-commit", number=self.batch) as process:
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                process.returncode = os.waitstatus_to_exitcode(status)
                raise _NotBroken(f"the job has ended and was not paused: {self._last_line()}")
            time.sleep(HEARTBEAT_TIMEOUT_US / 1e6 + 1)  # the lease is that of another host: only time ends it
            meanwhile()
            os.killpg(process.pid, signal.SIGCONT)
            if not process.wait():
                raise _Failed("the paused process has ended without an error, though another one had taken over")

    def take_away(self, what: Literal["checkpoint", "tables"], step: str) -> None:
        """Start a process whose checkpoint or tables go away at a step; put them back when it has ended."""
        breakage: Breakage = "take checkpoint away" if what == "checkpoint" else "take tables away"
        with self._started("run", breakage=breakage, step=step, number=self.batch) as process:
            process.wait()
        place = self.folder / (CHECKPOINT if what == "checkpoint" else TABLES)
        away = place.with_name(place.name + AWAY)
        if not away.exists():
            raise _NotBroken(f"the job has not reached {step}: {self._last_line()}")
        shutil.rmtree(place, ignore_errors=True)  # what the job may have written in its place
        away.rename(place)

    def rows(self) -> Rows:
        """Return the rows of its tables."""
        tables = [self.folder / TABLES / name for name in _COMPARED]
        return {table.name: _rows_of(table) for table in tables if table.exists()}

    @contextmanager
    def _started(self, what: Literal["run", "savepoint", "restore"], **order: Any) -> Iterator[subprocess.Popen[bytes]]:
        command = Order(do=what, job=self._job, folder=str(self.folder), **order).command()
        java = {"SPARK_SUBMIT_OPTS": os.environ.get("SPARK_SUBMIT_OPTS", SHORT_LIVED)}
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                command,
                env=os.environ | java,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # its Java machine may be there still, and it may be paused
            except ProcessLookupError:
                pass
            finally:
                process.wait()

    @property
    def _log(self) -> Path:
        return self.folder / "output"

    def _last_line(self) -> str:
        return (self._log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]


def _kill_at(step: str, run: _Run) -> None:
    if not run.kill("run", step=step, number=run.batch):
        raise _NotBroken(f"the job has not reached {step} of batch {run.batch} or a later one")
    run.do("run")


def _kill_savepoint(run: _Run) -> None:
    run.do("run", until=run.batch)
    if not run.kill("savepoint", number=1):
        raise _NotBroken("the savepoint had no file")
    run.do("savepoint")
    run.do("run")
    run.do("restore")
    run.do("run")


def _kill_restore(run: _Run) -> None:
    run.do("run", until=run.batch)
    run.do("savepoint")
    run.do("run")
    kills = 0
    while run.kill("restore", number=kills + 1):
        kills += 1
    if not kills:
        raise _NotBroken("the restore had no step")
    run.do("run")


def _pause(run: _Run) -> None:
    run.pause(lambda: run.do("run"))


def _take_away(what: Literal["checkpoint", "tables"], step: str, run: _Run) -> None:
    run.take_away(what, step)
    run.do("run")


DRILLS: dict[str, Callable[[_Run], None]] = {
    "no fault": lambda run: run.do("run"),
    **{f"kill at {step}": partial(_kill_at, step) for step in STEPS},
    "kill during a savepoint": _kill_savepoint,
    "kill during a restore": _kill_restore,
    "pause past the lease": _pause,
    "checkpoint away": partial(_take_away, "checkpoint", "before-prepare"),
    "tables away": partial(_take_away, "tables", "before-delta"),
}
"""By name, what happens to the job. All of them end with a start that reads all input that is there."""


def names(only: str | None) -> list[str]:
    """Return the names of the drills that contain `only`.

    Raises:
        DeclarationError: there is none.
    """
    found = [name for name in DRILLS if only is None or only in name]
    if not found:
        raise DeclarationError(f"no drill is called {only!r}; --list names them all")
    return found


def run_drills(job: str, only: str | None, on_result: Callable[[Result], None]) -> list[Result]:
    """Run the job undisturbed, then each drill, and return the results.

    Args:
        job: the file that declares it; see `recovery/upgrade/job_file.py`.
        only: part of the names of the drills; None for all.
        on_result: called after each drill.

    Raises:
        DeclarationError: no drill has that name, or the job fails undisturbed or writes no row.
    """
    chosen = names(only)
    if not Path(job.rpartition(":")[0] or job).exists() and not Path(job).exists():
        raise DeclarationError(f"there is no file {job}; name the Python file that declares the job")
    top = Path(tempfile.mkdtemp(prefix="panekeeper-drill-"))
    try:
        expected, batch = _undisturbed(job, top / "undisturbed")
        results = []
        for name in chosen:
            result = _drill(name, _Run(job, top / name.replace(" ", "-"), batch), expected)
            results.append(result)
            on_result(result)
    except BaseException:
        shutil.rmtree(top, ignore_errors=True)
        raise
    if all(one.outcome == "passed" for one in results):
        shutil.rmtree(top)
    return results


def _undisturbed(job: str, folder: Path) -> tuple[Rows, int]:
    """Return the rows of a run without any fault, and the batch in the middle of those that had input."""
    run = _Run(job, folder)
    try:
        run.do("run")
    except _Failed as error:
        raise DeclarationError(f"{job} cannot be drilled, since it fails undisturbed: {error}") from error
    rows = run.rows()
    if not sum(found.total() for found in rows.values()):
        raise DeclarationError(f"{job} cannot be drilled, since it writes no row; let its sources hold more")
    batches = [line.split() for line in (folder / BATCHES).read_text().splitlines()]
    with_input = [int(number) for number, read in batches if int(read)]
    return rows, with_input[len(with_input) // 2]


def _drill(name: str, run: _Run, expected: Rows) -> Result:
    began = monotonic_seconds()
    kept = f"; its folder is {run.folder}"
    rows = sum(found.total() for found in expected.values())
    outcome: Outcome = "failed"
    missing = extra = 0
    try:
        DRILLS[name](run)
        found = run.rows()
        missing = sum((one - found.get(table, Counter())).total() for table, one in expected.items())
        extra = sum((one - expected.get(table, Counter())).total() for table, one in found.items())
        outcome = "failed" if missing or extra else "passed"
        why = f"the tables differ from those of the undisturbed run{kept}" if missing or extra else ""
    except _Failed as error:
        why = f"{error}{kept}"
    except _NotBroken as error:
        outcome, why = "unknown", f"{error}{kept}"
    seconds = round(monotonic_seconds() - began, 1)
    return Result(drill=name, outcome=outcome, rows=rows, missing=missing, extra=extra, seconds=seconds, why=why)


def _rows_of(table: Path) -> Counter[str]:
    read = DeltaTable(table).to_pyarrow_table()
    kept = [name for name in read.column_names if name != _WRITTEN_AT]
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in read.select(kept).to_pylist())
