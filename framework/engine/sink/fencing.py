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

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.sink import spark_commits
from panekeeper.framework.engine.sink.small_commits import FENCED, SmallTables
from panekeeper.framework.engine.sink.spark_table import is_delta_table
from panekeeper.state.checkpoint.job_record import OWNER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.state.checkpoint.job_record import JobRecord

OWNED = ("log", "view", "metrics")
"""Roles of tables that no other job writes to. Nor does one to a table on S3 that only Spark writes: its commit there
takes no condition, so it might take the place of one of another job."""


def secure(
    spark: SparkSession, tables: Mapping[str, str | None], record: JobRecord, small: SmallTables | None = None
) -> None:
    """Let nobody else commit to the tables: no other checkpoint, no process of an earlier epoch. At each start.

    A restore and a reset to the initial state begin an epoch. Raises `SinkError` for a table of another checkpoint.

    Args:
        spark: the session that reaches the tables.
        tables: role -> path.
        record: the checkpoint's record of its job.
        small: the tables that are open already.
    """
    own(spark, tables, record, small)
    earlier = record.earlier_epochs(before=record.epoch)
    fence(spark, tables, earlier, small, joined=record if earlier else None)


def fence(
    spark: SparkSession,
    tables: Mapping[str, str | None],
    epochs: Iterable[JobRecord],
    small: SmallTables | None = None,
    *,
    joined: JobRecord | None = None,
    batch: int | None = None,
) -> None:
    """Let no process that runs in one of these epochs commit to the tables any more. May be repeated.

    Args:
        spark: the session that reaches the tables.
        tables: role -> path; None, or no Delta table there: nothing to do.
        epochs: the job's record as it is in each of them.
        small: the tables that are open already.
        joined: the record of the job in the epoch that begins with these tables, or has begun; they are to say so.
        batch: the last one, whose rows they have from the epoch before: it is never to be run again.
    """
    records, small = [*epochs], small or SmallTables()
    for role, path in tables.items():
        notes = {record.transaction(role): FENCED for record in records}
        if joined is not None:
            notes |= {} if batch is None else {joined.transaction(role): batch}
            notes[joined.joined(role)] = joined.epoch  # last: a savepoint takes no version without it
        if not notes or path is None or not is_delta_table(spark, path):
            continue
        if not small.commit(spark, path, lambda to, notes=notes: to.note(notes)):  # type: ignore[misc]  # bound here
            nothing = spark.read.format("delta").load(path).limit(0)
            for one, version in notes.items():
                spark_commits.append(nothing, path, one, version)


def own(
    spark: SparkSession,
    tables: Mapping[str, str | None],
    record: JobRecord,
    small: SmallTables | None = None,
    *,
    take: bool = False,
) -> None:
    """Record that a checkpoint writes to these tables, and check that no other one does.

    Args:
        spark: the session that reaches the tables.
        tables: role -> path; None for one that is not wanted. Several jobs may share those that are not `OWNED`.
        record: the checkpoint's record of its job.
        small: the tables that are open already.
        take: they are the tables of this checkpoint from now on: it was restored with them, or is a clone.

    Raises:
        SinkError: another checkpoint writes to one of them.
    """
    small = small or SmallTables()
    own, *former = _owners(record)
    for role, path in tables.items():
        if path is None or not (role in OWNED or _is_only_for_spark(spark, path, small)):
            continue
        owner = _commit_owner(spark, path, own, small, take=take)
        if owner in former:
            owner = _commit_owner(spark, path, own, small, take=True)
        _require_owner(path, owner, [own])


def _is_only_for_spark(spark: SparkSession, path: str, small: SmallTables) -> bool:
    """Return whether a table is on S3 and the library cannot write it, as for credentials that it does not take."""
    return is_s3(path) and small.call(spark, path, lambda _: True) is None


def _commit_owner(spark: SparkSession, path: str, owner: int, small: SmallTables, *, take: bool) -> int:
    found = small.call(spark, path, lambda to: to.own(OWNER, owner, take=take))
    if found is None:  # only Spark can write this table
        found = spark_commits.own(spark, path, OWNER, owner, take=take)
        small.reopen(path)
    return found


def _owners(record: JobRecord) -> list[int]:
    """Return the number of a checkpoint, and those whose place it has taken."""
    return [int(one, 16) for one in (record.id, *record.former)]


def require_owned(
    spark: SparkSession, tables: Mapping[str, str | None], record: JobRecord, small: SmallTables | None = None
) -> None:
    """Refuse tables of another checkpoint; one that has no owner yet may be anybody's. Writes nothing.

    A checkpoint whose place this one has taken by a restore is no other one.

    Args:
        spark: the session that reaches the tables.
        tables: as for `own`; they are all there.
        record: the checkpoint's record of its job.
        small: the tables that are open already.

    Raises:
        SinkError: another checkpoint writes to one of them.
    """
    small = small or SmallTables()
    for path in filter(None, tables.values()):
        if (owner := small.last_transaction(spark, path, OWNER)) >= 0:
            _require_owner(path, owner, _owners(record))


def _require_owner(path: str, owner: int, allowed: Collection[int]) -> None:
    if owner not in allowed:
        raise SinkError(
            f"the table {path} belongs to another checkpoint (id {owner:012x}), and two jobs would mix their "
            "results there. Start the job with that checkpoint, or choose other folders for the tables; if that "
            "checkpoint is gone and the table has no row that you need, remove the table"
        )
