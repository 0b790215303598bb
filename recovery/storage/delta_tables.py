"""A Delta table beside a checkpoint: what its log says, whether a version is still there, and how it goes back to one.

The log is read as what it is, JSON lines in numbered files: only there stands which transactions a commit had, and no
Java starts for it. The library `deltalake` answers what takes more than one commit, and restores, where it can be
trusted with the table: in milliseconds, where Spark takes seconds for each. Spark does the rest: tables that the
library does not write as Spark does, those on other file systems, and copies.

The library's `restore` and `history` let no other thread of Python run while they wait for a store, not even the one
that renews the lease: on S3 Spark restores.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from panekeeper.framework.declarations.durations import to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.session.s3_settings import is_s3, s3_settings
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.framework.engine.sink.library_rules import (
    NO_HOOKS,
    UnsupportedTable,
    files_of,
    open_table,
    panic_as_unsupported,
    storage_options,
)
from panekeeper.recovery.errors import SavepointError, TableVersionLost
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import parse_json
from panekeeper.state.checkpoint.job_record import OWNER, TRANSACTION
from panekeeper.state.errors import CheckpointError
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Commit = list[dict[str, Any]]
"""The actions of one version of a table, as its log has them."""

LOG = "_delta_log"
WEEK = timedelta(weeks=1)
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:.*\.)?(?:parquet|json)")
_COMMIT = re.compile(r"(\d{20})\.json")
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
            a copy that was written to since; None for a table that only Spark reaches.
    """

    path: str
    version: int
    sha256: str | None = None


# The log of a table.


def newest_first(table: Files) -> Iterator[tuple[int, Commit]]:
    """Yield version and actions of each commit, read one at a time: a caller may stop early in a long log."""
    for version in sorted(_versions(table.names(LOG), _COMMIT), reverse=True):
        name = _commit_file(version)
        try:
            actions = _actions_of(table.read(name))
        except ValueError as error:
            raise SavepointError(
                f"{name} in {table.root} is no commit of Delta's ({error}); restore the job from a savepoint, or put a "
                "copy of the table back"
            ) from error
        yield version, actions


def newest_version(table: Files) -> int:
    """Return a table's newest version; raises `SavepointError` if there is no table."""
    versions = _versions(table.names(LOG), _COMMIT)
    if not versions:
        raise SavepointError(
            f"{table.root} holds no Delta table ({LOG} has no commit), and the checkpoint names it as one; "
            "bring the table back, or restore the job from a savepoint"
        )
    return max(versions)


def has_version(table: Files, version: int) -> bool:
    """Return whether the log can still be read up to a version. The table's files may be gone nevertheless."""
    names = table.names(LOG)
    commits = _versions(names, _COMMIT)
    start = max((number for number in _versions(names, _CHECKPOINT) if number <= version), default=-1)
    return version in commits and all(number in commits for number in range(start + 1, version + 1))


def commit_checksum(table: Files, version: int) -> str:
    """Return the checksum of the commit of a version; raises `SavepointError` if the log does not have it any more."""
    try:
        return hashlib.sha256(table.read(_commit_file(version))).hexdigest()
    except FileNotFoundError as error:
        raise SavepointError(
            f"the log of {table.root} does not have version {version} any more, which belongs to the savepoint; drain "
            "the job and try again"
        ) from error


def transactions_of(table: Files) -> dict[str, int]:
    """Return id -> last version of the transactions of a table; a checkpoint of its log has those before it."""
    checkpoint, earlier = _checkpointed(table, "txn")
    found: dict[str, int] = {}
    for _, commit in takewhile(lambda one: one[0] > checkpoint, newest_first(table)):
        for one in (one["txn"] for one in commit if "txn" in one):
            found.setdefault(str(one.get("appId")), int(one["version"]))
    return {str(one["appId"]): int(one["version"]) for one in earlier} | found


def owner_of(transactions: Mapping[str, int]) -> str | None:
    """Return the id of the checkpoint that a table of these transactions belongs to; None if it does not say."""
    owner = transactions.get(OWNER)
    return None if owner is None else f"{owner:012x}"


def table_metadata(table: Files) -> dict[str, Any] | None:
    """Return the metadata of a table; a checkpoint of its log has it as of then. None if only Spark can read it."""
    checkpoint, earlier = _checkpointed(table, "metaData")
    later = takewhile(lambda one: one[0] > checkpoint, newest_first(table))
    found = next((one["metaData"] for _, commit in later for one in commit if "metaData" in one), None)
    found = found or next(iter(earlier), None)
    return None if found is None else {**found, "configuration": dict(found.get("configuration") or ())}


def table_properties(table: Files) -> dict[str, str] | None:
    """Return the properties of a table; None if they cannot be read without Spark."""
    metadata = table_metadata(table)
    return None if metadata is None else dict(metadata["configuration"])


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


