"""What can be done to a job in a drill. `integration_tests/drills/scenario_run.py` does it.

The input files of a drill are numbered from 0, and each is one micro-batch. A run reads the files that exist and ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Point = Literal[
    "before the offset log",
    "after the offset log",
    "in the midst of a batch",
    "after the state commit",
    "after the batch is recorded",
    "between a Parquet file and its commit",
    "between two Delta commits",
    "after Delta, before Spark's commit",
]
POINTS: dict[Point, str | None] = {
    "before the offset log": None,  # between two batches: nothing of the next one is written
    "after the offset log": "before-plan",
    "in the midst of a batch": "mid-batch",
    "after the state commit": "before-prepare",
    "after the batch is recorded": "before-delta",
    "between a Parquet file and its commit": "between-file-and-commit",
    "between two Delta commits": "between-delta",
    "after Delta, before Spark's commit": "after-delta-commit",
}
"""The names that scenarios use for the points of `integration_tests.drills.faults.armed`."""

PausePoint = Literal["before it records a batch", "in its commits"]
PAUSE_POINTS: dict[PausePoint, str] = {
    "before it records a batch": "before-prepare",
    "in its commits": "lease-checked",
}
"""Where a process is paused: before it checks its lease for the commits of a batch, or after that check."""

Statement = Literal["OPTIMIZE", "VACUUM", "VACUUM RETAIN 0", "SET TBLPROPERTIES", "ADD COLUMNS"]
"""The names that scenarios use for the statements of `integration_tests.drills.faults.maintenance`."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run until `files` files in all are read."""

    files: int


@dataclass(frozen=True)
class Resume:
    """Run until all files are read. The time to recover is measured from the start of this run."""


@dataclass(frozen=True)
class Kill:
    """Run, and kill the process and its Java virtual machine when batch `batch`, or a later one, is at a point.

    If `batch` is None, the run gets one more file, and is killed in the batch of this file.
    """

    point: Point
    batch: int | None = 2


@dataclass(frozen=True)
class Pause:
    """Run, and pause the process and its Java virtual machine in batch `batch`; the next runs are on another host."""

    point: PausePoint
    batch: int = 2


@dataclass(frozen=True)
class Continue:
    """Let the paused process continue. It must commit nothing more, and its jobs must fail with an error."""


@dataclass(frozen=True)
class ChangeCode:
    """Start the jobs with other code, which the next runs have, too. It must not be refused.

    Attributes:
        what: one more `reject` rule, or another method of the operator.
        keeps: whether the unfinished batch is recorded, as its old code has computed it; None if it may be or not.
    """

    what: Literal["rule", "operator"] = "rule"
    keeps: bool | None = None


@dataclass(frozen=True)
class RandomKills:
    """Run and kill `times` times. Points and batches are chosen from the drill's seed."""

    times: int = 10


@dataclass(frozen=True)
class KillWorker:
    """Run, and kill the Python workers while they process batch `batch`. The job may continue or fail."""

    batch: int = 2


@dataclass(frozen=True)
class KillExecutor:
    """As `KillWorker`, for the executors of a cluster. The cluster starts new ones."""

    batch: int = 2


@dataclass(frozen=True)
class Drain:
    """Run continuously until `files` files are read, then drain."""

    files: int = 3


@dataclass(frozen=True, kw_only=True)
class MakeSavepoint:
    """Make a savepoint of each job, which is stopped.

    Attributes:
        name: of the savepoint.
        killed: kill the process after the first file of it; the savepoint must then not be listed.
        store: a folder, S3, S3 that fails for some seconds meanwhile, or S3 that responds slowly.
    """

    name: str = "drill"
    killed: bool = False
    store: Literal["folder", "s3", "s3 fails", "s3 slow"] = "folder"


@dataclass(frozen=True, kw_only=True)
class Restore:
    """Restore a savepoint.

    Attributes:
        name: of the savepoint.
        killed_at: the step of `panekeeper.recovery.restore.restore` after which to kill the process.
        store: as in `MakeSavepoint`.
        elsewhere: restore the checkpoint to another folder, from which the jobs are run then. The old one may still be
            in use by a paused process.
    """

    name: str = "drill"
    killed_at: str | None = None
    store: Literal["folder", "s3", "s3 fails", "s3 slow"] = "folder"
    elsewhere: bool = False


@dataclass(frozen=True)
class Damage:
    """Overwrite the state files of the job, or remove them."""

    how: Literal["overwritten", "missing"]


@dataclass(frozen=True, kw_only=True)
class TakeAway:
    """Move the tables or the checkpoint of each job away, as if their volume was not mounted.

    Attributes:
        what: which of them.
        leaving: what is in their place: nothing, or the empty folders on which a volume would be mounted.
    """

    what: Literal["tables", "checkpoint"]
    leaving: Literal["nothing", "empty folders"] = "nothing"


@dataclass(frozen=True)
class PutBack:
    """Put back what was taken away. Nothing must have been written in its place."""


@dataclass(frozen=True)
class ExpectError:
    """Run, and expect that the job fails with an error that contains one of these messages.

    Attributes:
        messages: parts of error messages; one of them is enough.
        all_jobs: whether every job must fail; otherwise at least one.
    """

    messages: tuple[str, ...]
    all_jobs: bool = True


@dataclass(frozen=True)
class FillDisk:
    """Fill the disk of the checkpoint and the tables until `leaving` bytes are free."""

    leaving: int


@dataclass(frozen=True, kw_only=True)
class FillWhileIdle:
    """Run continuously until `files` files are read; fill the disk while the jobs are idle, and let one more arrive.

    Then the disk is freed. Each job must have failed with an error that contains one of these messages.
    """

    files: int
    messages: tuple[str, ...]


@dataclass(frozen=True)
class FreeDisk:
    """Remove what `FillDisk` has written."""


@dataclass(frozen=True)
class Outage:
    """No job runs for `hours` hours: the wall clock of the next run is set ahead, or back if negative."""

    hours: float


@dataclass(frozen=True, kw_only=True)
class JumpClock:
    """Run continuously; the clock of the process jumps, as if it was suspended or its clock was set.

    After each jump one more file arrives. The jobs are stopped at the end.

    Attributes:
        files: how many files are read before the first jump, in all.
        hours: how far the clock goes at each jump; back if negative.
        disk_is_full: at each jump, until each job has failed to write the new time. It must go on by itself then.
    """

    files: int
    hours: tuple[float, ...]
    disk_is_full: bool = False


@dataclass(frozen=True, kw_only=True)
class Maintain:
    """Change the log and the view of each job as their owner may, by statements of SQL.

    Attributes:
        statements: of `integration_tests.drills.faults.maintenance`.
        beside: run the jobs meanwhile, and change the tables when a batch of this number or a later one has run and is
            not yet in them; None: the jobs are stopped.
        files: how many files that run reads in all; None if the jobs are stopped.
    """

    statements: tuple[Statement, ...]
    beside: int | None = None
    files: int | None = None


Action = (
    Run
    | Resume
    | Kill
    | Pause
    | Continue
    | ChangeCode
    | RandomKills
    | KillWorker
    | KillExecutor
    | Drain
    | MakeSavepoint
    | Restore
    | Damage
    | TakeAway
    | PutBack
    | ExpectError
    | FillDisk
    | FillWhileIdle
    | FreeDisk
    | Outage
    | JumpClock
    | Maintain
)
