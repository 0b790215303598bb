"""A run of a job: its query is started, passes each batch through the journal, and is started again if that is needed.

It is started again where a Python worker was too slow to come up, and for a command that the job gets when its query
has ended (`commands.py`). Spark calls `JobRun` in the query's thread; other threads read what the run knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.job.batch_journal import MetricsContext
from panekeeper.framework.engine.job.first_errors import FirstErrors
from panekeeper.framework.engine.job.query import (
    MAX_ATTEMPTS,
    end_after_batch,
    query_progress,
    wait_for_first_batch,
)
from panekeeper.framework.engine.job.status import JobState, StageClock
from panekeeper.framework.engine.session.settings import start_with_settings
from panekeeper.framework.engine.session.spark_errors import (
    BatchFailed,
    is_worker_timeout,
    reported_by_the_job,
    translate,
)
from panekeeper.framework.engine.sink.downtime import Downtime, build_report
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.control_files import remove_unread_flushes
from panekeeper.state.checkpoint.epochs import read_pointer
from panekeeper.state.checkpoint.job_record import last_batches, read_record
from panekeeper.state.checkpoint.runs import PreviousRun
from panekeeper.state.log import logger
from panekeeper.state.spark_logs import remove_unread_entries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from panekeeper.framework.engine.clock.control_cleanup import ControlCleanup
    from panekeeper.framework.engine.clock.tick_scheduler import TickScheduler
    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.job.batch_journal import BatchJournal
    from panekeeper.framework.engine.job.callbacks import ReportCallbacks
    from panekeeper.framework.engine.job.ending import RunEnd, RunningQuery
    from panekeeper.framework.engine.job.lease import Lease
    from panekeeper.framework.engine.job.status import RunTotals
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.batch_output import BatchOutput
    from panekeeper.framework.engine.sources.inputs import InputsRecord
    from panekeeper.state.checkpoint.job_record import JobRecord

_log = logger("job")


@dataclass(kw_only=True, eq=False, repr=False)
class JobRun:
    """What a job runs with, and what is known of its run. Made by a start (`start.run_job`).

    Attributes:
        files: the folder of the epoch; the run looks at the lease itself.
        trigger: as Spark names it; a flush processes what is available.
        resume_file: number of the control file with which the run began.
        inputs: records what the sources read.
        cleanup: removes processed control files.
        downtime: what happened while the job was down; None at a first start, and before the first batch.
    """

    files: CheckpointFiles
    record: JobRecord
    pipeline: Pipeline
    trigger: Mapping[str, Any]
    journal: BatchJournal
    lease: Lease
    resume_file: int
    inputs: InputsRecord
    cleanup: ControlCleanup
    ticks: TickScheduler
    callbacks: ReportCallbacks
    first_errors: FirstErrors
    totals: RunTotals
    end: RunEnd
    query: RunningQuery
    downtime: Downtime | None = None
    _last_control_file: int | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return self.record.name

    def report(self) -> dict[str, Any]:
        """Return what the job reports of itself: batch, open and progress (`RunTotals.report`), and why it failed."""
        spark = asdict(query_progress(self.query.streaming)) if self.query.has_started.is_set() else {}
        failure = self.query.failure
        error = {} if failure is None else {"error": str(translate(failure, self.name))}
        return self.totals.report(spark, self.ticks.failure) | error

    # The start of a query

    def start_query(self) -> None:
        """Start the query and return once its first batch has begun; try again if a Python worker was slow."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            self.query.prepare_start()
            self.acquire_lease()
            try:
                if self._is_over_with_last_batch():
                    return
                self.query.streaming = self._begin_query()
            except Exception as error:  # noqa: BLE001 -- raised again, as ours
                self.query.failure = error
                self.lease.release(JobState.FAILED.value)
                raise self.query.to_panekeeper_error(error) from None
            self.query.has_started.set()
            try:
                wait_for_first_batch(self.query.streaming, self.query.has_begun_batch)
            except StreamingQueryException as error:
                if attempt < MAX_ATTEMPTS and is_worker_timeout(error):
                    continue
                raise self.query.to_panekeeper_error(error) from None
            return

    def acquire_lease(self) -> None:
        """Acquire the lease again, if the job has released it; refuse a checkpoint that is not the same any more.

        It may have been restored or reset, or another run has been on it, which may have other tables.
        """
        self.lease.acquire()
        try:
            current, now, then = read_pointer(self.files.checkpoint), read_record(self.files), self.record
            same = current is not None and current.epoch == then.epoch
            same = same and now is not None and (now.id, now.declaration) == (then.id, then.declaration)
            if not same or not self.lease.is_continued:
                raise CheckpointError(
                    f"the checkpoint {self.files.root} was restored or reset since job {self.name!r} was started, or "
                    "another run has been on it; start the job again by its start(), which reads what is there now"
                )
        except BaseException:
            self.lease.roll_back()
            raise

    def _is_over_with_last_batch(self) -> bool:
        """Complete a batch of this run that was interrupted, as a start does; return whether the job ends with it."""
        begun, committed = last_batches(self.files)
        batch = None if begun == committed else self.journal.complete()
        if batch is None or not self.end.note(is_flush=batch.is_flush, drain_file=batch.drain_file):
            return False
        self.lease.release(self.query.state().value)
        return True

    def _begin_query(self) -> StreamingQuery:
        """Start the query. Raises `CheckpointInUse` if the lease is lost."""
        require_held = self.lease.require_held
        # 1  The inputs are recorded before Spark has begun a batch: a kill may come as soon as it has.
        require_held()
        self.inputs.before_query()

        # 2  What an earlier run has left that no batch has read is removed, and found or given anew.
        for file in remove_unread_entries(self.files, require_held):
            _log.info("%s is removed: the process was killed before a batch read what it names", file)
        for file in remove_unread_flushes(self.files, require_held, before=self.resume_file):
            _log.warning("%s is removed: the run that was to be flushed ended before that; flush the job again", file)

        # 3  Spark starts the query: from here on batches run, in its thread.
        packed = self.pipeline.packed(self.files, self.record.group_ids)
        writer = packed.writeStream.foreachBatch(self._process_batch).queryName(self.name)

        def start() -> StreamingQuery:
            require_held()
            return writer.option("checkpointLocation", self.files.place).trigger(**self.trigger).start()

        return start_with_settings(start, self.files, self.record.settings)

    # A batch, in the thread of the query

    def _process_batch(self, packed: DataFrame, number: int) -> None:
        """Steps 2 to 4 of the commit protocol (`batch_journal.py`); called by Spark between 1 and 5."""
        self.query.has_started.wait()  # from here on `streaming` is the query that runs this batch
        self.query.has_begun_batch.set()
        try:
            self.lease.require_held()  # whoever has taken over reads the state
            self.inputs.before_reading()
            if self._last_control_file is not None:  # the batch that has read it is committed now
                listing = None if "availableNow" in self.trigger else self.query.streaming
                self.cleanup.remove_processed(self._last_control_file, listing)
            with reported_by_the_job(), self.callbacks.in_batch(number):
                self._commit(packed.persist(), number)
        except BaseException as error:  # noqa: BLE001 -- it is raised again where the job is awaited
            self.query.note_failure(error, number)
            raise BatchFailed(f"batch {number} of job {self.name} failed") from None

    def _commit(self, packed: DataFrame, number: int) -> None:
        started_us, clock = now_us(), StageClock()

        def describe(batch: BatchOutput) -> MetricsContext:
            clock.end("plan")
            report = self._downtime_report(batch)
            self.downtime = report or self.downtime
            open_panes = self.totals.open_panes_after(batch)
            state_bytes = query_progress(self.query.streaming).state_bytes
            return MetricsContext(
                started_us=started_us, open_panes=open_panes, state_bytes=state_bytes, downtime=report
            )

        try:
            batch = self.journal.run(packed, number, self.query.streaming, self.pipeline.spec, describe)
            clock.end("tables")
        finally:
            packed.unpersist()
        self._record_run(batch)
        self.end.note(is_flush=batch.flushed, drain_file=batch.drain_file)
        self._last_control_file = batch.control_file
        self.first_errors.tell(number, batch.errors)
        self.callbacks.notify(self.totals.add(batch, clock))
        self.ticks.schedule(self.totals.next_due())
        if self.end.stopping.is_set():
            end_after_batch(self.query.streaming, self.files.spark)

    def _downtime_report(self, batch: BatchOutput) -> Downtime | None:
        """Return and log what the time before this start did, if `batch` is the first after it; None at the first."""
        previous = self.lease.previous
        if batch.outage_counts is None or batch.resumed_us is None or previous is None:
            return None
        report = build_report(
            self.name,
            batch.number,
            stopped_us=previous.seen_us,
            started_us=batch.resumed_us,
            clean=previous.clean,
            outage=batch.outage_counts,
            late_us=batch.late_us,
        )
        _log.info("%s", report)
        return report

    def _record_run(self, batch: BatchOutput) -> None:
        """Record for the next downtime report that this run, or an aborted start before it, has committed a batch.

        A batch that an aborted start had begun is run again with the time of that start, and reported as such.
        """
        if batch.resume_file is not None and batch.resumed_us is not None:
            aborted = PreviousRun.at(self.name, batch.resumed_us)
            self.lease.set_previous(None if batch.resume_file >= self.resume_file else aborted)
