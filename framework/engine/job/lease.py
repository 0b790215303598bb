"""The lease of a checkpoint: one job at a time runs on it, and holds the lease from its start to its end.

Two queries on one checkpoint overwrite each other's offsets and state, and Spark does not always notice. So a job
writes `panekeeper/running.json`: its process, and a heartbeat every few seconds. A start is refused while that job is
alive, and takes the lease over once it has crashed.

How a lease is acquired:
1 `taking.json` is created exclusively, so that two starts do not decide at the same time.
2 `running.json` is read. If its owner is alive, the start is refused with an error that names the owner.
3 `running.json` is written and read back: on a store without an exclusive create the last writer wins.
4 `taking.json` is removed.

Before each commit to a table the job checks that it still holds the lease (`require_held`).
When the job ends, `stopped.json` says when and how, and `running.json` is removed. A job that crashed leaves its
`running.json` with its last heartbeat.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import CheckpointError, CheckpointInUse
from framework.engine.session.spark_errors import first_line
from state.checkpoint.clock import now_us
from state.checkpoint.folder import CheckpointFolder, LocalFolder, local_path
from state.checkpoint.layout import RUNNING_FILE, STOPPED_FILE, TAKING_FILE
from state.checkpoint.owner import HEARTBEAT_TIMEOUT_US, LeaseOwner, PreviousRun, previous_run, read_owner
from state.checkpoint.process import pid_namespace, started_at

if TYPE_CHECKING:
    from framework.engine.session.checkpoint_files import CheckpointFiles

HEARTBEAT_SECONDS = 5.0
_CONFIRM_DELAY_SECONDS = 1.0  # lets the writes of two starts pass each other, where a create is not exclusive

_log = logging.getLogger(__name__)
_held: dict[str, Lease] = {}
"""Leases of this process by token: in this process the job itself says whether it has ended."""


class Lease:
    """The right of one job to run on a checkpoint. Made by `acquire`; safe to use from several threads.

    Attributes:
        previous: the run before this one; None on a new checkpoint.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        owner: LeaseOwner,
        *,
        now: Callable[[], int] = now_us,
        confirm_delay_seconds: float = 0.0,
    ) -> None:
        self.previous: PreviousRun | None = None
        self._folder = folder
        self._owner = owner
        self._now = now
        self._confirm_delay = confirm_delay_seconds
        self._end_state: Callable[[], str | None] = lambda: None
        self._end_fields: dict[str, Any] = {}
        self._replaced_lease: dict[str, Any] | None = None
        self._is_held = False
        self._lock = threading.RLock()
        self._done = threading.Event()

    def acquire(self) -> None:
        """Acquire the lease, unless it is held already. Raises `CheckpointInUse`."""
        with self._lock:
            if self._is_held:
                return
            now = self._now()
            self._owner = replace(self._owner, token=uuid.uuid4().hex, since=now, seen=now)
            with _exclusive_decision(self._folder, self._owner):
                self._replaced_lease = _write_claim(self._folder, self._owner, self._confirm_delay)
                self.previous = previous_run(self._folder, self._replaced_lease)
                self._is_held = True
                _held[self._owner.token] = self
            self._done = threading.Event()
            threading.Thread(
                target=self._send_heartbeats, args=(self._done,), name="panekeeper-lease", daemon=True
            ).start()

    def set_end_check(self, end_state: Callable[[], str | None]) -> None:
        """Set the function that returns how the job has ended, None while it runs.

        It is called with each heartbeat and by `release_if_ended`.
        """
        self._end_state = end_state

    def add_end_fields(self, **fields: Any) -> None:
        """Add fields to `stopped.json`, which is written when the job ends."""
        with self._lock:
            self._end_fields |= fields

    def release_if_ended(self) -> bool:
        """Release the lease if its job has ended; return whether it is still held."""
        with self._lock:
            state = self._end_state() if self._is_held else None
            if state is not None:
                self.release(state)
            return self._is_held

    def release(self, state: str) -> None:
        """Release the lease and write to `stopped.json` how the job ended. Never raises.

        Args:
            state: "ended", "failed" or "flushed".
        """
        with self._lock:
            if not self._is_held:
                return
            self._mark_released()
            owner = self._owner
            end = {"at": self._now(), "state": state, "name": owner.name, "since": owner.since, "token": owner.token}
            try:
                if _owns(self._folder, owner):
                    self._folder.write_json(STOPPED_FILE, self._end_fields | end, replace=True)
                    self._folder.remove(RUNNING_FILE)
            except Exception as error:  # noqa: BLE001 -- must not hide the job's own end; an expired lease is taken over
                _log.warning("the lease of %s could not be released: %s", owner, error)

    def roll_back(self) -> None:
        """Release the lease of a job that did not start, and put back the one that it replaced. Never raises."""
        with self._lock:
            if not self._is_held:
                return
            self._mark_released()
            try:
                if self._replaced_lease is None:
                    self._folder.remove(RUNNING_FILE)
                else:
                    self._folder.write_json(RUNNING_FILE, self._replaced_lease, replace=True)
            except Exception as error:  # noqa: BLE001 -- as above
                _log.warning("the lease of %s could not be rolled back: %s", self._owner, error)

    def require_held(self) -> None:
        """Raise unless this job still holds the lease. Called just before each commit to a table.

        A process may be paused for longer than its lease lasts; another job may have taken over meanwhile.

        Raises:
            CheckpointInUse: the lease was lost; nothing more of this job may be committed.
            OSError: the checkpoint folder cannot be read, so it is not known who holds the lease.
        """
        with self._lock:
            if self._is_held and _owns(self._folder, self._owner):
                return
            if self._is_held:
                self._mark_released()
        raise CheckpointInUse(
            f"{self._owner} has lost the lease of the checkpoint {self._folder.root}: it sent no heartbeat for "
            f"{HEARTBEAT_TIMEOUT_US // 1_000_000} s, and another job or a restore has taken over. This batch is not "
            f"committed, and nothing is lost. `panekeeper status {self._folder.root}` shows which job runs there now"
        )

    def renew(self) -> None:
        """Write a heartbeat; release the lease if the job has ended, give it up if another job has taken it over."""
        with self._lock:
            if not self.release_if_ended():
                return
            if not _owns(self._folder, self._owner):
                self._mark_released()
                _log.warning(
                    "%s has sent no heartbeat for a long time, and another job has taken over its checkpoint",
                    self._owner,
                )
                return
            self._owner = replace(self._owner, seen=self._now())
            self._folder.write_json(RUNNING_FILE, asdict(self._owner), replace=True)

    def _mark_released(self) -> None:
        self._is_held = False
        self._done.set()
        _held.pop(self._owner.token, None)

    def _send_heartbeats(self, done: threading.Event) -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            try:
                self.renew()
            except Exception as error:  # noqa: BLE001 -- a missed heartbeat must not end the job
                silent = (self._now() - self._owner.seen) // 1_000_000
                _log.warning("%s has sent no heartbeat for %s s: %s", self._owner, silent, error)


