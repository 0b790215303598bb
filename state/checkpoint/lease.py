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

from panekeeper.state.checkpoint.clock import LAST_US, format_time
from panekeeper.state.checkpoint.folder import (
    CLAIMS_FOLDER,
    RUNNING_FILE,
    STOPPED_FILE,
    CheckpointFolder,
    claim_file,
    control_file_number,
)
from panekeeper.state.errors import CheckpointError

PROCESS_ID = uuid.uuid4().hex
"""Random, of this process: hosts and containers may have the same name, and their processes the same number."""


def boot_id() -> str | None:
    """Return what Linux calls this boot of the machine; None where the system has no name for it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def started_at(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the host did; None where the system does not report it."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def pid_namespace() -> str | None:
    """Return the PID namespace of this process, as Linux names it; None where the system has none.

    Containers on one host, or of one pod, may share the host's name and not see each other's processes.
    """
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


def is_alive(pid: int, started: int | None) -> bool:
    """Return whether process `pid` of this host runs, and is the one that started at `started` (None: any)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's, but there
    fields = _stat(pid)
    if not fields:
        return True
    ended = fields[0] in "ZX"  # a zombie has ended; only its exit status remains
    return not ended and (started is None or int(fields[19]) == started)


def _stat(pid: int) -> list[str]:
    """Return the fields of Linux's process status from the third on, after the name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


HEARTBEAT_TIMEOUT_US = 60_000_000
"""A job on another host has crashed if its last heartbeat is older; of one on this host the process is looked up."""
_TYPES: dict[str, type] = {
    **dict.fromkeys(("name", "host", "token", "what", "space", "boot", "process"), str),
    "before": dict,
}
_GREATEST = {"since": LAST_US, "seen": LAST_US, "pid": 2**31 - 1, "started": 2**63 - 1, "claim": 2**63 - 1}
"""Number of an owner -> its greatest value; none is negative."""
_OPTIONAL = ("started", "space", "boot", "process", "before")


@dataclass(frozen=True, kw_only=True)
class LeaseOwner:
    """The job that holds the lease. Stored: the fields are those of `running.json`.

    Attributes:
        name: the job's name.
        host: name of the host it runs on.
        pid: number of its process there.
        started: when that process started (`process.started_at`); None where the system does not report it.
        token: random; differs between leases.
        since: when the lease was acquired, us since the epoch.
        seen: time of the last heartbeat, us since the epoch.
        space: the PID namespace of its process (`process.pid_namespace`); None where the system has none.
        boot: the boot of that host (`process.boot_id`); None where the system does not report it.
        process: random, of its process (`process.PROCESS_ID`); None if an older version wrote this.
        claim: number of the claim by which it holds the lease ; 0 if an older version wrote this.
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
        pid = os.getpid()
        return LeaseOwner(
            name=name,
            host=socket.gethostname(),
            pid=pid,
            started=started_at(pid),
            token="",
            since=0,
            seen=0,
            space=pid_namespace(),
            boot=boot_id(),
            process=PROCESS_ID,
            what=what,
            has_run=False,
        )

    @staticmethod
    def from_fields(stored: Mapping[str, Any]) -> LeaseOwner:
        """Return the owner with these stored fields; others are ignored.

        Raises:
            TypeError: one is missing, or no value that it can have.
        """
        owner = LeaseOwner(**{one.name: stored[one.name] for one in fields(LeaseOwner) if one.name in stored})
        for name in (*_TYPES, *_GREATEST):
            value = getattr(owner, name)
            if value is None and name in _OPTIONAL:
                continue
            most = _GREATEST.get(name)
            if not (isinstance(value, _TYPES[name]) if most is None else isinstance(value, int) and 0 <= value <= most):
                raise TypeError(name)
        return owner

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
    """The last job on the checkpoint before this one, for the downtime report.

    Attributes:
        name: the job's name.
        since_us: when it acquired the lease, us since the epoch.
        seen_us: when it ended; after a crash the time of its last heartbeat, a few seconds before at most.
        clean: whether it ended, rather than failed or crashed.
    """

    name: str
    since_us: int
    seen_us: int
    clean: bool

    def __post_init__(self) -> None:
        """Raise `TypeError` for a value of another type: the file that it is read from may have been altered."""
        kinds = [type(one) for one in (self.name, self.since_us, self.seen_us)]
        if kinds != [str, int, int]:
            raise TypeError(f"a run has no name {self.name!r}, or no times {self.since_us!r} and {self.seen_us!r}")

    @staticmethod
    def at(name: str, us: int) -> PreviousRun:
        """Return a run that is known to have been there at one instant only, and did not end by itself."""
        return PreviousRun(name=name, since_us=us, seen_us=us, clean=False)


def read_owner(folder: CheckpointFolder, name: str = RUNNING_FILE) -> LeaseOwner | None:
    """Return the owner of the lease, which may have crashed; None if the last one released it.

    Raises:
        CheckpointError: the file is damaged.
    """
    try:
        value = folder.read_json(name)
        if value is None:
            return None
        return LeaseOwner.from_fields(value)
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{name} in {folder.place} is damaged; if you are sure that no job runs there, remove this file"
        ) from error


