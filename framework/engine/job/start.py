"""The start of a job, step by step.

    1  Read which epoch of the checkpoint is current. A new folder begins with epoch 0.
    2  Claim the lease in the folder of that epoch: one job at a time (`lease.py`).
    3  Read it again. A restore or a reset may have begun another epoch just before: then begin again there.
    4  Do what is left of what began the epoch: tables go where the checkpoint is (`roll_forward.py`).
       A checkpoint that was renamed, moved, or is reached by a link gets its present name in Spark's own files.
    5  A new folder gets the record of its job (`declaration_record.py`). In any other check that the declaration fits
       (`checkpoint_checks.py`), and complete the last batch, if it was recorded and not completed (`batch_journal.py`).
    6  Check that sources and tables fit the checkpoint (`sources/inputs.py`, `table_checks.py`), make the tables that
       are new, and take all (`take_tables.py`). A view that a restore has found gone is made again (`view_again.py`).
    7  Begin the run (`run.py`): from its control file on, what is overdue happens; the query starts.

If a step fails, the lease is put back as it was. What was done may be done again by the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.clock.control_cleanup import ControlCleanup
from panekeeper.framework.engine.clock.tick_scheduler import TickScheduler
from panekeeper.framework.engine.job.backlog import Backlog
from panekeeper.framework.engine.job.batch_journal import BatchJournal
from panekeeper.framework.engine.job.callbacks import ReportCallbacks
from panekeeper.framework.engine.job.checkpoint_checks import (
    check_session,
    require_not_foreign,
    require_separate_folders,
)
from panekeeper.framework.engine.job.commands import JobCommands
from panekeeper.framework.engine.job.declaration_record import (
    record_to_go_on_with,
    with_history,
    without_columns_of_no_table,
)
from panekeeper.framework.engine.job.ending import RunEnd, RunningQuery
from panekeeper.framework.engine.job.first_errors import FirstErrors
from panekeeper.framework.engine.job.job import Job, started_jobs
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.framework.engine.job.roll_forward import roll_forward
from panekeeper.framework.engine.job.run import JobRun
from panekeeper.framework.engine.job.shutdown import spark_shutdown, unattended_jobs
from panekeeper.framework.engine.job.status import RunTotals
from panekeeper.framework.engine.job.table_checks import (
    require_tables_of_start,
    table_record,
    tables_of_last_batch,
)
from panekeeper.framework.engine.job.take_tables import take_tables
from panekeeper.framework.engine.job.view_again import make_views_again, with_logs_unlike_views
from panekeeper.framework.engine.session.checkpoint_files import HeldFiles
from panekeeper.framework.engine.session.spark_errors import first_line, translate_full_disk
from panekeeper.framework.engine.sink.table_writer import TableWriter
from panekeeper.framework.engine.sink.tables import check_tables, create_tables, require_no_rows
from panekeeper.framework.engine.sources.functions import prepare_functions
from panekeeper.framework.engine.sources.inputs import (
    InputsRecord,
    inputs_of,
    require_same_inputs,
    require_topics_named,
)
from panekeeper.framework.engine.sources.streams import require_bounded_batch
from panekeeper.state.checkpoint.control_files import write_control_file
from panekeeper.state.checkpoint.epochs import (
    Pointer,
    create_pointer,
    epoch_folder,
    read_pointer,
    require_no_later_epoch,
    switch,
)
from panekeeper.state.checkpoint.folder import place_of
from panekeeper.state.checkpoint.job_record import PortDelay, is_new, read_record, read_tables, write_ports
from panekeeper.state.log import logger
from panekeeper.state.own_paths import follow
from panekeeper.state.spark_logs import found_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.flow.intake import Intake
    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.tables import TableLayout, Tables
    from panekeeper.framework.engine.user_sinks.protocol import Sink
    from panekeeper.state.checkpoint.job_record import Input, JobRecord


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a program says of a job that it starts.

    Of a table that the catalog does not have yet, `tables` has the name; `make_tables` makes such, and returns all by
    their folders. It is called with what the job writes, and role -> folder of the tables that it has written to.
    """

    pipeline: Pipeline
    tables: Tables
    make_tables: Callable[[SparkSession, JobSpec, Mapping[str, str]], Tables]
    layout: TableLayout | None
    sink: Sink | None
    trigger: Mapping[str, Any]


