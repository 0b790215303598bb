"""What can be done to a job in a drill. `recovery/drill/scenario_run.py` does it.

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
    "between a Parquet file and its commit",
    "between two Delta commits",
    "after Delta, before Spark's commit",
]
POINTS: dict[Point, str | None] = {
    "before the offset log": None,  # between two batches: nothing of the next one is written
    "after the offset log": "before-plan",
    "in the midst of a batch": "mid-batch",
    "after the state commit": "before-delta",
    "between a Parquet file and its commit": "between-file-and-commit",
    "between two Delta commits": "between-delta",
    "after Delta, before Spark's commit": "after-delta-commit",
}
"""The names that scenarios use for the points of `framework.engine.sink.fault_points`."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run until `files` files in all are read."""

    files: int


@dataclass(frozen=True)
class Resume:
    """Run until all files are read. The time to recover is measured from the start of this run."""


@dataclass(frozen=True)
class Kill:
    """Run, and kill the process and its Java virtual machine when batch `batch`, or a later one, is at a point."""

    point: Point
    batch: int = 2


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
    """Restore a savepoint; `killed_at` names the step of `recovery.restore.restore` after which to kill the process."""

    name: str = "drill"
    killed_at: str | None = None
    store: Literal["folder", "s3", "s3 fails", "s3 slow"] = "folder"


@dataclass(frozen=True)
class Damage:
    """Overwrite the state files of the job, or remove them."""

    how: Literal["overwritten", "missing"]


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


@dataclass(frozen=True)
class FreeDisk:
    """Remove what `FillDisk` has written."""


@dataclass(frozen=True)
class Outage:
    """No job runs for `hours` hours: the wall clock of the next run is set ahead, or back if negative."""

    hours: float


Action = (
    Run
    | Resume
    | Kill
    | RandomKills
    | KillWorker
    | KillExecutor
    | Drain
    | MakeSavepoint
    | Restore
    | Damage
    | ExpectError
    | FillDisk
    | FreeDisk
    | Outage
)
