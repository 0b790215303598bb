"""Do the tables of a start fit its checkpoint: are they its own, in their roles, with its batches and no others?

A table has other batches if the checkpoint is an older copy, or if the table has not gone back in a restore.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointError, SinkError
from panekeeper.framework.engine.job.tables.table_record import TableRecord, require_all_batches, with_last_batch
from panekeeper.framework.engine.sink.fencing import require_owned
from panekeeper.framework.engine.sink.small_commits import FENCED
from panekeeper.state.checkpoint.folder import place_of
from panekeeper.state.checkpoint.run_record import is_new, last_batches
from panekeeper.state.prepared import last_prepared

if TYPE_CHECKING:
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.small_tables import SmallTables
    from panekeeper.state.checkpoint.folder import CheckpointFolder
    from panekeeper.state.checkpoint.job_record import JobRecord


def require_fitting_tables(
    files: CheckpointFiles,
    record: JobRecord,
    tables: Mapping[str, str | None],
    small: SmallTables,
    *,
    metadata: Mapping[str, Mapping[str, Any]],
    made: Mapping[str, str],
    stored: Mapping[str, Any] | None,
) -> TableRecord:
    """Refuse tables that do not fit the checkpoint, and return what is known of those that do.

    Args:
        files: the job's checkpoint, in which no batch is left that tables have in part.
        record: what it says of the job.
        tables: role -> path of the job's tables, which are all there.
        small: the tables that are open already.
        metadata: role -> metadata of the table, as its log has it.
        made: role -> path of the tables that the last start had.
        stored: what the last run has recorded of them; None if there was none, or one of an older version.

    Raises:
        CheckpointError: a table has a batch that this checkpoint has not begun.
        SinkError: a table belongs to another checkpoint or role, is an older copy, or has rows that are discarded.
    """
    last = small.transaction_reader(files.spark)  # nobody else commits under our transactions
    has_rows = partial(small.has_rows, files.spark)
    require_owned(files.spark, tables, record, small)
    require_same_roles(record, tables, made, last)
    written = None if is_new(files) else made.values()
    require_no_other_batch(files, record, tables, last, written=written, has_rows=has_rows)
    committed = last_batches(files)[1]
    known = with_last_batch(stored, last_prepared(files, record, committed))
    return require_all_batches(known, record, tables, metadata, last, committed=committed)


def require_no_other_batch(
    folder: CheckpointFolder,
    record: JobRecord,
    tables: Mapping[str, str | None],
    last_transaction: Callable[[str, str], int],
    *,
    written: Collection[str] | None,
    has_rows: Callable[[str], bool],
) -> None:
    """Refuse tables with batches that are not those of the checkpoint: later ones, or of before a restore.

    Args:
        folder: as for `require_no_later_batch`.
        record: the same.
        tables: the same.
        last_transaction: the same.
        written: as for `require_no_discarded_rows`; None before the first batch of the epoch, when tables keep what
            they have, but for the view, which a reset empties; and empty if the checkpoint does not say.
        has_rows: as there.

    Raises:
        CheckpointError: a table has a batch that this checkpoint has not begun.
        SinkError: a table has rows of batches that a restore has discarded.
    """
    require_no_later_batch(folder, record, tables, last_transaction)
    if written is None:
        view = {role: path for role, path in tables.items() if role == "view"}
        require_no_discarded_rows(record, view, (), last_transaction, has_rows)
    elif written:
        require_no_discarded_rows(record, tables, written, last_transaction, has_rows)


def require_same_roles(
    record: JobRecord,
    tables: Mapping[str, str | None],
    written: Mapping[str, str],
    last_transaction: Callable[[str, str], int],
) -> None:
    """Refuse a table that the job has written to as another one: a log would be merged into as a view.

    Args:
        record: what the checkpoint says of the job.
        tables: role -> path of the job's tables.
        written: the same, as the last start had them.
        last_transaction: returns the last version that a table has of a transaction id; -1 for none.

    Raises:
        SinkError: there is such a table.
    """
    before = {place_of(path): role for role, path in written.items()}
    for role, path in tables.items():
        if path is None:
            continue
        was = before.get(place_of(path), role)
        other = {"log": "view", "view": "log"}.get(role)
        epochs = [] if other is None or was != role else [record, *record.earlier_epochs(before=record.epoch)]
        if any(last_transaction(path, one.transaction(str(other))) >= 0 for one in epochs):
            was = str(other)
        if was != role:
            raise SinkError(
                f"{path} is declared as the {role} of job {record.name!r}, which has written its {was} there, and its "
                f"rows would be changed. Declare the {was} there, as before, or choose another folder for the {role}"
            )


def require_no_later_batch(
    folder: CheckpointFolder,
    record: JobRecord,
    tables: Mapping[str, str | None],
    last_transaction: Callable[[str, str], int],
) -> None:
    """Refuse a checkpoint that is behind the tables of its job.

    Args:
        folder: the job's checkpoint.
        record: what the checkpoint says of the job.
        tables: role -> path of the job's tables.
        last_transaction: returns the last version that a table has of a transaction id; -1 for none.

    Raises:
        CheckpointError: a table has a batch that this checkpoint has not begun.
    """
    begun, _ = last_batches(folder)
    last = -1 if begun is None else begun
    for role, path in tables.items():
        if path is None or (found := last_transaction(path, record.transaction(role))) <= last:
            continue
        ahead = "was restored or reset since" if found >= FENCED else f"has batch {found} already"
        raise CheckpointError(
            f"the checkpoint {folder.root} is an older copy: it has begun no batch after {last}, and the {role} {path} "
            f"of job {record.name!r} {ahead}. It would skip the batches that are run again, and rows would be lost. "
            "Put the newest state of this folder back; or restore a savepoint, which takes the tables back, too; or, "
            "if there is neither, reset the job to its initial state, or give it a new checkpoint folder and new tables"
        )


def require_no_discarded_rows(
    record: JobRecord,
    tables: Mapping[str, str | None],
    written: Collection[str],
    last_transaction: Callable[[str, str], int],
    has_rows: Callable[[str], bool],
) -> None:
    """Refuse a table with rows of batches that a restore has discarded: it has not gone back with the others.

    A savepoint has the tables that the job had then. One that was declared since still has what it got, and batches
    that are run again come with the next epoch, which it would take for new ones. It may have gone back with a restore
    to another savepoint in between, so it must have joined in this very epoch (`framework/engine/sink/fencing.py`).

    Args:
        record: what the checkpoint says of the job.
        tables: role -> path of the job's tables.
        written: paths of those that the checkpoint names as its own. Before its first batch, only to be called for the
            view: after a reset, the other tables keep what they have.
        last_transaction: returns the last version that a table has of a transaction id; -1 for none.
        has_rows: returns whether a table has rows.

    Raises:
        SinkError: a table has such rows.
    """
    earlier, own = record.earlier_epochs(before=record.epoch), {place_of(path) for path in written}
    for role, path in tables.items():
        if path is None or place_of(path) in own or last_transaction(path, record.joined(role)) == record.epoch:
            continue
        if any(last_transaction(path, one.transaction(role)) >= 0 for one in earlier) and has_rows(path):
            raise SinkError(
                f"the {role} {path} has rows of job {record.name!r} from before a restore or reset, and did not go "
                "back with it, as the job had other tables when the savepoint was made, or when it was reset: batches "
                "that are run again would be there twice. Choose another folder for it; or, if you need none of its "
                "rows, not even those of batches before the savepoint, remove them by a DELETE"
            )
