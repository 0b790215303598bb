"""What can be done to a job in a drill. Only words; the runner does it.

The files of a drill are numbered from 0, one micro-batch each. A run reads the files that are there and ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Point = Literal[
    "before the offset log",
    "after the offset log",
    "in the midst of a batch",
    "after the state commit",
    "between two Delta commits",
    "after Delta, before Spark's commit",
]
POINTS: dict[Point, str | None] = {
    "before the offset log": None,  # between two batches: nothing of the next one is written
    "after the offset log": "before-plan",
    "in the midst of a batch": "mid-batch",
    "after the state commit": "before-delta",
    "between two Delta commits": "between-delta",
    "after Delta, before Spark's commit": "after-delta-commit",
}
"""What the points of `framework.engine.sink.fault_points` mean for somebody who reads a scenario."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run until `files` files in all are read."""

    files: int


@dataclass(frozen=True)
class Resume:
    """Run until all files are read. From here on the time to recover is taken."""


@dataclass(frozen=True)
class Kill:
    """Run, and get killed (SIGKILL, Java machine and all) when batch `batch`, or one after it, is at a point."""

    point: Point
    batch: int = 2


@dataclass(frozen=True)
class RandomKills:
    """Get killed and come back, so many times: the points are picked from the drill's seed."""

    times: int = 10


@dataclass(frozen=True)
class KillWorker:
    """Run, and have the Python workers of batch `batch` killed while they work. The job may survive it or fail."""

    batch: int = 2


@dataclass(frozen=True)
class KillExecutor:
    """As `KillWorker`, for the executors of a cluster. The cluster starts new ones."""

    batch: int = 2


@dataclass(frozen=True)
class Drain:
    """Run as a service does until `files` files are read, then drain."""

    files: int = 3


@dataclass(frozen=True, kw_only=True)
class Savepoint:
    """Make a savepoint of the job, which is stopped.

    Attributes:
        name: which.
        killed: be killed after the first file of it; the savepoint must then not exist.
        store: in a folder, in S3, in S3 that fails for 10 s in the midst of it, or in one that answers slowly.
    """

    name: str = "drill"
    killed: bool = False
    store: Literal["folder", "s3", "s3 fails", "s3 slow"] = "folder"


@dataclass(frozen=True, kw_only=True)
class Restore:
    """Restore a savepoint; `killed_at` names the step of `recovery.restore.restore` after which to be killed."""

    name: str = "drill"
    killed_at: str | None = None
    store: Literal["folder", "s3", "s3 fails", "s3 slow"] = "folder"


@dataclass(frozen=True)
class Damage:
    """Overwrite the state files of the job, or remove them."""

    how: Literal["overwritten", "missing"]


@dataclass(frozen=True)
class Fails:
    """Run, and be refused or stopped by an error of ours that says one of these words.

    `everybody`: each job must be; otherwise at least one.
    """

    says: tuple[str, ...]
    everybody: bool = True


@dataclass(frozen=True)
class FillDisk:
    """Leave so many bytes on the disk of the job's checkpoint and tables."""

    leaving: int


@dataclass(frozen=True)
class FreeDisk:
    """Make room again."""


@dataclass(frozen=True)
class Outage:
    """Nothing runs for so many hours: the wall clock of the next run has moved. Negative: it went back."""

    hours: float


Action = (
    Run
    | Resume
    | Kill
    | RandomKills
    | KillWorker
    | KillExecutor
    | Drain
    | Savepoint
    | Restore
    | Damage
    | Fails
    | FillDisk
    | FreeDisk
    | Outage
)
