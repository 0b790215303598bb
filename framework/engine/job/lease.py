"""The lease of a checkpoint: one job at a time runs on it, and holds the lease from its start to its end.

Two queries on one checkpoint overwrite each other's offsets and state, and Spark does not always notice. So a start
acquires the lease first:

1 `running.json` is read. If its owner is alive, the start is refused with an error that names the owner. One on this
  machine is looked up; one on another host has crashed if its last heartbeat is old and it sends none while it is
  watched: the clocks of two hosts may differ.
2 The next claim is created exclusively (`state/checkpoint/claims.py`): of two starts at the same time one gets it. A
  store that would let both create it is refused.
3 Older claims are removed: from here on a process that was paused has lost the lease.
4 `running.json` is written, with the process; and every few seconds again, as a heartbeat.

Before each batch, before each commit to a table and with each heartbeat the job checks that its claim is still there.
When the job ends, `stopped.json` says when and how, and its claim and `running.json` are removed. A job that crashed
leaves both, with its last heartbeat.
"""

from __future__ import annotations

import shlex
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from panekeeper.framework.declarations.errors import CheckpointError, CheckpointInUse, PanekeeperError
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.state.checkpoint.claims import (
    drop_claim,
    has_claim,
    is_exclusive,
    make_claim,
    newest_claim,
    newest_claim_number,
    remove_older_claims,
)
from panekeeper.state.checkpoint.clock import monotonic_seconds, now_us
from panekeeper.state.checkpoint.control_files import newest_control_file
from panekeeper.state.checkpoint.folder import CLAIMS_FOLDER, RUNNING_FILE, STOPPED_FILE, CheckpointFolder
from panekeeper.state.checkpoint.lease_owner import HEARTBEAT_TIMEOUT_US, LeaseOwner, read_owner
from panekeeper.state.checkpoint.runs import (
    PreviousRun,
    last_run,
    last_token,
    previous_run,
    put_before,
    read_end,
    with_previous,
)
from panekeeper.state.duration_text import duration_text
from panekeeper.state.log import logger

HEARTBEAT_SECONDS = 5.0
_TIMEOUT_SECONDS = HEARTBEAT_TIMEOUT_US // 1_000_000
_TIMEOUT = duration_text(_TIMEOUT_SECONDS)