def jobs_since(table: Files, version: int) -> dict[str, str]:
    """Return id of a checkpoint -> name of its job, of the jobs whose rows a table would lose or get at a version.

    What came after the version is lost, unless a restore since has discarded it; what such a restore has discarded from
    before the version comes back. Changes that no job has made have the id `""`: rows of another program, a DELETE.
    """
    jobs: dict[str, str] = {}
    kept_now = kept_then = newest_version(table)  # up to which version commits are kept
    for number, commit in newest_first(table):
        now, then = number <= kept_now, number <= min(kept_then, version)
        if now and then:
            break  # from here on both keep the same
        if is_restore(commit):
            to = restored_version(commit)
            kept_now = to if now and to >= 0 else kept_now
            kept_then = to if then and to >= 0 else kept_then
        elif now != then and any(map(_is_change, commit)):
            ids = [TRANSACTION.fullmatch(str(one["txn"].get("appId"))) for one in commit if "txn" in one]
            jobs |= {found[2]: found[1] for found in ids if found} or {"": ""}
    return jobs


def batch_of_commit(commit: Commit, transaction: str) -> int:
    """Return the batch of a job that a commit is, by its transaction id; -1 for none."""
    ids = [one["txn"]["version"] for one in commit if one.get("txn", {}).get("appId") == transaction]
    return max(ids, default=-1)


def committed_at(table: Files, version: int) -> datetime | None:
    """Return when a version was committed; None if its commit was cleaned up, or does not say."""
    time = time_of(table, version) if has_version(table, version) else 0
    return datetime.fromtimestamp(time / 1000, tz=UTC) if time else None


def time_of(table: Files, version: int) -> int:
    """Return when a version was committed, in ms since the epoch; 0 if its commit was cleaned up."""
    return next((commit_time(commit) for number, commit in newest_first(table) if number <= version), 0)


def commit_time(commit: Commit) -> int:
    """Return when a commit was made, in ms since the epoch; 0 if it does not say."""
    return max((one["commitInfo"].get("timestamp") or 0 for one in commit if "commitInfo" in one), default=0)


def is_restore(commit: Commit) -> bool:
    """Return whether a commit has taken its table back to an earlier version."""
    return operation_of(commit) == "RESTORE"


