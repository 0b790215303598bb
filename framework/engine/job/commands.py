"""What a job is told by its program: to stop, to drain, to flush. One command at a time.

A drain and a flush are control files, which a batch reads as it reads rows (`state/checkpoint/control_files.py`), so
they are given to a running query, or to one that is started for them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import DrainTimeout, JobNotRunning
from panekeeper.framework.engine.job.query import trigger_options
from panekeeper.state.checkpoint.clock import Deadline
from panekeeper.state.checkpoint.control_files import ControlKind, write_control_file
from panekeeper.state.checkpoint.job_record import require_all_batches_committed
from panekeeper.state.duration_text import duration_text

if TYPE_CHECKING:
    from panekeeper.framework.engine.job.run import JobRun
    from panekeeper.framework.engine.job.status import Drained


class JobCommands:
    """The commands to one job. Safe to use from several threads."""

    def __init__(self, run: JobRun) -> None:
        self._run = run

    def stop(self) -> None:
        """End the job after the running batch. Raises as `Job.stop`."""
        self._run.query.stop(Deadline(None))

    def drain(self, deadline: Deadline) -> Drained:
        """End the job with its windows left open. Raises as `Job.drain`."""
        run = self._run
        run.callbacks.require_outside("drain")
        try:
            with self._command(deadline):
                if run.query.has_ended(0.01):
                    batch = run.totals.batch
                    raise JobNotRunning(
                        f"job {run.name!r} ended after batch {batch}: nothing to drain; start() resumes it"
                    )
                run.end.drained.clear()
                self._give("drain", run.end.drained, deadline)
        except TimeoutError as error:
            what = f"job {run.name!r} has not drained within {duration_text(deadline.seconds)}; it ends with its batch"
            raise DrainTimeout(f"{what}; if it is killed before, it resumes with that batch") from error
        require_all_batches_committed(run.files)
        return run.totals.drained(run.name)

    def flush(self) -> None:
        """Fire all open panes, close them, and finish the job for good. Raises as `Job.flush`."""
        run = self._run
        run.callbacks.require_outside("flush")
        with self._command(deadline := Deadline(None)):
            if not run.end.flushed.is_set():
                run.acquire_lease()  # it has released its lease if it has ended
                self._process_what_is_there(deadline)
                self._give("flush", run.end.flushed, deadline)

    @contextmanager
    def _command(self, deadline: Deadline) -> Iterator[None]:
        """Carry out a command in this block, one at a time, and let no thread release the lease meanwhile."""
        try:
            with deadline.acquire(self._run.end.command_lock):
                yield
        finally:
            self._run.lease.release_if_ended()

    def _process_what_is_there(self, deadline: Deadline) -> None:
        """End the query, process in another one what the sources hold now, and return once that one has ended."""
        run = self._run
        run.query.stop(deadline)
        run.trigger = trigger_options("available_now")
        while run.end.stopping.is_set() and not run.end.flushed.is_set():  # a stop or drain meanwhile would leave rows
            run.start_query()
            while not run.query.has_ended(0.2):
                deadline.require()

    def _give(self, kind: ControlKind, done: threading.Event, deadline: Deadline) -> None:
        """Write a command and wait until a batch has processed it and the query has ended. Raises `TimeoutError`."""
        run = self._run
        if not done.is_set():
            run.acquire_lease()
            run.lease.require_held()  # any run that reads a command follows it
            write_control_file(run.files, kind)
        if run.trigger.get("processingTime", "0 seconds") != "0 seconds":  # idle until then; the loop starts it again
            run.query.stop(deadline)
        while not (run.query.has_ended(0.05) and done.is_set()):
            if run.query.has_ended(0.01) and not done.is_set():
                run.start_query()
            deadline.require()
