"""A Delta table goes back to an earlier version.

The library `deltalake` takes it back where it can be trusted with the table: in milliseconds, where Spark takes
seconds. Its `restore` lets no other thread of Python run while it waits for a store, not even the one that renews the
lease: on S3 Spark restores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from panekeeper.framework.declarations.errors import CheckpointError, SinkError
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.delta_log import newest_first
from panekeeper.framework.engine.sink.library_rules import (
    NO_HOOKS,
    UnsupportedTable,
    files_of,
    open_table,
    panic_as_unsupported,
    text_of,
)
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.state.checkpoint.folder import CheckpointFolder

_log = logger("restore")


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
    last = next((commit for commit in newest_first(table) if commit.restores is not None or not commit.is_note), None)
    return last is not None and last.restores == version