_held: dict[str, Lease] = {}
"""Leases of this process by token: in this process the job itself says whether it has ended."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """How a start finds out whether a job on another host lives, whose clock it cannot compare with its own.

    Attributes:
        clock: returns seconds from any fixed time, which no change of the wall clock concerns.
        sleep: called with a number of seconds to wait.
        seconds: how long the heartbeat of a job that has crashed stays the same: longer than that of one that lives.
    """

    clock: Callable[[], float] = monotonic_seconds
    sleep: Callable[[float], None] = time.sleep
    seconds: float = 20.0

    def sees_life(self, folder: CheckpointFolder, owner: LeaseOwner) -> bool:
        """Return whether an owner sends a heartbeat, or gives the lease up, within that time."""
        until = self.clock() + self.seconds
        while self.clock() < until:
            self.sleep(1.0)
            now = read_owner(folder)
            if now is None or (now.token, now.seen) != (owner.token, owner.seen):
                return True
        return False


WATCH = Watch()
"""How a start watches, unless a test says otherwise."""


class Lease:
    """The right of one job to run on a checkpoint. Made by `acquire`; safe to use from several threads.

    Attributes:
        previous: the run before this one that has committed a batch; None on a new checkpoint.
        last_run: the run before this one, whether it has committed a batch or not.
        replaced: the owner from which it was taken over; None if the lease was free.
        is_continued: nobody else has held the lease since this object released it.
        last_control_file: the newest one before it was acquired; a later drain is one of its job.
        start: what differs between starts, and stays the same while one job releases its lease and acquires it again.
    """

    def __init__(
        self, folder: CheckpointFolder, owner: LeaseOwner, now: Callable[[], int], watch: Watch | None
    ) -> None:
        self.previous: PreviousRun | None = None
        self.last_run: PreviousRun | None = None
        self.replaced: LeaseOwner | None = None
        self.is_continued, self.last_control_file = True, 0
        self.start = uuid.uuid4().hex
        self._released: str | None = None  # token of the lease that this object had before
        self._folder, self._owner, self._log = folder, owner, logger("job", job=owner.name)
        self._now, self._watch = now, watch
        self._end_state: Callable[[], str | None] = lambda: None
        self._end_job: Callable[[CheckpointInUse], None] = lambda _: None
        self._report: Callable[[], Mapping[str, Any]] = dict
        self._is_held = False
        self._expired: CheckpointInUse | None = None
        self._lock, self._done = threading.RLock(), threading.Event()

    def acquire(self) -> None:
        """Acquire the lease, unless it is held already. Raises as the function `acquire`."""
        with self._lock:
            if self._is_held:
                return
            now, folder = self._now(), self._folder
            owner = replace(self._owner, token=uuid.uuid4().hex, since=now, seen=now)
            _held[owner.token] = self  # before the claim: another start in this process may read it at once
            try:
                self._claim(owner)
            except BaseException as error:
                del _held[owner.token]
                if isinstance(error, PanekeeperError) or not isinstance(error, Exception):
                    raise
                raise CheckpointError(
                    f"the checkpoint folder {folder.root} cannot be written: {first_line(error)}; make it writable for "
                    "this user, or choose another folder"
                ) from error
            self._is_held, self._expired = True, None
            self._log.info("%s holds the lease of %s", self._owner, folder.root)
            self._done = done = threading.Event()
            threading.Thread(target=self._send_heartbeats, args=(done,), name="panekeeper-lease", daemon=True).start()

    def _claim(self, owner: LeaseOwner) -> None:
        folder = self._folder
        if (here := read_owner(folder)) is not None and here.is_in_this_process:
            runs(here, owner.since)  # a job that has ended releases its lease
        # Before 1: a later claim or end is another start's, and a later command is for this owner.
        newest, ended = newest_claim_number(folder), read_end(folder).get("token")
        last_control_file = newest_control_file(folder)
        # 1
        crashed = _require_free(folder, owner.since, self._watch or WATCH)
        previous, last, token = previous_run(folder, crashed), last_run(folder, crashed), last_token(folder, crashed)
        if not owner.has_run:
            owner = replace(owner, before=None if previous is None else asdict(previous))
        # 2
        try:
            owner = make_claim(folder, owner, newest)
        except FileExistsError:
            raise _in_use(folder, newest_claim(folder) or owner, "was started at the same time", owner.since) from None
        try:
            if not is_exclusive(folder, owner):
                raise CheckpointError(
                    f"the store of the checkpoint {folder.root} overwrites a file that must be new, so of two jobs "
                    "that start at the same time both would run. Use a store with conditional writes (If-None-Match, "
                    "as Amazon S3 has), or a folder on a local disk or HDFS"
                )
            # Another one has taken over while this start was suspended, or has begun and ended since.
            if not has_claim(folder, owner) or read_end(folder).get("token") != ended:
                raise CheckpointInUse(
                    f"another job has run on {folder.root} while this one was starting; start it again"
                )
            remove_older_claims(folder, owner)  # 3
            folder.write_json(RUNNING_FILE, asdict(owner), replace=True)  # 4
        except BaseException:
            drop_claim(folder, owner)
            raise
        self.is_continued = token == (self._released or token)
        self._owner, self.last_control_file = owner, last_control_file
        self.replaced, self.previous, self.last_run = crashed, previous, last

    def set_job(
        self, end_state: Callable[[], str | None], end_job: Callable[[CheckpointInUse], None] = lambda _: None
    ) -> None:
        """Set what returns how the job has ended (None while it runs; called often), and what ends it with an error.

        The latter is called once: the lease was taken over; or it could not be renewed for as long as it lasts, so that
        it may be taken over.
        """
        self._end_state, self._end_job = end_state, end_job

    def set_report(self, report: Callable[[], Mapping[str, Any]]) -> None:
        """Set what returns JSON-able fields that the job reports of itself, for each heartbeat and `stopped.json`."""
        self._report = report

    def release_if_ended(self) -> bool:
        """Release the lease if its job has ended; return whether it is still held."""
        with self._lock:
            state = self._end_state() if self._is_held else None
            if state is not None:
                self.release(state)
            return self._is_held

    def release(self, state: str) -> None:
        """Release the lease and write to `stopped.json` how the job ended: ended, failed or flushed. Never raises."""
        with self._lock:
            if not self._is_held:
                return
            self._mark_released(self._owner.token)
            owner, end = self._owner, {"at": self._now(), "state": state}
            end |= {name: getattr(owner, name) for name in ("name", "since", "token", "has_run", "before")}
            try:
                reported = self._reported()
                if has_claim(self._folder, owner):
                    self._folder.write_json(STOPPED_FILE, reported | end, replace=True)
                    self._folder.remove(RUNNING_FILE)
                    drop_claim(self._folder, owner)
                if state == "failed":
                    self._log.error("%s failed: %s", owner, reported.get("error", "it does not say why"))
                else:
                    self._log.info("%s: %s", owner, state)
            except Exception as error:  # noqa: BLE001 -- must not hide the job's own end; an expired lease is taken over
                self._log.warning("the lease of %s could not be released: %s", owner, error)

    def roll_back(self) -> None:
        """Release the lease of a job that did not start, and put back the one that it replaced. Never raises."""
        with self._lock:
            if not self._is_held:
                return
            self._mark_released(self._released)  # as if it had not been acquired
            try:
                if not has_claim(self._folder, self._owner):
                    return
                if self.replaced is None:
                    self._folder.remove(RUNNING_FILE)
                else:
                    self._folder.write_json(RUNNING_FILE, asdict(self.replaced), replace=True)
                drop_claim(self._folder, self._owner)
            except Exception as error:  # noqa: BLE001 -- as above
                self._log.warning("the lease of %s could not be rolled back: %s", self._owner, error)

    @contextmanager
    def held(self) -> Iterator[Lease]:
        """Hold it while the block lasts, and then put back what was there: for what is no run of the job."""
        try:
            yield self
        finally:
            self.roll_back()

    def set_previous(self, previous: PreviousRun | None) -> None:
        """Set the run that comes before the next one: None for this run itself, once a batch of it is committed."""
        with self._lock:
            before, self._owner = self._owner, with_previous(self._owner, previous)
            self.previous = previous or self.previous
        if self._owner != before:
            self._try_to_renew()

    def note_outage(self, well_until_us: int) -> None:
        """Note for the downtime report that the process was suspended, or its clock was set; all was well until then.

        Raises if another job has taken over meanwhile: its control stream is not written to.
        """
        self.require_held()
        self.set_previous(PreviousRun.at(self._owner.name, well_until_us))

    def note_completed(self, resumed_us: int) -> None:
        """Take note, also if this start fails, that it has completed the first batch of a run begun at `resumed_us`."""
        run = self.last_run
        if run is None or run.since_us > resumed_us:  # another start came to nothing after that run
            run = PreviousRun.at(self._owner.name, resumed_us)
        self.set_previous(run)
        self.replaced = put_before(self._folder, self.replaced, run)

    def require_held(self) -> None:
        """Raise unless this job still holds the lease. Called before each batch and just before each commit to a table.

        A process may be paused for longer than its lease lasts, and another job may have taken over meanwhile. A folder
        that cannot be read raises, too: then it is not known who holds the lease.
        """
        with self._lock:
            if self._is_held and has_claim(self._folder, self._owner):
                if self._expired is None:
                    return
                raise self._expired
            if self._is_held:
                self._mark_released(self._owner.token)
        raise _lost_lease(self._folder, self._owner)

    def renew(self) -> None:
        """Write a heartbeat; release the lease if the job has ended, end the job if another one has taken it over."""
        with self._lock:
            if not self.release_if_ended():
                return
            if has_claim(self._folder, self._owner):
                self._owner = replace(self._owner, seen=self._now())
                self._folder.write_json(RUNNING_FILE, self._reported() | asdict(self._owner), replace=True)
                return
            self._mark_released(self._owner.token)
        lost = _lost_lease(self._folder, self._owner)
        self._log.warning("%s", lost)
        self._end_job(lost)

    def expire_after(self, error: Exception) -> None:
        """Take note that the lease could not be renewed; end the job once that has lasted for as long as the lease."""
        silent_us = self._now() - self._owner.seen
        self._log.warning("%s has sent no heartbeat for %s s: %s", self._owner, silent_us // 1_000_000, error)
        with self._lock:
            if silent_us <= HEARTBEAT_TIMEOUT_US or self._expired is not None or not self._is_held:
                return
            self._expired = CheckpointInUse(
                f"{self._owner} could not renew its lease of the checkpoint {self._folder.root} for "
                f"{duration_text(silent_us / 1e6)} ({first_line(error)}), and a job on another host may take over: so "
                "it has stopped. Nothing is lost; once the folder can be written, start it again"
            )
        self._end_job(self._expired)

    def _reported(self) -> dict[str, Any]:
        try:
            return dict(self._report())
        except Exception as error:  # noqa: BLE001 -- a report may be missing, a heartbeat may not
            self._log.warning("%s could not report of itself: %s", self._owner, error)
            return {}

    def _mark_released(self, token: str | None) -> None:
        self._is_held, self._released = False, token
        self._done.set()
        _held.pop(self._owner.token, None)

    def _send_heartbeats(self, done: threading.Event) -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            self._try_to_renew()

    def _try_to_renew(self) -> None:
        try:
            self.renew()
        except Exception as error:  # noqa: BLE001 -- one missed heartbeat must not end the job
            self.expire_after(error)


def acquire(
    folder: CheckpointFolder,
    name: str,
    *,
    what: str = "job",
    now: Callable[[], int] = now_us,
    watch: Watch | None = None,
) -> Lease:
    """Acquire the lease of a checkpoint for the job `name` of this process, or for `what` else it does with it.

    Raises `CheckpointInUse` if another job runs on it, or is being started on it; `CheckpointError` if the folder
    cannot be written, or cannot refuse one of two starts at the same time.
    """
    lease = Lease(folder, LeaseOwner.of_this_process(name, what), now, watch)
    lease.acquire()
    return lease


def runs(owner: LeaseOwner, now: int) -> bool:
    """Return whether the job, or command, of an owner runs at the time `now` (us), as far as its heartbeat says."""
    if owner.is_in_this_process:
        return (held := _held.get(owner.token)) is not None and held.release_if_ended()
    return owner.is_alive(now)


def _require_free(folder: CheckpointFolder, now: int, watch: Watch) -> LeaseOwner | None:
    """Return the owner of the lease that a crashed job has left, or None. Raises `CheckpointInUse`."""
    old = read_owner(folder)
    if old is not None and runs(old, now):
        raise _in_use(folder, old, "runs", now)
    starting = newest_claim(folder)
    known = (None if old is None else old.token, read_end(folder).get("token"))
    if starting is not None and starting.token not in known and runs(starting, now):
        raise _in_use(folder, starting, "is being started", now)
    if old is not None and not old.is_on_this_machine and watch.sees_life(folder, old):
        raise _in_use(folder, old, "runs", now)
    return read_owner(folder)  # a job of this process may have ended just now, and released its lease


def _in_use(folder: CheckpointFolder, owner: LeaseOwner, how: str, now: int) -> CheckpointInUse:
    if owner.what == "job" and owner.is_in_this_process:
        advice = f"panekeeper.job({folder.root!r}) returns it, and so does start(..., attach=True)"
    elif owner.what == "job":
        advice = (
            f"Stop that job first (`panekeeper drain {shlex.quote(folder.root)}`), or give this one a folder of its own"
        )
    else:
        advice = "Wait until it has ended"
    return CheckpointInUse(
        f"{owner} {how} on the checkpoint {folder.root}. {advice}{if_it_crashed(folder, owner, now)}."
    )


def if_it_crashed(folder: CheckpointFolder, owner: LeaseOwner, now: int) -> str:
    """Return what to do if the owner of a lease is gone, to be added to a message; empty if it is known to live."""
    if not owner.is_on_this_machine:
        return f"; if that process has crashed, this one may start {_TIMEOUT} after its last heartbeat"
    silent = (now - owner.seen) // 1_000_000
    if silent <= _TIMEOUT_SECONDS:
        return ""
    # It is suspended, could not reach the folder at its end, or another process has its number, as after a reboot.
    return (
        f"; it has sent no heartbeat for {duration_text(silent)}: end process {owner.pid} if it is that one, else "
        f"remove {RUNNING_FILE} and {CLAIMS_FOLDER} in {folder.place}"
    )


def _lost_lease(folder: CheckpointFolder, owner: LeaseOwner) -> CheckpointInUse:
    end = "This batch is not committed, and nothing is lost" if owner.what == "job" else "It changes nothing more"
    return CheckpointInUse(
        f"{owner} has lost the lease of the checkpoint {folder.root}: it sent no heartbeat for {_TIMEOUT}, "
        f"and another job or a restore has taken over. {end}; "
        f"`panekeeper status {shlex.quote(folder.root)}` shows which job runs there now"
    )
