"""Who runs a job on a checkpoint: what `panekeeper/running.json` says, and whether that is still true.

Read by the next job that wants to start, and by the command line from outside. Imports no pyspark.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from state.checkpoint.process import is_alive, space
from state.errors import CheckpointError

if TYPE_CHECKING:
    from state.checkpoint.folder import CheckpointFolder

RUNNING_FILE = "panekeeper/running.json"
STOPPED_FILE = "panekeeper/stopped.json"
"""When and how the last job that ended did so, and what it left."""

SILENT_US = 60_000_000
"""A job elsewhere (`process.space`) that was not seen for so long is dead; here its process is looked for."""


def wall_us() -> int:
    """Return the time, us since the epoch."""
    return time.time_ns() // 1000


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who runs a job, as `running.json` says it.

    Attributes:
        name: the job's name.
        host: the machine.
        space: where that number is one (`process.space`); null where the system does not tell.
        pid: its process there.
        started: when that process started (`process.started_at`); null where the system does not tell.
        token: random; tells this lease from every other.
        since: when the lease was taken, us since the epoch.
        seen: when the job last gave a sign of life, us since the epoch.
    """

    name: str
    host: str
    pid: int
    started: int | None
    token: str
    since: int
    seen: int
    space: str | None = None

    def is_alive(self, now: int) -> bool:
        """Say whether its job may still run."""
        if self.host != socket.gethostname() or self.space not in (None, space()):
            return now - self.seen <= SILENT_US
        return is_alive(self.pid, self.started)

    def __str__(self) -> str:
        return f"job {self.name!r} (host {self.host}, process {self.pid}, since {show_time(self.since)})"


def read_holder(folder: CheckpointFolder, name: str = RUNNING_FILE) -> Holder | None:
    """Return who holds, or last held, the lease; None if the last one ended. Raises `CheckpointError` if damaged."""
    try:
        value = folder.read_json(name)
        if value is None:
            return None
        return Holder(**{one.name: value[one.name] for one in fields(Holder) if one.name in value})
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{name} in {folder.root} is damaged; if you are sure that no job runs there, remove this file"
        ) from error


def show_time(us: int) -> str:
    """Return an instant to the second, for people."""
    return f"{datetime.fromtimestamp(us / 1e6, tz=UTC):%Y-%m-%d %H:%M:%S} UTC"
