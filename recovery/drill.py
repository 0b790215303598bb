"""The drills of a user's own job: it is broken, started again, and its tables are compared with an undisturbed run.

Each drill has a folder of its own with the job's tables and checkpoint, and each start is a process of its own:

    python -m panekeeper.recovery.drill JSON

It runs the job, makes or restores a savepoint, and breaks where it is told. It reads the job's own sources; the job's
own tables and checkpoint are neither read nor written. It is the leader of its process group, so one signal reaches the
Java virtual machine, too. What breaks it is set here; nothing in an installed job does.

The job must give the same results twice: windows of the wall clock do not, nor does a source that grows meanwhile. The
first drill breaks nothing, and shows whether that is so.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from deltalake import DeltaTable

from panekeeper.framework.declarations.display import Part, Result, TextTable
from panekeeper.framework.declarations.errors import DeclarationError, PanekeeperError
from panekeeper.framework.engine.session.session import SHORT_LIVED
from panekeeper.framework.engine.sink import fault_points
from panekeeper.state.checkpoint.clock import format_time, monotonic_seconds, now_us
from panekeeper.state.checkpoint.epochs import read_pointer
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.lease_owner import HEARTBEAT_TIMEOUT_US
from panekeeper.state.table_roles import folder_name, has_results_by_name

if TYPE_CHECKING:
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.engine.job.status import BatchReport

Outcome = Literal["passed", "failed", "unknown"]
Doing = Literal["run", "savepoint", "restore"]
Breakage = Literal["kill", "pause", "take checkpoint away", "take tables away"]
Rows = dict[str, Counter[str]]
"""By name of a table, its rows as JSON."""

CHECKPOINT, TABLES, AWAY, BATCHES = "checkpoint", "tables", ".away", "batches"
SAVEPOINT = "drill"
DRILL_COLUMNS = ("drill", "outcome", "rows", "missing", "extra", "seconds")
"""Of the table of results."""
OTHER_HOST = "host-of-a-drill"
_WRITTEN_AT = "fired_at"  # differs between two runs


@dataclass(frozen=True, kw_only=True)
class DrillResult:
    """The result of one drill; unknown if the job was not broken as it should have been, which shows nothing.

    `rows` are those of the undisturbed run, `missing` those of them that are not in the tables, `extra` those of the
    tables that the undisturbed run does not have; `why` is the reason of an outcome that is not "passed".
    """

    drill: str
    outcome: Outcome
    rows: int = 0
    missing: int = 0
    extra: int = 0
    seconds: float = 0.0
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Drills(Result):
    """What became of a job in some drills: its name, when they began, and the results. A report reads its JSON."""

    job: str
    at: str
    results: list[DrillResult]
    _computed: ClassVar[Mapping[str, str]] = {"passed": "passed"}

    @property
    def passed(self) -> bool:
        """Whether all of them have passed."""
        return all(result.outcome == "passed" for result in self.results)

    @property
    def table(self) -> TextTable:
        """The results as a table."""
        return TextTable.of(
            DRILL_COLUMNS, [[getattr(result, name) for name in DRILL_COLUMNS] for result in self.results]
        )

    def _described(self) -> Iterator[Part]:
        yield self.table
        yield from (f"{result.drill}: {result.why}" for result in self.results if result.why)


@dataclass(frozen=True, kw_only=True)
class DrillNames(Result):
    """The names of some drills, none of which was run."""

    drills: list[str]
    passed = True

    def _described(self) -> Iterator[str]:
        yield from self.drills


class _Failed(Exception):
    """The job did what it must not do; the message says what."""


class _NotBroken(Exception):
    """The job was not broken as it should have been."""


class _Run:
    """One job in a folder of its own, through all its starts."""

    def __init__(self, job: str, folder: Path, batch: int = 0) -> None:
        """Make the new folder of a job, which is declared in a file and broken in a batch."""
        folder.mkdir()
        self.folder, self.batch = folder, batch
        self._job = job

    def do(self, what: Doing, **order: Any) -> None:
        """Start a process that should end well."""
        with self._started(what, **order) as process:
            if process.wait():
                raise _Failed(f"{what} failed: {self._last_line()}")

    def kill(self, what: Doing, *, number: int, step: str = "") -> bool:
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
        tables = self.folder / TABLES
        result_tables = (
            [path for path in sorted(tables.iterdir()) if has_results_by_name(path.name)] if tables.exists() else []
        )
        return {table.name: _rows_of(table) for table in result_tables}

    @contextmanager
    def _started(self, what: Doing, **order: Any) -> Iterator[subprocess.Popen[bytes]]:
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
    **{f"kill at {step}": partial(_kill_at, step) for step in fault_points.STEPS},
    "kill during a savepoint": _kill_savepoint,
    "kill during a restore": _kill_restore,
    "pause past the lease": _pause,
    "checkpoint away": partial(_take_away, "checkpoint", "before-prepare"),
    "tables away": partial(_take_away, "tables", "before-delta"),
}
"""By name, what happens to the job. All of them end with a start that reads all input that is there."""


def names(only: str | None) -> list[str]:
    """Return the names of the drills that contain `only`. Raises `DeclarationError` if there is none."""
    matching = [name for name in DRILLS if only is None or only in name]
    if not matching:
        raise DeclarationError(f"no drill is called {only!r}; --list names them all")
    return matching


def run_drills(job: str, only: str | None, on_result: Callable[[DrillResult], None]) -> Drills:
    """Run the job that a file declares undisturbed, then each drill whose name contains `only`.

    Raises `DeclarationError` if no drill has that name, or the job fails undisturbed or writes no row.
    """
    chosen = names(only)
    if not Path(job.rpartition(":")[0] or job).exists() and not Path(job).exists():
        raise DeclarationError(f"there is no file {job}; name the Python file that declares the job")
    top, at = Path(tempfile.mkdtemp(prefix="panekeeper-drill-")), format_time(now_us())
    try:
        expected, batch = _undisturbed(job, top / "undisturbed")
        pointer, results = read_pointer(LocalFolder(top / "undisturbed" / CHECKPOINT)), list[DrillResult]()
        for name in chosen:
            result = _drill(name, _Run(job, top / name.replace(" ", "-"), batch), expected)
            results.append(result)
            on_result(result)
    except BaseException:
        shutil.rmtree(top, ignore_errors=True)
        raise
    drills = Drills(job="" if pointer is None else pointer.name, at=at, results=results)
    if drills.passed:
        shutil.rmtree(top)
    return drills


def _undisturbed(job: str, folder: Path) -> tuple[Rows, int]:
    """Return the rows of a run without any fault, and the batch in the middle of those that had input."""
    run = _Run(job, folder)
    try:
        run.do("run")
    except _Failed as error:
        raise DeclarationError(f"{job} cannot be drilled, since it fails undisturbed: {error}") from error
    rows = run.rows()
    if not sum(table_rows.total() for table_rows in rows.values()):
        raise DeclarationError(f"{job} cannot be drilled, since it writes no row; let its sources hold more")
    batches = [line.split() for line in (folder / BATCHES).read_text().splitlines()]
    with_input = [int(number) for number, read in batches if int(read)]
    return rows, with_input[len(with_input) // 2]


def _drill(name: str, run: _Run, expected: Rows) -> DrillResult:
    began = monotonic_seconds()
    kept = f"; its folder is {run.folder}"
    rows = sum(table_rows.total() for table_rows in expected.values())
    outcome: Outcome = "failed"
    missing = extra = 0
    try:
        DRILLS[name](run)
        actual = run.rows()
        missing = sum((counts - actual.get(table, Counter())).total() for table, counts in expected.items())
        extra = sum((counts - expected.get(table, Counter())).total() for table, counts in actual.items())
        outcome = "failed" if missing or extra else "passed"
        why = f"the tables differ from those of the undisturbed run{kept}" if missing or extra else ""
    except _Failed as error:
        why = f"{error}{kept}"
    except _NotBroken as error:
        outcome, why = "unknown", f"{error}{kept}"
    seconds = round(monotonic_seconds() - began, 1)
    return DrillResult(drill=name, outcome=outcome, rows=rows, missing=missing, extra=extra, seconds=seconds, why=why)


def _rows_of(table: Path) -> Counter[str]:
    read = DeltaTable(table).to_pyarrow_table()
    kept = [name for name in read.column_names if name != _WRITTEN_AT]
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in read.select(kept).to_pylist())


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the process does: run the job over all input that is there, make a savepoint of it, or restore that.

    A run may stop once the batch `until` is in the tables. The breakage happens at `step` of batch `number` or a later
    one, once; a savepoint and a restore are killed when `number` files, or steps, are done.
    """

    do: Doing
    job: str
    folder: str
    until: int | None = None
    breakage: Breakage | None = None
    step: str = ""
    number: int = 0

    def command(self) -> list[str]:
        """Return the command line of a process that does it."""
        return [sys.executable, "-m", "panekeeper.recovery.drill", json.dumps(asdict(self))]


