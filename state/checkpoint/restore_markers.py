"""Files that a restore writes and that keep a job from starting: an interrupted restore, a superseded checkpoint.

A restore takes the Delta tables back with the checkpoint. While it is under way, the two may not fit together. Once it
went to another folder, the tables fit the checkpoint there, and a job that was started from this one would lose rows.
"""

from __future__ import annotations

from panekeeper.state.checkpoint.folder import CheckpointFolder, damaged, read_object
from panekeeper.state.checkpoint.layout import RESTORING_SUFFIX, SUPERSEDED_FILE


def restore_intent_path(checkpoint: str) -> str:
    """Return the path of the file that exists, beside a checkpoint folder, while a restore of it is not complete.

    >>> restore_intent_path("/data/checkpoint/")
    '/data/checkpoint.restoring.json'
    """
    return checkpoint.rstrip("/") + RESTORING_SUFFIX


def superseded_by(folder: CheckpointFolder) -> str | None:
    """Return the checkpoint folder to which a savepoint of this job was restored with its tables, None if none.

    Raises:
        CorruptState: the file cannot be read.
    """
    value = read_object(folder, SUPERSEDED_FILE)
    if value is not None and "to" not in value:
        raise damaged(folder, SUPERSEDED_FILE, "it names no checkpoint")
    return None if value is None else str(value["to"])


def write_superseded(folder: CheckpointFolder, by: str) -> None:
    """Block starts from this checkpoint: its tables now fit the one in the folder `by`."""
    folder.write_json(SUPERSEDED_FILE, {"to": by}, replace=True)
