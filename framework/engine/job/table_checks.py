"""Do the tables of a job fit its checkpoint? Are they its own, in their roles, with its batches and no others?

Each can be put back from an older copy, removed, or made again, while the job is stopped. If only one of them is,
batches would be missing for ever, or be there twice. Each commit of a batch has its number as transaction version in
the log of the table, so it is compared:

* with what the record of the last batch says that each table has (`PreparedBatch.tables`): a table is an older copy, or
  another one;
* with the last batch that the checkpoint has begun: the checkpoint is an older copy;
* with the epoch that a restore or a reset has committed to each table: a table is from before that.

What somebody does to the rows by a commit of Delta's (DELETE, OPTIMIZE, VACUUM, RESTORE) leaves the transactions in the
log of the table, and is no business of a start. Tables that fit become those of this start (`take_tables.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointError, SinkError
from panekeeper.framework.engine.sink.fencing import require_owned
from panekeeper.framework.engine.sink.library_table import FENCED
from panekeeper.state.checkpoint.folder import CheckpointFolder, place_of
from panekeeper.state.checkpoint.job_record import OWNER, is_new
from panekeeper.state.prepared import last_decided, last_prepared
from panekeeper.state.table_roles import is_owned, kind_of

if TYPE_CHECKING:
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.framework.engine.sink.delta_tables import DeltaTables
    from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
    from panekeeper.state.checkpoint.job_record import JobRecord
    from panekeeper.state.prepared import PreparedBatch

TableRecord = dict[str, dict[str, Any]]
"""Role -> what a table has: `path`, `id`, and `batch`, the newest batch that was written to it in this epoch, -1 for
none. A role that is not declared any more stays in it. Stored with each batch."""


def require_tables_of_start(
    files: CheckpointFiles,
    record: JobRecord,
    tables: Mapping[str, TableAtVersion],
    opened: DeltaTables,
    *,
    made: Mapping[str, str],
) -> TableRecord:
    """Refuse tables that do not fit the checkpoint that starts with them, and return what those have that do.

    No batch is left that tables have in part; the last start had those `made`.
    """
    require_owned(tables.values(), record)
    require_same_roles(record, {role: table.path for role, table in tables.items()}, made)
    decided = last_decided(files, record)  # of one that is not, nothing is in a table, and it is run again
    new = is_new(files)
    return require_fitting_tables(
        files.root,
        record,
        tables,
        begun=decided,
        last=last_prepared(files, record, decided),
        written=made.values(),
        has_rows=partial(opened.has_rows, files.spark) if new or made else None,
        is_new=new,
    )


def require_fitting_tables(
    checkpoint: str,
    record: JobRecord,
    tables: Mapping[str, TableAtVersion],
    *,
    begun: int | None,
    last: PreparedBatch | None,
    written: Collection[str],
    has_rows: Callable[[str], bool] | None = None,
    is_new: bool = False,
) -> TableRecord:
    """Refuse tables that do not have the batches of a checkpoint, or others, and return what those have that do.

    Args:
        checkpoint: its folder.
        record: its job.
        tables: its tables, by their roles. Which batches one must have is not checked where only Spark can say its id.
        begun: the last batch that they may have; None: there was none.
        last: the last batch that was recorded and committed to them; None if that is not known.
        written: the paths of tables that the checkpoint has named as its own in this epoch.
        has_rows: says whether the table at a path has rows; None: tables are not looked at that have not gone back with
            a restore.
        is_new: no batch was begun in this epoch.
    """
    require_no_later_batch(checkpoint, record, tables, begun=begun)
    if has_rows is not None:
        require_no_discarded_rows(record, tables, written, has_rows, is_new=is_new)
    known = {} if last is None else last.tables
    named = {role: table for role, table in tables.items() if table.id}
    return require_all_batches(known, record, named, written=written)


def require_same_roles(record: JobRecord, tables: Mapping[str, str], made: Mapping[str, str]) -> None:
    """Refuse a table that the last start had in another role: a log would be merged into as a view."""
    before = {place_of(path): role for role, path in made.items()}
    for role, path in tables.items():
        if (was := before.get(place_of(path), role)) != role:
            raise SinkError(
                f"{path} is declared as the {role} of job {record.name!r}, which has written its {was} there, and its "
                f"rows would be changed. Declare the {was} there, as before, or choose another folder for the {role}"
            )


def require_remembered(record: JobRecord, role: str, table: TableAtVersion, *, begun: int) -> None:
    """Refuse a table that has forgotten which batches it has: whether that which was `begun` is in it is not known.

    It has forgotten then, too, that this checkpoint owns it.
    """
    if is_owned(role) and table.last_transaction(OWNER) < 0:
        raise SinkError(
            f"the {role} {table.path} has forgotten which batches it has, as a table does while "
            f"delta.setTransactionRetentionDuration is set: batch {begun} of job {record.name!r} may be in it already. "
            "Restore a savepoint, or reset the job to its initial state"
        )


def require_no_later_batch(
    checkpoint: str, record: JobRecord, tables: Mapping[str, TableAtVersion], *, begun: int | None
) -> None:
    """Refuse a checkpoint that is behind the tables of its job: one has a batch that was not `begun`.

    To run one again that a table has would skip it there.
    """
    last = -1 if begun is None else begun
    for role, table in tables.items():
        if (newest := table.last_transaction(record.transaction(role))) > last:
            ahead = "was restored or reset since" if newest >= FENCED else f"has batch {newest} already"
            raise CheckpointError(
                f"the checkpoint {checkpoint} is an older copy: it has recorded no batch after {last}, and the {role} "
                f"{table.path} of job {record.name!r} {ahead}, so rows would be lost. Put the newest state of this "
                "folder back; or restore a savepoint, which takes the tables back, too; or, if there is neither, reset "
                "the job to its initial state, or give it a new checkpoint folder and new tables"
            )


def require_no_discarded_rows(
    record: JobRecord,
    tables: Mapping[str, TableAtVersion],
    written: Collection[str],
    has_rows: Callable[[str], bool],
    *,
    is_new: bool = False,
) -> None:
    """Refuse a table with rows of batches that a restore has discarded: it has not gone back with the others.

    A savepoint has the tables that the job had then. One that was declared since still has what it got, and batches
    that are run again come with the next epoch, which it would take for new ones. It may have gone back with a restore
    to another savepoint in between, so it must have joined in this very epoch (`framework/engine/sink/fencing.py`).
    Those `written` are the checkpoint's own. In an epoch without a batch tables keep what they have, but for the view,
    which a reset empties.
    """
    earlier = record.earlier_epochs(before=record.epoch)
    own = set() if is_new else {place_of(path) for path in written}
    for role, table in tables.items():
        if place_of(table.path) in own or (is_new and kind_of(role) != "view"):
            continue
        if table.last_transaction(record.joined(role)) == record.epoch:
            continue
        if any(table.last_transaction(former.transaction(role)) >= 0 for former in earlier) and has_rows(table.path):
            raise SinkError(
                f"the {role} {table.path} has rows of job {record.name!r} from before a restore or reset, and did not "
                "go back with it, as the job had other tables when the savepoint was made, or when it was reset: "
                "batches that are run again would be there twice. Choose another folder for it; or, if you need none "
                "of its rows, not even those of batches before the savepoint, remove them by a DELETE"
            )


def require_all_batches(
    known: Mapping[str, Mapping[str, Any]],
    record: JobRecord,
    tables: Mapping[str, TableAtVersion],
    *,
    written: Collection[str],
) -> TableRecord:
    """Refuse tables that are behind the checkpoint of their job, and return what those have that are not.

    `known` is what they had after the last batch of this epoch, as it is recorded; `written` are the paths of those
    that the checkpoint has named as its own in this epoch.
    """
    record_of: TableRecord = {role: dict(before) for role, before in known.items()}
    own = {place_of(path) for path in written}
    for role, table in tables.items():
        before = known.get(role)
        if before is not None and (before["id"] == table.id or place_of(before["path"]) == place_of(table.path)):
            require_has(record, role, table, before)
        if record.epoch and place_of(table.path) in own and table.last_transaction(record.joined(role)) != record.epoch:
            raise _missing(role, table.path, "is an older copy: it is from before the last restore or reset")
    return record_of | table_record(record, tables)


def table_record(record: JobRecord, tables: Mapping[str, TableAtVersion]) -> TableRecord:
    """Return what tables have of a job in this epoch."""
    return {
        role: {"path": table.path, "id": table.id, "batch": table.last_transaction(record.transaction(role))}
        for role, table in tables.items()
    }


def tables_of_last_batch(files: CheckpointFolder, record: JobRecord) -> dict[str, str]:
    """Return role -> path of the tables with rows of this epoch, by the last batch: also one that was dropped since."""
    last = last_prepared(files, record, last_decided(files, record))
    return {} if last is None else {role: table["path"] for role, table in last.tables.items() if table["batch"] >= 0}


def require_has(record: JobRecord, role: str, table: TableAtVersion, known: Mapping[str, Any]) -> None:
    """Refuse an older copy, or another table, by what is `known` to be written to the one with this role."""
    batch = table.last_transaction(record.transaction(role))
    is_other = known["batch"] >= 0 and known["id"] != table.id  # whatever it has: the batches before are in that one
    if batch >= known["batch"] and not is_other:
        return
    if is_other:
        what = (
            f"is another table than the one that this checkpoint has written to: its id is {table.id}, not "
            f"{known['id']}"
        )
        raise _missing(role, table.path, f"{what}; results of batches up to {known['batch']} were in that")
    newest = f"batch {batch} is" if batch >= 0 else "no batch is"
    what = f"{newest} the newest that it has of this job, and batch {known['batch']} was written to it"
    raise _missing(role, table.path, f"is an older copy: {what}")


def _missing(role: str, path: str, what: str) -> SinkError:
    return SinkError(
        f"the {role} {path} {what}. Put the table back as the job has left it, because batches are not run again; or "
        "restore a savepoint, which takes the checkpoint back, too; or reset the job to its initial state, or give it "
        "a new checkpoint folder and new tables"
    )
