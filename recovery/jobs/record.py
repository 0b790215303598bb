"""Which job a checkpoint belongs to, for commands that need one: a folder without a job's record is an error."""

from __future__ import annotations

from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.state.checkpoint.folder import CheckpointFolder
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.checkpoint.layout import JOB_FILE, RESET_FILE
from panekeeper.state.checkpoint.restore_markers import superseded_by


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
        SavepointRefused: a reset of the job was not completed, or the checkpoint is superseded by another one.
        SavepointError: there is no checkpoint of Panekeeper.
        StateError: the job record is damaged or of another version.
    """
    record = require_record(folder)
    if folder.exists(RESET_FILE):
        raise SavepointRefused(
            f"a reset of the job of {folder.root} was not completed ({RESET_FILE} is there), and its state will be "
            "discarded; start the job once, which completes the reset, and try again"
        )
    successor = superseded_by(folder)
    if successor is not None:
        raise SavepointRefused(
            f"the job of {folder.root} was restored to {successor}, and its tables fit that checkpoint only; "
            "give that one"
        )
    return record