def start_job(root: CheckpointFiles, start: Start) -> Job:
    """Start a job, or resume it from its checkpoint. Raises as `DeltaJob.start`."""
    name, tables = start.pipeline.intake.name, start.tables
    check_session(root.spark, [root.root, *filter(None, tables.by_role.values())])
    for port in start.pipeline.ports:
        prepare_functions(port.intake.df)
    require_separate_folders(root.root, tables.by_role)
    if not _names(root):
        require_no_rows(root.spark, tables)  # before the lease makes the folder: its volume may be missing
    with translate_full_disk(name), lease_of_current_epoch(root, name) as (files, lease):  # 1 to 3
        return start_on_epoch(files, lease, start)  # 4 to 7


def _names(root: CheckpointFiles) -> list[str]:
    """Return what is in the folder of a checkpoint. Raises `CheckpointError` where it cannot be reached."""
    try:
        return root.names("")
    except Exception as error:
        raise CheckpointError(
            f"the checkpoint folder {root.root} cannot be reached: {first_line(error)}; check its name and the "
            "credentials"
        ) from error


@contextmanager
def lease_of_current_epoch(root: CheckpointFiles, name: str) -> Iterator[tuple[CheckpointFiles, Lease]]:
    """Do steps 1 to 3; yield the folder of the epoch, and its lease, which whoever changes the folder must hold.

    If the block fails before the job runs, everything is put back as it was.
    """
    while True:
        epoch = _current(root)  # 1
        files = epoch_folder(root, epoch)
        lease = acquire(files, name)  # 2
        try:
            if _current(root) == epoch:  # 3
                yield files, lease
                return
        except BaseException:
            lease.roll_back()
            raise
        lease.roll_back()


def _current(root: CheckpointFiles) -> int:
    pointer = read_pointer(root)
    if pointer is None:
        require_not_foreign(root)
        require_no_later_epoch(root)
    return 0 if pointer is None else pointer.epoch


def start_on_epoch(files: CheckpointFiles, lease: Lease, start: Start) -> Job:
    """Do steps 4 to 7 in the folder of an epoch, whose lease is held."""
    spark, held, writer = files.spark, HeldFiles.of(files, lease.require_held), TableWriter(user_sink=start.sink)
    streams = [port.intake.df for port in start.pipeline.ports]

    # 4  The tables go where the checkpoint is, and Spark's files name the folder that they are in.
    if (known := read_record(held)) is not None:
        roll_forward(held, known, lambda: spark, lease.require_held)
        if (old := follow(held)) is not None:
            logger("job", job=known.name).info("%s was %s before: Spark's files have its new name", files.place, old)

    # 5  The last batch is complete, and the state is that of a declaration that this one goes on with.
    def complete(known: JobRecord) -> object:
        declared = start.tables.by_role
        return BatchJournal(files=held, record=known, writer=writer, lease=lease, declared=declared).complete()

    record = record_to_go_on_with(held, start.pipeline, complete=complete)

    # 6  The sources go on where they have ended. The tables are there, have all that was written to them, and nothing
    #    of another job or epoch; only then others are made, and all become those of this start.
    sources = inputs_of(streams)
    require_same_inputs(held, record.name, sources)
    require_topics_named(held, streams)
    pipeline = with_history(start.pipeline, record)
    point_to(held, record)
    new, made = is_new(held), read_tables(held)
    written = {} if new else made
    for stream in streams:
        require_bounded_batch(stream, partial(found_files, held))
    lease.require_held()
    tables = start.make_tables(spark, pipeline.spec, written)
    lease.require_held()
    existing_tables = check_tables(
        spark,
        tables,
        pipeline.spec,
        writer.tables,
        fresh=new and not record.epoch,
        written=written.values(),
        former=[*made.values(), *tables_of_last_batch(held, record).values()],
        checkpoint=held,
    )
    fitting = require_tables_of_start(held, record, existing_tables, writer.tables, made=made)
    lease.require_held()
    added = create_tables(spark, tables, pipeline.spec, writer.tables, there=existing_tables, layout=start.layout)
    existing_tables, fitting = existing_tables | added, fitting | table_record(record, added)
    record = without_columns_of_no_table(record, existing_tables)
    pipeline = with_history(pipeline, record)
    paths = tables.by_role
    record = with_logs_unlike_views(held, record, paths, fitting, written)
    take_tables(held, record, tables, pipeline.spec, writer, existing_tables)
    make_views_again(held, record, paths, pipeline.spec, writer.tables, fitting, require_held=lease.require_held)
    write_ports(held, [port_delay(port.intake) for port in pipeline.ports])

    # 7  The run begins. Its journal looks at the lease itself, once for each step of a batch.
    journal = BatchJournal(files=files, record=record, writer=writer, lease=lease, declared=paths, tables=fitting)
    return run_job(pipeline, start.trigger, journal, sources)


