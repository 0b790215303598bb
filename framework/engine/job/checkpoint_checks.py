"""Does what is started fit the checkpoint: session, folders, declaration, sources?

Each failed check is an error that says what to do, instead of wrong results or a Java stack trace later.

A start may go on with a changed declaration that keeps the state. The steps, each of which may be the last one of a
process; the next start, of the old or the new program, goes on:

    1  The changes are compared. Tables are checked as far as they are, and made.
    2  The new declaration is recorded, in one file, with what the old one leaves (`state/history.py`).
    3  Tables get the columns that they lack (`table_checks.py`). This follows from what is recorded, so each start
       does it.

Until a batch is committed with the new declaration, the state is that of the old one, and the next start compares with
that: if it is the old program, it goes on as if nothing had been, but for empty columns that the tables have got. So 3
comes last: until 2, the tables are those of the old program, and after it, any start knows which columns they may have.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import (
    CheckpointError,
    CheckpointInUse,
    ForeignCheckpoint,
    IncompatibleCheckpoint,
    JobFinished,
    SinkError,
)
from panekeeper.framework.engine.job.calendar_edges import edges_until, stored_headers
from panekeeper.framework.engine.session.environment import check_packages, class_is_loadable
from panekeeper.framework.engine.session.java_libraries import S3, require_delta, require_libraries
from panekeeper.framework.engine.session.python_workers import prepare_workers, require_packages
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.session.settings import (
    DELTA_EXTENSION,
    DELTA_SETTINGS,
    format_of_state,
    require_recorded_settings,
    settings_to_record,
    task_numbers,
)
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.fault_points import fault_point
from panekeeper.framework.engine.sources.inputs import inputs_of, require_same_inputs, require_topics_named
from panekeeper.state.checkpoint.folder import (
    JOB_FILE,
    METADATA_FILE,
    OFFSETS_FOLDER,
    TABLES_FILE,
    CheckpointFolder,
    damaged,
    local_path,
)
from panekeeper.state.checkpoint.job_record import (
    JobRecord,
    create_record,
    installed_versions,
    is_flushed,
    is_new,
    last_batches,
    read_record,
    require_logs_agree,
    write_record,
)
from panekeeper.state.compatibility import (
    Compatibility,
    StoredForm,
    as_recorded,
    compare_declarations,
    flush_change,
    name_change,
    stored_form,
)
from panekeeper.state.history import (
    aggregates_of,
    begun_again,
    declarations_by_window,
    declared_part,
    in_force,
    upgraded,
)
from panekeeper.state.key_groups import group_ids
from panekeeper.state.log import logger
from panekeeper.state.prepared import as_computed, last_decided
from panekeeper.state.records import IntervalRecord
from panekeeper.state.spark_logs import offset_lines
from panekeeper.state.store import WindowStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles

_log = logger("job")


def check_session(spark: SparkSession, places: Collection[str]) -> None:
    """Raise `SetupError` unless this session can write Delta tables, and reaches the folders that a job needs."""
    check_packages()
    require_delta(
        {name: spark.conf.get(name, None) for name in DELTA_SETTINGS},
        has_classes=class_is_loadable(spark._jvm, DELTA_EXTENSION),  # noqa: SLF001 -- only the Java side knows its classes
    )
    prepare_workers(spark)
    require_packages(spark)
    if any(is_s3(place) for place in places):
        require_libraries(spark, S3)


def require_separate_folders(checkpoint: str, tables: Mapping[str, str | None]) -> None:
    """Refuse tables and a checkpoint that lie in one another's folders.

    A restore replaces the checkpoint's folder with all in it, and Delta's VACUUM removes all unknown files from
    the folder of a table.
    """
    folders = {"the checkpoint": checkpoint}
    folders |= {f"the {role} table": path for role, path in tables.items() if path is not None}
    for (outer, around), (inner, within) in permutations(folders.items(), 2):
        if _comparable(within).startswith(_comparable(around)):
            raise SinkError(
                f"{inner} ({within}) lies in the folder of {outer} ({around}): a restore, or VACUUM, would remove "
                "it with that folder. Choose a folder for each that lies in none of the others"
            )


def _comparable(place: str) -> str:
    """Return one spelling of a folder: links are followed, and `..` and `//` resolved as Hadoop does in a URL."""
    local = local_path(place)
    if local is not None:
        return f"{local.resolve()}/"
    scheme, _, rest = place.partition("://")
    return f"{'s3a' if scheme == 's3' else scheme}://{posixpath.normpath(rest)}/"


def require_not_foreign(root: CheckpointFiles) -> None:
    """Raise `ForeignCheckpoint` for a folder, without a checkpoint of ours, in which Spark keeps one itself."""
    if root.exists(METADATA_FILE) or root.names(OFFSETS_FOLDER):
        raise _foreign_checkpoint(root)


def _foreign_checkpoint(files: CheckpointFiles) -> ForeignCheckpoint:
    why = "holds the checkpoint of a query that Panekeeper did not start; give this job a folder of its own"
    return ForeignCheckpoint(f"{files.root} {why}")


def open_checkpoint(
    files: CheckpointFiles,
    pipeline: Pipeline,
    *,
    own_query: bool = False,
    complete: Callable[[JobRecord], object] = lambda _: None,
) -> tuple[JobRecord, Pipeline]:
    """Return the checkpoint's record of a computation, and the computation with its history. A new folder gets one.

    A changed declaration that keeps the state is in the returned record, and not yet in the folder (`record_upgrade`).
    `complete` is called with the record when the declaration fits, and before the state is read: it completes the last
    batch. Raises as `DeltaJob.start`.
    """
    known, started = read_record(files), not is_new(files)
    if known is not None and started:
        known = record_as_computed(files, known)
    if known is None and (started or files.exists(METADATA_FILE)):
        if files.exists(TABLES_FILE):
            raise damaged(files, JOB_FILE, "it is gone")
        raise _foreign_checkpoint(files)
    name, declaration = pipeline.intake.name, pipeline.declaration()
    streams = [port.intake.df for port in pipeline.ports]
    if known is None or not started:
        numbers = task_numbers(files.spark, pipeline.intake.key_groups, own_query=own_query)
        record = first_record(
            known,
            name=name,
            declaration=as_recorded(declaration, numbers.key_groups),
            groups=group_ids(numbers.key_groups, numbers.partitions),
            settings=settings_to_record(files.spark, numbers),
        )
        write_first_record(files, record, str(numbers), is_first=known is None)
    else:
        new = as_recorded(declaration, pipeline.intake.key_groups or len(known.group_ids))
        _require_compatible(files, known, name, new)
        require_logs_agree(files)
        require_recorded_settings(files, known)
        complete(known)
        end = flush_change(flushed=is_flushed(files))
        if end.compatibility is not Compatibility.COMPATIBLE:
            raise JobFinished(f"job {name!r} in {files.root}: {end.why}. {end.advice[:1].upper()}{end.advice[1:]}.")
        record = upgraded_record(files, known, new, last_batches(files)[1])
    if not own_query:
        require_same_inputs(files, record.name, inputs_of(streams))
        require_topics_named(files, streams)
    return record, with_history(pipeline, record)


def with_history(pipeline: Pipeline, record: JobRecord) -> Pipeline:
    """Return the computation with what the earlier declarations of its job have left."""
    return replace(pipeline, spec=pipeline.spec.with_history(record.declaration))


def _require_compatible(files: CheckpointFiles, known: JobRecord, name: str, declaration: Mapping[str, Any]) -> None:
    """Refuse what `compare_declarations` does not call compatible."""
    job = name_change(known.name, name)
    if job.compatibility is not Compatibility.COMPATIBLE:
        raise ForeignCheckpoint(f"{files.root}: {job.why}; {job.advice}")
    refused = [
        one
        for one in compare_declarations(in_force(known.declaration, last_decided(files, known)), declaration)
        if one.compatibility is not Compatibility.COMPATIBLE
    ]
    if refused:
        lines = "\n".join(f"  {difference} ({one.why})" for one in refused for difference in one.differences)
        advice = "; ".join(dict.fromkeys(one.advice for one in refused))
        raise IncompatibleCheckpoint(
            f"the declaration of job {name!r} differs from its checkpoint {files.root}:\n{lines}\n"
            f"{advice[:1].upper()}{advice[1:]}."
        )


# The record of the job's declaration


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
            files.require_held()
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
        name: None if committed is None else _last_pane(files, before[name], one, name, committed)
        for name, one in after.items()
    }
    edges = {
        name: None if committed is None else edges_until(files, before[name], one, watermark, name, committed)
        for name, one in after.items()
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
    record = as_computed(files.without_java(), known)
    if record is not known:
        files.require_held()
        write_record(files, record)
        _log.info("job %s goes on from a batch that was computed by another declaration than the last one", known.name)
    return record


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