def read_end(folder: CheckpointFolder) -> dict[str, Any]:
    """Return what the last job that ended wrote to `stopped.json`; empty if none did, or if the file is damaged.

    The fields: at (when, us), state ("ended", "failed" or "flushed"), name, since (us), token, has_run and before
    of its lease, and batch and open (the work it left open), if it had run one. They are for reports.
    """
    try:
        value = folder.read_json(STOPPED_FILE)
    except ValueError:
        return {}
    numbers = [value.get(name, 0) for name in ("at", "since")] if isinstance(value, dict) else [None]
    return value if all(isinstance(one, int) and 0 <= one <= LAST_US for one in numbers) else {}


def read_report(folder: CheckpointFolder) -> dict[str, Any]:
    """Return what the job on a checkpoint, or the last one that ran there, reported of itself; empty if nothing.

    It is written with each heartbeat and at the end. The fields: batch (the last one whose tables are written), open
    (the work it has open), and progress (`framework/engine/job/status.py`). They are for reports, as all in
    `stopped.json`; the owner of the lease is in the same object.
    """
    try:
        value = folder.read_json(RUNNING_FILE)
    except ValueError:
        return {}
    return value if isinstance(value, dict) and "progress" in value else read_end(folder)  # a new run has none yet


def previous_run(folder: CheckpointFolder, crashed: LeaseOwner | None) -> PreviousRun | None:
    """Return the last run on a checkpoint that has committed a batch, None if there was none.

    A start that was aborted before its first batch is no run: it has left the run before it in its own fields.

    Args:
        folder: the checkpoint.
        crashed: the owner of the lease that a crashed job has left; None if the last job released its lease.
    """
    last, _ = _last(folder, crashed)
    try:
        if last.get("has_run", True):
            return last_run(folder, crashed)
        return None if last["before"] is None else PreviousRun(**last["before"])
    except (KeyError, TypeError):
        return None  # there was none, or its file was altered


def last_run(folder: CheckpointFolder, crashed: LeaseOwner | None) -> PreviousRun | None:
    """Return the last run on a checkpoint, whether it has committed a batch or not; None if there was none.

    Args:
        folder: the checkpoint.
        crashed: as for `previous_run`.
    """
    last, end = _last(folder, crashed)
    try:
        seen, clean = (end["at"], end.get("state") != "failed") if end else (last["seen"], False)
        return PreviousRun(name=last["name"], since_us=last["since"], seen_us=seen, clean=clean)
    except (KeyError, TypeError):
        return None  # as above


def put_before(folder: CheckpointFolder, crashed: LeaseOwner | None, run: PreviousRun) -> LeaseOwner | None:
    """Store which run is the last that has committed a batch, as `previous_run` returns it from then on.

    Args:
        folder: the checkpoint.
        crashed: as for `previous_run`.
        run: the last run of all, or one before it.

    Returns:
        The owner of the crashed job's lease as it is to be put back.
    """
    before = None if run == last_run(folder, crashed) else run
    if end := _last(folder, crashed)[1]:
        fields = {"has_run": before is None, "before": None if before is None else asdict(before)}
        folder.write_json(STOPPED_FILE, {**end, **fields}, replace=True)
    return None if crashed is None else crashed.with_previous(before)


def last_token(folder: CheckpointFolder, crashed: LeaseOwner | None) -> str | None:
    """Return the token of the lease that was held last; None if there was none.

    Args:
        folder: the checkpoint.
        crashed: as for `previous_run`.
    """
    found = _last(folder, crashed)[0].get("token")
    return found if isinstance(found, str) else None


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


def make_claim(folder: CheckpointFolder, owner: LeaseOwner, after: int) -> LeaseOwner:
    """Claim the lease, and return the owner with the number of its claim.

    Args:
        folder: the checkpoint.
        owner: the new one.
        after: the newest claim before the lease was found to be free. A start that has claimed it since is faster.

    Raises:
        FileExistsError: another start has made the same claim meanwhile, or a newer one.
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
    return isinstance(value, dict) and value.get("token") == owner.token


def drop_claim(folder: CheckpointFolder, owner: LeaseOwner) -> None:
    """Remove the claim of an owner that gives up its lease."""
    if has_claim(folder, owner):
        folder.remove(claim_file(owner.claim))


def remove_older_claims(folder: CheckpointFolder, owner: LeaseOwner) -> None:
    """Remove the claims before that of the new owner: from here on, no earlier owner has the lease any more."""
    for number in _numbers(folder):
        if number < owner.claim:
            folder.remove(claim_file(number))


def is_exclusive(folder: CheckpointFolder, owner: LeaseOwner) -> bool:
    """Return whether the store refuses to create the claim of an owner a second time, as claims need."""
    try:
        folder.write_json(claim_file(owner.claim), asdict(owner))
    except FileExistsError:
        return True
    return False


def newest_claim_number(folder: CheckpointFolder) -> int:
    """Return the number of the newest claim, 0 if there is none."""
    return max(_numbers(folder), default=0)


def _numbers(folder: CheckpointFolder) -> list[int]:
    found = map(control_file_number, folder.names(CLAIMS_FOLDER))
    return [number for number in found if number is not None]
