"""Delta tables at the version of a savepoint: is it still there, restore it, copy it.

The library `deltalake` looks and restores where it can (`delta_versions.py`): Spark takes seconds for each table. It
does so for tables that the library cannot write, and copies all tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable

from panekeeper.framework.engine.session.s3_settings import is_s3, s3_settings
from panekeeper.framework.engine.session.session import session
from panekeeper.framework.engine.session.settings import READ_SETTINGS, WRITE_SETTINGS, session_settings
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.recovery.errors import SavepointError, TableVersionLost
from panekeeper.recovery.storage import delta_versions
from panekeeper.recovery.storage.delta_log import SavedTable, commit_checksum, has_version
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.errors import CheckpointError
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ENDPOINT = "AWS_ENDPOINT_URL_S3"
_log = logger("restore")


def session_for(paths: Iterable[str], spark: SparkSession | None, s3: S3Options | None = None) -> SparkSession:
    """Return a session that reaches the tables at these paths.

    Args:
        paths: of tables and checkpoints.
        spark: the session to use; None: a new one, set up for S3 if a path is there.
        s3: how S3 is reached, for a new one.
    """
    if spark is not None:
        return spark
    if not any(map(is_s3, paths)):
        return session("panekeeper")
    if s3 is None or s3.endpoint is None:
        return session("panekeeper", s3=True)
    return session("panekeeper", s3=True, **s3_settings({**os.environ, _ENDPOINT: s3.endpoint}))


def version_of(spark: SparkSession, path: str) -> int:
    """Return a table's newest version.

    Raises:
        SavepointError: there is no Delta table, or it cannot be read.
    """
    with _translate_errors(f"{path} cannot be read as a Delta table", "try again"):
        return int(DeltaTable.forPath(spark, path).history(1).select("version").collect()[0][0])


def properties_of(spark: SparkSession, path: str) -> dict[str, str]:
    """Return a table's properties.

    Raises:
        SavepointError: there is no Delta table, or it cannot be read.
    """
    with _translate_errors(f"{path} cannot be read as a Delta table", "try again"):
        return dict(DeltaTable.forPath(spark, path).detail().select("properties").collect()[0][0])


def require_version(session: Callable[[], SparkSession], table: SavedTable, folder: Files | None) -> None:
    """Check that a table can still be read at its version: its log, and that each of its files is there.

    Args:
        session: returns the session that reaches the table, if Spark is needed.
        table: the table and its version.
        folder: its folder; None: only Spark reaches it.

    Raises:
        TableVersionLost: it cannot.
    """
    if folder is not None:
        if not has_version(folder, table.version):
            raise _version_lost(table, "its log does not reach back that far, or the table is gone")
        if table.sha256 not in (None, commit_checksum(folder, table.version)):
            raise _other_version(table)
        try:
            total, missing = delta_versions.missing_files(folder, table)
        except UnsupportedTable as reason:
            _log.info("%s: Spark looks for the files of its version %d: %s", table.path, table.version, reason)
        else:
            _require_none_missing(table, missing, total)
            return
    spark = session()
    try:
        files = _read_version(spark, table).inputFiles()
    except Exception as error:
        raise _version_lost(table, first_line(error)) from error
    _require_none_missing(table, sum(not _file_exists(spark, file) for file in files), len(files))


def restore_table(
    spark: SparkSession,
    table: SavedTable,
    folder: Files | None,
    *,
    before_commit: Callable[[], None] = lambda: None,
) -> None:
    """Restore a table to its version; nothing happens if that is its newest one, or was restored last.

    Args:
        spark: the session that reaches the table.
        table: the table and its version.
        folder: its folder; None: only Spark reaches it.
        before_commit: called before the RESTORE; raises if this process may not write any more. If it is paused between
            the two for longer than its lease, Spark takes back what was written meanwhile: its RESTORE takes no
            condition.

    Raises:
        SavepointError: Delta could not restore it.
    """
    if folder is not None:
        try:
            delta_versions.restore(folder, table, before_commit=before_commit)
        except UnsupportedTable as reason:
            _log.info("%s: Spark restores version %d: %s", table.path, table.version, reason)
        else:
            return
    with _translate_errors(
        f"{table.path} could not be restored to version {table.version}", "run the same restore again"
    ):
        delta = DeltaTable.forPath(spark, table.path)
        version, operation, parameters = (
            delta.history(1).select("version", "operation", "operationParameters").collect()[0]
        )
        just_restored = operation == "RESTORE" and parameters.get("version") == str(table.version)
        if version != table.version and not just_restored:
            before_commit()
            delta.restoreToVersion(table.version)


def copy_table(spark: SparkSession, table: SavedTable, *, to: str, deep: bool) -> None:
    """Create a table with the rows of another one at its version.

    Args:
        spark: the session that copies.
        table: the original.
        to: path or URL of the new table.
        deep: copy the rows. A shallow copy refers to the files of the original, so a VACUUM of that may break it.

    Raises:
        SavepointError: it could not be copied.
    """
    with _translate_errors(f"{table.path} could not be copied to {to}", "remove the clone's folder and clone again"):
        if deep:
            with session_settings(spark, READ_SETTINGS | WRITE_SETTINGS):
                _read_version(spark, table).write.format("delta").save(to)
        else:
            DeltaTable.forPath(spark, table.path).cloneAtVersion(table.version, to, isShallow=True)


@contextmanager
def _translate_errors(what: str, advice: str) -> Iterator[None]:
    """Raise `SavepointError` for any error of Spark."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        raise SavepointError(f"{what} ({first_line(error)}); remove the cause and {advice}") from error


def _read_version(spark: SparkSession, table: SavedTable) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", table.version).load(table.path)


def _file_exists(spark: SparkSession, file: str) -> bool:
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    path = jvm.org.apache.hadoop.fs.Path(file)
    return bool(path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path))  # noqa: SLF001 -- as above


def _require_none_missing(table: SavedTable, missing: int, total: int) -> None:
    if missing:
        raise _version_lost(table, f"{missing} of its {total} files were vacuumed")


def _other_version(table: SavedTable) -> TableVersionLost:
    return TableVersionLost(
        f"version {table.version} of the Delta table {table.path} is not that of this savepoint: since then the "
        "table was removed and made again, or put back from a backup and written to, so rows would be there twice, or "
        "be missing. Nothing was changed. Use a savepoint of the job that has written this table; or move the table "
        "away, and put that of the savepoint in its place"
    )


def _version_lost(table: SavedTable, why: str) -> TableVersionLost:
    return TableVersionLost(
        f"the Delta table {table.path} no longer holds version {table.version} of this savepoint: {why}. Nothing was "
        "changed. Use a newer savepoint; to keep versions longer, raise delta.logRetentionDuration and "
        "delta.deletedFileRetentionDuration of the table."
    )