def run_job(pipeline: Pipeline, trigger: Mapping[str, Any], journal: BatchJournal, sources: Sequence[Input]) -> Job:
    """Do step 7 for the checkpoint of a journal, whose lease is held; return once the first batch has begun.

    `sources` are what the streams of the pipeline read, in their order.
    """
    files, record, lease = journal.files, journal.record, journal.lease
    # 7.1  From here on the start is data: a batch reads the time of this file, and does what is overdue.
    resume_file = write_control_file(HeldFiles.of(files, lease.require_held), "resume")

    # 7.2  What the run is made of. Nothing runs yet.
    end, callbacks = RunEnd(min(lease.last_control_file, resume_file - 1)), ReportCallbacks(record.name)
    ticks = TickScheduler(files, on_outage=lease.note_outage)
    query = RunningQuery(record.name, files.spark, lease, end, ticks=ticks, callbacks=callbacks)
    run = JobRun(
        files=files,
        record=record,
        pipeline=pipeline,
        trigger=trigger,
        journal=journal,
        lease=lease,
        resume_file=resume_file,
        inputs=InputsRecord(files, sources),
        cleanup=ControlCleanup(files),
        ticks=ticks,
        callbacks=callbacks,
        first_errors=FirstErrors(record.name, journal.declared.get("quarantine")),
        totals=RunTotals(len(record.group_ids)),
        end=end,
        query=query,
    )
    job = Job(run, JobCommands(run), Backlog(files, sources))

    # 7.3  Ticks of the wall clock are written, and the lease knows whose end it waits for.
    if pipeline.uses_wall_clock and "availableNow" not in trigger:
        ticks.start()
    lease.set_job(query.end_state, query.end_after_loss)
    lease.set_report(run.report)

    # 7.4  The query starts, and its first batch begins.
    run.start_query()

    # 7.5  The process knows the job: to return it, to say that nobody has waited for it, to drain it at its own end.
    started_jobs[place_of(files.root)] = job
    unattended_jobs.add(job, query)
    spark_shutdown.add(job, files.spark)
    return job


def port_delay(intake: Intake) -> PortDelay:
    """Return what is recorded of a port that no declaration has: a start may change it."""
    idle = intake.idle
    return PortDelay(watermark_us=intake.watermark_us, idle_after_us=None if idle is None else idle.after_us)


def point_to(held: HeldFiles, record: JobRecord) -> None:
    """Let the epoch of a folder be current, if it is a first one, which has its record now."""
    root = held.checkpoint
    wanted = Pointer(name=record.name, id=record.id, epoch=record.epoch)
    pointer = read_pointer(root)
    held.require_held()
    if pointer is None:
        create_pointer(root, wanted)
    elif pointer != wanted:  # the job was named otherwise, and no batch was begun
        switch(root, pointer.to_bytes(), wanted)
