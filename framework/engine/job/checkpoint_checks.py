"""Do session, folders and declaration of a start fit the checkpoint? Nothing is changed here.

Each failed check is an error that says what to do, instead of wrong results or a Java stack trace later.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from itertools import permutations
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import (
    ForeignCheckpoint,
    IncompatibleCheckpoint,
    JobFinished,
    SinkError,
)
from panekeeper.framework.engine.session.environment import check_packages, class_is_loadable
from panekeeper.framework.engine.session.java_libraries import S3, require_delta, require_libraries
from panekeeper.framework.engine.session.python_workers import prepare_workers, require_packages
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.session.settings import DELTA_EXTENSION, DELTA_SETTINGS
from panekeeper.state.checkpoint.folder import (
    JOB_FILE,
    METADATA_FILE,
    OFFSETS_FOLDER,
    TABLES_FILE,
    damaged,
    local_path,
)
from panekeeper.state.checkpoint.job_record import JobRecord, is_flushed, is_new
from panekeeper.state.compatibility import Compatibility, compare_declarations, flush_change, name_change
from panekeeper.state.history import in_force
from panekeeper.state.prepared import last_decided

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles


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
        require_libraries(S3)


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


def require_own_checkpoint(files: CheckpointFiles, known: JobRecord | None) -> None:
    """Refuse a folder whose record of a job is gone, or that another program has made; `known` is the record there."""
    if known is None and (not is_new(files) or files.exists(METADATA_FILE)):
        if files.exists(TABLES_FILE):
            raise damaged(files, JOB_FILE, "it is gone")
        raise _foreign_checkpoint(files)


def _foreign_checkpoint(files: CheckpointFiles) -> ForeignCheckpoint:
    why = "holds the checkpoint of a query that Panekeeper did not start; give this job a folder of its own"
    return ForeignCheckpoint(f"{files.root} {why}")


def require_fitting_declaration(
    files: CheckpointFiles, known: JobRecord, name: str, declaration: Mapping[str, Any]
) -> None:
    """Refuse another job, and a declaration by which the state that is `known` cannot go on."""
    job = name_change(known.name, name)
    if job.compatibility is not Compatibility.COMPATIBLE:
        raise ForeignCheckpoint(f"{files.root}: {job.why}; {job.advice}")
    refused = [
        change
        for change in compare_declarations(in_force(known.declaration, last_decided(files, known)), declaration)
        if change.compatibility is not Compatibility.COMPATIBLE
    ]
    if refused:
        lines = "\n".join(f"  {difference} ({change.why})" for change in refused for difference in change.differences)
        advice = "; ".join(dict.fromkeys(change.advice for change in refused))
        raise IncompatibleCheckpoint(
            f"the declaration of job {name!r} differs from its checkpoint {files.root}:\n{lines}\n"
            f"{advice[:1].upper()}{advice[1:]}."
        )


def require_not_flushed(files: CheckpointFiles, name: str) -> None:
    """Refuse a job that is finished for good."""
    end = flush_change(flushed=is_flushed(files))
    if end.compatibility is not Compatibility.COMPATIBLE:
        raise JobFinished(f"job {name!r} in {files.root}: {end.why}. {end.advice[:1].upper()}{end.advice[1:]}.")
