"""Which version of each table of a job goes with a batch? Read from the logs of the tables, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from panekeeper.recovery.errors import SavepointError
from panekeeper.recovery.storage.delta_log import (
    batch_of_commit,
    commit_time,
    is_restore,
    newest_first,
    newest_version,
    operation_of,
    restored_version,
    time_of,
    transactions_of,
)
from panekeeper.recovery.storage.files import Files


def versions_after_batch(tables: Mapping[str, Files], transactions: Mapping[str, str], batch: int) -> dict[str, int]:
    """Return role -> the newest version that holds no row of a later batch.

    An interrupted batch may have been committed to some tables and not to others. Each commit has its batch as a
    transaction. Only the view may have been merged without one, by an older version: then its version is the newest
    one at the time at which the metrics of `batch`, which are always written last, were committed.

    Args:
        tables: role -> folder.
        transactions: role -> the id of the transactions of the job in it.
        batch: the last batch whose rows are included.

    Raises:
        SavepointError: a table has a later batch, and its log does not go back to it any more.
    """
    versions = {}
    for role, table in tables.items():
        if role != "view":
            versions[role] = _version_after(table, transactions[role], batch)
    if "view" in tables:
        version = _view_version_after(tables["view"], transactions["view"], batch)
        if version is None:
            version = _version_at(tables["view"], time_of(tables["metrics"], versions["metrics"]))
        versions["view"] = version
    return versions


def _require_commits_of_later_batches(table: Files, transaction: str, batch: int) -> None:
    """Refuse a log that was cleaned up since a later batch: the table has its rows, and no version is without them."""
    last = transactions_of(table).get(transaction, -1)
    if last > batch and not any(batch_of_commit(commit, transaction) > batch for _, commit in newest_first(table)):
        raise SavepointError(
            f"{table.root} has batch {last}, which is not finished, and the commit of it was cleaned up, so no version "
            "is without its rows. Start the job once, which completes the batch, and try again"
        )


def _view_version_after(table: Files, transaction: str, batch: int) -> int | None:
    """Return the newest version before the first merge of a later batch; None if the merges do not say their batch."""
    version, is_known = newest_version(table), False
    for number, commit in _kept(table):
        done = batch_of_commit(commit, transaction)
        if done > batch:
            version, is_known = number - 1, True
        elif done >= 0:
            return version
        elif operation_of(commit) == "MERGE" and not any("txn" in one for one in commit):
            return None
    _require_commits_of_later_batches(table, transaction, batch)
    return version if is_known else None


def _version_after(table: Files, transaction: str, batch: int) -> int:
    """Return the newest version before the first commit of a later batch."""
    version = newest_version(table)
    for number, commit in _kept(table):
        done = batch_of_commit(commit, transaction)
        if done > batch:
            version = number - 1
        elif done >= 0:
            return version  # batches are in order in the log
    _require_commits_of_later_batches(table, transaction, batch)
    return version


def _kept(table: Files) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yield as `newest_first`, without the commits that a restore has discarded; one to a time does not say which."""
    last = None
    for number, commit in newest_first(table):
        if last is None or number <= last:
            yield number, commit
            if is_restore(commit) and (to := restored_version(commit)) >= 0:
                last = to


def _version_at(table: Files, time: int) -> int:
    """Return the newest version that was committed at a time, in ms since the epoch."""
    for number, commit in newest_first(table):
        # A restore leaves the view as it was then, however late it is.
        if number == 0 or commit_time(commit) <= time or is_restore(commit):
            return number
    return newest_version(table)