def acquire(
    folder: CheckpointFolder, name: str, *, now: Callable[[], int] = now_us, confirm_delay_seconds: float = 0.0
) -> Lease:
    """Acquire the lease of a checkpoint for the job `name` of this process.

    Args:
        folder: the checkpoint.
        name: the job's name.
        now: returns the wall-clock time, us since the epoch.
        confirm_delay_seconds: how long to wait before `running.json` is read back, where a create is not exclusive.

    Raises:
        CheckpointInUse: another job runs on it, or is being started on it.
        CheckpointError: the folder cannot be written.
    """
    pid = os.getpid()
    host, started = socket.gethostname(), started_at(pid)
    owner = LeaseOwner(name=name, host=host, space=pid_namespace(), pid=pid, started=started, token="", since=0, seen=0)
    lease = Lease(folder, owner, now=now, confirm_delay_seconds=confirm_delay_seconds)
    lease.acquire()
    return lease


@contextmanager
def acquire_for_start(files: CheckpointFiles, name: str) -> Iterator[Lease]:
    """Acquire the lease for a start; if the block fails before the job runs, everything is put back as it was."""
    local = local_path(files.path(""))
    lease = (
        acquire(files, name, confirm_delay_seconds=_CONFIRM_DELAY_SECONDS)
        if local is None
        else acquire(LocalFolder(local), name)
    )
    try:
        yield lease
    except BaseException:
        lease.roll_back()
        raise


@contextmanager
def _exclusive_decision(folder: CheckpointFolder, owner: LeaseOwner) -> Iterator[None]:
    """Steps 1 and 4."""
    _create_claim_file(folder, owner)
    try:
        yield
    finally:
        if _owns(folder, owner, TAKING_FILE):
            folder.remove(TAKING_FILE)


def _create_claim_file(folder: CheckpointFolder, owner: LeaseOwner) -> None:
    for _ in range(2):
        try:
            folder.write_json(TAKING_FILE, asdict(owner))
        except FileExistsError:
            other = read_owner(folder, TAKING_FILE)
            if other is not None and other.is_alive(owner.seen):
                raise _in_use(folder, other, "is being started") from None
            folder.remove(TAKING_FILE)  # left by a start that crashed
        except Exception as error:
            raise CheckpointError(
                f"the checkpoint folder {folder.root} cannot be written: {first_line(error)}; "
                "make it writable for this user, or choose another folder"
            ) from error
        else:
            return
    raise CheckpointInUse(
        f"other jobs are being started on {folder.root}; see which one runs (`panekeeper status`), then try again"
    )


def _write_claim(folder: CheckpointFolder, owner: LeaseOwner, confirm_delay_seconds: float) -> dict[str, Any] | None:
    """Steps 2 and 3; return the lease of a job that crashed, which this one replaces, or None."""
    old = read_owner(folder)
    if old is not None and _in_this_process(old, owner):
        held = _held.get(old.token)
        if held is not None and held.release_if_ended():
            raise _in_use(folder, old, "runs")
        old = read_owner(folder)
    elif old is not None and old.is_alive(owner.seen):
        raise _in_use(folder, old, "runs")
    folder.write_json(RUNNING_FILE, asdict(owner), replace=True)
    if confirm_delay_seconds:
        time.sleep(confirm_delay_seconds)
    winner = read_owner(folder)
    if winner is None or winner.token != owner.token:
        raise _in_use(folder, winner or owner, "was started at the same time")
    return None if old is None else asdict(old)


def _in_this_process(other: LeaseOwner, owner: LeaseOwner) -> bool:
    return (other.host, other.space, other.pid, other.started) == (owner.host, owner.space, owner.pid, owner.started)


def _owns(folder: CheckpointFolder, owner: LeaseOwner, name: str = RUNNING_FILE) -> bool:
    value = folder.read_json(name)
    return isinstance(value, dict) and value.get("token") == owner.token


def _in_use(folder: CheckpointFolder, owner: LeaseOwner, how: str) -> CheckpointInUse:
    return CheckpointInUse(
        f"{owner} {how} on the checkpoint {folder.root}, and two jobs would overwrite each other's state. Stop that "
        f"one first (`panekeeper drain {folder.root}`, or stop() in its program); or give this job a folder of its own."
    )
