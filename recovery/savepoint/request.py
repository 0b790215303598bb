"""Step 0 of a savepoint: has a running job commit the batch that the savepoint is made of.

The command "savepoint" is written to the control stream. The batch that reads it is a checkpoint for that reason, and
state handlers are called with it; no timer fires because of it. Once that batch is committed, its files do not change.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.lease import running_on
from panekeeper.recovery.savepoint.checkpoint_reader import batch_with_control_file
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.clock import Deadline, now_us
from panekeeper.state.checkpoint.control_files import ControlCommand
from panekeeper.state.checkpoint.folder import batch_numbers

_POLL_SECONDS = 0.2


def request_savepoint_batch(
    folder: Files,
    *,
    timeout: float,
    now: Callable[[], int] = now_us,
    sleep: Callable[[float], None] = time.sleep,
) -> int | None:
    """Have the job that runs on a checkpoint commit a batch for a savepoint.

    Args:
        folder: the checkpoint.
        timeout: how long to wait for that batch, in seconds.
        now: returns the time, us since the epoch.
        sleep: called with a number of seconds to wait.

    Returns:
        The batch, once it is committed; None if no job runs, or it ended meanwhile.

    Raises:
        SavepointRefused: the batch was not committed in time; the job continues.
    """
    if running_on(folder, now=now) is None:
        return None
    command = ControlCommand(folder, "savepoint")
    deadline = Deadline(timeout, clock=lambda: now() / 1e6)
    while (owner := running_on(folder, now=now)) is not None:
        command.rewrite_if_lost()
        batch = batch_with_control_file(folder, command.number)
        if batch is not None and batch in batch_numbers(folder, "commits"):
            return batch
        if deadline.has_passed():
            raise SavepointRefused(
                f"{owner} has committed no batch within {timeout:g} s, so there is nothing new to save; "
                f"wait longer (--timeout), or drain it first: panekeeper drain {folder.root}"
            )
        sleep(_POLL_SECONDS)
    return None
