"""The running job, which `start()` returns.

It runs the query, passes each batch through the sink, and ends the query only where Spark's two logs agree.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from panekeeper.framework.declarations.display import Displayed
from panekeeper.framework.declarations.durations import Duration, to_seconds
from panekeeper.framework.declarations.errors import (
    CheckpointError,
    DrainTimeout,
    JobNotRunning,
    PanekeeperError,
    without_own_frames,
)
from panekeeper.framework.engine.clock.control_cleanup import ControlCleanup
from panekeeper.framework.engine.clock.tick_scheduler import TickScheduler
from panekeeper.framework.engine.job import query as streaming
from panekeeper.framework.engine.job.batch_journal import BatchContext
from panekeeper.framework.engine.job.callbacks import BatchCallbacks, OnCallbackError
from panekeeper.framework.engine.job.live import Progress, View, described, progress_of
from panekeeper.framework.engine.job.shutdown import await_end, spark_shutdown, unattended_jobs
from panekeeper.framework.engine.job.status import BatchReport, Drained, JobState, RunTotals, StageClock, Status
from panekeeper.framework.engine.session.settings import start_with_settings
from panekeeper.framework.engine.session.spark_errors import (
    BatchFailed,
    is_worker_timeout,
    reported_by_the_job,
    translate,
)
from panekeeper.framework.engine.sink.downtime import Downtime, build_report
from panekeeper.framework.engine.sources.inputs import InputsRecord, inputs_of
from panekeeper.framework.engine.sources.streams import count_files
from panekeeper.state.checkpoint.clock import Deadline, now_us
from panekeeper.state.checkpoint.control_files import ControlKind, remove_unread_flushes, write_control_file
from panekeeper.state.checkpoint.epochs import read_pointer
from panekeeper.state.checkpoint.folder import place_of
from panekeeper.state.checkpoint.job_record import (
    LastSavepoint,
    last_batches,
    read_last_savepoint,
    read_record,
    require_all_batches_committed,
)
from panekeeper.state.checkpoint.lease import PreviousRun
from panekeeper.state.duration_text import duration_text
from panekeeper.state.log import logger
from panekeeper.state.spark_logs import files_of_source, remove_unread_entries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.job.batch_journal import BatchJournal
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.batch_output import BatchOutput
    from panekeeper.state.checkpoint.job_record import JobRecord

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


_started: dict[str, Job] = {}
"""Checkpoint -> the job that this process has started there last."""


def job_of_this_process(checkpoint: str) -> Job | None:
    """Return the job that this process has started last on a checkpoint, whether it runs or not; None: none."""
    return _started.get(place_of(checkpoint))


class Job(Displayed):
    """A windowed stream that is written to Delta tables. Made by `start()`; safe to use from several threads."""

    def __init__(
        self,
        files: CheckpointFiles,
        record: JobRecord,
        pipeline: Pipeline,
        trigger: Mapping[str, Any],
        journal: BatchJournal,
    ) -> None:
        self._resume_file = write_control_file(files, "resume")  # so that what is overdue happens
        self._files = files = files.unchecked()
        self._record, self._pipeline, self._trigger = record, pipeline, trigger
        self._name, self._spark = record.name, files.spark
        self._lease, self._journal = journal.lease, replace(journal, files=files)
        streams = [port.intake.df for port in pipeline.ports]
        self._sources = inputs_of(streams)
        self._inputs = InputsRecord(files.without_java(), self._sources)
        self._files_before: tuple[int, int] | None = None
        self._control_cleanup = ControlCleanup(files)
        self._totals = RunTotals(len(record.group_ids))
        self._logged_errors: set[tuple[str, str]] = set()
        self._callbacks = BatchCallbacks(record.name)
        self._query_started, self._first_batch_started = threading.Event(), threading.Event()
        self._end = RunEnd(min(self._lease.last_control_file, self._resume_file - 1))
        self._failure: BaseException | None = None
        self._is_ended_by_spark = False
        self._tick_scheduler = TickScheduler(files, on_outage=self._note_outage)
        if pipeline.uses_wall_clock and "availableNow" not in trigger:
            self._tick_scheduler.start()
        self._last_control_file: int | None = None
        self._downtime: Downtime | None = None
        self._lease.set_job(self._end_state, self._end_after_loss)
        self._lease.set_report(self.report)
        self._start_query()
        _started[place_of(files.root)] = self
        unattended_jobs.add(self)
        spark_shutdown.add(self, files.spark)

    @property
    def finished(self) -> bool:
        """Whether the job was flushed: its windows are closed and its tables complete, for good."""
        return self._end.flushed.is_set()

    @property
    def running(self) -> bool:
        """Whether it processes what its sources get: it has not ended, and has not failed."""
        return self._end_state() is None

    def is_declared_as(self, pipeline: Pipeline, tables: Mapping[str, str | None], trigger: Mapping[str, Any]) -> bool:
        """Return whether a declaration is that of this job. Code of operators and functions is not compared."""
        same = self._pipeline.declaration() == pipeline.declaration() and self._trigger == trigger
        return same and dict(self._journal.declared) == dict(tables)

    @property
    def checkpoint(self) -> str:
        """Full path or URL of the checkpoint folder, as `savepoint()` and the commands take it."""
        return self._files.root

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
        return await_end(self._is_over, streaming.to_deadline(timeout), drain=self.drain, stop=self.stop)

    @without_own_frames
    def process_available(self) -> None:
        """Wait until all that the source has at this call is processed. Raises `PanekeeperError` as `await_end`."""
        if "availableNow" in self._trigger:
            self.await_end()
            return
        try:
            self._query.processAllAvailable()
        except Exception as error:  # noqa: BLE001 -- raised again, as ours
            if not self._has_ended(0.01):
                raise self._to_panekeeper_error(error) from None

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
        self._callbacks.require_outside("flush")
        with self._command(deadline := Deadline(None)):
            if not self.finished:
                self._acquire_lease()  # it has released its lease if it has ended
                self._process_what_is_there(deadline)
                self._run_command("flush", self._end.flushed, deadline)

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
        deadline = streaming.to_deadline(timeout)
        self._callbacks.require_outside("drain")
        try:
            with self._command(deadline):
                if self._has_ended(0.01):
                    name, batch = self._name, self._totals.batch
                    raise JobNotRunning(f"job {name!r} ended after batch {batch}: nothing to drain; start() resumes it")
                self._end.drained.clear()
                self._run_command("drain", self._end.drained, deadline)
        except TimeoutError as error:
            what = (
                f"job {self._name!r} has not drained within {duration_text(deadline.seconds)}; it ends with its batch"
            )
            raise DrainTimeout(f"{what}; if it is killed before, it resumes with that batch") from error
        require_all_batches_committed(self._files)
        return self._totals.drained(self._name)

    @without_own_frames
    def stop(self) -> None:
        """End the job after the running batch; it resumes from there at the next start.

        Returns once the query has ended and its last batch is committed; in a callback, at once. Raises as `await_end`.
        """
        self._stop(Deadline(None))

    def _stop(self, deadline: Deadline) -> None:
        self._end.stopping.set()
        while not self._callbacks.is_calling() and not self._has_ended(0.01):
            streaming.end_between_batches(self._query, self._spark)
            deadline.require()

    def status(self) -> Status:
        """Return the job's state and counts, without waiting."""
        return self._totals.status(self._name, self._state(), self._tick_scheduler.failure)

    def progress(self) -> Progress:
        """Return how far the job is with what its sources hold, as a bar: for a long backlog. Does not wait.

        Of Kafka the rows that are left are known, of folders the files; of other sources, or of both, nothing. The time
        that is left follows from the rows of the last minute.
        """
        status, said = self.status(), self.report()["progress"]
        files = self._count_files()
        if files is not None and self._files_before is None:
            is_whole = status.batch is not None and status.batch + 1 == status.batches  # this run has read all of them
            self._files_before = (0, 0) if is_whole else (files[0], status.rows)
        return progress_of(
            status,
            said["rows_per_second"],
            kinds=[one.kind for one in self._sources],
            rows_left=said.get("rows_behind"),
            files=files,
            before=self._files_before or (0, 0),
        )

    def _count_files(self) -> tuple[int, int] | None:
        """Return how many files the sources have read, and how many there are; None if one is no folder, or is away."""
        if any(one.kind != "files" for one in self._sources) or streaming.has_stopped(self._spark):
            return None
        folder = self._files.without_java()
        try:
            read = sum(sum(1 for _ in files_of_source(folder, number)) for number in range(len(self._sources)))
            return read, sum(count_files(self._spark, one.place) for one in self._sources)
        except Exception:  # noqa: BLE001 -- a store that is away must not end what is only looked at
            return None

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
            return self._is_over(seconds)

        try:
            return await_end(is_over, streaming.to_deadline(timeout), drain=self.drain, stop=self.stop)
        finally:
            view.end()

    def _described(self) -> tuple[str, dict[str, Any]]:
        progress = self.progress() if self.running else None
        return described(self.status(), self.checkpoint, now=now_us(), report=self.report(), progress=progress)

    def report(self) -> dict[str, Any]:
        """Return what the job reports of itself: batch, open and progress (`RunTotals.report`), and why it failed."""
        spark = asdict(streaming.query_progress(self._query)) if self._query_started.is_set() else {}
        failure = self._failure
        error = {} if failure is None else {"error": str(translate(failure, self._name))}
        return self._totals.report(spark, self._tick_scheduler.failure) | error

    def last_savepoint(self) -> LastSavepoint | None:
        """Return the newest savepoint of the checkpoint; None: there is none."""
        return read_last_savepoint(self._files)

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

    @contextmanager
    def _command(self, deadline: Deadline) -> Iterator[None]:
        """Carry out a command in this block, one at a time, and let no thread release the lease meanwhile."""
        try:
            with deadline.acquire(self._end.command_lock):
                yield
        finally:
            self._lease.release_if_ended()

    def _acquire_lease(self) -> None:
        """Acquire the lease again, if the job has released it; refuse a checkpoint that is not the same any more.

        It may have been restored or reset, or another run has been on it, which may have other tables.
        """
        self._lease.acquire()
        try:
            current, now, then = read_pointer(self._files.checkpoint), read_record(self._files), self._record
            same = current is not None and current.epoch == then.epoch
            same = same and now is not None and (now.id, now.declaration) == (then.id, then.declaration)
            if not same or not self._lease.is_continued:
                raise CheckpointError(
                    f"the checkpoint {self._files.root} was restored or reset since job {self._name!r} was started, or "
                    "another run has been on it; start the job again by its start(), which reads what is there now"
                )
        except BaseException:
            self._lease.roll_back()
            raise

    def _process_what_is_there(self, deadline: Deadline) -> None:
        """End the query, process in another one what the sources hold now, and return once that one has ended."""
        self._stop(deadline)
        self._trigger = streaming.trigger_options("available_now")
        while self._end.stopping.is_set() and not self.finished:  # a stop or drain meanwhile would leave rows
            self._start_query()
            while not self._has_ended(0.2):
                deadline.require()

    def _run_command(self, kind: ControlKind, done: threading.Event, deadline: Deadline) -> None:
        """Write a command and wait until a batch has processed it and the query has ended. Raises `TimeoutError`."""
        if not done.is_set():
            self._acquire_lease()
            self._lease.require_held()  # any run that reads a command follows it
            write_control_file(self._files, kind)
        if self._trigger.get("processingTime", "0 seconds") != "0 seconds":  # idle until then; the loop starts it again
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
            self._acquire_lease()
            try:
                if self._is_over_with_last_batch():
                    return
                self._query = self._begin_query()
            except Exception as error:  # noqa: BLE001 -- as above
                self._failure = error
                self._lease.release(JobState.FAILED.value)
                raise self._to_panekeeper_error(error) from None
            self._query_started.set()
            try:
                streaming.wait_for_first_batch(self._query, self._first_batch_started)
            except StreamingQueryException as error:
                if attempt < streaming.MAX_ATTEMPTS and is_worker_timeout(error):
                    continue
                raise self._to_panekeeper_error(error) from None
            return

    def _begin_query(self) -> StreamingQuery:
        """Start the query. Raises `CheckpointInUse` if the lease is lost."""
        self._lease.require_held()
        self._inputs.before_query()
        folder, held = self._files.without_java(), self._lease.require_held
        for file in remove_unread_entries(folder, held):
            _log.info("%s is removed: the process was killed before a batch read what it names", file)
        for file in remove_unread_flushes(folder, held, before=self._resume_file):
            _log.warning("%s is removed: the run that was to be flushed ended before that; flush the job again", file)
        packed = self._pipeline.packed(self._files, self._record.group_ids)
        writer = packed.writeStream.foreachBatch(self._process_batch).queryName(self._name)

        def start() -> StreamingQuery:
            self._lease.require_held()
            return writer.option("checkpointLocation", self._files.place).trigger(**self._trigger).start()

        return start_with_settings(start, self._files, self._record.settings)

    def _process_batch(self, packed: DataFrame, number: int) -> None:
        """Steps 2 to 4 of the commit protocol (`batch_journal.py`); called by Spark between 1 and 5."""
        self._query_started.wait()  # from here on `self._query` is the query that runs this batch
        self._first_batch_started.set()
        try:
            self._lease.require_held()  # whoever has taken over reads the state
            self._inputs.before_reading()
            if self._last_control_file is not None:  # the batch that has read it is committed now
                query = None if "availableNow" in self._trigger else self._query
                self._control_cleanup.remove_processed(self._last_control_file, query)
            with reported_by_the_job(), self._callbacks.in_batch(number):
                self._commit(packed.persist(), number)
        except BaseException as error:  # noqa: BLE001 -- it is raised again where the job is awaited
            self._is_ended_by_spark = not self._query.isActive and not self._end.stopping.is_set()
            if self._was_ended_by_spark():
                _log.warning(
                    "%s ended in batch %s by Spark's own stop(); its next start goes on with it", self._name, number
                )
            else:
                self._failure = error
            raise BatchFailed(f"batch {number} of job {self._name} failed") from None

    def _commit(self, packed: DataFrame, number: int) -> None:
        started_us, clock = now_us(), StageClock()

        def describe(batch: BatchOutput) -> BatchContext:
            clock.end("plan")
            report = self._downtime_report(batch)
            self._downtime = report or self._downtime
            open_panes = self._totals.open_panes_after(batch)
            state_bytes = streaming.query_progress(self._query).state_bytes
            return BatchContext(started_us=started_us, open_panes=open_panes, state_bytes=state_bytes, downtime=report)

        try:
            spec = self._pipeline.spec
            batch = self._journal.run(packed, number, self._query, spec, describe)
            clock.end("tables")
        finally:
            packed.unpersist()
        self._record_run(batch)
        self._end.note(is_flush=batch.flushed, drain_file=batch.last_drain_file)
        self._last_control_file = batch.last_control_file
        for one in batch.errors:
            if (one.reason, one.kind) not in self._logged_errors:
                self._logged_errors.add((one.reason, one.kind))
                _log.error("the first %s, in batch %s of job %s: %s", one.reason, number, self._name, one.first)
        self._callbacks.notify(self._totals.add(batch, clock))
        self._tick_scheduler.schedule(self._totals.next_due())
        if self._end.stopping.is_set():
            streaming.end_after_batch(self._query, self._spark)

    def _downtime_report(self, batch: BatchOutput) -> Downtime | None:
        """Return and log what the time before this start did, if `batch` is the first after it; None at the first."""
        previous = self._lease.previous
        if batch.outage is None or batch.resumed_us is None or previous is None:
            return None
        report = build_report(
            self._name,
            batch.number,
            stopped_us=previous.seen_us,
            started_us=batch.resumed_us,
            clean=previous.clean,
            outage=batch.outage,
            late_us=batch.late_us,
        )
        _log.info("%s", report)
        return report

    def _note_outage(self, well_until_us: int) -> None:
        """Note for the downtime report that the process was suspended, or its clock was set.

        All was well until this time. If another job has taken over meanwhile, its control stream is not written to.
        """
        self._lease.require_held()
        self._lease.set_previous(PreviousRun.at(self._name, well_until_us))

    def _record_run(self, batch: BatchOutput) -> None:
        """Record for the next downtime report that this run, or an aborted start before it, has committed a batch.

        A batch that an aborted start had begun is run again with the time of that start, and reported as such.
        """
        if batch.last_resume_file is not None and batch.resumed_us is not None:
            aborted = PreviousRun.at(self._name, batch.resumed_us)
            self._lease.set_previous(None if batch.last_resume_file >= self._resume_file else aborted)

    def _is_over_with_last_batch(self) -> bool:
        """Complete a batch of this run that was interrupted, as a start does; return whether the job ends with it."""
        begun, committed = last_batches(self._files.without_java())
        batch = None if begun == committed else self._journal.complete()
        if batch is None or not self._end.note(is_flush=batch.is_flush, drain_file=batch.drain_file):
            return False
        self._lease.release(self._state().value)
        return True

    def _is_over(self, seconds: float) -> bool:
        """Wait so long for the job to end and say whether it has: no command, as a flush, starts its query again."""
        if not self._has_ended(seconds) or not self._end.command_lock.acquire(timeout=seconds):
            return False
        self._end.command_lock.release()
        return self._has_ended(0.01)

    def _has_ended(self, seconds: float) -> bool:
        unattended_jobs.remove(self)
        self._end_with_session()
        try:
            ended = streaming.has_ended(self._query, seconds)
        except StreamingQueryException as error:
            if not self._was_ended_by_spark():
                raise self._to_panekeeper_error(error) from None
            ended = True
        if ended:
            self._lease.release_if_ended()
            self._tick_scheduler.close()
            if self._failure is not None:
                raise self._to_panekeeper_error(self._failure) from None
        return ended

    def _end_with_session(self) -> None:
        """End the query if the program has stopped its session: an idle one does not notice that."""
        if streaming.has_stopped(self._spark) and streaming.is_running(self._query):
            streaming.end_without_spark(self._query, self._spark)

    def _was_ended_by_spark(self) -> bool:
        """Return whether the program has ended the query, or its session, by Spark's own stop(): no failure."""
        return self._is_ended_by_spark or streaming.has_stopped(self._spark)

    def _end_after_loss(self, loss: PanekeeperError) -> None:
        """End the job, idle or not. Called by its lease; a job that is being started finds the loss in a batch."""
        self._failure = loss
        if self._query_started.is_set():
            with suppress(PanekeeperError):
                self._stop(Deadline(None))

    def _end_state(self) -> str | None:
        """Return how the job has ended, None while it runs, is started or gets a command. Called by its lease."""
        if not self._query_started.is_set() or self._end.command_lock.locked():
            return None
        self._end_with_session()
        if streaming.is_running(self._query):
            return None
        self._tick_scheduler.close()
        state = self._state()
        if state is JobState.FAILED and self._failure is None:
            self._failure = self._query.exception()
        return state.value

    def _to_panekeeper_error(self, error: BaseException) -> PanekeeperError:
        self._lease.release_if_ended()
        return translate(self._failure or error, self._name)

    def _state(self) -> JobState:
        state = JobState.FLUSHED if self.finished else streaming.state_of(self._query, self._failure)
        is_failure = self._failure is not None or not self._was_ended_by_spark()  # a failure before that remains one
        return JobState.ENDED if state is JobState.FAILED and not is_failure else state
