"""Who holds the lease of a checkpoint, and how the last job ended.

`panekeeper/running.json` and `stopped.json` are read by the next job that starts there, and by commands from another
process. A claim is a numbered file, and the newest says who has the lease. It is created exclusively and not written
again: of two starts at the same time one gets the next number, and a process that was paused finds its claim removed,
and can overwrite nothing by which the next owner holds the lease.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.checkpoint.folder import (
    CLAIMS_FOLDER,
    RUNNING_FILE,
    STOPPED_FILE,
    CheckpointFolder,
    claim_file,
    numbers_in,
)
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

    def with_previous(self, run: PreviousRun | None) -> LeaseOwner:
        """Return the owner if `run` is the last one that has committed a batch; None: this run itself."""
        return replace(self, has_run=run is None, before=None if run is None else asdict(run))

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


@dataclass(frozen=True, kw_only=True)
class PreviousRun:
    """The last job on the checkpoint before this one, for the downtime report. Times are us since the epoch.

    `seen_us` is when it ended; after a crash the time of its last heartbeat, a few seconds before at most. It is
    `clean` if it ended, rather than failed or crashed.
    """

    name: str
    since_us: int
    seen_us: int
    clean: bool

    @staticmethod
    def at(name: str, us: int) -> PreviousRun:
        """Return a run that is known to have been there at one instant only, and did not end by itself."""
        return PreviousRun(name=name, since_us=us, seen_us=us, clean=False)


def read_owner(folder: CheckpointFolder, name: str = RUNNING_FILE) -> LeaseOwner | None:
    """Return the owner of the lease, which may have crashed; None if the last one released it."""
    try:
        stored = folder.read_json(name)
        if stored is None:
            return None
        # With a heartbeat the job writes what it reports of itself into the same object (`read_report`).
        return LeaseOwner(**{one.name: stored[one.name] for one in fields(LeaseOwner) if one.name in stored})
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"{name} in {folder.place} is damaged. If you are sure that no job runs there, remove this file"
        ) from error


def read_end(folder: CheckpointFolder) -> dict[str, Any]:
    """Return what the last job that ended wrote to `stopped.json`; empty if none did, or if the file is damaged.

    The fields: at (when, us), state ("ended", "failed" or "flushed"), name, since (us), token, has_run and before
    of its lease, and batch and open (the work it left open), if it had run one. They are for reports.
    """
    try:
        return folder.read_json(STOPPED_FILE) or {}
    except ValueError:
        return {}


def read_report(folder: CheckpointFolder) -> dict[str, Any]:
    """Return what the job on a checkpoint, or the last one that ran there, reported of itself; empty if nothing.

    It is written with each heartbeat and at the end. The fields: batch (the last one whose tables are written), open
    (the work it has open), and progress (`framework/engine/job/status.py`).
    """
    try:
        value = folder.read_json(RUNNING_FILE)
    except ValueError:
        return {}
    return value if value and "progress" in value else read_end(folder)  # a new run has none yet


def previous_run(folder: CheckpointFolder, crashed: LeaseOwner | None) -> PreviousRun | None:
    """Return the last run on a checkpoint that has committed a batch, None if there was none.

    A start that was aborted before its first batch is no run: it has left the run before it in its own fields.
    `crashed` owns the lease that a crashed job has left; None if the last job released its lease.
    """
    last, _ = _last(folder, crashed)
    if last.get("has_run", True):
        return last_run(folder, crashed)
    return None if last["before"] is None else PreviousRun(**last["before"])


def last_run(folder: CheckpointFolder, crashed: LeaseOwner | None) -> PreviousRun | None:
    """Return the last run on a checkpoint, whether it has committed a batch or not; None if there was none."""
    last, end = _last(folder, crashed)
    if not last:
        return None
    seen, clean = (end["at"], end["state"] != "failed") if end else (last["seen"], False)
    return PreviousRun(name=last["name"], since_us=last["since"], seen_us=seen, clean=clean)


def put_before(folder: CheckpointFolder, crashed: LeaseOwner | None, run: PreviousRun) -> LeaseOwner | None:
    """Store which run is the last that has committed a batch, as `previous_run` returns it from then on.

    Returns the owner of the crashed job's lease as it is to be put back.
    """
    before = None if run == last_run(folder, crashed) else run
    if end := _last(folder, crashed)[1]:
        stays = {"has_run": before is None, "before": None if before is None else asdict(before)}
        folder.write_json(STOPPED_FILE, {**end, **stays}, replace=True)
    return None if crashed is None else crashed.with_previous(before)


def last_token(folder: CheckpointFolder, crashed: LeaseOwner | None) -> str | None:
    """Return the token of the lease that was held last; None if there was none."""
    token: str | None = _last(folder, crashed)[0].get("token")
    return token


def _last(folder: CheckpointFolder, crashed: LeaseOwner | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the fields of the lease that was held last, and how it ended; the end is empty after a crash."""
    end = read_end(folder)
    # A job that crashed between writing `stopped.json` and removing `running.json` has left both.
    if crashed is not None and end.get("token") != crashed.token:
        return asdict(crashed), {}
    return end, end


def newest_claim(folder: CheckpointFolder) -> LeaseOwner | None:
    """Return who made the newest claim, None if there is none, or if its file cannot be read."""
    number = newest_claim_number(folder)
    try:
        return read_owner(folder, claim_file(number)) if number else None
    except CheckpointError:
        return None  # cut short as it was written: that start did not get further


def newest_claim_number(folder: CheckpointFolder) -> int:
    """Return the number of the newest claim, 0 if there is none."""
    return max(numbers_in(folder, CLAIMS_FOLDER), default=0)


def make_claim(folder: CheckpointFolder, owner: LeaseOwner, after: int) -> LeaseOwner:
    """Claim the lease, and return the owner with the number of its claim. Raises `FileExistsError`.

    `after` is the newest claim before the lease was found to be free. A start that has claimed it since is faster.
    """
    owner = replace(owner, claim=after + 1)
    try:
        folder.write_json(claim_file(owner.claim), asdict(owner))
    except FileExistsError:
        if not has_claim(folder, owner):  # else a store has repeated a request whose response was lost
            raise
    if newest_claim_number(folder) != owner.claim:  # the number was free again: two others have come and gone meanwhile
        drop_claim(folder, owner)
        raise FileExistsError(claim_file(owner.claim))
    return owner


def has_claim(folder: CheckpointFolder, owner: LeaseOwner) -> bool:
    """Return whether an owner still holds the lease."""
    value = folder.read_json(claim_file(owner.claim))
    return value is not None and value["token"] == owner.token


def drop_claim(folder: CheckpointFolder, owner: LeaseOwner) -> None:
    """Remove the claim of an owner that gives up its lease."""
    if has_claim(folder, owner):
        folder.remove(claim_file(owner.claim))


def remove_older_claims(folder: CheckpointFolder, owner: LeaseOwner) -> None:
    """Remove the claims before that of the new owner: from here on, no earlier owner has the lease any more."""
    for number in numbers_in(folder, CLAIMS_FOLDER):
        if number < owner.claim:
            folder.remove(claim_file(number))


def is_exclusive(folder: CheckpointFolder, owner: LeaseOwner) -> bool:
    """Return whether the store refuses to create a file a second time, as claims need.

    It is a file of this owner's own. The claim itself does not tell: while a start is suspended, one that takes over
    removes it, and then it can be created again on any store.
    """
    name = f"{CLAIMS_FOLDER}/{owner.token}"
    try:
        folder.write_json(name, {})
        folder.write_json(name, {})
    except FileExistsError:
        return True
    finally:
        folder.remove(name)
    return False
