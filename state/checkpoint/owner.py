"""The owner of a checkpoint's lease, and how the last one ended: `panekeeper/running.json` and `stopped.json`.

Read by the next job that starts there, and by commands from another process.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, fields
from typing import Any

from state.checkpoint.clock import format_time
from state.checkpoint.folder import CheckpointFolder
from state.checkpoint.layout import RUNNING_FILE, STOPPED_FILE
from state.checkpoint.process import is_alive, pid_namespace
from state.errors import CheckpointError

HEARTBEAT_TIMEOUT_US = 60_000_000
"""A job on another host has crashed if its last heartbeat is older; of one on this host the process is looked up."""


@dataclass(frozen=True, kw_only=True)
class LeaseOwner:
    """The job that holds the lease. Stored: the fields are those of `running.json`.

    Attributes:
        name: the job's name.
        host: name of the host it runs on.
        space: the PID namespace of its process (`process.pid_namespace`); None where the system has none.
        pid: number of its process there.
        started: when that process started (`process.started_at`); None where the system does not report it.
        token: random; differs between leases.
        since: when the lease was acquired, us since the epoch.
        seen: time of the last heartbeat, us since the epoch.
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
        """Return whether its job may still run, at the time `now` (us since the epoch)."""
        if self.host != socket.gethostname() or self.space not in (None, pid_namespace()):
            return now - self.seen <= HEARTBEAT_TIMEOUT_US
        return is_alive(self.pid, self.started)

    def __str__(self) -> str:
        return f"job {self.name!r} (host {self.host}, process {self.pid}, since {format_time(self.since)})"


@dataclass(frozen=True, kw_only=True)
class PreviousRun:
    """The last job on the checkpoint before this one, for the downtime report.

    Attributes:
        name: the job's name.
        since_us: when it acquired the lease, us since the epoch.
        seen_us: when it ended; after a crash the time of its last heartbeat, a few seconds before at most.
        clean: whether it ended and released the lease, rather than crashed.
    """

    name: str
    since_us: int
    seen_us: int
    clean: bool


def read_owner(folder: CheckpointFolder, name: str = RUNNING_FILE) -> LeaseOwner | None:
    """Return the owner of the lease, which may have crashed; None if the last one released it.

    Raises:
        CheckpointError: the file is damaged.
    """
    try:
        value = folder.read_json(name)
        if value is None:
            return None
        return LeaseOwner(**{one.name: value[one.name] for one in fields(LeaseOwner) if one.name in value})
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{name} in {folder.root} is damaged; if you are sure that no job runs there, remove this file"
        ) from error


def read_end(folder: CheckpointFolder) -> dict[str, Any]:
    """Return what the last job that ended wrote to `stopped.json`; empty if none did, or if the file is damaged.

    The fields: at (when, us), state ("ended", "failed" or "flushed"), name, since (us) and token of its lease, and
    batch and open (the work it left open), if it had run one. They are for reports: nothing else depends on them.
    """
    try:
        value = folder.read_json(STOPPED_FILE)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def previous_run(folder: CheckpointFolder, crashed: dict[str, Any] | None) -> PreviousRun | None:
    """Return the last run on a checkpoint, None if there was none.

    Args:
        folder: the checkpoint.
        crashed: the fields of the lease that a crashed job has left; None if the last job released its lease.
    """
    end = read_end(folder)
    # A job that crashed between writing `stopped.json` and removing `running.json` has left both.
    if crashed is not None and end.get("token") != crashed["token"]:
        return PreviousRun(name=crashed["name"], since_us=crashed["since"], seen_us=crashed["seen"], clean=False)
    if not end:
        return None
    return PreviousRun(name=end["name"], since_us=end["since"], seen_us=end["at"], clean=True)