def carry_out(order: Order) -> int:
    """Do it; return 0, or 1 after an error, whose one line is the last one that is printed."""
    from panekeeper.recovery.restore.restore import restore
    from panekeeper.recovery.savepoint.create import savepoint

    folder = Path(order.folder)
    try:
        if order.do == "run":
            _run(order, folder)
        elif order.do == "savepoint":
            savepoint(folder / CHECKPOINT, SAVEPOINT, to=folder / "savepoints", progress=_counting(order))
        else:
            restore(folder / "savepoints", SAVEPOINT, on_step=_counting(order))
    except PanekeeperError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


def _run(order: Order, folder: Path) -> None:
    from panekeeper.recovery.upgrade.job_file import load_job

    if order.breakage == "pause":
        socket.gethostname = lambda: OTHER_HOST  # its lease counts by its heartbeat, as that of another host
    declared = load_job(order.job)
    fault_points.hook = hook_of(order)
    job = _in_folder(declared, folder / TABLES).start(checkpoint=folder / CHECKPOINT, trigger="available_now")

    def on_batch(report: BatchReport) -> None:
        with (folder / BATCHES).open("a") as file:
            file.write(f"{report.batch} {report.rows}\n")
        if order.until is not None and report.batch >= order.until:
            job.stop()

    job.on_batch(on_batch)
    job.await_end()


