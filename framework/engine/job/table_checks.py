"""Do the tables of a job fit its checkpoint (A6, A7)? Are they its own, in their roles, with its batches and no others?

Each can be put back from an older copy, removed, or made again, while the job is stopped. If only one of them is,
batches would be missing for ever, or be there twice. Each commit of a batch has its number as transaction version in
the log of the table, so it is compared:

* with what the record of the last batch says that each table has (`PreparedBatch.tables`): a table is an older copy, or
  another one;
* with the last batch that the checkpoint has begun: the checkpoint is an older copy;
* with the epoch that a restore or a reset has committed to each table: a table is from before that.

What somebody does to the rows by a commit of Delta's (DELETE, OPTIMIZE, VACUUM, RESTORE) leaves the transactions in the
log of the table, and is no business of a start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointError, SinkError
from panekeeper.framework.engine.sink.fencing import require_owned
from panekeeper.framework.engine.sink.library_table import FENCED
from panekeeper.state.checkpoint.folder import place_of
from panekeeper.state.checkpoint.job_record import is_new
from panekeeper.state.prepared import last_decided, last_prepared

if TYPE_CHECKING:
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.delta_tables import DeltaTables
    from panekeeper.state.checkpoint.job_record import JobRecord

LastTransaction = Callable[[str, str], int]
"""Returns the last version that the table at a path has of a transaction id; -1 for none."""
TableRecord = dict[str, dict[str, Any]]
"""Role -> what a table has: `path`, `id`, and `batch`, the newest batch that was written to it in this epoch, -1 for
none. A role that is not declared any more stays in it. Stored with each batch."""


def require_fitting_tables(
    files: CheckpointFiles,
    record: JobRecord,
    tables: Mapping[str, str | None],
    opened: DeltaTables,
    *,
    metadata: Mapping[str, Mapping[str, Any]],
    made: Mapping[str, str],
) -> TableRecord:
    """Refuse tables that do not fit the checkpoint, and return what those have that do.

    Args:
        files: the job's checkpoint, in which no batch is left that tables have in part.
        record: what it says of the job.
        tables: role -> path of the job's tables, which are all there.
        opened: the tables that are open already.
        metadata: role -> metadata of the table, as its log has it.
        made: role -> path of the tables that the last start had.

    Raises:
        CheckpointError: a table has a batch that this checkpoint has not begun.
        SinkError: a table belongs to another checkpoint or role, is an older copy, or has rows that are discarded.
    """
    last = cache(partial(opened.last_transaction, files.spark))  # nobody else commits under our transactions
    require_owned(files.spark, tables, record, opened)
    require_same_roles(record, tables, made, last)
    decided = last_decided(files, record)  # of one that is not, nothing is in a table, and it is run again
    require_no_later_batch(files.root, record, tables, last, begun=decided)
    has_rows = partial(opened.has_rows, files.spark)
    if (new := is_new(files)) or made:
        require_no_discarded_rows(record, tables, made.values(), last, has_rows, is_new=new)
    batch = last_prepared(files, record, decided)
    known = {} if batch is None else batch.tables
    ids = {role: str(one["id"]) for role, one in metadata.items()}
    return require_all_batches(known, record, tables, ids, last, written=made.values())


def require_all_batches(
    known: Mapping[str, Mapping[str, Any]],
    record: JobRecord,
    tables: Mapping[str, str | None],
    ids: Mapping[str, str],
    last_transaction: LastTransaction,
    *,
    written: Collection[str],
) -> TableRecord:
    """Refuse tables that are behind the checkpoint of their job, and return what those have that are not.

    Args:
        known: what they had after the last batch of this epoch, as it is recorded; empty if there was none.
        record: what the checkpoint says of the job.
        tables: role -> path of the job's tables, which are all there.
        ids: role -> id of the table.
        last_transaction: reads them.
        written: paths of those that the checkpoint has named as its own in this epoch.

    Raises:
        SinkError: a table is an older copy, or another one than the job has written to.
    """
    found: TableRecord = {role: dict(one) for role, one in known.items()}
    own = {place_of(path) for path in written}
    for role, path in tables.items():
        if path is None:
            continue
        batch, before = last_transaction(path, record.transaction(role)), known.get(role)
        if before is not None and (before["id"] == ids[role] or place_of(before["path"]) == place_of(path)):
            require_has(role, path, ids[role], before, batch)
        if record.epoch and place_of(path) in own and last_transaction(path, record.joined(role)) != record.epoch:
            raise _missing(role, path, "is an older copy: it is from before the last restore or reset")
        found[role] = {"path": path, "id": ids[role], "batch": batch}
    return found


def require_has(role: str, path: str, id_: str, known: Mapping[str, Any], batch: int) -> None:
    """Refuse a table that lacks what the job has written to it.

    Args:
        role: of the table.
        path: its folder.
        id_: its id.
        known: what it has to have.
        batch: the newest batch that it has; -1 for none.

    Raises:
        SinkError: it is an older copy, or another table.
    """
    if batch >= known["batch"]:
        return
    if known["id"] != id_:
        what = f"is another table than the one that this checkpoint has written to: its id is {id_}, not {known['id']}"
        raise _missing(role, path, f"{what}; results of batches up to {known['batch']} were in that")
    newest = f"batch {batch} is" if batch >= 0 else "no batch is"
    what = (
        f"is an older copy: {newest} the newest that it has of this job, and batch {known['batch']} was written to it"
    )
    raise _missing(role, path, what)


def _missing(role: str, path: str, what: str) -> SinkError:
    return SinkError(
        f"the {role} {path} {what}. Results would be missing for ever, because batches are not run again. Put the "
        "table back as the job has left it; or restore a savepoint, which takes the checkpoint back, too; or reset the "
        "job to its initial state, or give it a new checkpoint folder and new tables"
    )


def require_same_roles(
    record: JobRecord,
    tables: Mapping[str, str | None],
    written: Mapping[str, str],
    last_transaction: LastTransaction,
) -> None:
    """Refuse a table that the job has written to as another one: a log would be merged into as a view.

    Args:
        record: what the checkpoint says of the job.
        tables: role -> path of the job's tables.
        written: the same, as the last start had them.
        last_transaction: reads them.

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
    checkpoint: str,
    record: JobRecord,
    tables: Mapping[str, str | None],
    last_transaction: LastTransaction,
    *,
    begun: int | None,
) -> None:
    """Refuse a checkpoint that is behind the tables of its job.

    Args:
        checkpoint: its full name.
        record: what the checkpoint says of the job.
        tables: role -> path of the job's tables.
        last_transaction: reads them.
        begun: the last batch that they may have; None: none. To run one again that a table has would skip it there.

    Raises:
        CheckpointError: a table has a batch that this checkpoint has not begun.
    """
    last = -1 if begun is None else begun
    for role, path in tables.items():
        if path is None or (found := last_transaction(path, record.transaction(role))) <= last:
            continue
        ahead = "was restored or reset since" if found >= FENCED else f"has batch {found} already"
        raise CheckpointError(
            f"the checkpoint {checkpoint} is an older copy: it has recorded no batch after {last}, and the {role} "
            f"{path} of job {record.name!r} {ahead}. It would skip the batches that are run again, and rows would be "
            "lost. Put the newest state of this folder back; or restore a savepoint, which takes the tables back, too; "
            "or, if there is neither, reset the job to its initial state, or give it a new checkpoint folder and new "
            "tables"
        )


