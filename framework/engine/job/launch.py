"""Everything a job needs to start its query, and to start it again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import CheckpointError
from framework.engine.job.startup_checks import query_settings, require_no_interrupted_restore
from framework.engine.sink import downtime
from state.checkpoint.control_files import write_control_file
from state.checkpoint.job_record import read_record
from state.checkpoint.reset_intent import read_reset_intent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from framework.engine.flow.pipeline import Pipeline
    from framework.engine.job.lease import Lease
    from framework.engine.session.checkpoint_files import CheckpointFiles
    from framework.engine.sink.batch_output import BatchOutput
    from framework.engine.sink.protocol import JobSink
    from state.checkpoint.job_record import JobRecord


@dataclass(frozen=True, kw_only=True)
class JobLaunch:
    """What is decided when a job starts.

    Attributes:
        files: the job's checkpoint.
        record: what the checkpoint says of the job.
        pipeline: its plan.
        sink: where results go.
        trigger: how its query is triggered, as Spark names it.
        resume_file: number of the control file that its start has written.
        lease: its right to run on the checkpoint.
        started: when it was started, seconds since the epoch.
    """

    files: CheckpointFiles
    record: JobRecord
    pipeline: Pipeline
    sink: JobSink
    trigger: Mapping[str, Any]
    resume_file: int
    lease: Lease
    started: float = field(default_factory=time.time)

    @classmethod
    def resume(
        cls,
        files: CheckpointFiles,
        record: JobRecord,
        pipeline: Pipeline,
        sink: JobSink,
        trigger: Mapping[str, Any],
        lease: Lease,
    ) -> JobLaunch:
        """Write to the control stream that the job resumes, so that what is overdue happens, and return its launch."""
        number = write_control_file(files, "resume")
        return cls(
            files=files, record=record, pipeline=pipeline, sink=sink, trigger=trigger, resume_file=number, lease=lease
        )

    def acquire_lease(self) -> None:
        """Acquire the lease again, if the job has released it, and check that the checkpoint is still the same.

        Raises:
            CheckpointInUse: another job runs there now.
            CheckpointError: the checkpoint was restored or reset meanwhile, or that was begun. Batches of this job
                would have numbers that its tables have as committed already.
        """
        self.lease.acquire()
        try:
            require_no_interrupted_restore(self.files)
            now, then = read_record(self.files), self.record
            same = now is not None and (now.id, now.epoch) == (then.id, then.epoch)
            if not same or read_reset_intent(self.files) is not None:
                raise CheckpointError(
                    f"the checkpoint {self.files.root} was restored or reset since job {self.name!r} was started; "
                    "start the job again by its start(), which reads what is there now"
                )
        except BaseException:
            self.lease.roll_back()
            raise

    def start_query(self, take: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Start the query, which gives each batch of packed rows to `take`, with its number."""
        packed = self.pipeline.packed(self.files, self.record.group_ids)
        writer = packed.writeStream.foreachBatch(take).queryName(self.name)
        with query_settings(self.files):
            return writer.option("checkpointLocation", self.files.root).trigger(**self.trigger).start()

    def commit(
        self,
        packed: DataFrame,
        batch: BatchOutput,
        *,
        open_panes: int,
        started: float,
        downtime: downtime.Downtime | None,
    ) -> None:
        """Step 3 of the commit protocol (`delta_sink.py`), for as long as the job holds its lease."""
        self.sink.commit(
            packed,
            batch,
            open_panes=open_panes,
            started=started,
            require_lease=self.lease.require_held,
            downtime=downtime,
        )

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
        """Return what the time before this start did, if `batch` is the first one after it; None at a first start.

        It is printed on stderr, too.
        """
        previous = self.lease.previous
        if batch.outage is None or previous is None:
            return None
        report = downtime.build_report(
            self.name,
            batch.number,
            stopped_us=previous.seen_us,
            started_us=int(self.started * 1_000_000),
            clean=previous.clean,
            outage=batch.outage,
            late_us=batch.late_us,
        )
        sys.stderr.write(f"\n{report}\n")
        return report
