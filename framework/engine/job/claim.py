"""How a lease (`framework/engine/job/lease.py`) is acquired.

1 `running.json` is read. If its owner is alive, the start is refused with an error that names the owner. One on this
  machine is looked up; one on another host has crashed if its last heartbeat is old and it sends none while it is
  watched: the clocks of two hosts may differ.
2 The next claim is created exclusively (`state/checkpoint/lease.py`): of two starts at the same time one gets it. A
  store that would let both create it is refused.
3 Older claims are removed: from here on a process that was paused has lost the lease.
4 `running.json` is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from panekeeper.framework.declarations.errors import CheckpointInUse
from panekeeper.framework.engine.job.lease_errors import in_use, not_exclusive
from panekeeper.state.checkpoint.clock import monotonic_seconds
from panekeeper.state.checkpoint.control_files import newest_control_file
from panekeeper.state.checkpoint.folder import RUNNING_FILE, CheckpointFolder
from panekeeper.state.checkpoint.lease import (
    LeaseOwner,
    PreviousRun,
    drop_claim,
    has_claim,
    is_exclusive,
    last_run,
    last_token,
    make_claim,
    newest_claim,
    newest_claim_number,
    previous_run,
    read_end,
    read_owner,
    remove_older_claims,
)


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """A lease that was acquired.

    Attributes:
        owner: the new one, with the number of its claim and what it passes on.
        replaced: the owner from which it was taken over; None if the lease was free.
        previous: the run before that has committed a batch; None on a new checkpoint.
        last_run: the run before, whether it has committed a batch or not.
        last_token: token of its lease.
        last_control_file: the newest one before anybody could see this owner; later commands are for it.
    """

    owner: LeaseOwner
    replaced: LeaseOwner | None
    previous: PreviousRun | None
    last_run: PreviousRun | None
    last_token: str | None
    last_control_file: int


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
            found = read_owner(folder)
            if found is None or (found.token, found.seen) != (owner.token, owner.seen):
                return True
        return False


WATCH = Watch()
"""How a start watches, unless a test says otherwise."""


def claim_if_free(
    folder: CheckpointFolder,
    owner: LeaseOwner,
    confirm_delay_seconds: float,
    runs_here: Callable[[str], bool],
    watch: Watch | None = None,
) -> Claimed:
    """Steps 1 to 4, for an owner whose lease begins now.

    Args:
        folder: the checkpoint.
        owner: the new one.
        confirm_delay_seconds: as for `claim`.
        runs_here: as for `require_free`.
        watch: the same.

    Raises:
        CheckpointInUse: another job runs, or is being started.
        CheckpointError: the store cannot refuse one of two starts.
    """
    if (here := read_owner(folder)) is not None and here.is_in_this_process:
        runs_here(here.token)  # a job that has ended releases its lease
    # Before the check: a later claim or end is another start's.
    newest, ended = newest_claim_number(folder), read_end(folder).get("token")
    last_control_file = newest_control_file(folder)
    replaced = require_free(folder, owner.since, runs_here, watch)
    previous, last, token = previous_run(folder, replaced), last_run(folder, replaced), last_token(folder, replaced)
    if not owner.has_run:
        owner = replace(owner, before=None if previous is None else asdict(previous))
    owner = claim(folder, owner, confirm_delay_seconds, after=newest, ended=ended)
    return Claimed(
        owner=owner,
        replaced=replaced,
        previous=previous,
        last_run=last,
        last_token=token,
        last_control_file=last_control_file,
    )


def runs(owner: LeaseOwner, now: int, runs_here: Callable[[str], bool]) -> bool:
    """Return whether the job, or command, of an owner runs, as far as its last heartbeat says.

    Args:
        owner: of a lease.
        now: the time, us since the epoch.
        runs_here: as for `require_free`.
    """
    return runs_here(owner.token) if owner.is_in_this_process else owner.is_alive(now)


def require_free(
    folder: CheckpointFolder, now: int, runs_here: Callable[[str], bool], watch: Watch | None = None
) -> LeaseOwner | None:
    """Step 1; return the owner of the lease that a crashed job has left, or None.

    Args:
        folder: the checkpoint.
        now: the time, us since the epoch.
        runs_here: returns whether the lease of this process with a token is held by a job that runs.
        watch: how a job on another host is watched, of which the clocks say that it has crashed.

    Raises:
        CheckpointInUse: another job runs, or is being started.
    """
    old = read_owner(folder)
    if old is not None and runs(old, now, runs_here):
        raise in_use(folder, old, "runs", now)
    starting = newest_claim(folder)
    known = (None if old is None else old.token, read_end(folder).get("token"))
    if starting is not None and starting.token not in known and runs(starting, now, runs_here):
        raise in_use(folder, starting, "is being started", now)
    if old is not None and not old.is_on_this_machine and (watch or WATCH).sees_life(folder, old):
        raise in_use(folder, old, "runs", now)
    return read_owner(folder)  # a job of this process may have ended just now, and released its lease


def claim(
    folder: CheckpointFolder, owner: LeaseOwner, confirm_delay_seconds: float, *, after: int, ended: str | None
) -> LeaseOwner:
    """Steps 2 to 4; return the owner with the number of its claim.

    Args:
        folder: the checkpoint.
        owner: the new one.
        confirm_delay_seconds: how long to wait before the claim is read back, where a create may not be exclusive.
        after: the number of the newest claim, as it was before step 1.
        ended: token of the last owner that had ended then; another one has begun and ended since, whose claim is gone.

    Raises:
        CheckpointInUse: another start was faster.
        CheckpointError: the store cannot refuse one of two starts.
    """
    try:
        owner = make_claim(folder, owner, after)
    except FileExistsError:
        raise in_use(folder, newest_claim(folder) or owner, "was started at the same time", owner.since) from None
    try:
        if not is_exclusive(folder, owner):
            raise not_exclusive(folder)
        if confirm_delay_seconds:
            time.sleep(confirm_delay_seconds)
            if not has_claim(folder, owner):
                raise in_use(folder, newest_claim(folder) or owner, "was started at the same time", owner.since)
        if read_end(folder).get("token") != ended:
            raise CheckpointInUse(f"another job has run on {folder.root} while this one was starting; start it again")
        remove_older_claims(folder, owner)
        folder.write_json(RUNNING_FILE, asdict(owner), replace=True)
    except BaseException:
        drop_claim(folder, owner)
        raise
    return owner
