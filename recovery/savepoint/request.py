"""Asking a running job for the batch that a savepoint is made of.

A "savepoint" goes to the pulse. The batch that reads it is a checkpoint for that reason, which state handlers are
told; nothing falls due by it. Once that batch is committed, its files stay as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from recovery.errors import SavepointRefused
from recovery.jobs.lease import running_on
from recovery.savepoint.checkpoint_reader import batch_with_control_file
from recovery.storage.files import Files
from state.checkpoint.clock import now_us
from state.checkpoint.control_files import ControlCommand
from state.checkpoint.folder import batch_numbers

_POLL_SECONDS = 0.2


def request_savepoint_batch(
    folder: Files,
    *,
    timeout: float,
    now: Callable[[], int] = now_us,
    sleep: Callable[[float], None] = time.sleep,
) -> int | None:
    """Return the batch that a running job has taken for a savepoint, once it is committed; None if no job runs.

    Args:
        folder: the job's checkpoint.
        timeout: seconds to wait for that batch.
        now: tells the time, us since the epoch.
        sleep: waits so many seconds.

    Raises:
        SavepointRefused: the batch did not come in time; the job goes on.
    """
    if running_on(folder, now=now) is None:
        return None
    command = ControlCommand(folder, "savepoint")
    deadline = now() + int(timeout * 1e6)
    while (holder := running_on(folder, now=now)) is not None:
        command.rewrite_if_lost()
        batch = batch_with_control_file(folder, command.number)
        if batch is not None and batch in batch_numbers(folder, "commits"):
            return batch
        if now() >= deadline:
            raise SavepointRefused(
                f"{holder} has finished no batch within {timeout:g} s, so there is nothing new to save; "
                f"wait longer, or drain it first: panekeeper drain {folder.root}"
            )
        sleep(_POLL_SECONDS)
    return None  # it has ended meanwhile
