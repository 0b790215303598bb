"""Which job a checkpoint belongs to, for commands that need one: a folder without a job's record is an error."""

from __future__ import annotations

from recovery.errors import SavepointError
from state.checkpoint.folder import CheckpointFolder
from state.checkpoint.job_record import JobRecord, read_record
from state.checkpoint.layout import JOB_FILE


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
