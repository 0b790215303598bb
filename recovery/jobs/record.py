"""Which job a checkpoint belongs to, for commands that need one: a folder without a job's record is an error."""

from __future__ import annotations

from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.epochs import POINTER_FILE, current_epoch, is_begun, read_begin, read_pointer
from panekeeper.state.checkpoint.folder import JOB_FILE, CheckpointFolder
from panekeeper.state.checkpoint.job_record import JobRecord, read_record


def current_folder(root: Files) -> Files:
    """Return the folder of the current epoch of a checkpoint.

    Raises:
        SavepointError: there is no checkpoint of Panekeeper.
        CheckpointError: it has an older layout.
        CorruptState: which epoch is current cannot be read, or that epoch is gone.
    """
    folder = current_epoch(root)
    if folder is None:
        raise SavepointError(
            f"{root.root} holds no checkpoint of Panekeeper ({POINTER_FILE} is not there); give the folder of one"
        )
    return folder


def require_still_current(root: Files, record: JobRecord) -> None:
    """Raise `SavepointRefused` if a restore or reset has begun another epoch meanwhile."""
    pointer = read_pointer(root)
    if pointer is None or pointer.epoch != record.epoch:
        raise SavepointRefused(f"{root.root} was restored or reset meanwhile; run the same command again")


def require_record(folder: CheckpointFolder) -> JobRecord:
    """Return the record of a checkpoint's job.

    Raises:
        SavepointError: there is no checkpoint of Panekeeper.
        StateError: the job record is damaged or of another version.
    """
    record = read_record(folder)
    if record is None:
        raise SavepointError(
            f"{folder.root} holds no checkpoint of Panekeeper ({JOB_FILE} is not there); give the folder of one"
        )
    return record


def require_current_record(folder: CheckpointFolder) -> JobRecord:
    """Return the record of a job whose tables fit its checkpoint.

    Raises:
        SavepointRefused: a restore or reset has begun the epoch, and its tables are not there yet.
        SavepointError: there is no checkpoint of Panekeeper.
        StateError: the job record is damaged or of another version.
    """
    record = require_record(folder)
    if not is_begun(folder):
        begin = read_begin(folder)
        what = "reset" if begin is None else begin.kind
        raise SavepointRefused(
            f"a {what} of the job of {folder.root} is not complete: its tables do not fit the checkpoint yet. Start "
            "the job once, which completes it, or run the same command again"
        )
    return record
