"""A Delta table at the version of a savepoint: is it still there, and a copy of it.

Its log is read by `framework/engine/sink/delta_log.py`. The library `deltalake` looks for the files of a version; Spark
reads what the library does not, and copies tables.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake.exceptions import DeltaError

from panekeeper.framework.declarations.durations import to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.session.s3_settings import is_s3, s3_settings
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.delta_log import commit_file, has_version
from panekeeper.framework.engine.sink.library_rules import (
    UnsupportedTable,
    files_of,
    open_to_read,
    panic_as_unsupported,
    storage_options,
    table_of,
    text_of,
)
from panekeeper.recovery.errors import SavepointError, TableVersionLost
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WEEK = timedelta(weeks=1)
_DELETION_VECTORS = "deletionVectors"
_S3A = "spark.hadoop.fs.s3a."
_ENDPOINT = "AWS_ENDPOINT_URL_S3"
_log = logger("restore")


@dataclass(frozen=True, kw_only=True)
class SavedTable:
    """A Delta table at one version.

    Attributes:
        path: the table's path or URL.
        version: its newest version when the batch of the savepoint was its newest.
        sha256: checksum of the commit of that version: another table has another one under the same number, and so has
            a copy that was written to since.
    """

    path: str
    version: int
    sha256: str


def commit_checksum(table: Files, version: int) -> str:
    """Return the checksum of the commit of a version; raises `SavepointError` if the log does not have it any more."""
    try:
        return hashlib.sha256(table.read(commit_file(version))).hexdigest()
    except FileNotFoundError as error:
        raise SavepointError(
            f"version {version} is no longer in the log of the table {table.root}; drain the job and try again"
        ) from error


def parse_interval(text: str) -> timedelta | None:
    """Return an interval as Delta writes it, None for one in months, or one that cannot be read.

    >>> parse_interval("interval 1 week")
    datetime.timedelta(days=7)
    >>> parse_interval("2 days 12 hours")
    datetime.timedelta(days=2, seconds=43200)
    """
    try:
        return timedelta(microseconds=to_us(text, "the interval"))
    except (DeclarationError, OverflowError):
        return None


def delta_options(folder: Files, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the library's options for a table: the store and the credentials that savepoints use.

    Raises `UnsupportedTable` if new objects are encrypted in a way that the library is not known to follow.
    """
    if "://" not in folder.place:
        return {}
    if folder.s3.encryption is not None:
        raise UnsupportedTable(f"its new objects are encrypted by {folder.s3.encryption}")
    import boto3

    endpoint = {} if folder.s3.endpoint is None else {_ENDPOINT: folder.s3.endpoint}
    settings = s3_settings({**environment, **endpoint})
    own = {name.removeprefix(_S3A): value for name, value in settings.items() if name.startswith(_S3A)}
    # What boto3 finds in the environment, a profile or a role; the library looks in fewer places.
    if (credentials := boto3.session.Session().get_credentials()) is not None:
        now = credentials.get_frozen_credentials()
        named = {"access.key": now.access_key, "secret.key": now.secret_key, "session.token": now.token}
        own |= {name: value for name, value in named.items() if value}
    return storage_options(own)


def require_version(session: Callable[[], SparkSession], table: SavedTable, folder: Files) -> None:
    """Check that a table can still be read at its version: its log, and that each of its files is there.

    `session` is called if Spark is needed. Raises `TableVersionLost`.
    """
    if not has_version(folder, table.version):
        raise _version_lost(table, "its log does not reach back that far")
    if table.sha256 != commit_checksum(folder, table.version):
        raise TableVersionLost(
            f"version {table.version} of the Delta table {table.path} is not that of this savepoint: the table was "
            "made again, or put back from a backup and written to since. Nothing was changed; use a savepoint of "
            "the job that has written this table, or put the table of the savepoint in its place"
        )
    try:
        total, missing = missing_files(folder, table)
    except UnsupportedTable as reason:
        _log.info("%s: Spark looks for the files of its version %d: %s", table.path, table.version, reason)
    else:
        _require_none_missing(table, missing, total)
        return
    from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

    spark = session()
    try:
        rows = _read_version(spark, table)
        files = rows.inputFiles()
        if _DELETION_VECTORS in _delta_table(spark, table.path).detail().select("tableFeatures").collect()[0][0]:
            # Spark lists no deletion vectors. It reads each before a file's rows, here without their columns.
            rows.select(F.input_file_name()).distinct().count()
    except Exception as error:
        raise _version_lost(table, "Spark cannot read it", all_said(error)) from error
    _require_none_missing(table, sum(not _file_exists(spark, file) for file in files), len(files))


