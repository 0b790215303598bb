"""Everything a job needs to start its query, and to start it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.clock.control_cleanup import ControlCleanup
from panekeeper.framework.engine.clock.tick_scheduler import TickScheduler
from panekeeper.framework.engine.job.query import trigger_options
from panekeeper.framework.engine.session.settings import start_with_settings
from panekeeper.framework.engine.sink import downtime
from panekeeper.framework.engine.sources.inputs import InputsRecord, inputs_of
from panekeeper.framework.engine.sources.topics import topics_read
from panekeeper.state.checkpoint.control_files import ControlKind, remove_unread_flushes, write_control_file
from panekeeper.state.checkpoint.epochs import read_pointer
from panekeeper.state.checkpoint.job_record import last_batches, read_record
from panekeeper.state.checkpoint.lease import PreviousRun
from panekeeper.state.log import logger
from panekeeper.state.spark_logs import remove_unread_entries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.job.batch_journal import BatchJournal
    from panekeeper.framework.engine.job.lease import Lease
    from panekeeper.framework.engine.job.status import JobState
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.batch_output import BatchOutput
    from panekeeper.state.checkpoint.job_record import JobRecord
    from panekeeper.state.prepared import PreparedBatch


_log = logger("job")


@dataclass(frozen=True, kw_only=True)
class JobLaunch:
    """What is decided when a job starts.

    Attributes:
        files: the job's checkpoint.
        record: what the checkpoint says of the job.
        pipeline: its plan.
        trigger: how its query is triggered, as Spark names it.
        resume_file: number of the control file that its start has written.
        lease: its right to run on the checkpoint.
        journal: takes its batches into the tables.
        control_cleanup: removes what its batches have processed of the control stream.
        inputs: records what its sources read.
    """

    files: CheckpointFiles
    record: JobRecord
    pipeline: Pipeline
    trigger: Mapping[str, Any]
    resume_file: int
    lease: Lease
    journal: BatchJournal
    control_cleanup: ControlCleanup
    inputs: InputsRecord

    @classmethod
    def resume(
        cls,
        files: CheckpointFiles,
        record: JobRecord,
        pipeline: Pipeline,
        trigger: Mapping[str, Any],
        journal: BatchJournal,
    ) -> JobLaunch:
        """Write to the control stream that the job resumes, so that what is overdue happens, and return its launch."""
        number = write_control_file(files, "resume")
        files = files.unchecked()
        streams = [port.intake.df for port in pipeline.ports]
        return cls(
            files=files,
            record=record,
            pipeline=pipeline,
            trigger=trigger,
            resume_file=number,
            lease=journal.lease,
            journal=replace(journal, files=files),
            control_cleanup=ControlCleanup(files),
            inputs=InputsRecord(
                files.without_java(), inputs_of(streams), topics_read(streams), journal.lease.require_held
            ),
        )

    def acquire_lease(self) -> None:
        """Acquire the lease again, if the job has released it, and check that the checkpoint is still the same.

        Raises:
            CheckpointInUse: another job runs there now.
            CheckpointError: the checkpoint was restored or reset meanwhile, or that was begun, or another run has been
                on it, which may have other tables.
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

    def command(self, kind: ControlKind) -> None:
        """Write a command to the control stream: only of its own run, as any run that reads it follows it.

        Raises:
            CheckpointInUse: another job runs there now. So as for `acquire_lease`.
        """
        self.acquire_lease()
        self.lease.require_held()
        write_control_file(self.files, kind)

    def start_query(self, take: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Start the query, which gives each batch of packed rows to `take`, with its number.

        Raises:
            CheckpointInUse: the lease is lost.
        """
        self.lease.require_held()
        self.inputs.before_query()
        self._remove_unread()
        packed = self.pipeline.packed(self.files, self.record.group_ids)
        writer = packed.writeStream.foreachBatch(take).queryName(self.name)

        def start() -> StreamingQuery:
            self.lease.require_held()
            return writer.option("checkpointLocation", self.files.place).trigger(**self.trigger).start()

        return start_with_settings(start, self.files, self.record.settings)

    def complete_batch(self) -> PreparedBatch | None:
        """Complete the batch that was begun last, as a start does, for one more query of this run; return it.

        None: it is committed, or has to be run again.
        """
        begun, committed = last_batches(self.files.without_java())
        return None if begun == committed else self.journal.complete()

    def _remove_unread(self) -> None:
        folder = self.files.without_java()
        held = self.lease.require_held
        for file in remove_unread_entries(folder, held):
            _log.info("%s is removed: the process was killed before a batch read what it names", file)
        for file in remove_unread_flushes(folder, held, before=self.resume_file):
            _log.warning("%s is removed: the run that was to be flushed ended before that; flush the job again", file)

    def for_what_is_there(self) -> JobLaunch:
        """Return how to process what the sources hold at a start, in as many batches as their limits need."""
        return replace(self, trigger=trigger_options("available_now"))

    def start_ticks(self) -> TickScheduler:
        """Return what writes the ticks of the wall clock, which runs if the windows wait for them."""
        scheduler = TickScheduler(self.files, on_outage=self.note_outage)
        return scheduler.start() if self.needs_ticks else scheduler

    def begin_batch(self, number: int, last_control_file: int | None, query: StreamingQuery) -> None:
        """Begin a batch if the job still holds its lease: state that another job would read must not be written.

        Args:
            number: of the batch.
            last_control_file: the last one that the batch before has read, which is committed now; those before it
                are removed. None if there is none.
            query: the one that runs the batch.
        """
        self.lease.require_held()
        self.inputs.before_reading(number)
        if last_control_file is not None:
            self.control_cleanup.remove_processed(last_control_file, None if "availableNow" in self.trigger else query)

    def end_run(self, state: JobState) -> str:
        """End the run; return its state as the lease takes it, which must be held."""
        self.inputs.close()
        return state.value

    @property
    def name(self) -> str:
        """The job's name."""
        return self.record.name

    @property
    def needs_ticks(self) -> bool:
        """Whether the windows of this run wait for instants of the wall clock."""
        return self.pipeline.uses_wall_clock and "availableNow" not in self.trigger

    @property
    def has_trigger_interval(self) -> bool:
        """Whether the query is idle between batches even if there are rows."""
        return bool(self.trigger.get("processingTime", "0 seconds") != "0 seconds")

    def downtime_report(self, batch: BatchOutput) -> downtime.Downtime | None:
        """Return and log what the time before this start did, if `batch` is the first after it; None at the first."""
        previous = self.lease.previous
        if batch.outage is None or batch.resumed_us is None or previous is None:
            return None
        report = downtime.build_report(
            self.name,
            batch.number,
            stopped_us=previous.seen_us,
            started_us=batch.resumed_us,
            clean=previous.clean,
            outage=batch.outage,
            late_us=batch.late_us,
        )
        _log.info("%s", report)
        return report

    def note_outage(self, well_until_us: int) -> None:
        """Note for the downtime report that the process was suspended, or its clock was set, while the job ran.

        Args:
            well_until_us: the last time at which it is known to have run, us since the epoch.

        Raises:
            CheckpointInUse: another job has taken over meanwhile; its control stream is not written to.
        """
        self.lease.require_held()
        self.lease.set_previous(PreviousRun.at(self.name, well_until_us))

    def record_run(self, batch: BatchOutput) -> None:
        """Record for the next downtime report that this run, or an aborted start before it, has committed a batch.

        A batch that an aborted start had begun is run again with the time of that start, and reported as such.
        """
        if batch.last_resume_file is None or batch.resumed_us is None:
            return
        aborted = PreviousRun.at(self.name, batch.resumed_us)
        self.lease.set_previous(None if batch.last_resume_file >= self.resume_file else aborted)
