"""The running job, which `start()` returns: what it answers, what it is told, and how its end is awaited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.durations import Duration, to_seconds
from panekeeper.framework.declarations.errors import without_own_frames
from panekeeper.framework.declarations.steps import Step
from panekeeper.framework.engine.job.backlog import Backlog, Progress
from panekeeper.framework.engine.job.callbacks import OnCallbackError
from panekeeper.framework.engine.job.commands import JobCommands
from panekeeper.framework.engine.job.live import View, described
from panekeeper.framework.engine.job.query import to_deadline
from panekeeper.framework.engine.job.run import JobRun
from panekeeper.framework.engine.job.shutdown import await_end
from panekeeper.framework.engine.job.status import BatchReport, Drained, Status
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.folder import place_of
from panekeeper.state.checkpoint.job_record import LastSavepoint, read_last_savepoint

if TYPE_CHECKING:
    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.sink.downtime import Downtime

started_jobs: dict[str, Job] = {}
"""Checkpoint -> the job that this process has started there last."""


def job_of_this_process(checkpoint: str) -> Job | None:
    """Return the job that this process has started last on a checkpoint, whether it runs or not; None: none."""
    return started_jobs.get(place_of(checkpoint))


class Job(Step):
    """A windowed stream that is written to Delta tables. Made by `start()`; safe to use from several threads."""

    _place = 4

    def __init__(self, run: JobRun, commands: JobCommands, backlog: Backlog) -> None:
        self._run, self._commands, self._backlog = run, commands, backlog

    # What a job answers

    @property
    def finished(self) -> bool:
        """Whether the job was flushed: its windows are closed and its tables complete, for good."""
        return self._run.end.flushed.is_set()

    @property
    def running(self) -> bool:
        """Whether it processes what its sources get: it has not ended, and has not failed."""
        return self._run.query.end_state() is None

    @property
    def checkpoint(self) -> str:
        """Full path or URL of the checkpoint folder, as `savepoint()` and the commands take it."""
        return self._run.files.root

    @property
    def downtime(self) -> Downtime | None:
        """What happened while the job was down; None at a first start, and before the first batch."""
        return self._run.downtime

    def is_declared_as(self, pipeline: Pipeline, tables: Mapping[str, str | None], trigger: Mapping[str, Any]) -> bool:
        """Return whether a declaration is that of this job. Code of operators and functions is not compared."""
        run = self._run
        same = run.pipeline.declaration() == pipeline.declaration() and run.trigger == trigger
        return same and dict(run.journal.declared) == dict(tables)

    def status(self) -> Status:
        """Return the job's state and counts, without waiting."""
        return self._run.totals.status(self._run.name, self._run.query.state(), self._run.ticks.failure)

    def report(self) -> dict[str, Any]:
        """Return what the job reports of itself: batch, open and progress (`RunTotals.report`), and why it failed."""
        return self._run.report()

    def last_savepoint(self) -> LastSavepoint | None:
        """Return the newest savepoint of the checkpoint; None: there is none."""
        return read_last_savepoint(self._run.files)

    def progress(self) -> Progress:
        """Return how far the job is with what its sources hold, as a bar: for a long backlog. Does not wait.

        Of Kafka the rows that are left are known, of folders the files; of other sources, or of both, nothing. The time
        that is left follows from the rows of the last minute.
        """
        return self._backlog.progress(self.status(), self.report()["progress"])

    @property
    def _heading(self) -> str:
        return f"started job {self._run.name}"

    def _described(self) -> tuple[str, dict[str, Any]]:
        progress = self.progress() if self.running else None
        return described(self.status(), self.checkpoint, now=now_us(), report=self.report(), progress=progress)

    # What a job is told

    @without_own_frames
    def process_available(self) -> None:
        """Wait until all that the source has at this call is processed. Raises `PanekeeperError` as `await_end`."""
        if "availableNow" in self._run.trigger:
            self.await_end()
            return
        try:
            self._run.query.streaming.processAllAvailable()
        except Exception as error:  # noqa: BLE001 -- raised again, as ours
            if not self._run.query.has_ended(0.01):
                raise self._run.query.to_panekeeper_error(error) from None

    @without_own_frames
    def flush(self) -> None:
        """Fire all open panes and windows, close them, and finish the job for good (docs/semantics.md section 8).

        What the sources hold at this call is processed first, in as many batches as their limits need; one more has the
        results with the reason FLUSH, and perhaps rows that came since. Returns once the tables are written. A job that
        has ended is started once more for it. Afterwards its checkpoint takes no more rows.

        Raises:
            CheckpointError: the job has ended, and another run is on its checkpoint now, or has been since.
            PanekeeperError: the job failed; as `await_end`. Unless the last batch had begun, it is not flushed.
        """
        self._commands.flush()

    @without_own_frames
    def drain(self, timeout: Duration | None = None) -> Drained:
        """End the job with its windows left open, unfired: the next start resumes there; `flush()` closes them.

        One more batch processes what the source has; `drain` of state handlers is called with the reason DRAIN and may
        evict partitions. Returns what is left open, once the job has ended with every batch committed. So does SIGTERM.

        Args:
            timeout: how long to wait at most (`"5 minutes"`, seconds); None: no limit.

        Raises:
            JobNotRunning: the job has ended already.
            DrainTimeout: it has not ended in time; it continues to drain, and is resumable however it ends.
            PanekeeperError: the job failed; as `await_end`.
        """
        return self._commands.drain(to_deadline(timeout))

    @without_own_frames
    def stop(self) -> None:
        """End the job after the running batch; it resumes from there at the next start.

        Returns once the query has ended and its last batch is committed; in a callback, at once. Raises as `await_end`.
        """
        self._commands.stop()

    def on_batch(self, callback: Callable[[BatchReport], None], *, on_error: OnCallbackError = "log") -> None:
        """Call `callback` after each batch, once its tables are written, in the thread of the query.

        Batches since the start are reported at once, in this thread; if the callback calls `stop()` then, this call
        returns once the job has ended. An error in it is logged, and with `on_error="fail"` fails the job.
        """
        self._run.callbacks.add(callback, on_error)
        if self._run.end.stopping.is_set():
            self.stop()

    # How a job ends

    @without_own_frames
    def await_end(self, timeout: Duration | None = None) -> bool:
        """Wait until the job ends, and return whether it has.

        Ctrl-C lets the running batch finish, ends the job and then raises `KeyboardInterrupt`; a second one exits at
        once (this is safe: the batch is run again at the next start). In the kernel of a notebook it ends the wait, and
        the job goes on. SIGTERM drains the job and returns.

        Args:
            timeout: how long to wait at most (`"5 minutes"`, seconds); None: no limit.

        Raises:
            PanekeeperError: the job failed; the error says what to do, and has what was raised as its `cause`.
        """
        return await_end(self._run.query.is_over, to_deadline(timeout), drain=self.drain, stop=self.stop)

    @without_own_frames
    def live(self, every: Duration = 1, timeout: Duration | None = None) -> bool:
        """Wait as `await_end` does, and show meanwhile how the job is: in a notebook, or in a terminal.

        An interrupt of the cell ends the view, and the job goes on.

        Args:
            every: how often to look (`"5 seconds"`).
            timeout: how long to wait at most; None: no limit.

        Raises:
            PanekeeperError: the job failed; as `await_end`.
        """
        view = View(self, to_seconds(every, "every"))

        def is_over(seconds: float) -> bool:
            view.refresh()
            return self._run.query.is_over(seconds)

        try:
            return await_end(is_over, to_deadline(timeout), drain=self.drain, stop=self.stop)
        finally:
            view.end()
