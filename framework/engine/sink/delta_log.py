"""The versions of a Delta table: read from its log, and how a table goes back to one.

The log is read as what it is, JSON lines in numbered files: only there stands which transactions a commit had, and no
Java starts for it. The library `deltalake` takes a table back where it can be trusted with it: in milliseconds, where
Spark takes seconds. Its `restore` lets no other thread of Python run while it waits for a store, not even the one that
renews the lease: on S3 Spark restores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import DeltaError

from panekeeper.framework.declarations.errors import CheckpointError, SinkError
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.library_rules import (
    NO_HOOKS,
    UnsupportedTable,
    files_of,
    open_table,
    panic_as_unsupported,
    text_of,
)
from panekeeper.state.checkpoint.folder import CheckpointFolder, parse_json
from panekeeper.state.checkpoint.job_record import TRANSACTION
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Commit = list[dict[str, Any]]
"""The actions of one version of a table, as its log has them."""

LOG = "_delta_log"
COMMIT = re.compile(r"(\d{20})\.json")
_log = logger("restore")


def newest_first(table: CheckpointFolder) -> Iterator[tuple[int, Commit]]:
    """Yield version and actions of each commit, read one at a time: a caller may stop early in a long log."""
    for version in sorted(versions_in(table.names(LOG), COMMIT), reverse=True):
        name = commit_file(version)
        try:
            actions = actions_of(table.read(name))
        except ValueError as error:
            raise SinkError(
                f"{name} in {table.root} is not a Delta commit ({error}); put a copy of the table back, or move its "
                "folder away and restore the job from a savepoint"
            ) from error
        yield version, actions


def newest_version(table: CheckpointFolder) -> int:
    """Return a table's newest version; raises `SinkError` if there is no table."""
    versions = versions_in(table.names(LOG), COMMIT)
    if not versions:
        raise SinkError(
            f"{table.root} holds no Delta table ({LOG} has no commit), and the checkpoint names it as one; "
            "bring the table back, or restore the job from a savepoint"
        )
    return max(versions)


def jobs_since(table: CheckpointFolder, version: int) -> dict[str, str]:
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


def actions_of(content: bytes) -> Commit:
    """Return the actions of a commit. Raises `ValueError` if it is none."""
    actions = [parse_json(line) for line in content.splitlines() if line]
    if not all(isinstance(action, dict) for action in actions):
        raise ValueError("a line is no JSON object")
    return actions


def commit_file(version: int) -> str:
    """Return the name of the file of a commit in a table's folder."""
    return f"{LOG}/{version:020d}.json"


def versions_in(names: Iterable[str], kind: re.Pattern[str]) -> set[int]:
    """Return the versions that files of a kind are of."""
    return {int(match[1]) for name in names if (match := kind.fullmatch(name))}


def _is_change(action: Mapping[str, Any]) -> bool:
    """Return whether an action is one of rows or columns; OPTIMIZE writes the same rows to other files."""
    files = (action[kind] for kind in ("add", "remove") if kind in action)
    return "metaData" in action or any((file or {}).get("dataChange", True) for file in files)


def restore_table(
    spark: Callable[[], SparkSession],
    path: str,
    version: int,
    folder: CheckpointFolder,
    *,
    require_held: Callable[[], None] = lambda: None,
) -> None:
    """Take a table back to a version; nothing happens if that is its newest one, or was restored last.

    `require_held` raises if this process may not write any more. The commit gets the version after the newest one that
    the RESTORE has read, or is refused, by the library and by Spark; but Spark reads it only when the RESTORE begins.
    If this process is paused between `require_held` and that for longer than its lease, Spark takes back what was
    written meanwhile. The library has read it before `require_held`, and refuses.
    """
    if _was_restored_last(folder, version):
        return
    try:
        restore_by_library(folder, version, require_held=require_held)
    except UnsupportedTable as reason:
        _log.info("%s: Spark restores version %d: %s", path, version, reason)
    else:
        return
    from delta.tables import DeltaTable

    try:
        table = DeltaTable.forPath(spark(), path)
        if int(table.history(1).select("version").collect()[0][0]) != version:
            require_held()
            table.restoreToVersion(version)
    except CheckpointError:
        raise
    except Exception as error:
        raise SinkError(
            f"{path} could not be restored to version {version}. Remove the cause and run the same restore again; or "
            f"restore another savepoint\n{all_said(error)}"
        ) from error


def restore_by_library(
    folder: CheckpointFolder, version: int, *, require_held: Callable[[], None] = lambda: None
) -> None:
    """Do the same without Spark. Raises `UnsupportedTable` if Spark must restore the table.

    The transaction ids of later commits stay in the table's log, as after a RESTORE by Spark. No commit is removed from
    the log, however old it is: the same restore, if it is killed now, and those of other savepoints need them.
    """
    if "://" in folder.root:
        raise UnsupportedTable("the library would hold up all other threads while it waits for the store")
    delta = open_table(folder.root, {})
    if delta.version() == version:
        return
    files_of(delta)
    files_of(open_table(folder.root, {}, version))
    require_held()
    try:
        with panic_as_unsupported():
            delta.restore(version, post_commithook_properties=NO_HOOKS)
    except (DeltaError, OSError) as error:
        raise UnsupportedTable(f"the library cannot restore it: {text_of(error)}") from error


def _was_restored_last(table: CheckpointFolder, version: int) -> bool:
    """Return whether the newest commit of a table restored it to a version, but for those of transactions alone."""
    for _, commit in newest_first(table):
        if is_restore(commit):
            return restored_version(commit) == version
        if any(not one.keys() <= {"commitInfo", "txn"} for one in commit):
            return False
    return False
