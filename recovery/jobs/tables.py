"""Which version of each table of a job goes with a batch, and do its tables fit its checkpoint? Without Spark.

Either may have been put back from a backup, or taken over by a restore. A start refuses tables that do not fit. A
savepoint of them would hide that: a restore of it begins an epoch of which the tables know nothing yet, and a job that
starts in it would lack batches, or have some of them twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from panekeeper.framework.engine.job.table_checks import require_all_batches, require_no_later_batch
from panekeeper.framework.engine.sink.delta_log import (
    batch_of_commit,
    is_restore,
    newest_first,
    newest_version,
    restored_version,
)
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.storage.delta_tables import owner_of, table_metadata, transactions_of
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import table_at
from panekeeper.state.checkpoint.epochs import read_begin
from panekeeper.state.checkpoint.folder import INPUTS_FILE, TABLES_FILE
from panekeeper.state.checkpoint.job_record import JobRecord, last_batches
from panekeeper.state.prepared import last_prepared
from panekeeper.state.table_roles import is_owned


def versions_after_batch(tables: Mapping[str, Files], transactions: Mapping[str, str], batch: int) -> dict[str, int]:
    """Return role -> the newest version that holds no row of a later batch.

    An interrupted batch may have been committed to some tables and not to others. Each commit has its batch as the
    version of a transaction of the job. Raises `SavepointError` if the log of a table does not go back that far.
    """
    return {role: _version_after(table, transactions[role], batch) for role, table in tables.items()}


def _version_after(table: Files, transaction: str, batch: int) -> int:
    version = newest_version(table)
    for number, commit in kept_commits(table):
        done = batch_of_commit(commit, transaction)
        if done > batch:
            version = number - 1
        elif done >= 0:
            return version  # batches are in order in the log
    last = transactions_of(table).get(transaction, -1)
    if last > batch and not any(batch_of_commit(commit, transaction) > batch for _, commit in newest_first(table)):
        raise SavepointError(
            f"{table.root} has batch {last}, which is not finished, and the commit of it was cleaned up, so no version "
            "is without its rows. Start the job once, which completes the batch, and try again"
        )
    return version


def kept_commits(table: Files, version: int | None = None) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield as `newest_first`, without the commits that a restore has discarded; one to a time does not say which.

    `version` is the last one that counts; None: the newest.
    """
    for number, commit in newest_first(table):
        if version is None or number <= version:
            yield number, commit
            if is_restore(commit) and (to := restored_version(commit)) >= 0:
                version = to


def require_fitting_tables(folder: Files, record: JobRecord, tables: Mapping[str, str]) -> None:
    """Refuse tables with batches that the checkpoint has not begun, without some of its own, or of another checkpoint.

    The job may run meanwhile.
    """
    if not folder.exists(TABLES_FILE) and folder.exists(INPUTS_FILE):
        raise SavepointRefused(
            f"{TABLES_FILE} in {folder.root} is gone, which says which tables belong to the job: a savepoint would "
            "lack them. Start the job once, which writes it, and try again"
        )
    begin = read_begin(folder)
    if begin is not None and begin.remade:
        raise SavepointRefused(
            f"{folder.root} was restored without the {', '.join(begin.remade)}, which the next start makes: a "
            "savepoint would lack them. Start the job once, and try again"
        )
    # Before the tables are read: a running job adds to them, so they may have more than this, and not less.
    batch = last_prepared(folder, record, last_batches(folder)[1])
    logs = {role: table_at(path, folder.s3) for role, path in tables.items()}
    transactions = {tables[role]: transactions_of(files) for role, files in logs.items()}
    metadata = {role: found for role, files in logs.items() if (found := table_metadata(files)) is not None}

    def last_transaction(path: str, one: str) -> int:
        return transactions[path].get(one, -1)

    for role in filter(is_owned, logs):
        require_owned(tables[role], owner_of(transactions[tables[role]]), folder, record)
    begun = last_batches(folder)[0]
    require_no_later_batch(folder.root, record, tables, last_transaction, begun=begun)
    known, ids = {role: tables[role] for role in metadata}, {role: str(one["id"]) for role, one in metadata.items()}
    had = {} if batch is None else batch.tables
    require_all_batches(had, record, known, ids, last_transaction, written=known.values())


def require_owned(table: str, owner: str | None, folder: Files, record: JobRecord) -> None:
    """Raise `SavepointRefused` if a table says that it belongs to another checkpoint."""
    if owner not in (None, record.id):
        raise SavepointRefused(
            f"the table {table} belongs to another checkpoint (id {owner}) than {folder.root}; give that one"
        )
