"""How a job is reset to its initial state although its process is only paused, which the product refuses at first."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import CheckpointInUse
from panekeeper.recovery.drill.faults.damage import FaultNotConfirmed
from panekeeper.state.checkpoint.layout import RUNNING_FILE, UNACCOUNTED_FOLDER

if TYPE_CHECKING:
    from panekeeper.framework.builder.outputs import DeltaJob


def reset_paused_job(declared: DeltaJob, checkpoint: Path, name: str) -> None:
    """Reset a job to its initial state although its process is only paused.

    The reset is refused at first, and the files are removed that the error names. It says to do so once the process is
    gone for certain, which is not so here.

    Args:
        declared: the job.
        checkpoint: its folder.
        name: of the job.

    Raises:
        FaultNotConfirmed: the reset was not refused.
        PanekeeperError: it was refused for another reason, or again.
    """
    try:
        declared.reset_to_initial_state(checkpoint=checkpoint, confirm=name)
    except CheckpointInUse as error:
        if not all(file in str(error) for file in (RUNNING_FILE, UNACCOUNTED_FOLDER)):
            raise
    else:
        raise FaultNotConfirmed("a reset was not refused, although a process that was lost may only be paused")
    (checkpoint / RUNNING_FILE).unlink(missing_ok=True)
    shutil.rmtree(checkpoint / UNACCOUNTED_FOLDER, ignore_errors=True)  # it is there if another process took over
    declared.reset_to_initial_state(checkpoint=checkpoint, confirm=name)