def require_no_discarded_rows(
    record: JobRecord,
    tables: Mapping[str, str | None],
    written: Collection[str],
    last_transaction: LastTransaction,
    has_rows: Callable[[str], bool],
    *,
    is_new: bool = False,
) -> None:
    """Refuse a table with rows of batches that a restore has discarded: it has not gone back with the others.

    A savepoint has the tables that the job had then. One that was declared since still has what it got, and batches
    that are run again come with the next epoch, which it would take for new ones. It may have gone back with a restore
    to another savepoint in between, so it must have joined in this very epoch (`framework/engine/sink/fencing.py`).

    Args:
        record: what the checkpoint says of the job.
        tables: role -> path of the job's tables.
        written: paths of those that the checkpoint names as its own.
        last_transaction: reads them.
        has_rows: returns whether a table has rows.
        is_new: the epoch has no batch. Then tables keep what they have, but for the view, which a reset empties.

    Raises:
        SinkError: a table has such rows.
    """
    earlier = record.earlier_epochs(before=record.epoch)
    own = set() if is_new else {place_of(path) for path in written}
    for role, path in tables.items():
        if path is None or place_of(path) in own or (is_new and role != "view"):
            continue
        if last_transaction(path, record.joined(role)) == record.epoch:
            continue
        if any(last_transaction(path, one.transaction(role)) >= 0 for one in earlier) and has_rows(path):
            raise SinkError(
                f"the {role} {path} has rows of job {record.name!r} from before a restore or reset, and did not go "
                "back with it, as the job had other tables when the savepoint was made, or when it was reset: batches "
                "that are run again would be there twice. Choose another folder for it; or, if you need none of its "
                "rows, not even those of batches before the savepoint, remove them by a DELETE"
            )
