"""Which version of each table of a job goes with a batch, and do its tables fit its checkpoint? Without Spark.

Either may have been put back from a backup, or taken over by a restore. A start refuses tables that do not fit. A
savepoint of them would hide that: a restore of it begins an epoch of which the tables know nothing yet, and a job that
starts in it would lack batches, or have some of them twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from panekeeper.framework.engine.job.table_checks import require_fitting_tables
from panekeeper.framework.engine.sink.delta_log import kept_commits, newest_first, newest_version, read_table
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.jobs.gone_tables import why_gone
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
    for commit in kept_commits(table):
        done = commit.transactions.get(transaction, -1)
        if done > batch:
            version = commit.version - 1
        elif done >= 0:
            return version  # batches are in order in the log
    last = read_table(table).last_transaction(transaction)
    if last > batch and not any(
        logged_commit.transactions.get(transaction, -1) > batch for logged_commit in newest_first(table)
    ):
        raise SavepointError(
            f"{table.root} has batch {last}, which is not finished, and the commit of it was cleaned up, so no version "
            "is without its rows. Start the job once, which completes the batch, and try again"
        )
    return version


def require_own_tables(folder: Files, record: JobRecord, tables: Mapping[str, str]) -> None:
    """Refuse tables with batches that the checkpoint has not begun, without some of its own, or of another checkpoint.

    And those that are gone, by what to do. The job may run meanwhile.
    """
    if not folder.exists(TABLES_FILE) and folder.exists(INPUTS_FILE):
        raise SavepointRefused(
            f"{TABLES_FILE} in {folder.root} is gone, which says which tables belong to the job: a savepoint would "
            "lack them. Start the job once, which writes it, and try again"
        )
    begin = read_begin(folder)
    if begin is not None and begin.remade:
        raise SavepointRefused(
            f"{folder.root} was {'reset' if begin.kind == 'reset' else 'restored'} without the "
            f"{', '.join(begin.remade)}, which the next start makes: a savepoint would lack them. Start the job once, "
            "and try again"
        )
    if (why := why_gone(folder, tables)) is not None:
        raise SavepointError(why)
    # Before the tables are read: a running job adds to them, so they may have more than this, and not less.
    last = last_prepared(folder, record, last_batches(folder)[1])
    stored_tables = {role: read_table(table_at(path, folder.s3), path) for role, path in tables.items()}
    for role, table in stored_tables.items():
        if is_owned(role):
            require_owned(table.path, table.owner, folder, record)
    begun = last_batches(folder)[0]
    require_fitting_tables(folder.root, record, stored_tables, begun=begun, last=last, written=tables.values())


def require_owned(table: str, owner: str | None, folder: Files, record: JobRecord) -> None:
    """Raise `SavepointRefused` if a table says that it belongs to another checkpoint."""
    if owner not in (None, record.id):
        raise SavepointRefused(
            f"the table {table} belongs to another checkpoint (id {owner}) than {folder.root}; give that one"
        )
