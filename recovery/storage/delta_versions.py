"""A Delta table at an earlier version, by the library `deltalake`: are its files there, restore it. Without Spark.

Milliseconds, where Spark takes seconds for each table: of a restore's time that was nearly all. A table that the
library cannot be trusted to write, at its newest version or at the earlier one, is left to Spark.

Its `restore` and `history` let no other thread of Python run while they wait for a store, not even the one that renews
the lease: on S3 Spark restores. It reaches a store by the options and credentials that savepoints use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from panekeeper.framework.engine.session.s3_settings import s3_settings
from panekeeper.framework.engine.sink.library_rules import (
    NO_HOOKS,
    UnsupportedTable,
    files_of,
    open_table,
    panic_as_unsupported,
    storage_options,
)
from panekeeper.recovery.storage.delta_log import SavedTable, was_restored_last
from panekeeper.recovery.storage.files import Files

_S3A = "spark.hadoop.fs.s3a."


def delta_options(folder: Files, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the library's options for a table.

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
    endpoint = {} if folder.s3.endpoint is None else {"AWS_ENDPOINT_URL_S3": folder.s3.endpoint}
    settings = s3_settings({**environment, **endpoint})
    own = {name.removeprefix(_S3A): value for name, value in settings.items() if name.startswith(_S3A)}
    return storage_options({**own, **_credentials()})


def _credentials() -> dict[str, str]:
    """Return what boto3 finds, in the environment, a profile or a role; the library looks in fewer places."""
    import boto3

    found = boto3.session.Session().get_credentials()
    if found is None:
        return {}
    now = found.get_frozen_credentials()
    named = {"access.key": now.access_key, "secret.key": now.secret_key, "session.token": now.token}
    return {name: value for name, value in named.items() if value}


def missing_files(folder: Files, table: SavedTable) -> tuple[int, int]:
    """Return how many files a table has at its version, and how many of them are gone, or cut short.

    Args:
        folder: the table's folder.
        table: the table and its version, which the log must still have.

    Raises:
        UnsupportedTable: Spark must look.
    """
    files = files_of(_open(folder, table.version))
    sizes = dict(
        zip(map(unquote, files.column("path").to_pylist()), files.column("size_bytes").to_pylist(), strict=True)
    )
    there = folder.sizes() if sizes else {}
    return len(sizes), sum(there.get(name) != size for name, size in sizes.items())


def restore(
    folder: Files,
    table: SavedTable,
    *,
    before_commit: Callable[[], None] = lambda: None,
) -> None:
    """Restore a table to its version; nothing happens if that is its newest one, or was restored last.

    The transaction ids of later commits stay in the table's log, as after a RESTORE by Spark. No commit is removed from
    the log, however old it is: the same restore, if it is killed now, and those of other savepoints need them.

    Args:
        folder: the table's folder.
        table: the table and its version, which the log must still have.
        before_commit: called when it is decided after which commit the RESTORE comes; raises if none may come any more.
            If another one comes first meanwhile, the library refuses its own.

    Raises:
        UnsupportedTable: Spark must restore it, if that is not done yet.
    """
    if was_restored_last(folder, table.version):
        return
    if "://" in folder.root:
        raise UnsupportedTable("the library would hold up all other threads while it waits for the store")
    delta = _open(folder)
    if delta.version() == table.version:
        return
    files_of(delta)
    files_of(_open(folder, table.version))
    before_commit()
    try:
        with panic_as_unsupported():
            delta.restore(table.version, post_commithook_properties=NO_HOOKS)
    except (DeltaError, OSError) as error:
        raise UnsupportedTable(f"the library cannot restore it: {str(error).splitlines()[0]}") from error


def _open(folder: Files, version: int | None = None) -> DeltaTable:
    return open_table(folder.root, delta_options(folder), version)
