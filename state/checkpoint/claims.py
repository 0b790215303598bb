"""Claims of a lease: numbered files, of which the newest says who has it.

A claim is created exclusively and not written again. So of two starts at the same time one gets the next number; and a
process that was paused finds its claim removed, and can overwrite nothing by which the next owner holds the lease.

A job on another host that sends no heartbeat has crashed, or it is paused. A job that takes over is safe from it: both
are of the same epoch, and Spark refuses to log another batch under a number that is taken. A restore or a reset is not,
because it makes such numbers free again. So each takeover from another host is recorded, with the last batch, in a file
of its own, which stays: whoever is paused while it records one, or takes its own lease back, hides no other process.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from panekeeper.state.checkpoint.folder import (
    CheckpointFolder,
    LocalFolder,
    batch_numbers,
    damaged,
    make_folder,
    read_object,
)
from panekeeper.state.checkpoint.layout import (
    CLAIMS_FOLDER,
    LOCK_FILE,
    OFFSETS_FOLDER,
    UNACCOUNTED_FOLDER,
    claim_file,
    control_file_number,
)
from panekeeper.state.checkpoint.owner import LeaseOwner, read_owner
from panekeeper.state.errors import CheckpointError


class ChangeLock:
    """That nobody takes the lease over from a process which changes the checkpoint: a job that starts, or a command.

    Each looks at its claim before it changes something. It may be paused just between the two until another process has
    taken over, whose files it would remove then. So while it changes them it holds a lock of the operating system on a
    file, without which no claim is made: a process that is paused has it still, one that has ended does not. Where a
    store or a file system has no locks, as S3, nothing is locked.

    Args:
        folder: the checkpoint.
    """

    def __init__(self, folder: CheckpointFolder) -> None:
        self._path = folder.path / LOCK_FILE if isinstance(folder, LocalFolder) else None
        self._file: int | None = None
        self._in_this_process = threading.Lock()

    def acquire(self) -> bool:
        """Return whether this process has it now. May be repeated.

        Raises:
            OSError: the folder cannot be written.
        """
        with self._in_this_process:
            return self._acquire()

    def _acquire(self) -> bool:
        while self._path is not None and self._file is None:
            make_folder(self._path.parent)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_current = os.path.samestat(os.fstat(file), self._path.stat())
            except BlockingIOError:
                os.close(file)
                return False
            except FileNotFoundError:
                is_current = False
            except OSError:  # this file system has none
                is_current = True
            if is_current:
                self._file = file
            else:  # the one that had it has removed the file meanwhile
                os.close(file)
        return True

    def release(self) -> None:
        """Release it, and remove its file. Nothing happens if it is not held."""
        with self._in_this_process:
            if self._file is None or self._path is None:
                return
            with suppress(OSError):
                if os.path.samestat(os.fstat(self._file), self._path.stat()):  # else the folder was replaced by another
                    self._path.unlink()
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)  # also where a child of this process has the file open
            os.close(self._file)
            self._file = None


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


def note_takeover(folder: CheckpointFolder, lost: LeaseOwner | None) -> None:
    """Record the owner from which a lease is about to be taken over, unless it has ended for certain.

    Args:
        folder: the checkpoint.
        lost: the owner; None if the lease was free.
    """
    if lost is None or lost.is_on_this_machine:
        return
    batch = max(batch_numbers(folder, OFFSETS_FOLDER), default=-1)
    name = hashlib.sha256(lost.token.encode()).hexdigest()[:16]
    with suppress(FileExistsError):  # it has lost the lease before, to a start that has failed
        folder.write_json(f"{UNACCOUNTED_FOLDER}/{name}.json", asdict(lost) | {"batch": batch})


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
    found = (read_unaccounted(folder, file) for file in unaccounted_files(folder))
    return [LeaseOwner.from_fields(one) for one in found if one["batch"] + 1 > batch]


def unaccounted_files(folder: CheckpointFolder) -> list[str]:
    """Return the files of the processes that lost the lease and may only be paused."""
    names = sorted(folder.names(UNACCOUNTED_FOLDER))
    return [f"{UNACCOUNTED_FOLDER}/{name}" for name in names if name.endswith(".json") and not name.startswith(".")]


def read_unaccounted(folder: CheckpointFolder, file: str) -> dict[str, Any]:
    """Return what one of `unaccounted_files` has: the fields of an owner, and the last batch before the takeover.

    Raises:
        CorruptState: the file is damaged.
    """
    found = read_object(folder, file) or {}
    try:
        LeaseOwner.from_fields(found)
        if isinstance(found["batch"], int):
            return found
    except (TypeError, KeyError):
        pass
    raise damaged(folder, file, "it names no process")


def newest_claim_number(folder: CheckpointFolder) -> int:
    """Return the number of the newest claim, 0 if there is none."""
    return max(_numbers(folder), default=0)


def _numbers(folder: CheckpointFolder) -> list[int]:
    found = map(control_file_number, folder.names(CLAIMS_FOLDER))
    return [number for number in found if number is not None]