def restored_version(commit: Commit) -> int:
    """Return to which version a commit has restored its table; -1 if it does not say."""
    done: dict[str, Any] = next((one["commitInfo"] for one in commit if "commitInfo" in one), {})
    version = str((done.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else -1


def operation_of(commit: Commit) -> str | None:
    """Return what a commit was made by, as it says, such as MERGE; None if it does not say."""
    return next((one["commitInfo"].get("operation") for one in commit if "commitInfo" in one), None)


def _checkpointed(table: Files, kind: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the version of the newest checkpoint of the log, -1 for none, and the actions of a kind in it.

    The commits that have them may have been cleaned up.
    """
    names = [name for name in table.names(LOG) if _CHECKPOINT.fullmatch(name)]
    version, found = max(_versions(names, _CHECKPOINT), default=-1), list[dict[str, Any]]()
    for name in (name for name in names if int(name[:20]) == version):
        if name.endswith(".json"):
            actions = _actions_of(table.read(f"{LOG}/{name}"))
            found += [one[kind] for one in actions if isinstance(one.get(kind), dict)]
        else:
            try:
                with table.local_copy(f"{LOG}/{name}") as file:
                    column = pq.read_table(file, columns=[kind]).column(kind)
            except (pa.ArrowException, KeyError):
                continue  # a part of a checkpoint need not have each kind
            found += [one for one in column.to_pylist() if one is not None]
    return version, found


def _actions_of(content: bytes) -> Commit:
    actions = [parse_json(line) for line in content.splitlines() if line]
    if not all(isinstance(action, dict) for action in actions):
        raise ValueError("a line is no JSON object")
    return actions


def _is_change(action: Mapping[str, Any]) -> bool:
    """Return whether an action is one of rows or columns; OPTIMIZE writes the same rows to other files."""
    files = (action[kind] for kind in ("add", "remove") if kind in action)
    return "metaData" in action or any((file or {}).get("dataChange", True) for file in files)


def _commit_file(version: int) -> str:
    return f"{LOG}/{version:020d}.json"


def _versions(names: Iterable[str], kind: re.Pattern[str]) -> set[int]:
    return {int(match[1]) for name in names if (match := kind.fullmatch(name))}


# A table at a version.


def delta_options(folder: Files, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the library's options for a table: the store and the credentials that savepoints use.

    Args:
        folder: the table's.
        environment: the variables in which boto3 and Spark find the store.

    Raises:
        UnsupportedTable: new objects are encrypted in a way that the library is not known to follow.
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
    if (found := boto3.session.Session().get_credentials()) is not None:
        now = found.get_frozen_credentials()
        named = {"access.key": now.access_key, "secret.key": now.secret_key, "session.token": now.token}
        own |= {name: value for name, value in named.items() if value}
    return storage_options(own)


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
    spark = session()
    try:
        files = _read_version(spark, table).inputFiles()
    except Exception as error:
        raise _version_lost(table, first_line(error)) from error
    _require_none_missing(table, sum(not _file_exists(spark, file) for file in files), len(files))


def missing_files(folder: Files, table: SavedTable) -> tuple[int, int]:
    """Return how many files a table has at its version, and how many of them are gone, or cut short.

    The log must still have the version. Raises `UnsupportedTable` if Spark must look.
    """
    files = files_of(open_table(folder.root, delta_options(folder), table.version))
    paths, sizes = files.column("path").to_pylist(), files.column("size_bytes").to_pylist()
    there = folder.sizes() if paths else {}
    return len(paths), sum(there.get(unquote(path)) != size for path, size in zip(paths, sizes, strict=True))


def restore_table(
    session: Callable[[], SparkSession],
    table: SavedTable,
    folder: Files | None,
    *,
    before_commit: Callable[[], None] = lambda: None,
) -> None:
    """Restore a table to its version; nothing happens if that is its newest one, or was restored last.

    Args:
        session: returns the session that reaches the table, if Spark is needed.
        table: the table and its version.
        folder: its folder; None: only Spark reaches it.
        before_commit: called before the RESTORE; raises if this process may not write any more. If it is paused between
            the two for longer than its lease, Spark takes back what was written meanwhile: its RESTORE takes no
            condition. The library refuses its own if another commit came first.

    Raises:
        SavepointError: Delta could not restore it.
    """
    if folder is not None:
        try:
            restore_by_library(folder, table, before_commit=before_commit)
        except UnsupportedTable as reason:
            _log.info("%s: Spark restores version %d: %s", table.path, table.version, reason)
        else:
            return
    with _translate_errors(
        f"{table.path} could not be restored to version {table.version}", "run the same restore again"
    ):
        delta = _delta_table(session(), table.path)
        columns = ("version", "operation", "operationParameters")
        version, operation, parameters = delta.history(1).select(*columns).collect()[0]
        just_restored = operation == "RESTORE" and parameters.get("version") == str(table.version)
        if version != table.version and not just_restored:
            before_commit()
            delta.restoreToVersion(table.version)


def restore_by_library(folder: Files, table: SavedTable, *, before_commit: Callable[[], None] = lambda: None) -> None:
    """Do the same without Spark. Raises `UnsupportedTable` if Spark must restore the table, and that is not done yet.

    The transaction ids of later commits stay in the table's log, as after a RESTORE by Spark. No commit is removed from
    the log, however old it is: the same restore, if it is killed now, and those of other savepoints need them.
    """
    if _was_restored_last(folder, table.version):
        return
    if "://" in folder.root:
        raise UnsupportedTable("the library would hold up all other threads while it waits for the store")
    delta = open_table(folder.root, {})
    if delta.version() == table.version:
        return
    files_of(delta)
    files_of(open_table(folder.root, {}, table.version))
    before_commit()
    try:
        with panic_as_unsupported():
            delta.restore(table.version, post_commithook_properties=NO_HOOKS)
    except (DeltaError, OSError) as error:
        raise UnsupportedTable(f"the library cannot restore it: {str(error).splitlines()[0]}") from error


def _was_restored_last(table: Files, version: int) -> bool:
    """Return whether the newest commit of a table restored it to a version, but for those of transactions alone."""
    for _, commit in newest_first(table):
        if is_restore(commit):
            return restored_version(commit) == version
        if any(not one.keys() <= {"commitInfo", "txn"} for one in commit):
            return False
    return False


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


def version_of(spark: SparkSession, path: str) -> int:
    """Return a table's newest version; raises `SavepointError` if it cannot be read."""
    with _translate_errors(f"{path} cannot be read as a Delta table", "try again"):
        return int(_delta_table(spark, path).history(1).select("version").collect()[0][0])


def properties_of(spark: SparkSession, path: str) -> dict[str, str]:
    """Return a table's properties; raises `SavepointError` if it cannot be read."""
    with _translate_errors(f"{path} cannot be read as a Delta table", "try again"):
        return dict(_delta_table(spark, path).detail().select("properties").collect()[0][0])


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
    from panekeeper.framework.engine.session.settings import READ_SETTINGS, WRITE_SETTINGS, session_settings

    with _translate_errors(f"{table.path} could not be copied to {to}", "remove the clone's folder and clone again"):
        if deep:
            with session_settings(spark, READ_SETTINGS | WRITE_SETTINGS):
                _read_version(spark, table).write.format("delta").save(to)
        else:
            _delta_table(spark, table.path).cloneAtVersion(table.version, to, isShallow=True)


def _delta_table(spark: SparkSession, path: str) -> Any:
    from delta.tables import DeltaTable as SparkTable

    return SparkTable.forPath(spark, path)


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


def _version_lost(table: SavedTable, why: str) -> TableVersionLost:
    return TableVersionLost(
        f"the Delta table {table.path} no longer holds version {table.version} of this savepoint: {why}. Nothing was "
        "changed; use a newer savepoint, and raise delta.logRetentionDuration and delta.deletedFileRetentionDuration "
        "of the table to keep versions longer"
    )
