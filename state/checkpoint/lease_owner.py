"""Who holds the lease of a checkpoint, and does that process live?

`panekeeper/running.json` says so to the next job that starts there, and to commands from another process.
"""

from __future__ import annotations

import os
import socket
import uuid
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.checkpoint.folder import RUNNING_FILE, CheckpointFolder
from panekeeper.state.errors import CheckpointError

HEARTBEAT_TIMEOUT_US = 60_000_000
"""A job on another host has crashed if its last heartbeat is older; of one on this host the process is looked up."""

PROCESS_ID = uuid.uuid4().hex
"""Random, of this process: hosts and containers may have the same name, and their processes the same number."""


def boot_id() -> str | None:
    """Return what Linux calls this boot of the machine; None where the system has no name for it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def pid_namespace() -> str | None:
    """Return the PID namespace of this process, as Linux names it; None where the system has none.

    Containers on one host, or of one pod, may share the host's name and not see each other's processes.
    """
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def started_at(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the host did; None where the system does not report it."""
    status = _process_status(pid)
    return int(status[19]) if status else None


def is_alive(pid: int, started: int | None) -> bool:
    """Return whether process `pid` of this host runs, and is the one that started at `started` (None: any).

    The system gives a number to another process later, so the number alone does not say so.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's, but there
    status = _process_status(pid)
    # A zombie has ended; only its exit status remains.
    return not status or (status[0] not in "ZX" and started in (None, int(status[19])))


def _process_status(pid: int) -> list[str]:
    """Return the fields of Linux's process status from the third on, after the name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


@dataclass(frozen=True, kw_only=True)
class LeaseOwner:
    """The job that holds the lease. Stored: the fields are those of `running.json`.

    Attributes:
        name: the job's name.
        host: name of the host it runs on.
        pid: number of its process there.
        started: when that process started (`started_at`); None where the system does not report it.
        token: random; differs between leases.
        since: when the lease was acquired, us since the epoch.
        seen: time of the last heartbeat, us since the epoch.
        space: the PID namespace of its process; None where the system has none.
        boot: the boot of that host; None where the system does not report it.
        process: random, of its process (`PROCESS_ID`).
        claim: number of the claim by which it holds the lease.
        what: "job", or what else holds the lease, as a message names it.
        has_run: whether a batch of this start is committed; until then the run before it is still the last one.
        before: that run, the fields of a `PreviousRun`; None if there was none, or if this one has run.
    """

    name: str
    host: str
    pid: int
    started: int | None
    token: str
    since: int
    seen: int
    space: str | None = None
    boot: str | None = None
    process: str | None = None
    claim: int = 0
    what: str = "job"
    has_run: bool = True
    before: dict[str, Any] | None = None

    @staticmethod
    def of_this_process(name: str, what: str = "job") -> LeaseOwner:
        """Return an owner for this process, which has no lease yet."""
        return LeaseOwner(
            name=name,
            host=socket.gethostname(),
            pid=os.getpid(),
            started=started_at(os.getpid()),
            token="",
            since=0,
            seen=0,
            space=pid_namespace(),
            boot=boot_id(),
            process=PROCESS_ID,
            what=what,
            has_run=False,
        )

    @property
    def is_on_this_machine(self) -> bool:
        """Whether its process can be looked up here. Names alone do not say so: pods may have equal ones."""
        same_host = self.host == socket.gethostname() and self.boot in (None, boot_id())
        return same_host and self.space in (None, pid_namespace())

    @property
    def is_in_this_process(self) -> bool:
        """Whether it is of this very process, where the job itself says whether it has ended."""
        return self.is_on_this_machine and (self.pid, self.process) == (os.getpid(), PROCESS_ID)

    def is_alive(self, now: int) -> bool:
        """Return whether its job may still run, at the time `now` (us since the epoch)."""
        if not self.is_on_this_machine:
            return now - self.seen <= HEARTBEAT_TIMEOUT_US
        return is_alive(self.pid, self.started)

    def __str__(self) -> str:
        return f"{self.what} {self.name!r} (host {self.host}, process {self.pid}, since {format_time(self.since)})"


def read_owner(folder: CheckpointFolder, name: str = RUNNING_FILE) -> LeaseOwner | None:
    """Return the owner of the lease, which may have crashed; None if the last one released it."""
    try:
        stored = folder.read_json(name)
        if stored is None:
            return None
        # With a heartbeat the job writes what it reports of itself into the same object (`read_report`).
        return LeaseOwner(**{field.name: stored[field.name] for field in fields(LeaseOwner) if field.name in stored})
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"{name} in {folder.place} is damaged. If you are sure that no job runs there, remove this file"
        ) from error
