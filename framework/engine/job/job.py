"""The running job, which `start()` returns.

It runs the query, passes each batch through the sink, and ends the query only where Spark's two logs agree.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from panekeeper.framework.declarations.durations import Duration
from panekeeper.framework.declarations.errors import DrainTimeout, JobNotRunning, PanekeeperError
from panekeeper.framework.engine.job import query as streaming
from panekeeper.framework.engine.job.batch_journal import BatchContext
from panekeeper.framework.engine.job.callbacks import BatchCallbacks, OnCallbackError
from panekeeper.framework.engine.job.progress import report_fields
from panekeeper.framework.engine.job.run_end import RunEnd
from panekeeper.framework.engine.job.run_totals import BatchReport, RunTotals, StageClock
from panekeeper.framework.engine.job.shutdown.program_end import unattended_jobs
from panekeeper.framework.engine.job.shutdown.signals import await_end
from panekeeper.framework.engine.job.shutdown.spark_shutdown import spark_shutdown
from panekeeper.framework.engine.job.status import Drained, JobState, Status
from panekeeper.framework.engine.session.spark_errors import BatchFailed, is_worker_timeout, translate
from panekeeper.state.checkpoint.clock import Deadline, now_us
from panekeeper.state.checkpoint.control_files import ControlKind
from panekeeper.state.checkpoint.job_record import LastSavepoint, read_last_savepoint, require_all_batches_committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.engine.job.launch import JobLaunch
    from panekeeper.framework.engine.sink.batch_output import BatchOutput
    from panekeeper.framework.engine.sink.downtime import Downtime


class Job:
    """A windowed stream that is written to Delta tables. Made by `start()`; safe to use from several threads."""

    def __init__(self, launch: JobLaunch) -> None:
        self._launch = launch
        self._totals = RunTotals(len(launch.record.group_ids))
        self._callbacks = BatchCallbacks(launch.name)
        self._query_started, self._first_batch_started = threading.Event(), threading.Event()
        self._end = RunEnd(min(launch.lease.last_control_file, launch.resume_file - 1))
        self._failure: BaseException | None = None
        self._tick_scheduler = launch.start_ticks()
        self._last_control_file: int | None = None
        self._downtime: Downtime | None = None
        launch.lease.set_job(self._end_state, self._end_after_loss)
        launch.lease.set_report(self.report)
        self._start_query()
        spark_shutdown.add(unattended_jobs.add(self), launch.files.spark)

    @property
    def finished(self) -> bool:
        """Whether the job was flushed: its windows are closed and its tables complete, for good."""
        return self._end.flushed.is_set()

    @property
    def checkpoint(self) -> str:
        """Full path or URL of the checkpoint folder, as `savepoint()` and the commands take it."""
        return self._launch.files.root

    def await_end(self, timeout: Duration | None = None) -> bool:
        """Wait until the job ends, and return whether it has.

        Ctrl-C lets the running batch finish, ends the job and then raises `KeyboardInterrupt`; a second one exits at
        once (this is safe: the batch is run again at the next start). SIGTERM drains the job and returns.

        Args:
            timeout: how long to wait at most (`"5 minutes"`, seconds); None: no limit.

        Raises:
            PanekeeperError: the job failed; the error says what to do, its cause is attached.
        """
        return await_end(self._is_over, streaming.to_deadline(timeout), drain=self.drain, stop=self.stop)

    def process_available(self) -> None:
        """Wait until all that the source has at this call is processed. Raises `PanekeeperError` as `await_end`."""
        if "availableNow" in self._launch.trigger:
            self.await_end()
            return
        try:
            self._query.processAllAvailable()
        except Exception as error:
            if not self._has_ended(0.01):
                raise self._to_panekeeper_error(error) from error

    def flush(self) -> None:
        """Fire all open panes and windows, close them, and finish the job for good (docs/semantics.md section 8).

        What the sources hold at this call is processed first, in as many batches as their limits need; one more has the
        results with the reason FLUSH, and perhaps rows that came since. Returns once the tables are written. A job that
        has ended is started once more for it. Afterwards its checkpoint takes no more rows.

        Raises:
            CheckpointError: the job has ended, and another run is on its checkpoint now, or has been since.
            PanekeeperError: the job failed; as `await_end`. Unless the last batch had begun, it is not flushed.
        """
        self._callbacks.require_outside("flush")
        with self._end.command(deadline := Deadline(None), self._launch.lease):
            if not self.finished:
                self._launch.acquire_lease()  # it has released its lease if it has ended
                self._process_what_is_there(deadline)
                self._run_command("flush", self._end.flushed, deadline)

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
        deadline = streaming.to_deadline(timeout)
        self._callbacks.require_outside("drain")
        try:
            with self._end.command(deadline, self._launch.lease):
                if self._has_ended(0.01):
                    name, batch = self._launch.name, self._totals.batch
                    raise JobNotRunning(f"job {name!r} ended after batch {batch}: nothing to drain; start() resumes it")
                self._end.drained.clear()
                self._run_command("drain", self._end.drained, deadline)
        except TimeoutError as error:
            what = f"job {self._launch.name!r} has not drained within {deadline.seconds:g} s; it ends after its batch"
            raise DrainTimeout(f"{what}; if it is killed before, it resumes with that batch") from error
        require_all_batches_committed(self._launch.files)
        return self._totals.drained(self._launch.name)

    def stop(self) -> None:
        """End the job after the running batch; it resumes from there at the next start.

        Returns once the query has ended and its last batch is committed; in a callback, at once. Raises as `await_end`.
        """
        self._stop(Deadline(None))

    def _stop(self, deadline: Deadline) -> None:
        self._end.stopping.set()
        while not self._callbacks.is_calling() and not self._has_ended(0.01):
            streaming.end_between_batches(self._query, self._launch.files.spark)
            deadline.require()

    def status(self) -> Status:
        """Return the job's state and counts, without waiting."""
        return self._totals.status(self._launch.name, self._state(), self._tick_scheduler.failure)

    def report(self) -> dict[str, Any]:
        """Return what the job reports of itself: batch, open and progress (`framework/engine/job/progress.py`)."""
        query = self._query if self._query_started.is_set() else None
        return report_fields(self._totals, query, self._tick_scheduler.failure)

    def last_savepoint(self) -> LastSavepoint | None:
        """Return the newest savepoint of the checkpoint; None: there is none."""
        return read_last_savepoint(self._launch.files)

    @property
    def downtime(self) -> Downtime | None:
        """What happened while the job was down; None at a first start, and before the first batch."""
        return self._downtime

    def on_batch(self, callback: Callable[[BatchReport], None], *, on_error: OnCallbackError = "log") -> None:
        """Call `callback` after each batch, once its tables are written, in the thread of the query.

        Batches since the start are reported at once, in this thread; if the callback calls `stop()` then, this call
        returns once the job has ended. An error in it is logged, and with `on_error="fail"` fails the job.
        """
        self._callbacks.add(callback, on_error)
        if self._end.stopping.is_set():
            self.stop()

    def _process_what_is_there(self, deadline: Deadline) -> None:
        """End the query, process in another one what the sources hold now, and return once that one has ended."""
        self._stop(deadline)
        self._launch = self._launch.for_what_is_there()
        while self._end.stopping.is_set() and not self.finished:  # a stop or drain meanwhile would leave rows
            self._start_query()
            while not self._has_ended(0.2):
                deadline.require()

    def _run_command(self, kind: ControlKind, done: threading.Event, deadline: Deadline) -> None:
        """Write a command and wait until a batch has processed it and the query has ended. Raises `TimeoutError`."""
        if not done.is_set():
            self._launch.command(kind)
        if self._launch.has_trigger_interval:  # else it is idle until its next trigger; the loop starts it again
            self._stop(deadline)
        while not (self._has_ended(0.05) and done.is_set()):
            if self._has_ended(0.01) and not done.is_set():
                self._start_query()
            deadline.require()

    def _start_query(self) -> None:
        """Start the query and return once its first batch has begun; try again if a Python worker was slow."""
        for attempt in range(1, streaming.MAX_ATTEMPTS + 1):
            for event in (self._first_batch_started, self._query_started, self._end.stopping):
                event.clear()
            self._failure = None
            self._launch.acquire_lease()
            try:
                if self._is_over_with_last_batch():
                    return
                self._query = self._launch.start_query(self._process_batch)
            except Exception as error:
                self._launch.lease.release(JobState.FAILED.value)
                raise self._to_panekeeper_error(error) from error
            self._query_started.set()
            try:
                streaming.wait_for_first_batch(self._query, self._first_batch_started)
            except StreamingQueryException as error:
                if attempt < streaming.MAX_ATTEMPTS and is_worker_timeout(error):
                    continue
                raise self._to_panekeeper_error(error) from error
            return

    def _process_batch(self, packed: DataFrame, number: int) -> None:
        """Steps 2 to 4 of the commit protocol (`batch_journal.py`); called by Spark between 1 and 5."""
        self._query_started.wait()  # from here on `self._query` is the query that runs this batch
        self._first_batch_started.set()
        try:
            self._launch.begin_batch(number, self._last_control_file, self._query)
            with self._callbacks.in_batch(number):
                self._commit(packed.persist(), number)
        except BaseException as error:  # noqa: BLE001 -- it is raised again where the job is awaited
            self._failure = error
            raise BatchFailed(f"batch {number} of job {self._launch.name} failed") from None

    def _commit(self, packed: DataFrame, number: int) -> None:
        started_us, clock = now_us(), StageClock()

        def describe(batch: BatchOutput) -> BatchContext:
            clock.end("plan")
            report = self._launch.downtime_report(batch)
            self._downtime = report or self._downtime
            self._launch.inputs.after_reading()
            open_panes = self._totals.open_panes_after(batch)
            return BatchContext(started_us=started_us, open_panes=open_panes, downtime=report)

        try:
            spec = self._launch.pipeline.spec
            batch = self._launch.journal.run(packed, number, self._query, spec, describe)
            clock.end("tables")
        finally:
            packed.unpersist()
        self._launch.record_run(batch)
        self._end.note(is_flush=batch.flushed, drain_file=batch.last_drain_file)
        self._last_control_file = batch.last_control_file
        self._callbacks.notify(self._totals.add(batch, clock))
        self._tick_scheduler.schedule(self._totals.next_due())
        if self._end.stopping.is_set():
            streaming.end_after_batch(self._query, self._launch.files.spark)

    def _is_over_with_last_batch(self) -> bool:
        """Complete a batch of this run that was interrupted, and return whether the job ends with it."""
        batch = self._launch.complete_batch()
        if batch is None or not self._end.note(is_flush=batch.is_flush, drain_file=batch.drain_file):
            return False
        self._launch.lease.release(self._state().value)
        return True

    def _is_over(self, seconds: float) -> bool:
        """Wait so long for the job to end and say whether it has: no command, as a flush, starts its query again."""
        if not self._has_ended(seconds) or not self._end.command_lock.acquire(timeout=seconds):
            return False
        self._end.command_lock.release()
        return self._has_ended(0.01)

    def _has_ended(self, seconds: float) -> bool:
        unattended_jobs.remove(self)
        try:
            ended = streaming.has_ended(self._query, seconds)
        except StreamingQueryException as error:
            raise self._to_panekeeper_error(error) from error
        if ended:
            self._launch.lease.release_if_ended()
            self._tick_scheduler.close()
            if self._failure is not None:
                raise self._failure
        return ended

    def _end_after_loss(self, loss: PanekeeperError) -> None:
        """End the job, idle or not. Called by its lease; a job that is being started finds the loss in a batch."""
        self._failure = loss
        if self._query_started.is_set():
            with suppress(PanekeeperError):
                self._stop(Deadline(None))

    def _end_state(self) -> str | None:
        """Return how the job has ended, None while it runs, is started or gets a command. Called by its lease."""
        if not self._query_started.is_set() or self._end.command_lock.locked() or streaming.is_running(self._query):
            return None
        return self._launch.end_run(self._state())

    def _to_panekeeper_error(self, error: BaseException) -> PanekeeperError:
        self._launch.lease.release_if_ended()
        return translate(self._failure or error, self._launch.name)

    def _state(self) -> JobState:
        return JobState.FLUSHED if self.finished else streaming.state_of(self._query, self._failure)