def hook_of(order: Order) -> fault_points.Hook | None:
    """Return what the engine calls at each step of a batch; None if nothing is to break."""
    if order.breakage is None:
        return None
    is_over = False

    def hook(step: str, number: int, _: str) -> None:
        nonlocal is_over
        if not is_over and step == order.step and number >= order.number:
            is_over = True
            _BREAK[order.breakage or "kill"](Path(order.folder))

    return hook


def _counting(order: Order) -> Callable[[object], None]:
    """Return what is called when a file of a savepoint, or a step of a restore, is done."""
    done = 0

    def count(_: object) -> None:
        nonlocal done
        done += 1
        if order.breakage == "kill" and done == order.number:
            _signal_group(signal.SIGKILL)

    return count


def _signal_group(number: int) -> None:
    assert os.getpgrp() == os.getpid()  # nobody else is in this group
    os.killpg(0, number)


def _move_away(folder: Path) -> None:
    folder.rename(folder.with_name(folder.name + AWAY))


_BREAK: dict[Breakage, Callable[[Path], None]] = {
    "kill": lambda _: _signal_group(signal.SIGKILL),
    "pause": lambda _: _signal_group(signal.SIGSTOP),
    "take checkpoint away": lambda folder: _move_away(folder / CHECKPOINT),
    "take tables away": lambda folder: _move_away(folder / TABLES),
}


def _in_folder(declared: DeltaJob, tables: Path) -> DeltaJob:
    """Return the job with its tables in a folder, and without a sink of the user's own: that is not the drill's."""
    from panekeeper.framework.engine.sink.tables import Tables

    by_role = declared.tables.by_role.items()
    scratch = Tables({role: None if path is None else str(tables / folder_name(role)) for role, path in by_role})
    return replace(declared, _tables=scratch, _named=False, _sink=None)


if __name__ == "__main__":
    sys.exit(carry_out(Order(**json.loads(sys.argv[1]))))
