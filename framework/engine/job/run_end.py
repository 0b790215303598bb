"""What ends a run of a job: a stop, a drain or a flush."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from panekeeper.framework.engine.job.lease import Lease
    from panekeeper.state.checkpoint.clock import Deadline


class RunEnd:
    """Which of them was requested, and which has been processed. Safe to use from several threads.

    Args:
        last_control_file: the newest one before this run could be seen; a command until then was one to an earlier run.
            A start that completes a reset begins the numbers again: it is before that of the start in any case.

    Attributes:
        stopping: the run is to end after its batch.
        drained: a batch has processed a drain.
        flushed: a batch has processed a flush: the job is finished for good.
        command_lock: held while a command is carried out, which may end the query and start it again.
    """

    def __init__(self, last_control_file: int) -> None:
        self.stopping, self.drained, self.flushed = threading.Event(), threading.Event(), threading.Event()
        self.command_lock = threading.Lock()
        self._last_control_file = last_control_file

    @contextmanager
    def command(self, deadline: Deadline, lease: Lease) -> Iterator[None]:
        """Carry out a command in this block, one at a time, and let no thread release the lease meanwhile."""
        try:
            with deadline.acquire(self.command_lock):
                yield
        finally:
            lease.release_if_ended()

    def note(self, *, is_flush: bool, drain_file: int | None) -> bool:
        """Take note of what a batch has processed, and return whether the run ends with it.

        Args:
            is_flush: a flush.
            drain_file: number of the control file with the newest drain; None if there was none.
        """
        if is_flush:
            self.flushed.set()
        elif (drain_file or 0) > self._last_control_file:
            self.drained.set()
        else:
            return False
        self.stopping.set()
        return True
