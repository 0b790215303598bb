"""A start with a changed declaration that keeps the state: when it may be, and how it is recorded.

The steps, each of which may be the last one of a process; the next start, of the old or the new program, goes on:

    1  The changes are compared. Tables are checked as far as they are, and made.
    2  The new declaration is recorded, in one file, with what the old one leaves (`state/upgrade/history.py`).
    3  Tables get the columns that they lack. This follows from what is recorded, so each start does it.

Until a batch is committed with the new declaration, the state is that of the old one, and the next start compares with
that: if it is the old program, it goes on as if nothing had been, but for empty columns that the tables have got. So 3
comes last: until 2, the tables are those of the old program, and after it, any start knows which columns they may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from panekeeper.framework.engine.job.upgrade.table_columns import (
    Metadata,
    add_missing_columns,
    without_columns_of_no_table,
)
from panekeeper.framework.engine.session.stored_state import format_of_state, stored_state
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.fencing import secure
from panekeeper.state.checkpoint.compatibility import compare_declarations
from panekeeper.state.checkpoint.job_record import JobRecord, read_record, write_record, write_tables
from panekeeper.state.checkpoint.run_record import last_batches
from panekeeper.state.log import logger
from panekeeper.state.records import IntervalRecord
from panekeeper.state.spark_logs.offsets import offset_lines
from panekeeper.state.spark_store import HEADER
from panekeeper.state.upgrade.history import History, aggregates_of, declared_part, in_force, upgraded
from panekeeper.state.upgrade.rules import StoredForm, stored_form

if TYPE_CHECKING:
    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.table_writer import TableWriter
    from panekeeper.framework.engine.sink.tables import Tables
    from panekeeper.state.spark_logs.offsets import LogFolder

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
    secure(spark, asdict(tables), record, writer.small)  # before they are altered, and named as the job's own
    record_upgrade(files, record)
    files.before_change()
    add_missing_columns(spark, tables, spec, writer.small)
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


def _watermark(files: LogFolder, committed: int | None) -> int | None:
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
