"""Do the tables of a job have what its checkpoint has written to them?

Both can be put back from a backup, or removed and made again, while the job is stopped. If only one of them is, batches
are missing for ever: they are committed, so they are not run again, or the table skips them by their numbers.

Each commit of a batch has its number as transaction version in the log of the table. So the checkpoint records for each
table its id and the newest batch that was written to it (`LeaseOwner.tables`): with each heartbeat of the lease and at
the end, never for its own sake. After a kill it is as old as the last heartbeat, a few seconds; the record of the last
batch (`PreparedBatch.tables`) has what was known then.

What somebody does to the rows by a commit of Delta's (DELETE, OPTIMIZE, VACUUM, RESTORE) leaves the transactions in the
log of the table, and is no business of a start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.sink.small_commits import FENCED
from panekeeper.state.checkpoint.folder import place_of

if TYPE_CHECKING:
    from panekeeper.state.checkpoint.job_record import JobRecord
    from panekeeper.state.prepared import PreparedBatch

TableRecord = dict[str, dict[str, Any]]
"""Role -> what the checkpoint knows of the table: path, id, transaction (the id under which the job commits to it),
batch (the newest version under it, -1 for none) and before (the one before that, as far as it is known; absent where an
older version wrote this). A table that is not declared any more stays in it, with `declared` false, `role`, and its id
beside its role as the key. Stored."""


def require_all_batches(
    stored: Mapping[str, Any] | None,
    record: JobRecord,
    tables: Mapping[str, str | None],
    metadata: Mapping[str, Mapping[str, Any]],
    last_transaction: Callable[[str, str], int],
    *,
    committed: int | None,
) -> TableRecord:
    """Refuse tables that are behind the checkpoint of their job, and return the record of those that are there.

    After a restore or a reset the transaction ids are others, and what was recorded before does not count.

    Args:
        stored: what the last run has recorded; None if there was none, or one of an older version.
        record: what the checkpoint says of the job.
        tables: role -> path of the job's tables, which are all there.
        metadata: role -> metadata of the table, as its log has it.
        last_transaction: as for `require_no_later_batch`.
        committed: the last batch that the checkpoint has committed; None: none. Later ones are run again.

    Raises:
        SinkError: a table is an older copy, or another one than the job has written to.
    """
    found: TableRecord = {}
    for role, path in tables.items():
        if path is None:
            continue
        transaction, described = record.transaction(role), metadata[role]
        batch = last_transaction(path, transaction)
        known = _known(stored or {}, role, transaction, path, described["id"])
        if known:
            last = _last_committed(known, committed)
            is_older = record.epoch > 0 and _is_from_before(record, role, path, known, last_transaction)
            now = known | {"path": path}
            require_same(role, now, described, batch, last=last, may_have_rows=record.epoch > 0, is_older=is_older)
            before = known.get("before", last) if known["batch"] == batch else last
        else:
            before = -1
        found[role] = {
            "path": path,
            "id": described["id"],
            "transaction": transaction,
            "batch": batch,
            "before": min(before, batch),
        }
    return found | _left(stored or {}, record, found)


def with_last_batch(stored: Mapping[str, Any] | None, batch: PreparedBatch | None) -> Mapping[str, Any] | None:
    """Return what was recorded of the tables, with what the record of the last batch says of them.

    A table that got no row in that batch may have lost the commit before: nothing else says that it had it.

    Args:
        stored: what the last run, or a start after it, has recorded; None if that is not known.
        batch: the last one that is committed, as it is recorded; None: it is not.
    """
    if batch is None or not batch.tables:
        return stored
    known = with_batch(dict(batch.tables), {one.role for one in batch.writes}, batch.number)
    if stored is None:
        return known
    newer = {(one["id"], one["transaction"]): one for one in known.values()}
    return {key: _newer(one, newer.get((one["id"], one["transaction"]))) for key, one in stored.items()}


def _newer(one: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any]:
    if other is None or other["batch"] <= one["batch"]:
        return {**one}
    return {**one, "batch": other["batch"], "before": other["before"]}


def _known(stored: Mapping[str, Any], role: str, transaction: str, path: str, id_: str) -> dict[str, Any]:
    """Return what is known of a table in this epoch, by its place, or of one of which it is a copy; else nothing."""
    known: list[dict[str, Any]] = [one for key, one in stored.items() if one.get("role", key) == role]
    known = [one for one in known if one.get("transaction") == transaction]
    copies = [one for one in known if one["id"] == id_]
    return next(iter(copies + [one for one in known if place_of(one["path"]) == place_of(path)]), {})


def _left(stored: Mapping[str, Any], record: JobRecord, found: TableRecord) -> TableRecord:
    """Return what is known of tables in this epoch that are declared no more: they may be declared again."""
    ids = {one["id"] for one in found.values()}
    left = [{"role": key, **one, "declared": False} for key, one in stored.items() if one["id"] not in ids]
    return {f"{one['role']} {one['id']}": one for one in left if one["transaction"] == record.transaction(one["role"])}


def begun_epoch(record: JobRecord, tables: Mapping[str, tuple[str, str]]) -> TableRecord:
    """Return the record of tables which an epoch begins with, and has written no batch to.

    Args:
        record: what the checkpoint says of the job in this epoch.
        tables: role -> path and id of the table.
    """
    return {
        role: {"path": path, "id": id_, "transaction": record.transaction(role), "batch": -1, "before": -1}
        for role, (path, id_) in tables.items()
    }


def with_batch(known: TableRecord, roles: Collection[str], batch: int) -> TableRecord:
    """Return a record after a batch was written to some of the tables."""
    return {
        role: one | {"batch": batch, "before": one["batch"]} if role in roles and batch > one["batch"] else one
        for role, one in known.items()
    }


def _last_committed(known: Mapping[str, Any], committed: int | None) -> int:
    """Return the newest batch that the table must have: the last one may be run again."""
    last: int = known["batch"]
    is_run_again = last > (-1 if committed is None else committed)
    return int(known.get("before", last)) if is_run_again else last


def _is_from_before(
    record: JobRecord, role: str, path: str, known: Mapping[str, Any], last_transaction: Callable[[str, str], int]
) -> bool:
    """Return whether a table is as it was in the epoch before, whose commits it takes: each start has it refuse them.

    A restore does so first. It lets the table join the epoch once that has gone back, which must be there before the
    first batch: the newest commits of a table may be lost.
    """
    if last_transaction(path, replace(record, epoch=record.epoch - 1).transaction(role)) < FENCED:
        return True
    return known["batch"] < 0 and last_transaction(path, record.joined(role)) < record.epoch


def require_same(
    role: str,
    known: Mapping[str, Any],
    metadata: Mapping[str, Any],
    batch: int,
    *,
    last: int,
    may_have_rows: bool = False,
    is_older: bool = False,
) -> None:
    """Refuse a table that lacks what the job has written to it.

    Args:
        role: of the table.
        known: its path, its id, and the transaction id under which the job commits to it.
        metadata: as its log has it.
        batch: the newest batch that it has; -1 for none.
        last: the newest batch that it must have.
        may_have_rows: it must be the same table also if that is none.
        is_older: it is from before the last restore or reset.

    Raises:
        SinkError: it is an older copy, or another table.
    """
    path, id_ = known["path"], metadata["id"]
    if known["id"] != id_ and (last >= 0 or may_have_rows):
        what = f"is another table than the one that this checkpoint has written to: its id is {id_}, not {known['id']}"
    elif batch < last:
        newest = f"batch {batch} is" if batch >= 0 else "no batch is"
        what = f"is an older copy: {newest} the newest that it has of this job, and batch {last} was written to it"
    elif is_older:
        what = "is an older copy: it is from before the last restore or reset"
    else:
        return
    results = f"Results of batches up to {last}" if last >= 0 else "Results of before that"
    raise SinkError(
        f"the {role} {path} {what}. {results} would be missing for ever, because they are not run again. Put the table "
        "back as the job has left it; or restore a savepoint, which takes the checkpoint back, too; or reset the job "
        "to its initial state, or give it a new checkpoint folder and new tables"
    )
