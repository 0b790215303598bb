"""The process that a drill starts: runs the job, makes or restores a savepoint, and breaks where it is told.

    python -m panekeeper.recovery.drill.own_process JSON

The job has its tables and its checkpoint in the folder of the drill. It reads its own sources; its own tables and
checkpoint are neither read nor written. The process is the leader of its process group, as `drills.py` starts it, so
one signal reaches the Java virtual machine, too. What breaks it is set here, by this program; nothing in an installed
job does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pyspark import cloudpickle

from panekeeper.framework.builder.outputs import DeltaJob
from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.sink import fault_points
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.create import savepoint
from panekeeper.recovery.upgrade.job_file import load_job

if TYPE_CHECKING:
    from panekeeper.framework.engine.job.status import BatchReport

CHECKPOINT, TABLES, AWAY, BATCHES = "checkpoint", "tables", ".away", "batches"
SAVEPOINT = "drill"
OTHER_HOST = "host-of-a-drill"
Breakage = Literal["kill", "pause", "take checkpoint away", "take tables away"]


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the process does.

    Attributes:
        do: run the job over all input that is there, make a savepoint of it, or restore that.
        job: the file that declares it; of a run.
        folder: of the drill.
        until: stop once this batch is in the tables.
        breakage: what happens at `step` of batch `number` or a later one, once. Of a savepoint and a restore: killed
            when `number` files, or steps, are done.
        step: of `panekeeper.framework.engine.sink.fault_points`.
        number: of the batch, files or steps.
    """

    do: Literal["run", "savepoint", "restore"]
    job: str
    folder: str
    until: int | None = None
    breakage: Breakage | None = None
    step: str = ""
    number: int = 0

    def command(self) -> list[str]:
        """Return the command line of a process that does it."""
        return [sys.executable, "-m", __spec__.name, json.dumps(asdict(self))]


def main(order: Order) -> int:
    """Do it; return 0, or 1 after an error, whose one line is the last one that is printed."""
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
    if order.breakage == "pause":
        socket.gethostname = lambda: OTHER_HOST  # its lease counts by its heartbeat, as that of another host
    declared = load_job(order.job)
    for name, module in [*sys.modules.items()]:
        if name.startswith("_panekeeper_job_"):  # workers cannot import a module that was loaded from a file
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
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


def _take_away(folder: Path) -> None:
    folder.rename(folder.with_name(folder.name + AWAY))


_BREAK: dict[Breakage, Callable[[Path], None]] = {
    "kill": lambda _: _signal_group(signal.SIGKILL),
    "pause": lambda _: _signal_group(signal.SIGSTOP),
    "take checkpoint away": lambda folder: _take_away(folder / CHECKPOINT),
    "take tables away": lambda folder: _take_away(folder / TABLES),
}


def _in_folder(declared: DeltaJob, tables: Path) -> DeltaJob:
    """Return the job with its tables in a folder, and without a sink of the user's own: that is not the drill's."""
    scratch = replace(
        declared.tables,
        log=str(tables / "log"),
        view=None if declared.tables.view is None else str(tables / "view"),
        quarantine=str(tables / "log_quarantine"),
        metrics=str(tables / "log_metrics"),
        downtime=str(tables / "log_downtime"),
    )
    return replace(declared, _tables=scratch, _named=False, _sink=None)


if __name__ == "__main__":
    sys.exit(main(Order(**json.loads(sys.argv[1]))))
