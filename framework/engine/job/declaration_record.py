"""The declaration that a checkpoint records: what a start does with it, and with the record of the job that has it.

A start may go on with a changed declaration that keeps the state. The steps, each of which may be the last one of a
process; the next start, of the old or the new program, goes on:

    1  The changes are compared. Tables are checked as far as they are, and made.
    2  The new declaration is recorded, in one file, with what the old one leaves (`state/history.py`).
    3  Tables get the columns that they lack (`take_tables.py`). This follows from what is recorded, so each start
       does it.

Until a batch is committed with the new declaration, the state is that of the old one, and the next start compares with
that: if it is the old program, it goes on as if nothing had been, but for empty columns that the tables have got. So 3
comes last: until 2, the tables are those of the old program, and after it, any start knows which columns they may have.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointError, CheckpointInUse
from panekeeper.framework.engine.job.calendar_edges import edges_until, stored_headers
from panekeeper.framework.engine.job.checkpoint_checks import (
    require_fitting_declaration,
    require_not_flushed,
    require_own_checkpoint,
)
from panekeeper.framework.engine.session.settings import (
    format_of_state,
    require_recorded_settings,
    settings_to_record,
    task_numbers,
)
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sink.tables import columns_of
from panekeeper.state.checkpoint.job_record import (
    JobRecord,
    create_record,
    installed_versions,
    is_new,
    last_batches,
    read_record,
    require_logs_agree,
    write_record,
)
from panekeeper.state.compatibility import StoredForm, as_recorded, compare_declarations, stored_form
from panekeeper.state.history import (
    HISTORY,
    WINDOWS,
    aggregates_of,
    begun_again,
    declarations_by_window,
    declared_part,
    in_force,
    upgraded,
)
from panekeeper.state.key_groups import group_ids
from panekeeper.state.log import logger
from panekeeper.state.prepared import as_computed
from panekeeper.state.records import IntervalRecord
from panekeeper.state.spark_logs import offset_lines
from panekeeper.state.store import WindowStore
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
    from panekeeper.state.checkpoint.folder import CheckpointFolder

_log = logger("job")


def record_to_go_on_with(
    files: CheckpointFiles,
    pipeline: Pipeline,
    *,
    own_query: bool = False,
    complete: Callable[[JobRecord], object] = lambda _: None,
) -> JobRecord:
    """Return the record with which a start goes on: a new folder gets its first one, the last batch of any other ends.

    A changed declaration that keeps the state is in the returned record, and not yet in the folder (`record_upgrade`).
    `complete` is called with the record when the declaration fits, and completes the last batch. Raises as
    `DeltaJob.start`.
    """
    name, known = pipeline.intake.name, read_record(files)
    # 1  The folder is that of a job of ours, or of none yet.
    require_own_checkpoint(files, known)

    # 2  Before the first batch, at first or since a reset, there is nothing to go on with.
    if known is None or is_new(files):
        return begin_record(files, known, pipeline, own_query=own_query)

    # 3  The record says by which declaration the last batch was computed.
    known = record_as_computed(files, known)

    # 4  What is declared now fits that, and the folder itself.
    declared = as_recorded(pipeline.declaration(), pipeline.intake.key_groups or len(known.group_ids))
    require_fitting_declaration(files, known, name, declared)
    require_logs_agree(files)
    require_recorded_settings(files, known)

    # 5  The last batch is completed as it was recorded. It may have been a flush.
    complete(known)
    require_not_flushed(files, name)

    # 6  The state is read where the declaration has changed.
    return upgraded_record(files, known, declared, last_batches(files)[1])


def with_history(pipeline: Pipeline, record: JobRecord) -> Pipeline:
    """Return the computation with what the earlier declarations of its job have left."""
    return replace(pipeline, spec=pipeline.spec.with_history(record.declaration))


# The first record of a folder


def begin_record(
    files: CheckpointFiles, known: JobRecord | None, pipeline: Pipeline, *, own_query: bool = False
) -> JobRecord:
    """Write the record of a checkpoint in which no batch was begun, and return it; `known` is the one that is there."""
    numbers = task_numbers(files.spark, pipeline.intake.key_groups, own_query=own_query)
    record = first_record(
        known,
        name=pipeline.intake.name,
        declaration=as_recorded(pipeline.declaration(), numbers.key_groups),
        groups=group_ids(numbers.key_groups, numbers.partitions),
        settings=settings_to_record(files.spark, numbers),
    )
    write_first_record(files, record, str(numbers), is_first=known is None)
    return record


def first_record(
    known: JobRecord | None,
    *,
    name: str,
    declaration: Mapping[str, Any],
    groups: tuple[int, ...],
    settings: Mapping[str, str],
) -> JobRecord:
    """Return the record of a checkpoint in which no batch was begun, at first or since a reset.

    It keeps id and epochs of a record that is `known`, whatever the name was: its tables have them.
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

    The first record of a folder is never replaced by another one's (A2).
    """
    try:
        if is_first:
            create_record(files, record)
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


# The record of a job that goes on


def upgraded_record(
    files: CheckpointFiles, known: JobRecord, declared: Mapping[str, Any], committed: int | None
) -> JobRecord:
    """Return the record of a job with a declaration that keeps its state as of a committed batch. Writes nothing.

    A batch that was begun and not committed is run again with it: no table has anything of that.
    """
    old = in_force(known.declaration, committed)
    if declared_part(known.declaration) == declared and old is known.declaration:
        return known
    watermark = None if committed is None else _watermark(files, committed)
    before, after = declarations_by_window(old), declarations_by_window(declared)
    last_panes = {
        name: None if committed is None else _last_pane(files, before[name], window, name, committed)
        for name, window in after.items()
    }
    edges = {
        name: None if committed is None else edges_until(files, before[name], window, watermark, name, committed)
        for name, window in after.items()
    }
    declaration = upgraded(
        known.declaration,
        declared,
        committed=committed,
        watermark_us=watermark,
        last_panes=last_panes,
        edges_until_us=edges,
    )
    return replace(known, declaration=declaration)


def record_as_computed(files: CheckpointFiles, known: JobRecord) -> JobRecord:
    """Return the record of a job by whose declaration its last decided batch was computed, and write it if it differs.

    Before the batch is completed: from then on nothing else may say by which declaration the state is.
    """
    record = as_computed(files, known)
    if record is not known:
        write_record(files, record)
        _log.info("job %s goes on from a batch that was computed by another declaration than the last one", known.name)
    return record


def without_columns_of_no_table(record: JobRecord, tables_by_role: Mapping[str, TableAtVersion]) -> JobRecord:
    """Return the record without the columns of removed aggregates that neither the log nor the view has.

    A declaration that was only recorded leaves none, if its start was killed, or if the tables could not take its
    columns. Were they added nevertheless, no start could follow one of the second kind.
    """
    windows = record.declaration.get(WINDOWS)
    if windows is None:
        return replace(record, declaration=_without_columns(record.declaration, tables_by_role, ""))
    windows = {name: _without_columns(declared, tables_by_role, name) for name, declared in windows.items()}
    return replace(record, declaration={**record.declaration, WINDOWS: windows})


def _without_columns(
    declared: Mapping[str, Any], tables_by_role: Mapping[str, TableAtVersion], window: str
) -> Mapping[str, Any]:
    """Return what is recorded of a window without the columns that neither its log nor its view has."""
    history = declared.get(HISTORY)
    if history is None:
        return declared
    tables = [
        tables_by_role[role] for role in (role_of("log", window), role_of("view", window)) if role in tables_by_role
    ]
    there = {name for table in tables for name in columns_of(table).names}
    retired = {name: text for name, text in history["retired"].items() if name in there}
    return {**declared, HISTORY: {**history, "retired": retired}}


def record_upgrade(files: CheckpointFiles, record: JobRecord) -> None:
    """Record the declaration of this start, if it is another one than that of the last start."""
    before = read_record(files)
    if before is None or before == record:
        return
    fault_point("during-upgrade", 1)
    write_record(files, record)
    fault_point("during-upgrade", 2)
    kept = [
        f"{change.item}: {change.why}"
        for change in compare_declarations(before.declaration, record.declaration)
        if change.differences
    ]
    if kept:
        _log.info("job %s goes on with another declaration: %s", record.name, "; ".join(kept))


def _watermark(files: CheckpointFolder, committed: int) -> int | None:
    """Return the watermark of a committed batch, us since the epoch; None if there was none."""
    milliseconds = int(offset_lines(files, committed)[0].get("batchWatermarkMs", 0))
    return milliseconds * 1000 if milliseconds > 0 else None


def _last_pane(
    files: CheckpointFiles, old: Mapping[str, Any], new: Mapping[str, Any], window: str, batch: int
) -> int | None:
    """Return the last pane of which a row is stored in any key group, where an added aggregate has to begin after it.

    It is the same for every number of key groups, and for every start until the next batch.
    """
    if stored_form(old) is not StoredForm.SLICES or {*aggregates_of(new)} <= {*aggregates_of(old)}:
        return None
    with format_of_state(files.spark):
        part = WindowStore.name_of(window) if window else ""
        panes = [pane for body in stored_headers(files, part, batch) for pane in IntervalRecord.decode(body).panes]
    return max(panes, default=None)
