"""What a program is to do, and which events it has logged: a JSON file and a file of JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from integration_tests.drills.faults.volumes import CHECKPOINT
from panekeeper.state.checkpoint.clock import now_us

if TYPE_CHECKING:
    from integration_tests.drills.actions import Statement
    from integration_tests.drills.faults.defects import Defect

EXIT_JOBS_FAILED = 3
"""Exit code of a program in which a job failed; its events have the error."""


@dataclass(frozen=True, kw_only=True)
class ProgramRequest:
    """What one run of the program does.

    Attributes:
        do: run the jobs until all files are read; run them continuously until then and drain them; the same and kill
            the process, or fill the disk and let more files arrive, or let the clock jump, while they are idle; make,
            or restore a savepoint; or only run `statements`.
        job_names: names of the jobs.
        files: the input folder.
        held_files: a folder with files that are moved to the input while the disk is full, or after each jump.
        folder: has a folder for each job.
        checkpoint: name of the checkpoint folder of each job in its own; a restore makes it if it is not the usual one.
        events_file: events are appended to this file.
        point: the fault point at which the fault is triggered.
        batch: the first batch in which the fault is triggered.
        victim: what is killed: the program, its Python workers, or its executors; "pause": the program is paused.
        master: URL of the cluster; None for local mode.
        ahead_hours: how far the wall clock is set ahead; None for the real one.
        jumps: how far it is set ahead after each jump.
        fills_disk: whether the disk is full when the clock jumps.
        rejected_values: for each of them the jobs have a rule that rejects rows with that value.
        operator_file: has the operator of the jobs, in place of the usual one.
        defect: the defect to inject.
        name: of the savepoint.
        location: of the savepoints; each job has a place of its own under it.
        endpoint: URL of the S3 store; None for Amazon's.
        killed_at: the step of the savepoint or restore after which the process is killed.
        statements: run on the tables, while the jobs wait at `point` of `batch`.
    """

    do: Literal["run", "drain", "idle", "fill", "jump", "savepoint", "restore", "maintain"]
    job_names: tuple[str, ...]
    files: str
    held_files: str = ""
    folder: str
    checkpoint: str = CHECKPOINT
    events_file: str
    point: str | None = None
    batch: int = 0
    victim: Literal["program", "workers", "executors", "pause"] = "program"
    master: str | None = None
    ahead_hours: float | None = None
    jumps: tuple[float, ...] = ()
    fills_disk: bool = False
    rejected_values: tuple[int, ...] = ()
    operator_file: str | None = None
    defect: Defect | None = None
    name: str = ""
    location: str = ""
    endpoint: str | None = None
    killed_at: str | None = None
    statements: tuple[Statement, ...] = ()

    def save(self, path: Path) -> None:
        """Write the request to a file."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> ProgramRequest:
        """Return the request that was saved to a file."""
        value = json.loads(path.read_text())
        lists = ("job_names", "jumps", "statements", "rejected_values")
        return cls(**value | {name: tuple(value[name]) for name in lists})


class EventLog:
    """Appends events to a file. Each is passed to the operating system at once, so a kill of the process loses none."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, job: str, what: str, **fields: Any) -> None:
        """Append one event.

        Args:
            job: its name; empty if the event is not about one job.
            what: `started`, `batch`, `ended`, `error`, `killed` or `paused`.
            fields: more fields, JSON-able.
        """
        line = {"at": now_us() / 1e6, "job": job, "what": what} | fields
        os.write(self._file, (json.dumps(line) + "\n").encode())


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a file; none if there is no file."""
    if path.exists():
        for line in path.read_text().splitlines():
            yield json.loads(line)
