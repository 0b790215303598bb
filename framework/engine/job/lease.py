"""One job at a time on one checkpoint: the lease a job holds from its start to its end.

Two queries on one checkpoint overwrite each other's offsets and state, and Spark notices only sometimes. So the
first one leaves word in `panekeeper/running.json`: which process it is, and every few seconds that it still lives.
Whoever starts next refuses while that is so, and takes over once the process is gone.

How a lease is taken:
1 `taking.json` is created, exclusively, so that two starters do not decide at the same time.
2 Who holds the lease? If it is in use: refuse, naming the holder.
3 `running.json` is written, and read back: on a store without an exclusive create the last writer wins.
4 `taking.json` is removed.

When the job ends, `stopped.json` says when and how, and `running.json` goes. A job that crashed leaves its
`running.json` behind: its last sign of life. Nothing here imports pyspark.
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
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import CheckpointError, CheckpointInUse
from framework.engine.session.spark_errors import first_line
from state.checkpoint.folder import LocalFolder, local_path
from state.checkpoint.owner import RUNNING_FILE, STOPPED_FILE, Holder, read_holder, wall_us
from state.checkpoint.process import space, started_at

if TYPE_CHECKING:
    from framework.engine.session.checkpoint_files import CheckpointFiles
    from state.checkpoint.folder import CheckpointFolder

__all__ = ["Lease", "Previous", "starting", "take"]

TAKING_FILE = "panekeeper/taking.json"

RENEW_SECONDS = 5.0
_SETTLE_SECONDS = 1.0  # time for the writes of two starters to pass each other, where a create is not exclusive

_log = logging.getLogger(__name__)
_held: dict[str, Lease] = {}
"""Leases of this process by token: here the job itself can be asked."""


@dataclass(frozen=True, kw_only=True)
class Previous:
    """The last job on the checkpoint before this one, for a report on the time in between.

    Attributes:
        name: the job's name.
        since_us: when it started, us since the epoch.
        seen_us: its last sign of life: when it ended, or, after a crash, some seconds before at most.
        clean: whether it ended and said so, rather than vanished.
    """

    name: str
    since_us: int
    seen_us: int
    clean: bool


class Lease:
    """The right of one job to run on a checkpoint. Made by `take`; safe to use from several threads.

    Attributes:
        previous: who held it before; None on a new checkpoint.
    """

    def __init__(
        self, folder: CheckpointFolder, me: Holder, *, now: Callable[[], int] = wall_us, settle_seconds: float = 0.0
    ) -> None:
        self.previous: Previous | None = None
        self._folder = folder
        self._me = me
        self._now = now
        self._settle = settle_seconds
        self._ended: Callable[[], str | None] = lambda: None
        self._notes: dict[str, Any] = {}
        self._before: dict[str, Any] | None = None
        self._is_held = False
        self._lock = threading.RLock()
        self._done = threading.Event()

    def hold(self) -> None:
        """Take the lease, unless it is held already. Raises `CheckpointInUse`."""
        with self._lock:
            if self._is_held:
                return
            now = self._now()
            self._me = replace(self._me, token=uuid.uuid4().hex, since=now, seen=now)
            with _deciding(self._folder, self._me):
                self._before = _claim(self._folder, self._me, self._settle)
                self.previous = _previous(self._folder, self._before)
                self._is_held = True
                _held[self._me.token] = self
            self._done = threading.Event()
            threading.Thread(target=self._renew, args=(self._done,), name="panekeeper-lease", daemon=True).start()

    def watch(self, ended: Callable[[], str | None]) -> None:
        """Let `ended` say how the job has ended, None while it runs; asked every few seconds, and by `look`."""
        self._ended = ended

    def note(self, **left: Any) -> None:
        """Add fields to what `stopped.json` will say of the job."""
        with self._lock:
            self._notes |= left

    def look(self) -> bool:
        """Release the lease if its job has ended; say whether it is still held."""
        with self._lock:
            state = self._ended() if self._is_held else None
            if state is not None:
                self.release(state)
            return self._is_held

    def release(self, state: str) -> None:
        """Give the lease back and leave word that the job has "ended", "failed" or been "flushed". Never raises."""
        with self._lock:
            if not self._is_held:
                return
            self._let_go()
            word = {"at": self._now(), "state": state, "name": self._me.name, "since": self._me.since}
            try:
                if _is_ours(self._folder, self._me):
                    self._folder.write_json(STOPPED_FILE, self._notes | word | {"token": self._me.token}, replace=True)
                    self._folder.remove(RUNNING_FILE)
            except Exception as error:  # noqa: BLE001 -- the job's own end is what matters; a dead lease is taken over
                _log.warning("the lease of %s could not be released: %s", self._me, error)

    def abandon(self) -> None:
        """Give back the lease of a job that did not start: what the one before left stays as it was. Never raises."""
        with self._lock:
            if not self._is_held:
                return
            self._let_go()
            try:
                if self._before is None:
                    self._folder.remove(RUNNING_FILE)
                else:
                    self._folder.write_json(RUNNING_FILE, self._before, replace=True)
            except Exception as error:  # noqa: BLE001 -- as above
                _log.warning("the lease of %s could not be given back: %s", self._me, error)

    def renew(self) -> None:
        """Leave a sign of life; release the lease if the job has ended. A lease that was taken away is let go."""
        with self._lock:
            if not self.look():
                return
            if not _is_ours(self._folder, self._me):
                self._let_go()
                _log.warning("%s was not heard of for long, and its checkpoint was taken over", self._me)
                return
            self._me = replace(self._me, seen=self._now())
            self._folder.write_json(RUNNING_FILE, asdict(self._me), replace=True)

    def _let_go(self) -> None:
        self._is_held = False
        self._done.set()
        _held.pop(self._me.token, None)

    def _renew(self, done: threading.Event) -> None:
        while not done.wait(RENEW_SECONDS):
            try:
                self.renew()
            except Exception as error:  # noqa: BLE001 -- a sign of life that is missed must not end the job
                _log.debug("no sign of life of %s: %s", self._me, error)


def take(
    folder: CheckpointFolder, name: str, *, now: Callable[[], int] = wall_us, settle_seconds: float = 0.0
) -> Lease:
    """Take the lease of a checkpoint for the job `name` of this process.

    Args:
        folder: the checkpoint.
        name: the job's name.
        now: tells the time, us since the epoch.
        settle_seconds: how long to wait before reading back, where a create is not exclusive.

    Raises:
        CheckpointInUse: another job runs on it, or is just being started.
        CheckpointError: the folder cannot be written.
    """
    pid = os.getpid()
    host, started = socket.gethostname(), started_at(pid)
    me = Holder(name=name, host=host, space=space(), pid=pid, started=started, token="", since=0, seen=0)
    lease = Lease(folder, me, now=now, settle_seconds=settle_seconds)
    lease.hold()
    return lease


@contextmanager
def starting(files: CheckpointFiles, name: str) -> Iterator[Lease]:
    """Take the lease for a start; if the start fails before the job runs, leave everything as it was before."""
    local = local_path(files.path(""))
    lease = take(files, name, settle_seconds=_SETTLE_SECONDS) if local is None else take(LocalFolder(local), name)
    try:
        yield lease
    except BaseException:
        lease.abandon()
        raise


@contextmanager
def _deciding(folder: CheckpointFolder, me: Holder) -> Iterator[None]:
    """Steps 1 and 4."""
    _create(folder, me)
    try:
        yield
    finally:
        if _is_ours(folder, me, TAKING_FILE):
            folder.remove(TAKING_FILE)


def _create(folder: CheckpointFolder, me: Holder) -> None:
    for _ in range(2):
        try:
            folder.write_json(TAKING_FILE, asdict(me))
        except FileExistsError:
            other = read_holder(folder, TAKING_FILE)
            if other is not None and other.is_alive(me.seen):
                raise _in_use(folder, other, "is being started") from None
            folder.remove(TAKING_FILE)  # it died in the midst of it
        except Exception as error:
            raise CheckpointError(
                f"the checkpoint folder {folder.root} cannot be written: {first_line(error)}"
            ) from error
        else:
            return
    raise CheckpointInUse(f"other jobs are being started on {folder.root}; look which one runs, then try again")


def _claim(folder: CheckpointFolder, me: Holder, settle_seconds: float) -> dict[str, Any] | None:
    """Steps 2 and 3; returns the lease that was left by a job that crashed, if one was."""
    old = read_holder(folder)
    if old is not None and _in_this_process(old, me):
        mine = _held.get(old.token)
        if mine is not None and mine.look():
            raise _in_use(folder, old, "runs")
        old = read_holder(folder)
    elif old is not None and old.is_alive(me.seen):
        raise _in_use(folder, old, "runs")
    folder.write_json(RUNNING_FILE, asdict(me), replace=True)
    if settle_seconds:
        time.sleep(settle_seconds)
    winner = read_holder(folder)
    if winner is None or winner.token != me.token:
        raise _in_use(folder, winner or me, "was started at the same time")
    return None if old is None else asdict(old)


def _in_this_process(holder: Holder, me: Holder) -> bool:
    return (holder.host, holder.space, holder.pid, holder.started) == (me.host, me.space, me.pid, me.started)


def _previous(folder: CheckpointFolder, crashed: dict[str, Any] | None) -> Previous | None:
    stopped = folder.read_json(STOPPED_FILE)
    # A job that dies between its last two words has left both.
    if crashed is not None and (stopped is None or stopped.get("token") != crashed["token"]):
        return Previous(name=crashed["name"], since_us=crashed["since"], seen_us=crashed["seen"], clean=False)
    if stopped is None:
        return None
    return Previous(name=stopped["name"], since_us=stopped["since"], seen_us=stopped["at"], clean=True)


def _is_ours(folder: CheckpointFolder, me: Holder, name: str = RUNNING_FILE) -> bool:
    value = folder.read_json(name)
    return isinstance(value, dict) and value.get("token") == me.token


def _in_use(folder: CheckpointFolder, holder: Holder, how: str) -> CheckpointInUse:
    return CheckpointInUse(
        f"{holder} {how} on the checkpoint {folder.root}, and two jobs would ruin it. Stop that one first "
        f"(`panekeeper drain {folder.root}`, or stop() in its program); or give this job a folder of its own."
    )
