"""The start of a job, step by step.

    1  Read which epoch of the checkpoint is current. A new folder begins with epoch 0.
    2  Claim the lease in the folder of that epoch: one job at a time (`lease.py`).
    3  Read it again. A restore or a reset may have begun another epoch just before: then begin again there.
    4  Do what is left of what began the epoch: tables go where the checkpoint is (`roll_forward.py`).
       A checkpoint that was renamed, moved, or is reached by a link gets its present name in Spark's own files.
    5  Complete the last batch, if it was recorded and not completed (`batch_journal.py`).
    6  Check that declaration, sources and tables fit the checkpoint (`checkpoint_checks.py`, `table_checks.py`), and
       take the tables. A view that a restore has found gone is made again (`view_again.py`).
    7  Begin the query.

If a step fails, the lease is put back as it was. What was done may be done again by the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointError
from panekeeper.framework.engine.job.batch_journal import BatchJournal
from panekeeper.framework.engine.job.checkpoint_checks import (
    check_session,
    open_checkpoint,
    require_not_foreign,
    require_separate_folders,
    with_history,
)
from panekeeper.framework.engine.job.job import Job
from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.framework.engine.job.roll_forward import roll_forward
from panekeeper.framework.engine.job.table_checks import (
    require_fitting_tables,
    take_tables,
    without_columns_of_no_table,
)
from panekeeper.framework.engine.job.view_again import make_views_again, with_logs_unlike_views
from panekeeper.framework.engine.session.spark_errors import first_line, translate_full_disk
from panekeeper.framework.engine.sink.table_writer import TableWriter
from panekeeper.framework.engine.sink.tables import create_or_check, require_no_rows
from panekeeper.framework.engine.sources.functions import prepare_functions
from panekeeper.framework.engine.sources.streams import require_bounded_batch
from panekeeper.state.checkpoint.epochs import (
    Pointer,
    create_pointer,
    epoch_folder,
    read_pointer,
    require_no_later_epoch,
    switch,
)
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
    from panekeeper.state.checkpoint.job_record import JobRecord


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
        return _start(files, lease, start)


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
    """Do steps 1 to 3; yield the folder of the epoch, which is changed only while the lease is held, and the lease.

    If the block fails before the job runs, everything is put back as it was.
    """
    while True:
        epoch = _current(root)  # 1
        files = epoch_folder(root, epoch)
        lease = acquire(files.without_java(), name)  # 2
        try:
            if _current(root) == epoch:  # 3
                yield files.while_held(lease.require_held), lease
                return
        except BaseException:
            lease.roll_back()
            raise
        lease.roll_back()


def _current(root: CheckpointFiles) -> int:
    pointer = read_pointer(root.without_java())
    if pointer is None:
        require_not_foreign(root)
        require_no_later_epoch(root)
    return 0 if pointer is None else pointer.epoch


def _start(files: CheckpointFiles, lease: Lease, start: Start) -> Job:
    spark, known = files.spark, read_record(files)
    if known is not None:
        roll_forward(files, known, lambda: spark, lease.require_held)  # 4
        if (old := follow(files.without_java(), lease.require_held)) is not None:
            logger("job", job=known.name).info("%s was %s before: Spark's files have its new name", files.place, old)
    writer = TableWriter(user_sink=start.sink)
    journal = partial(BatchJournal, files=files, writer=writer, lease=lease)

    def complete(record: JobRecord) -> object:
        return journal(record=record, declared=start.tables.by_role).complete()

    record, pipeline = open_checkpoint(files, start.pipeline, complete=complete)  # 5
    point_to(files, record)
    new, made = is_new(files), read_tables(files)
    written = {} if new else made
    for port in pipeline.ports:  # 6
        require_bounded_batch(port.intake.df, partial(found_files, files))
    files.require_held()
    tables = start.make_tables(spark, pipeline.spec, written)
    paths, fresh = tables.by_role, new and not record.epoch
    files.require_held()
    found = create_or_check(
        spark,
        tables,
        pipeline.spec,
        fresh=fresh,
        written=written.values(),
        made=made,
        layout=start.layout,
        opened=writer.tables,
    )
    record = without_columns_of_no_table(record, found)
    pipeline = with_history(pipeline, record)
    fitting = require_fitting_tables(files, record, paths, writer.tables, metadata=found, made=made)
    record = with_logs_unlike_views(files, record, paths, fitting, written)
    take_tables(files, record, tables, pipeline.spec, writer, found)
    make_views_again(files, record, paths, pipeline.spec, writer.tables, fitting, require_held=lease.require_held)
    write_ports(files, [port_delay(port.intake) for port in pipeline.ports])
    batches = journal(record=record, declared=paths, tables=fitting)
    return Job(files, record, pipeline, start.trigger, batches)  # 7


def port_delay(intake: Intake) -> PortDelay:
    """Return what is recorded of a port that no declaration has: a start may change it."""
    idle = intake.idle
    return PortDelay(watermark_us=intake.watermark_us, idle_after_us=None if idle is None else idle.after_us)


def point_to(files: CheckpointFiles, record: JobRecord) -> None:
    """Let the epoch of a folder be current, if it is a first one, which has its record now."""
    root = files.checkpoint.without_java()
    wanted = Pointer(name=record.name, id=record.id, epoch=record.epoch)
    found = read_pointer(root)
    files.require_held()
    if found is None:
        create_pointer(root, wanted)
    elif found != wanted:  # the job was named otherwise, and no batch was begun
        switch(root, found.to_bytes(), wanted)
