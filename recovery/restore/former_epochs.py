"""Steps 2 and 4 of a restore: under which transaction ids has the job committed to its tables before?

The tables refuse these from now on, and a start knows by them the rows that have not gone back with the others
(`framework/engine/job/table_checks.py`). A restore to another folder, or in place of a checkpoint that was lost,
gives the checkpoint an id of its own: so its record names the ids that it has taken the place of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from panekeeper.framework.engine.sink.fencing import OWNED
from panekeeper.recovery.errors import SavepointError
from panekeeper.recovery.restore.confirmed_tables import own_tables
from panekeeper.recovery.restore.interrupted import read_record_or_none
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.delta_log import owner_of, transactions_of
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import files_at
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.job_record import JobRecord, last_epochs
from panekeeper.state.checkpoint.reset_intent import read_reset_intent
from panekeeper.state.errors import StateError


def last_known_epochs(
    former: Mapping[str, int], checkpoint: Files, manifest: Manifest, others: Collection[Files], s3: S3Options | None
) -> dict[str, int]:
    """Return id -> last epoch known, of the checkpoints from which the job has written to the tables.

    What is gone with a checkpoint that was lost is still in the tables that no other job writes to: they name the
    checkpoint that they belong to now, which may be in a folder that no other one leads to, with a job that runs.

    Args:
        former: of the record in the savepoint's copy.
        checkpoint: where it is restored to; what is there is replaced.
        manifest: the savepoint.
        others: the checkpoints that the restored one supersedes.
        s3: how S3 is reached. Tables that only Spark reaches are not read.
    """
    last = {**former, manifest.job_id: manifest.epoch}
    for folder in (checkpoint, *others):
        found = read_record_or_none(folder)
        if found is not None and found.name == manifest.job:
            for one, epoch in {**found.former, found.id: max(found.epoch, _epoch_of_reset(folder))}.items():
                last[one] = max(epoch, last.get(one, 0))
    saved = {role: table.path for role, table in manifest.tables.items()}
    for role, path in {*saved.items(), *own_tables(checkpoint).items()}:
        files = files_at(path, s3) if role in OWNED else None
        try:
            transactions = {} if files is None else transactions_of(files)
        except SavepointError:
            continue  # the preview has said what is wrong with its log
        in_table, owner = last_epochs(transactions, manifest.job), owner_of(transactions)
        if owner in in_table:
            last.setdefault(owner, 0)
        last |= {one: max(epoch, in_table.get(one, 0)) for one, epoch in last.items()}
    return last


def _epoch_of_reset(checkpoint: Files) -> int:
    """Return the epoch of a reset that was interrupted: some tables may have it already. 0: there is none."""
    try:
        intent = read_reset_intent(checkpoint)
    except StateError:
        return 0
    return 0 if intent is None else intent.epoch


def epochs_to_fence(
    record: JobRecord, checkpoint: Files, manifest: Manifest, others: Collection[Files], s3: S3Options | None
) -> list[JobRecord]:
    """Return the job's record in each epoch in which a process may still have the tables open.

    The arguments are as above, but for the record of the savepoint's copy. A job may have been started
    since the copy was made, so they are looked up again.
    """
    last = last_known_epochs(record.former, checkpoint, manifest, others, s3)
    last.pop(record.id, None)
    return replace(record, former=last).earlier_epochs(before=record.epoch)
