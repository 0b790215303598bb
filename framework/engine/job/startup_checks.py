"""Checks before a query starts: the session, the checkpoint, and the declaration against what is stored.

Each failed check is an error that says what to do, instead of wrong results or a Java stack trace later.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Mapping
from itertools import permutations
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import (
    ForeignCheckpoint,
    IncompatibleCheckpoint,
    JobFinished,
    SetupError,
    SinkError,
)
from panekeeper.framework.engine.job.lost_files import (
    require_files_of_unfinished_batch,
    require_unfiltered_files,
)
from panekeeper.framework.engine.job.upgrade import first_record, upgraded_record, with_history, write_first_record
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.environment import check_environment, class_is_loadable, require_names
from panekeeper.framework.engine.session.java_libraries import S3, require_libraries
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.session.settings import (
    DELTA_EXTENSION,
    DELTA_SETTINGS,
    require_recorded_settings,
    settings_to_record,
    task_numbers,
)
from panekeeper.framework.engine.sources.inputs import inputs_of, require_same_inputs
from panekeeper.state.checkpoint.folder import JOB_FILE, METADATA_FILE, OFFSETS_FOLDER, TABLES_FILE, damaged, local_path
from panekeeper.state.checkpoint.job_record import JobRecord, is_flushed, is_new, read_record, require_logs_agree
from panekeeper.state.compatibility import (
    Compatibility,
    as_recorded,
    compare_declarations,
    flush_change,
    name_change,
)
from panekeeper.state.history import in_force
from panekeeper.state.key_groups import group_ids
from panekeeper.state.prepared import as_computed, last_decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.engine.flow.pipeline import Pipeline


def check_session(spark: SparkSession, places: Collection[str]) -> None:
    """Raise `SetupError` unless this session can write Delta tables, and reaches the folders that a job needs."""
    check_environment(given_delta=True)
    for name, wanted in DELTA_SETTINGS.items():
        if wanted not in (spark.conf.get(name, "") or ""):
            raise SetupError(
                f"this Spark session has no Delta: take it from panekeeper.session(), or build it with {name}={wanted}"
            )
    if not class_is_loadable(spark._jvm, DELTA_EXTENSION):  # noqa: SLF001 -- only the Java side can check its classes
        raise SetupError(
            "this Spark session has no Delta: its settings name Delta's classes, but its Java side does not have them; "
            "take it from panekeeper.session(), or give spark-submit the jars of Delta"
        )
    require_names(spark, places)
    if any(is_s3(place) for place in places):
        require_libraries(spark, S3)


def open_checkpoint(
    files: CheckpointFiles,
    *,
    name: str,
    declaration: Mapping[str, Any],
    key_groups: int | None,
    own_query: bool = False,
    accepted: int | None = None,
    complete: Callable[[JobRecord], object] = lambda _: None,
) -> JobRecord:
    """Return the checkpoint's record of this job; a new folder gets one.

    A changed declaration that keeps the state is in the returned record, and not yet in the folder
    (`upgrade/start.py`).

    Args:
        files: the checkpoint.
        name: of the job.
        declaration: of its windows, as it is now.
        key_groups: what it declares; None: those of the checkpoint, or those that fit the cluster.
        own_query: the query is one of the user's own.
        accepted: number of an unfinished batch that may be run again without files that are gone.
        complete: completes the batch that was begun last, if it was prepared; called with the record when the
            declaration fits, and before the state is read.

    Raises:
        ForeignCheckpoint: the folder holds another job's checkpoint, or one that is not Panekeeper's.
        IncompatibleCheckpoint: the declaration changed since the checkpoint was written, and the state does not fit.
        JobFinished: the job was flushed.
        StateError: the record is damaged, or from another version.
        CheckpointError: the folder cannot be written.
    """
    known = read_record(files)
    started = _is_started(files, known)
    if known is not None and started:
        known = as_computed(files.without_java(), known, last_decided(files, known))
        new = as_recorded(declaration, key_groups or len(known.group_ids))
        _require_compatible(files, known, name, new)
        require_logs_agree(files)
        require_recorded_settings(files, known)
        complete(known)
        _require_not_flushed(files, name)
        require_files_of_unfinished_batch(files, accepted)
        return upgraded_record(files, known, new)
    numbers = task_numbers(files.spark, key_groups, own_query=own_query)
    record = first_record(
        known,
        name=name,
        declaration=as_recorded(declaration, numbers.key_groups),
        groups=group_ids(numbers.key_groups, numbers.partitions),
        settings=settings_to_record(files.spark, numbers),
    )
    write_first_record(files, record, str(numbers), is_first=known is None)
    return record


def _is_started(files: CheckpointFiles, known: JobRecord | None) -> bool:
    """Return whether a batch was begun here, by this job; refuse a checkpoint that lacks a part of what says so."""
    started = not is_new(files)
    if known is None and (started or files.exists(METADATA_FILE)):
        if files.exists(TABLES_FILE):
            raise damaged(files, JOB_FILE, "it is gone")
        raise foreign_checkpoint(files.root)
    return started


def require_not_foreign(root: CheckpointFiles) -> None:
    """Raise `ForeignCheckpoint` for a folder, without a checkpoint of ours, in which Spark keeps one itself."""
    if root.exists(METADATA_FILE) or root.names(OFFSETS_FOLDER):
        raise foreign_checkpoint(root.root)


def foreign_checkpoint(root: str) -> ForeignCheckpoint:
    """Return the error for a folder with the checkpoint of another query."""
    why = "holds the checkpoint of a query that Panekeeper did not start; give this job a folder of its own"
    return ForeignCheckpoint(f"{root} {why}")


def open_with_history(
    files: CheckpointFiles,
    pipeline: Pipeline,
    *,
    own_query: bool = False,
    accepted: int | None = None,
    complete: Callable[[JobRecord], object] = lambda _: None,
) -> tuple[JobRecord, Pipeline]:
    """Open the checkpoint of a computation; return its record, and the computation with its history.

    Args:
        files: the checkpoint.
        pipeline: the computation, as it is declared.
        own_query: as for `open_checkpoint`.
        accepted: the same.
        complete: the same.
    """
    streams = [port.intake.df for port in pipeline.ports]
    intake, inputs = pipeline.intake, inputs_of(streams)
    record = open_checkpoint(
        files,
        name=intake.name,
        declaration=pipeline.declaration(),
        key_groups=intake.key_groups,
        own_query=own_query,
        accepted=accepted,
        complete=complete,
    )
    if not own_query:
        require_same_inputs(files, record.name, inputs)
        require_unfiltered_files(files, streams, accepted)
    return record, with_history(pipeline, record)


def require_separate_folders(checkpoint: str, tables: Mapping[str, str | None]) -> None:
    """Refuse tables and a checkpoint that lie in one another's folders.

    A restore replaces the checkpoint's folder with all in it, and Delta's VACUUM removes all unknown files from
    the folder of a table.

    Args:
        checkpoint: path or URL of the checkpoint folder.
        tables: role -> path of the Delta tables, None for a table that is not wanted.

    Raises:
        SinkError: two of them are the same folder, or one lies in the other.
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


def _require_not_flushed(files: CheckpointFiles, name: str) -> None:
    end = flush_change(flushed=is_flushed(files))
    if end.compatibility is not Compatibility.COMPATIBLE:
        raise JobFinished(f"job {name!r} in {files.root}: {end.why}. {end.advice[:1].upper()}{end.advice[1:]}.")
