"""The running job: what the user holds after `start()`.

It runs the streaming query, passes each batch through the sink, keeps the sums, and ends the query only at the
boundary between two batches, where Spark's offset log and commit log agree.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from framework.declarations.durations import Duration
from framework.declarations.errors import DeclarationError, DrainTimeout, JobNotRunning, PanekeeperError
from framework.engine.flow.control_stream import Kind, Waker, beat, prune
from framework.engine.flow.run import require_settled
from framework.engine.job.callbacks import Hearing
from framework.engine.job.deadline import Deadline
from framework.engine.job.query import end_after_batch, end_between_batches, has_ended, is_running
from framework.engine.job.run_totals import BatchReport, Ledger
from framework.engine.job.signals import Interrupts
from framework.engine.job.status import Drained, JobState, Status
from framework.engine.session.spark_errors import BatchFailed, is_slow_worker, translate
from state.checkpoint.job_record import FLUSHED_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.engine.job.launch import Launch
    from framework.engine.sink.batch_output import Batch
    from framework.engine.sink.downtime import Downtime

__all__ = ["BatchReport", "Job", "JobState", "Status"]

_TRIES = 3  # starts of a query whose Python worker was too slow to come up


class Job:
    """A windowed stream on its way to Delta. Made by `start()`; safe to use from several threads."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._ledger = Ledger()
        self._hearing = Hearing()
        self._entered = threading.Event()
        self._flushed, self._drained, self._stopping = threading.Event(), threading.Event(), threading.Event()
        self._failure: BaseException | None = None
        # Windows whose clock is a column of the data, and those of event time, are not woken by ours.
        wakes = launch.pipeline.wakes and "availableNow" not in launch.trigger
        self._waker = Waker(launch.files) if wakes else None
        self._heard: int | None = None
        self._downtime: Downtime | None = None
        self._launched = threading.Event()
        self._commanding = threading.Lock()  # a command may end the query and start it again
        self._batch_thread = 0
        launch.lease.watch(self._end)
        self._start_query()

    @property
    def finished(self) -> bool:
        """Whether the job was flushed: its windows are closed and its tables complete, for good."""
        return self._flushed.is_set()

    @property
    def checkpoint(self) -> str:
        """Full name of the checkpoint folder, as `recovery.savepoint.create.savepoint()` and the commands take it."""
        return self._launch.files.root

    def await_end(self, timeout: Duration | None = None) -> bool:
        """Wait until the job ends, `timeout` at most (`"5 minutes"`, seconds); return whether it ended.

        Ctrl-C lets the running batch finish, ends the job and then raises `KeyboardInterrupt`; a second one leaves
        at once (safe too: the batch is run again at the next start). SIGTERM drains the job and returns.

        Raises:
            PanekeeperError: the job failed; the error says what to do, its cause is attached.
        """
        deadline = Deadline(timeout)
        with Interrupts() as interrupts:
            while not self._ended(0.2):
                if interrupts.asked is signal.SIGTERM:
                    with suppress(JobNotRunning):  # it has just ended by itself
                        self.drain()
                    return True
                if interrupts.asked is signal.SIGINT:
                    self.stop()
                    raise KeyboardInterrupt
                if deadline.passed:
                    return False
        return True

    def process_available(self) -> None:
        """Wait until everything that stood in the source at this call has been processed. Raises as `await_end`."""
        if "availableNow" in self._launch.trigger:
            self.await_end()
            return
        try:
            self._query.processAllAvailable()
        except Exception as error:
            if not self._ended(0.01):
                raise self._reason(error) from error

    def flush(self) -> None:
        """Fire everything that is open, close it, and finish the job: the results are marked FLUSH.

        Takes in what the source holds for the next batch, then closes; waits until the tables are written. A job
        that has already ended is started once more for it. Afterwards its checkpoint takes no more rows.
        Raises as `await_end`.
        """
        with self._one_command("flush", deadline := Deadline(None)):
            if not self.finished:
                self._launch.hold()  # an ended job has given its lease back, and another one may run there now
                self._command("flush", self._flushed, deadline)

    def drain(self, timeout: Duration | None = None) -> Drained:
        """End the job with its windows left open, unfired: the next start resumes there; `flush()` closes them.

        One more batch takes in what the source holds; `drain` of state handlers is called with the reason DRAIN and may
        evict partitions. Returns once the job has ended with nothing uncommitted. SIGTERM does this, too.

        Args:
            timeout: how long to wait at most (`"5 minutes"`, seconds); None for as long as it takes.

        Raises:
            JobNotRunning: the job has ended already.
            DrainTimeout: it has not ended in time; it goes on draining, and is resumable however it ends.
            PanekeeperError: the job failed; as `await_end`.
        """
        deadline = Deadline(timeout)
        try:
            with self._one_command("drain", deadline):
                if self._ended(0.01):
                    name, batch = self._launch.name, self._ledger.batch
                    raise JobNotRunning(f"job {name!r} ended after batch {batch}: nothing to drain; start() resumes it")
                self._drained.clear()
                self._command("drain", self._drained, deadline)
        except TimeoutError as error:
            raise DrainTimeout(
                f"job {self._launch.name!r} has not drained within {deadline.seconds:g} s: its batch is still running. "
                "The job ends after that batch; if it is killed before, it resumes with the same batch"
            ) from error
        require_settled(self._launch.files)
        return self._ledger.drained(self._launch.name)

    def stop(self) -> None:
        """End the job at the end of the running batch; it resumes there at the next start.

        Returns once the query has ended, with nothing half done; called by a callback of `on_batch`, at once.
        Raises as `await_end` if the job failed.
        """
        self._stop(Deadline(None))

    def _stop(self, deadline: Deadline) -> None:
        self._stopping.set()
        while not self._in_callback() and not self._ended(0.01):
            end_between_batches(self._query, self._launch.files.spark)
            deadline.require()

    def status(self) -> Status:
        """Return how the job stands, without waiting for anything."""
        return self._ledger.status(self._launch.name, self._state())

    @property
    def downtime(self) -> Downtime | None:
        """What the time between the run before and this one did; None at a first start, or before the first batch."""
        return self._downtime

    def on_batch(self, callback: Callable[[BatchReport], None]) -> None:
        """Call `callback` after each batch, once its tables are written, in the thread of the query.

        Batches that were done since the start are reported at once, in this thread; if the callback asks for a `stop()`
        then, this call returns once the job has ended. An error in the callback fails the job.
        """
        self._hearing.add(callback)
        if self._stopping.is_set():
            self.stop()

    def _in_callback(self) -> bool:
        return threading.get_ident() == self._batch_thread or self._hearing.is_calling()

    @contextmanager
    def _one_command(self, kind: Kind, deadline: Deadline) -> Iterator[None]:
        if self._in_callback():
            raise DeclarationError(f"{kind}() waits for a batch, so a callback of a batch cannot call it; use stop()")
        with deadline.turn(self._commanding):
            yield

    def _command(self, kind: Kind, done: threading.Event, deadline: Deadline) -> None:
        """Send a command and wait until a batch has heard it and the query has ended. Raises `TimeoutError`."""
        beat(self._launch.files, kind)
        if self._launch.paced:  # it would sleep until its next trigger; it is started again below and hears at once
            self._stop(deadline)
        while not (self._ended(0.05) and done.is_set()):
            if self._ended(0.01) and not done.is_set():
                self._start_query()
            deadline.require()

    def _start_query(self) -> None:
        """Start the query and return once its first batch has begun; try again if a Python worker was slow."""
        for attempt in range(1, _TRIES + 1):
            self._entered.clear()
            self._launched.clear()
            self._stopping.clear()
            self._failure = None
            self._launch.hold()
            try:
                self._query = self._launch.query(self._take)
            except Exception as error:
                self._launch.lease.release(JobState.FAILED.value)
                raise self._reason(error) from error
            self._launched.set()
            try:
                while not self._entered.wait(0.05) and not has_ended(self._query, 0.01):
                    pass
            except StreamingQueryException as error:
                if attempt < _TRIES and is_slow_worker(error):
                    continue
                raise self._reason(error) from error
            return

    def _take(self, packed: DataFrame, number: int) -> None:
        """Steps 2 and 3 of the commit protocol (`sink.py`); called by Spark between 1 and 4."""
        self._launched.wait()  # from here on `self._query` is the query that runs this batch
        self._batch_thread = threading.get_ident()
        self._entered.set()
        try:
            if self._heard is not None:  # the batch that heard it is committed now
                prune(self._launch.files, self._heard)
                self._heard = None
            self._commit(packed.persist(), number)
        except BaseException as error:  # noqa: BLE001 -- whatever it is, it is raised again, by whoever waits for the job
            self._failure = error
            raise BatchFailed(f"batch {number} of job {self._launch.name} failed") from None
        finally:
            self._batch_thread = 0

    def _commit(self, packed: DataFrame, number: int) -> None:
        started = time.time()
        try:
            batch = self._launch.sink.run_plan(packed, number)
            back = self._launch.back_after(batch)
            open_panes = self._ledger.open_after(batch)
            self._launch.sink.commit(packed, batch, open_panes=open_panes, started=started, downtime=back)
            self._downtime = back or self._downtime
        finally:
            packed.unpersist()
        if batch.flushed:
            self._finish(batch)
        elif batch.drain is not None and batch.drain > self._launch.resumed:  # an older one was asked of another run
            self._stopping.set()
            self._drained.set()
        self._heard = batch.beat
        report = self._ledger.note(batch, seconds=time.time() - started)
        self._launch.lease.note(**self._ledger.left())
        self._hearing.tell(report)
        if self._waker is not None:
            self._waker.expect(self._ledger.next_due())
        if self._stopping.is_set():
            end_after_batch(self._query, self._launch.files.spark)

    def _finish(self, batch: Batch) -> None:
        """Close the checkpoint for good: the tables hold everything, and the query ends with this batch."""
        self._launch.files.write_json(FLUSHED_FILE, {"batch": batch.number}, replace=True)
        self._flushed.set()
        self._stopping.set()

    def _ended(self, seconds: float) -> bool:
        try:
            ended = has_ended(self._query, seconds)
        except StreamingQueryException as error:
            raise self._reason(error) from error
        if ended:
            self._launch.lease.look()
            if self._waker is not None:
                self._waker.close()
        return ended

    def _end(self) -> str | None:
        """Return how the job has ended, None while it runs or is being started: asked by its lease."""
        try:
            over = self._launched.is_set() and has_ended(self._query, 0.01)
        except StreamingQueryException:
            over = True
        return self._state().value if over else None

    def _reason(self, error: BaseException) -> PanekeeperError:
        self._launch.lease.look()
        return translate(self._failure or error, self._launch.name)

    def _state(self) -> JobState:
        if self.finished:
            return JobState.FLUSHED
        if is_running(self._query):
            return JobState.RUNNING
        return JobState.FAILED if self._query.exception() is not None else JobState.ENDED
