"""The end of a job: what ends it, whether its query still runs, how it has ended, and what gives its lease back.

A query ends only between two batches (`query.py`): by a command that a batch has processed; as the program stops it; by
a failure; by Spark's own stop() of the query or the session, which is no failure; or because the lease is lost.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.job.query import (
    end_between_batches,
    end_without_spark,
    has_ended,
    has_stopped,
    is_running,
    state_of,
)
from panekeeper.framework.engine.job.shutdown import unattended_jobs
from panekeeper.framework.engine.job.status import JobState
from panekeeper.framework.engine.session.spark_errors import translate
from panekeeper.state.checkpoint.clock import Deadline
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from panekeeper.framework.engine.clock.tick_scheduler import TickScheduler
    from panekeeper.framework.engine.job.callbacks import ReportCallbacks
    from panekeeper.framework.engine.job.lease import Lease

_log = logger("job")


class RunEnd:
    """What ends a run: which of a stop, a drain or a flush was requested, and which has been processed. Thread-safe.

    `last_control_file` is the newest one before this run could be seen; a command until then was one to an earlier run.
    A start that completes a reset begins the numbers again: it is before that of the start in any case.
    """

    def __init__(self, last_control_file: int) -> None:
        self.stopping, self.drained, self.flushed = threading.Event(), threading.Event(), threading.Event()
        self.command_lock = threading.Lock()
        self._last_control_file = last_control_file

    def note(self, *, is_flush: bool, drain_file: int | None) -> bool:
        """Note what a batch has processed: a flush, or this control file with a drain; return whether the run ends."""
        if is_flush:
            self.flushed.set()
        elif (drain_file or 0) > self._last_control_file:
            self.drained.set()
        else:
            return False
        self.stopping.set()
        return True


class RunningQuery:
    """The query that a job runs now, or has run last, and how it has ended. Safe to use from several threads.

    Attributes:
        streaming: Spark's query; there once `has_started` is set.
        has_started: Spark has started it, so `streaming` is the query that runs the batches.
        has_begun_batch: its first batch runs, or has run.
        failure: why the job has failed; None if it has not.
    """

    def __init__(
        self,
        job: str,
        spark: SparkSession,
        lease: Lease,
        end: RunEnd,
        *,
        ticks: TickScheduler,
        callbacks: ReportCallbacks,
    ) -> None:
        self.streaming: StreamingQuery
        self.has_started, self.has_begun_batch = threading.Event(), threading.Event()
        self.failure: BaseException | None = None
        self._job, self._spark = job, spark
        self._lease, self._end = lease, end
        self._ticks, self._callbacks = ticks, callbacks
        self._is_ended_by_spark = False

    def prepare_start(self) -> None:
        """Take note that a query is about to start: what is known of the one before does not hold for it."""
        for event in (self.has_begun_batch, self.has_started, self._end.stopping):
            event.clear()
        self.failure = None

    # While it runs

    def stop(self, deadline: Deadline) -> None:
        """End it after the running batch, and return once it has ended; in a callback of a batch, at once."""
        self._end.stopping.set()
        while not self._callbacks.is_calling() and not self.has_ended(0.01):
            end_between_batches(self.streaming, self._spark)
            deadline.require()

    def note_failure(self, error: BaseException, batch: int) -> None:
        """Take note that a batch has raised, be it because Spark's own stop() has interrupted it. In its thread."""
        self._is_ended_by_spark = not self.streaming.isActive and not self._end.stopping.is_set()
        if self._was_ended_by_spark():
            _log.warning("%s ended in batch %s by Spark's own stop(); its next start goes on with it", self._job, batch)
        else:
            self.failure = error

    def end_after_loss(self, loss: PanekeeperError) -> None:
        """End the job, idle or not. Called by its lease; a job that is being started finds the loss in a batch."""
        self.failure = loss
        if self.has_started.is_set():
            with suppress(PanekeeperError):
                self.stop(Deadline(None))

    # Whether it has ended

    def is_over(self, seconds: float) -> bool:
        """Wait so long for the job to end and say whether it has: no command, as a flush, starts its query again."""
        if not self.has_ended(seconds) or not self._end.command_lock.acquire(timeout=seconds):
            return False
        self._end.command_lock.release()
        return self.has_ended(0.01)

    def has_ended(self, seconds: float) -> bool:
        """Wait so long for the query to end and say whether it has. Raises `PanekeeperError` if the job has failed."""
        unattended_jobs.remove(self)
        self._end_with_session()
        try:
            ended = has_ended(self.streaming, seconds)
        except StreamingQueryException as error:
            if not self._was_ended_by_spark():
                raise self.to_panekeeper_error(error) from None
            ended = True
        if ended:
            self._lease.release_if_ended()
            self._ticks.close()
            if self.failure is not None:
                raise self.to_panekeeper_error(self.failure) from None
        return ended

    def end_state(self) -> str | None:
        """Return how the job has ended, None while it runs, is started or gets a command. Called by its lease."""
        if not self.has_started.is_set() or self._end.command_lock.locked():
            return None
        self._end_with_session()
        if is_running(self.streaming):
            return None
        self._ticks.close()
        state = self.state()
        if state is JobState.FAILED and self.failure is None:
            self.failure = self.streaming.exception()
        return state.value

    def state(self) -> JobState:
        """Return whether the job runs, has ended, has failed, or is finished for good."""
        state = JobState.FLUSHED if self._end.flushed.is_set() else state_of(self.streaming, self.failure)
        is_failure = self.failure is not None or not self._was_ended_by_spark()  # a failure before that remains one
        return JobState.ENDED if state is JobState.FAILED and not is_failure else state

    def to_panekeeper_error(self, error: BaseException) -> PanekeeperError:
        """Return why the job has failed as an error of ours, and release its lease if it has ended."""
        self._lease.release_if_ended()
        return translate(self.failure or error, self._job)

    def _end_with_session(self) -> None:
        """End the query if the program has stopped its session: an idle one does not notice that."""
        if has_stopped(self._spark) and is_running(self.streaming):
            end_without_spark(self.streaming, self._spark)

    def _was_ended_by_spark(self) -> bool:
        """Return whether the program has ended the query, or its session, by Spark's own stop(): no failure."""
        return self._is_ended_by_spark or has_stopped(self._spark)
