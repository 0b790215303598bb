"""Claims of the lease of a checkpoint: of several starts, which one gets it, and has it kept it?

A claim is a numbered file, and the newest says who has the lease. It is created exclusively and not written again: of
two starts at the same time one gets the next number, and a process that was paused finds its claim removed, and can
overwrite nothing by which the next owner holds the lease.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from panekeeper.state.checkpoint.folder import CLAIMS_FOLDER, CheckpointFolder, claim_file, numbers_in
from panekeeper.state.checkpoint.lease_owner import LeaseOwner, read_owner
from panekeeper.state.errors import CheckpointError


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
