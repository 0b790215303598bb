"""Nobody but one epoch of one checkpoint commits to the tables of a job.

Fencing: a process of an earlier epoch may have been paused, and a check just before its commit cannot see what happens
while it is paused again. So the tables themselves refuse it: each of its transaction ids gets a version that no batch
reaches.

Joined: what begins an epoch, and each start in it, commits the number of the epoch, too. A table that has it and was
left out of the declaration since has no rows of batches that the epoch has discarded
(`framework/engine/job/table_checks.py`).

Owners: the first start commits a transaction version to the log of each table, which stands for the id of its
checkpoint. Delta refuses one of two such commits at the same time, so of two jobs that both start before either has
written a row, one finds the version of the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.framework.engine.sink.library_table import FENCED
from panekeeper.framework.engine.sink.spark_table import is_delta_table
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion, checkpoint_id
from panekeeper.state.checkpoint.job_record import OWNER
from panekeeper.state.table_roles import has_results, is_owned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.state.checkpoint.job_record import JobRecord


def secure(spark: SparkSession, tables: Mapping[str, str | None], record: JobRecord, opened: DeltaTables) -> None:
    """Let nobody else commit to the tables: no other checkpoint, no process of an earlier epoch. At each start.

    A restore and a reset to the initial state begin an epoch. Raises `SinkError` for a table of another checkpoint.
    """
    own(spark, tables, record, opened)
    earlier = record.earlier_epochs(before=record.epoch)
    without_owner = {role: path for role, path in tables.items() if not is_owned(role)}
    for path, notes in _notes(tables if earlier else without_owner, earlier, record):
        opened.note(spark, path, notes)  # the tables are all there


def fence(
    spark: SparkSession,
    tables: Mapping[str, str | None],
    epochs: Iterable[JobRecord],
    *,
    joined: JobRecord | None = None,
    batch: int | None = None,
) -> None:
    """Let no process that runs in one of these epochs of the job commit to the tables any more. May be repeated.

    `joined` is the record of the job in the epoch that begins with these tables, or has begun; they are to say so.
    `batch` is the last one, whose rows they have from the epoch before: it is never to be run again.
    """
    opened = DeltaTables()
    for path, notes in _notes(tables, epochs, joined, batch):
        if is_delta_table(spark, path):
            opened.note(spark, path, notes)


def _notes(
    tables: Mapping[str, str | None], epochs: Iterable[JobRecord], joined: JobRecord | None, batch: int | None = None
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the path of each table, with the versions of transactions that it is to have."""
    records = [*epochs]
    for role, path in tables.items():
        notes = {record.transaction(role): FENCED for record in records}
        if has_results(role):  # settlements are committed there, too (`recovery/settle/settle.py`)
            notes |= {record.settlement: FENCED for record in records}
        if joined is not None:
            notes |= {} if batch is None else {joined.transaction(role): batch}
            notes[joined.joined(role)] = joined.epoch  # last: a savepoint takes no version without it
        if notes and path is not None:
            yield path, notes


def own(
    spark: SparkSession,
    tables: Mapping[str, str | None],
    record: JobRecord,
    opened: DeltaTables | None = None,
    *,
    take: bool = False,
) -> None:
    """Record that a checkpoint writes to these tables, and refuse those of another one.

    Several jobs may share those that are not owned. With `take` they are the tables of this checkpoint from now on:
    it was restored with them, or is a clone.
    """
    opened = opened or DeltaTables()
    own, *former = _owners(record)
    for role, path in tables.items():
        if path is not None and (is_owned(role) or opened.is_only_for_spark(spark, path)):
            owner = opened.own(spark, path, own, take=take)
            if owner in former:
                owner = opened.own(spark, path, own, take=True)
            _require_owner(path, owner, [own])


def _owners(record: JobRecord) -> list[int]:
    """Return the number of a checkpoint, and those whose place it has taken."""
    return [int(hex_id, 16) for hex_id in (record.id, *record.former)]


def require_owned(tables: Iterable[TableAtVersion], record: JobRecord) -> None:
    """Refuse tables of another checkpoint; one that has no owner yet may be anybody's. Writes nothing.

    A checkpoint whose place this one has taken by a restore is no other one.
    """
    for table in tables:
        if (owner := table.last_transaction(OWNER)) >= 0:
            _require_owner(table.path, owner, _owners(record))


def _require_owner(path: str, owner: int, allowed: Collection[int]) -> None:
    if owner not in allowed:
        raise SinkError(
            f"the table {path} belongs to another checkpoint (id {checkpoint_id(owner)}), and two jobs would mix their "
            "results there. Start the job with that checkpoint, or choose other folders for the tables; if that "
            "checkpoint is gone and the table has no row that you need, remove the table"
        )
