"""Do the tables of a job fit its checkpoint? Either may have been put back from a backup, or taken over by a restore.

A start refuses tables that do not fit. A savepoint of them would hide that: a restore of it begins an epoch of which
the tables know nothing yet, and a job that starts in it would lack batches, or have some of them twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from panekeeper.framework.engine.job.table_checks import require_all_batches, require_no_later_batch
from panekeeper.framework.engine.sink.fencing import OWNED
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.storage.delta_log import (
    batch_of_commit,
    newest_first,
    owner_of,
    table_metadata,
    transactions_of,
)
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import files_at
from panekeeper.state.checkpoint.folder import INPUTS_FILE, TABLES_FILE
from panekeeper.state.checkpoint.job_record import JobRecord, last_batches
from panekeeper.state.prepared import last_prepared


def require_fitting_tables(folder: Files, record: JobRecord, tables: Mapping[str, str]) -> None:
    """Refuse tables with batches that the checkpoint has not begun, without some of its own, or of another checkpoint.

    Args:
        folder: the checkpoint.
        record: what it says of its job, which may run meanwhile.
        tables: role -> path of the tables that it names. Those that only Spark reaches are not checked.

    Raises:
        SavepointRefused: a table belongs to another checkpoint; or which tables there are is not known.
        CheckpointError: the checkpoint is older than a table.
        SinkError: a table is older than the checkpoint.
        SavepointError: the log of a table cannot be read.
    """
    if not folder.exists(TABLES_FILE) and folder.exists(INPUTS_FILE):
        raise SavepointRefused(
            f"{TABLES_FILE} in {folder.root} is gone, which says which tables belong to the job: a savepoint would "
            "lack them. Start the job once, which writes it, and try again"
        )
    # Before the tables are read: a running job adds to them, so they may have more than this, and not less.
    batch = last_prepared(folder, record, last_batches(folder)[1])
    logs = {role: files for role, path in tables.items() if (files := files_at(path, folder.s3)) is not None}
    transactions = {tables[role]: transactions_of(files) for role, files in logs.items()}
    metadata = {role: found for role, files in logs.items() if (found := table_metadata(files)) is not None}

    def last_transaction(path: str, one: str) -> int:
        return transactions[path].get(one, -1)

    for role in (role for role in OWNED if role in logs):
        require_owned(tables[role], owner_of(transactions[tables[role]]), folder, record)
    begun = last_batches(folder)[0]
    require_no_later_batch(folder.root, record, {role: tables[role] for role in logs}, last_transaction, begun=begun)
    known, ids = {role: tables[role] for role in metadata}, {role: str(one["id"]) for role, one in metadata.items()}
    had = {} if batch is None else batch.tables
    require_all_batches(had, record, known, ids, last_transaction, written=known.values())


def require_of_this_epoch(
    folder: Files, record: JobRecord, batch: int, tables: Mapping[str, Files], versions: Mapping[str, int]
) -> None:
    """Refuse versions of before the last restore, which have the rows of the batch after: Spark's commit of it is lost.

    Args:
        folder: the checkpoint.
        record: what it says of its job.
        batch: the last one that it has committed.
        tables: role -> folder.
        versions: role -> version after that batch, as it seems.

    Raises:
        SavepointRefused: a table has become one of this epoch later than that.
    """
    for role, table in tables.items():
        if _has_joined_after(versions[role], table, record.joined(role), record.epoch):
            raise SavepointRefused(
                f"batch {batch + 1} of {folder.root} was committed when that was restored or cloned, the {role} "
                f"{table.root} has it, and Spark's commit of it is gone. Start the job once, which writes that again, "
                "and try again"
            )


def _has_joined_after(version: int, table: Files, transaction: str, epoch: int) -> bool:
    for number, commit in newest_first(table):
        if number <= version:
            return False
        if batch_of_commit(commit, transaction) == epoch:
            return True
    return False


def require_owned(table: str, owner: str | None, folder: Files, record: JobRecord) -> None:
    """Refuse a table that another checkpoint writes to.

    Args:
        table: its path.
        owner: the id of the checkpoint that it belongs to; None if it does not say.
        folder: the checkpoint at hand.
        record: what that says of its job.

    Raises:
        SavepointRefused: it belongs to another one.
    """
    if owner not in (None, record.id):
        raise SavepointRefused(
            f"the table {table} belongs to another checkpoint (id {owner}) than {folder.root}; give that one"
        )