def missing_files(folder: Files, table: SavedTable) -> tuple[int, int]:
    """Return how many files a table has at its version, and how many of them are gone, or cut short.

    The log must still have the version. Raises `UnsupportedTable` if Spark must look.
    """
    delta = open_to_read(folder.root, delta_options(folder), table.version)
    files = files_of(delta)
    paths, sizes = files.column("path").to_pylist(), files.column("size_bytes").to_pylist()
    there = folder.sizes() if paths else {}
    missing = sum(there.get(unquote(path)) != size for path, size in zip(paths, sizes, strict=True))
    if not missing and _DELETION_VECTORS in table_of(delta, table.path).protocol.reader_features:
        try:
            with panic_as_unsupported():
                delta.deletion_vectors().read_all()
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise _version_lost(table, "a deletion vector cannot be read", text_of(error)) from error
    return len(paths), missing


# By Spark.


def session_for(paths: Iterable[str], spark: SparkSession | None, s3: S3Options | None = None) -> SparkSession:
    """Return a session that reaches the tables at these paths: the given one, or a new one, set up for S3 if needed."""
    from panekeeper.framework.engine.session.session import session

    if spark is not None:
        return spark
    if not any(map(is_s3, paths)):
        return session("panekeeper")
    if s3 is None or s3.endpoint is None:
        return session("panekeeper", s3=True)
    return session("panekeeper", s3=True, **s3_settings({**os.environ, _ENDPOINT: s3.endpoint}))


def copy_table(spark: SparkSession, table: SavedTable, target: str, *, deep: bool) -> None:
    """Create a table with the rows of another one at its version. Raises `SavepointError`.

    A shallow copy refers to the files of the original, so a VACUUM of that may break it.
    """
    from panekeeper.framework.engine.session.settings import READ_SETTINGS, WRITE_SETTINGS, session_settings

    try:
        if deep:
            with session_settings(spark, READ_SETTINGS | WRITE_SETTINGS):
                _read_version(spark, table).write.format("delta").save(target)
        else:
            _delta_table(spark, table.path).cloneAtVersion(table.version, target, isShallow=True)
    except Exception as error:
        raise SavepointError(
            f"{table.path} could not be copied to {target}. Remove the cause and clone again\n{all_said(error)}"
        ) from error


def _delta_table(spark: SparkSession, path: str) -> Any:
    from delta.tables import DeltaTable as SparkTable

    return SparkTable.forPath(spark, path)


def _read_version(spark: SparkSession, table: SavedTable) -> DataFrame:
    return spark.read.format("delta").option("versionAsOf", table.version).load(table.path)


def _file_exists(spark: SparkSession, file: str) -> bool:
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    path = jvm.org.apache.hadoop.fs.Path(file)
    return bool(path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path))  # noqa: SLF001 -- as above


def _require_none_missing(table: SavedTable, missing: int, total: int) -> None:
    if missing:
        raise _version_lost(table, f"{missing} of its {total} files were vacuumed")


def _version_lost(table: SavedTable, why: str, said: str = "") -> TableVersionLost:
    sentence = (
        f"the Delta table {table.path} no longer holds version {table.version} of this savepoint: {why}. Nothing was "
        "changed; use a newer savepoint, or put a copy of the table back that has the version; or move the folder of "
        "the table away, and the restore says how it does without it"
    )
    return TableVersionLost(f"{sentence}\n{said}" if said else sentence)
