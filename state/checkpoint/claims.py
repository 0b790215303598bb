"""Claims of a lease: numbered files, of which the newest says who has it.

A claim is created exclusively and not written again. So of two starts at the same time one gets the next number; and a
process that was paused finds its claim removed, and can overwrite nothing by which the next owner holds the lease.

A job on another host that sends no heartbeat has crashed, or it is paused. A job that takes over is safe from it: both
are of the same epoch, and Spark refuses to log another batch under a number that is taken. A restore or a reset is not,
because it makes such numbers free again. So each takeover from another host is recorded, with the last batch.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from state.checkpoint.folder import CheckpointFolder, batch_numbers, damaged, read_object
from state.checkpoint.layout import (
    CLAIMS_FOLDER,
    OFFSETS_FOLDER,
    RUNNING_FILE,
    UNACCOUNTED_FILE,
    claim_file,
    control_file_number,
)
from state.checkpoint.owner import LeaseOwner, read_owner
from state.errors import CheckpointError, CorruptState


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


def note_takeover(folder: CheckpointFolder, lost: LeaseOwner | None, *, is_job: bool = True) -> None:
    """Record the owner from which a lease is about to be taken over, unless it has ended for certain.

    Args:
        folder: the checkpoint.
        lost: the owner; None if the lease was free.
        is_job: a job takes it over, and not a command, which may have to repair the file of these records.

    Raises:
        CorruptState: that file is damaged, and a job takes over.
    """
    if lost is None or lost.is_on_this_machine:
        return
    try:
        known = read_unaccounted(folder)
    except CorruptState:
        if is_job:
            raise
        return
    if all(one["token"] != lost.token for one in known):
        batch = max(batch_numbers(folder, OFFSETS_FOLDER), default=-1)
        folder.write_json(UNACCOUNTED_FILE, {"processes": [*known, asdict(lost) | {"batch": batch}]}, replace=True)


def put_back(folder: CheckpointFolder, lost: LeaseOwner) -> None:
    """Take back a takeover: the owner is in `running.json` again, so its record is not needed.

    Args:
        folder: the checkpoint.
        lost: the owner from which the lease was taken over.
    """
    folder.write_json(RUNNING_FILE, asdict(lost), replace=True)
    try:
        known = read_unaccounted(folder)
    except CorruptState:
        return  # nothing was added to it
    others = [one for one in known if one["token"] != lost.token]
    if not others:
        folder.remove(UNACCOUNTED_FILE)
    elif others != known:
        folder.write_json(UNACCOUNTED_FILE, {"processes": others}, replace=True)


def unaccounted_after(folder: CheckpointFolder, batch: int) -> list[LeaseOwner]:
    """Return the processes that may still log a batch after this one: their next number would be free.

    Args:
        folder: the checkpoint of a job that does not run.
        batch: the batch to which it is to go back; -1 for the initial state.

    Raises:
        CorruptState: the file is damaged.
        CheckpointError: the lease is damaged.
    """
    owner, found = read_owner(folder), unaccounted_processes(folder, batch)
    if owner is not None and not owner.is_on_this_machine and owner.token not in [one.token for one in found]:
        found.append(owner)
    return found


def unaccounted_processes(folder: CheckpointFolder, batch: int) -> list[LeaseOwner]:
    """Return those of `unaccounted_after` that lost the lease, without the one that has it. Raises `CorruptState`."""
    return [LeaseOwner.from_fields(one) for one in read_unaccounted(folder) if one["batch"] + 1 > batch]


def read_unaccounted(folder: CheckpointFolder) -> list[dict[str, Any]]:
    """Return the processes that lost the lease and may only be paused: fields of an owner, and the batch before it.

    Raises:
        CorruptState: the file is damaged.
    """
    found = (read_object(folder, UNACCOUNTED_FILE) or {}).get("processes", [])
    try:
        if all(isinstance(one["batch"], int) and LeaseOwner.from_fields(one) for one in found):
            return list(found)
    except (TypeError, KeyError):
        pass
    raise damaged(folder, UNACCOUNTED_FILE, "it names no processes")


def newest_claim_number(folder: CheckpointFolder) -> int:
    """Return the number of the newest claim, 0 if there is none."""
    return max(_numbers(folder), default=0)


def _numbers(folder: CheckpointFolder) -> list[int]:
    found = map(control_file_number, folder.names(CLAIMS_FOLDER))
    return [number for number in found if number is not None]
