"""The intent of a reset to the initial state: written before anything is removed, removed when all is done."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from panekeeper.state.checkpoint.folder import CheckpointFolder, damaged, read_object
from panekeeper.state.checkpoint.layout import CONTROL_FOLDER, FLUSHED_FILE, INPUTS_FILE, RESET_FILE, SPARK_NAMES

REMOVED_BY_RESET = (*SPARK_NAMES, CONTROL_FOLDER, FLUSHED_FILE, INPUTS_FILE)
"""What a reset removes from the checkpoint, in this order; all of it may be missing."""


@dataclass(frozen=True, kw_only=True)
class ResetIntent:
    """A reset that was started.

    Attributes:
        epoch: the epoch that begins with it.
        view: path of the view, which is emptied; None if the job has none.
        batch: the last batch that was begun by then, -1 for none; None if an earlier version wrote this. If there is a
            later one, the process that has written this was paused, and another one has run the job.
    """

    epoch: int
    view: str | None
    batch: int | None = None


def write_reset_intent(folder: CheckpointFolder, intent: ResetIntent) -> None:
    """Write the intent: from here on a start completes the reset before it does anything else."""
    folder.write_json(RESET_FILE, asdict(intent), replace=True)


def read_reset_intent(folder: CheckpointFolder) -> ResetIntent | None:
    """Return the intent of a reset that was not completed, None if there is none. Raises `CorruptState`."""
    value = read_object(folder, RESET_FILE)
    if value is not None and not {"epoch", "view"} <= set(value):
        raise damaged(folder, RESET_FILE, "it lacks the epoch or the view")
    return None if value is None else ResetIntent(epoch=value["epoch"], view=value["view"], batch=value.get("batch"))


def remove_reset_intent(folder: CheckpointFolder) -> None:
    """Remove the intent: the reset is complete."""
    folder.remove(RESET_FILE)
