"""A start with a changed declaration that keeps the state: when it may be, and how it is recorded.

The steps, each of which may be the last one of a process; the next start, of the old or the new program, goes on:

    1  The changes are compared. Tables are checked as far as they are, and made.
    2  The new declaration is recorded, in one file, with what the old one leaves (`state/history.py`).
    3  Tables get the columns that they lack. This follows from what is recorded, so each start does it.

Until a batch is committed with the new declaration, the state is that of the old one, and the next start compares with
that: if it is the old program, it goes on as if nothing had been, but for empty columns that the tables have got. So 3
comes last: until 2, the tables are those of the old program, and after it, any start knows which columns they may have.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, IllegalArgumentException

from panekeeper.framework.declarations.errors import CheckpointError, CheckpointInUse, SinkError
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import secure
from panekeeper.framework.engine.sink.spark_table import table_metadata
from panekeeper.framework.engine.sink.tables import columns_of
from panekeeper.state.checkpoint.job_record import (
    JobRecord,
    create_record,
    installed_versions,
    last_batches,
    read_record,
    write_record,
    write_tables,
)
from panekeeper.state.compatibility import StoredForm, compare_declarations, stored_form
from panekeeper.state.history import (
    HISTORY,
    History,
    aggregates_of,
    begun_again,
    declared_part,
    in_force,
    upgraded,
)
from panekeeper.state.log import logger
from panekeeper.state.records import IntervalRecord
from panekeeper.state.spark_logs import offset_lines
from panekeeper.state.spark_store import HEADER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.delta_tables import DeltaTables
    from panekeeper.framework.engine.sink.table_writer import TableWriter
    from panekeeper.framework.engine.sink.tables import Tables
    from panekeeper.state.checkpoint.folder import CheckpointFolder


def first_record(
    known: JobRecord | None,
    *,
    name: str,
    declaration: Mapping[str, Any],
    groups: tuple[int, ...],
    settings: Mapping[str, str],
) -> JobRecord:
    """Return the record of a checkpoint in which no batch was begun, at first or since a reset.

    It keeps id and epochs of a record that is there, whatever the name was: its tables have them.

    Args:
        known: what the checkpoint has; None in a new folder.
        name: of the job.
        declaration: as it is recorded.
        groups: representative id of each key group.
        settings: that hold for the life of the checkpoint.
    """
    before = {} if known is None or known.epoch == 0 else known.declaration
    new = JobRecord(
        name=name,
        id=uuid.uuid4().hex[:12],
        declaration=begun_again(before, declaration),
        group_ids=groups,
        versions=installed_versions(),
        settings=settings,
    )
    return new if known is None else replace(new, id=known.id, epoch=known.epoch, former=known.former)


def write_first_record(files: CheckpointFiles, record: JobRecord, numbers: str, *, is_first: bool) -> None:
    """Write the record of a checkpoint in which no batch was begun.

    A process may be paused here until another one has written its own, and run batches. The first record of a folder
    is never replaced by another one's; of a later one, whatever depends on it is taken from the record of the batch
    that was computed last (`panekeeper.state.prepared.as_computed`).

    Args:
        files: the checkpoint.
        record: what is written.
        numbers: of key groups and partitions, for the log.
        is_first: the folder had no record.

    Raises:
        CheckpointInUse: it has one by now, or the lease is lost.
        CheckpointError: the folder cannot be written.
    """
    try:
        if is_first:
            files.before_change()
            create_record(files.without_java(), record)
        else:
            write_record(files, record)
    except FileExistsError as error:
        raise CheckpointInUse(
            f"another process has started on {files.root} just now, while this one was paused; start the job again"
        ) from error
    except Exception as error:
        raise CheckpointError(
            f"the checkpoint folder {files.root} cannot be written: {first_line(error)}; make it writable for "
            "this user, or choose another folder"
        ) from error
    logger("job", job=record.name).info("%s is a new checkpoint: %s", files.root, numbers)


_log = logger("job")


def upgraded_record(files: CheckpointFiles, known: JobRecord, declared: Mapping[str, Any]) -> JobRecord:
    """Return the record of a job with a declaration that keeps its state. Writes nothing.

    A batch that was begun and not committed is run again with it: no table has anything of that.

    Args:
        files: the job's checkpoint.
        known: what it says of the job.
        declared: the declaration of this start; no change of it needs a flush.
    """
    _, committed = last_batches(files)
    old = in_force(known.declaration, committed)
    if declared_part(known.declaration) == declared and old is known.declaration:
        return known
    declaration = upgraded(
        known.declaration,
        declared,
        committed=committed,
        watermark_us=_watermark(files, committed),
        last_pane=_last_pane(files, old, declared) if committed is not None else None,
    )
    return replace(known, declaration=declaration)


def record_upgrade(files: CheckpointFiles, record: JobRecord) -> None:
    """Record the declaration of this start, if it is another one than that of the last start."""
    before = read_record(files)
    if before is None or before == record:
        return
    fault_point("during-upgrade", 1)
    write_record(files, record)
    fault_point("during-upgrade", 2)
    kept = [
        f"{one.item}: {one.why}"
        for one in compare_declarations(before.declaration, record.declaration)
        if one.differences
    ]
    if kept:
        _log.info("job %s goes on with another declaration: %s", record.name, "; ".join(kept))


def take_tables(files: CheckpointFiles, record: JobRecord, tables: Tables, spec: JobSpec, writer: TableWriter) -> None:
    """Do steps 2 and 3, and let the tables and a sink of the user's own be those of this start.

    Args:
        files: the checkpoint, of which nothing is changed once its lease is lost.
        record: of the job, as this start records it.
        tables: of the job.
        spec: what it computes.
        writer: of the tables.

    Raises:
        CheckpointInUse: the lease is lost.
        SinkError: a table belongs to another checkpoint, or Delta refuses a column.
    """
    spark = files.spark
    files.before_change()
    secure(spark, asdict(tables), record, writer.tables)  # before they are altered, and named as the job's own
    record_upgrade(files, record)
    files.before_change()
    add_missing_columns(spark, tables, spec, writer.tables)
    write_tables(files, asdict(tables))
    files.before_change()
    writer.prepare_user_sink(spark, spec.results_schema)


def with_columns_found(
    record: JobRecord, pipeline: Pipeline, found: Mapping[str, Metadata]
) -> tuple[JobRecord, Pipeline]:
    """Return record and computation without the columns of earlier declarations that no table has.

    Args:
        record: of the job, as this start is about to record it.
        pipeline: the computation, with its history.
        found: role -> metadata of its tables.
    """
    record = without_columns_of_no_table(record, found)
    return record, with_history(pipeline, record)


def with_history(pipeline: Pipeline, record: JobRecord) -> Pipeline:
    """Return the computation with what the earlier declarations of its job have left."""
    return replace(pipeline, spec=replace(pipeline.spec, history=History.of(record.declaration)))


def _watermark(files: CheckpointFolder, committed: int | None) -> int | None:
    """Return the watermark of the last committed batch, us since the epoch; None before the first one."""
    if committed is None:
        return None
    milliseconds = int(offset_lines(files, committed)[0].get("batchWatermarkMs", 0))
    return milliseconds * 1000 if milliseconds > 0 else None


def _last_pane(files: CheckpointFiles, old: Mapping[str, Any], new: Mapping[str, Any]) -> int | None:
    """Return the last pane of which a row is stored in any key group, where an added aggregate has to begin after it.

    It is the same for every number of key groups, and for every start until the next batch.
    """
    if stored_form(old) is not StoredForm.SLICES or {*aggregates_of(new)} <= {*aggregates_of(old)}:
        return None
    with format_of_state(files.spark, files.place):
        headers = stored_state(files.spark, files.place, HEADER).select("value.body").toLocalIterator()
        panes = [pane for (body,) in headers for pane in IntervalRecord.decode(bytes(body)).panes]
    return max(panes, default=None)


Metadata = Mapping[str, Any]
"""Metadata of a table, as its log has it."""


def without_columns_of_no_table(record: JobRecord, found: Mapping[str, Metadata]) -> JobRecord:
    """Return the record without the columns of removed aggregates that neither the log nor the view has.

    A declaration that was only recorded leaves none, if its start was killed, or if the tables could not take its
    columns. Were they added nevertheless, no start could follow one of the second kind.

    Args:
        record: of the job, as this start is about to record it.
        found: role -> metadata of the tables.
    """
    history = record.declaration.get(HISTORY)
    if history is None:
        return record
    there = {name for role in ("log", "view") if role in found for name in columns_of(found[role]).names}
    retired = {name: text for name, text in history["retired"].items() if name in there}
    return replace(record, declaration={**record.declaration, HISTORY: {**history, "retired": retired}})


def add_missing_columns(spark: SparkSession, tables: Tables, spec: JobSpec, opened: DeltaTables) -> None:
    """Add the result columns that the log and the view lack, which `create_or_check` has checked; `opened` are open.

    Raises:
        SinkError: Delta refuses them.
    """
    for path in filter(None, (tables.log, tables.view)) if spec.history.added_columns() else ():
        found = columns_of(table_metadata(spark, path))
        missing = [one for one in tables.schemas(spec)[path] if one.name not in found.names]
        if missing:
            columns = ", ".join(f"{quoted(one.name)} {one.dataType.simpleString()}" for one in missing)
            try:
                spark.sql(f"ALTER TABLE delta.{quoted(path)} ADD COLUMNS ({columns})")
            except (AnalysisException, IllegalArgumentException) as error:
                raise SinkError(
                    f"the table {path} cannot get the columns {columns} of the new declaration: {first_line(error)}. "
                    "Choose other names or types for them; or change the table, as that says; or start the program as "
                    "it was, which goes on"
                ) from error
            opened.reopen(path)
            fault_point("during-upgrade", 3)
