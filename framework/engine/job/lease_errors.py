"""What a job reports of its lease: who holds it, that it was lost, that it cannot be held here."""

from __future__ import annotations

from panekeeper.framework.declarations.errors import CheckpointError, CheckpointInUse
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.checkpoint.folder import CLAIMS_FOLDER, RUNNING_FILE, CheckpointFolder
from panekeeper.state.checkpoint.lease import HEARTBEAT_TIMEOUT_US, LeaseOwner

_SECONDS = HEARTBEAT_TIMEOUT_US // 1_000_000


def in_use(folder: CheckpointFolder, owner: LeaseOwner, how: str, now: int) -> CheckpointInUse:
    """Return the error for a checkpoint on which another job runs, or is being started.

    Args:
        folder: the checkpoint.
        owner: that job.
        how: "runs", "is being started".
        now: the time, us since the epoch.
    """
    if owner.what != "job":
        return CheckpointInUse(
            f"{owner} {how} on {folder.root}; wait until it has ended{if_it_crashed(folder, owner, now)}"
        )
    return CheckpointInUse(
        f"{owner} {how} on the checkpoint {folder.root}, and two jobs would overwrite each other's state. Stop that "
        f"one first (`panekeeper drain {folder.root}`, or stop() in its program); or give this job a folder of its "
        f"own{if_it_crashed(folder, owner, now)}."
    )


def if_it_crashed(folder: CheckpointFolder, owner: LeaseOwner, now: int) -> str:
    """Return what to do if the owner of a lease is gone, to be added to a message; empty if that is known here.

    Args:
        folder: the checkpoint.
        owner: who holds its lease.
        now: the time, us since the epoch.
    """
    if owner.is_on_this_machine:  # without the time at which it started, another process may have its number by now
        silent = (now - owner.seen) // 1_000_000
        if owner.started is None:
            return f". If process {owner.pid} is another one now, as after a reboot, {_remove(folder)}"
        if silent <= _SECONDS:
            return ""
        return (
            f". It has sent no heartbeat for {silent} s: if process {owner.pid} is stopped, or could not reach the "
            "folder at its end, end that process"
        )
    if owner.seen > now + HEARTBEAT_TIMEOUT_US:
        return (
            f". Its last heartbeat is of {format_time(owner.seen)}, which is in the future: the clock of its host or "
            f"of this one is wrong. If that process is gone, {_remove(folder)}"
        )
    return f". If that process has crashed, this one may start {_SECONDS} s after its last heartbeat"


def _remove(folder: CheckpointFolder) -> str:
    return f"remove {RUNNING_FILE} and {CLAIMS_FOLDER} in {folder.place}"


def lost_lease(folder: CheckpointFolder, owner: LeaseOwner) -> CheckpointInUse:
    """Return the error for a job, or a command, whose checkpoint was taken over."""
    end = "This batch is not committed, and nothing is lost" if owner.what == "job" else "It changes nothing more"
    return CheckpointInUse(
        f"{owner} has lost the lease of the checkpoint {folder.root}: it sent no heartbeat for {_SECONDS} s, and "
        f"another job or a restore has taken over. {end}. "
        f"`panekeeper status {folder.root}` shows which job runs there now"
    )


def could_not_renew(folder: CheckpointFolder, owner: LeaseOwner, seconds: int, cause: Exception) -> CheckpointInUse:
    """Return the error for a job that could not write its heartbeat for as long as its lease lasts."""
    return CheckpointInUse(
        f"{owner} could not renew its lease of the checkpoint {folder.root} for {seconds} s ({first_line(cause)}), "
        "and a job on another host may take over: so it has stopped. Nothing is lost; once the folder can be written, "
        "start it again"
    )


def not_exclusive(folder: CheckpointFolder) -> CheckpointError:
    """Return the error for a store that creates a file twice where that must fail."""
    return CheckpointError(
        f"the store of the checkpoint {folder.root} overwrites a file that must be new, so of two jobs that start at "
        "the same time both would run. Use a store with conditional writes (If-None-Match, as Amazon S3 has), or a "
        "folder on a local disk or HDFS"
    )


def not_writable(folder: CheckpointFolder, cause: Exception) -> CheckpointError:
    """Return the error for a folder that cannot be written."""
    return CheckpointError(
        f"the checkpoint folder {folder.root} cannot be written: {first_line(cause)}; make it writable for this user, "
        "or choose another folder"
    )
