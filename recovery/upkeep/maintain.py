"""Maintains the tables of a job, beside it or while it is stopped: OPTIMIZE and VACUUM that know its savepoints.

    1  Which tables? Those that the checkpoint names, unless another checkpoint has taken them over (`own_tables.py`).
    2  Which versions must remain readable? Those of the savepoints that are found, and of one that is made now
       (`needed_versions.py`). A savepoint that cannot be read ends it here, with nothing changed.
    3  OPTIMIZE, of a table with small files: one commit, repeated if the job came first. No row changes. On S3 two
       commits of Spark and of the job might both win, so no job may run there (`compaction.py`).
    4  VACUUM: files are removed that no version within the retention has, nor any of step 2 (`delta_files.py`). For a
       table that only Spark can read, the statement is reported (`spark_vacuum.py`).

Files of a version that a job may be reading or writing are safe for as long as the retention is longer than a batch
takes: it is at least seven days.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.durations import Duration, to_us
from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.checkpoint import current_folder, holding
from panekeeper.recovery.jobs.tables import require_owned
from panekeeper.recovery.storage.delta_tables import WEEK, delta_options, parse_interval
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, checkpoint_at, files_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.recovery.upkeep.delta_files import DeltaFiles
from panekeeper.recovery.upkeep.needed_versions import NeededVersions, needed_versions
from panekeeper.recovery.upkeep.own_tables import require_upkeep_allowed, wanted_tables
from panekeeper.recovery.upkeep.report import TableUpkeep, Upkeep
from panekeeper.recovery.upkeep.spark_vacuum import RETENTION, vacuum_statement
from panekeeper.state.checkpoint.clock import now_utc
from panekeeper.state.checkpoint.job_record import JobRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What is to be done with each table; `is_held`: no job can start meanwhile."""

    checkpoint: Files
    record: JobRecord
    is_held: bool
    optimize: bool
    vacuum: bool
    retain: timedelta
    dry_run: bool
    now: datetime
    spark: SparkSession | None
    needed: NeededVersions = field(default_factory=NeededVersions)


def maintain(  # noqa: PLR0913 -- all but one have a default that fits
    checkpoint: Location,
    *,
    savepoints: Collection[LocationOrArchive] = (),
    tables: Collection[str] = (),
    optimize: bool = True,
    vacuum: bool = True,
    retain: Duration = WEEK,
    allow_short_retention: bool = False,
    recorded: bool = True,
    dry_run: bool = False,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
    now: datetime | None = None,
) -> Upkeep:
    """Compact and vacuum the tables of a job, which may run meanwhile; its savepoints can be restored after it.

    Args:
        checkpoint: the job's checkpoint, a local folder or one on S3.
        savepoints: locations with savepoints of the job, and of other jobs that share a table with it.
        tables: roles (`log`, `view`, ...) or paths of some of its tables; all, if none is given.
        optimize: replace small files by larger ones.
        vacuum: remove files that no version within the retention has, nor any savepoint.
        retain: for how long the files of earlier versions are kept: `"7 days"`, a `timedelta`, or seconds. A table
            whose own `delta.deletedFileRetentionDuration` is longer keeps them for that long.
        allow_short_retention: permit less than seven days: readers of the tables may find files gone. No job may run.
        recorded: look where the newest savepoint of the checkpoint was made, too, as the checkpoint has recorded it.
        dry_run: only return what would be done.
        s3: how S3 is reached.
        spark: the session that compacts; a new one, if not given and if a table has small files.
        now: the current time, for tests.

    Raises:
        SavepointRefused: a table is not the checkpoint's; a restore or reset is not complete; a savepoint cannot be
            read; the retention is too short.
        NoSuchSavepoint: a location holds no savepoints.
        SavepointError: there is no checkpoint of Panekeeper, or a table is gone.
        StateError: the checkpoint is damaged.
    """
    folder, length = current_folder(checkpoint_at(checkpoint, s3)), timedelta(microseconds=to_us(retain, "retain"))
    record = require_upkeep_allowed(folder)
    chosen = wanted_tables(folder, tables)
    is_short = vacuum and length < WEEK
    _require_confirmed(length, is_confirmed=allow_short_retention or not is_short)
    wanted = _Wanted(
        checkpoint=folder,
        record=record,
        is_held=is_short and not dry_run,
        optimize=optimize,
        vacuum=vacuum,
        retain=length,
        dry_run=dry_run,
        now=now or now_utc(),
        spark=spark,
    )
    with _stopped(folder, record, is_held=wanted.is_held):
        if vacuum:
            found = needed_versions(folder, chosen, savepoints, recorded=recorded, now=wanted.now)
            wanted = replace(wanted, needed=found)
        done = tuple(_maintain_table(role, path, wanted) for role, path in chosen.items())
    number = wanted.needed.savepoints
    return Upkeep(checkpoint=folder.root, job=record.name, dry_run=dry_run, savepoints=number, tables=done)


def _require_confirmed(retain: timedelta, *, is_confirmed: bool) -> None:
    if not is_confirmed:
        raise SavepointRefused(
            f"a retention of {retain} is shorter than seven days, within which readers and writers may use files of "
            "earlier versions; drain the job, and confirm it: --allow-short-retention"
        )


@contextmanager
def _stopped(folder: Files, record: JobRecord, *, is_held: bool) -> Iterator[None]:
    """Let no job start on the checkpoint while the block lasts, if that is needed."""
    if not is_held:
        yield
        return
    with holding(folder, record.name, "the upkeep of job"):
        yield


def _maintain_table(role: str, path: str, wanted: _Wanted) -> TableUpkeep:
    report, files = TableUpkeep(role=role, path=path), files_at(path, wanted.checkpoint.s3)
    try:
        if files is None:
            raise UnsupportedTable("it is neither on a local disk nor on S3")
        table = DeltaFiles(files, delta_options(files))
    except UnsupportedTable as reason:
        report = _optimize(None, files, report, wanted) if wanted.optimize else report
        return _leave_vacuum_to_spark(files, report, str(reason), wanted) if wanted.vacuum else report
    require_owned(path, table.owner, wanted.checkpoint, wanted.record)
    report = _optimize(table, files, report, wanted) if wanted.optimize else report
    return _vacuum(table, files, report, wanted) if wanted.vacuum else report


def _optimize(table: DeltaFiles | None, files: Files | None, report: TableUpkeep, wanted: _Wanted) -> TableUpkeep:
    """Step 3."""
    small = None if table is None else table.small_files()
    if small == 0 or wanted.dry_run:
        return replace(report, compacted=small)
    from panekeeper.recovery.storage.delta_tables import session_for
    from panekeeper.recovery.upkeep.compaction import compact

    is_exclusive = files is not None and is_s3(files.root) and not wanted.is_held
    try:
        with _stopped(wanted.checkpoint, wanted.record, is_held=is_exclusive):
            spark = session_for([files.root if files else report.path], wanted.spark, wanted.checkpoint.s3)
            compacted, added = compact(spark, report.path)
    except SavepointRefused as running:
        return replace(
            report, compacted=0, problem=f"not compacted, as its commits on S3 take a stopped job: {running}"
        )
    except SinkError:
        return replace(report, compacted=0, problem="not compacted: other writers came first at each attempt")
    return replace(report, compacted=compacted, added=added)


def _vacuum(table: DeltaFiles, files: Files | None, report: TableUpkeep, wanted: _Wanted) -> TableUpkeep:
    """Step 4. The property of a table is its owner's word: it is never undercut."""
    property_ = table.properties.get(RETENTION)
    own = timedelta() if property_ is None else parse_interval(property_)
    if own is None:
        reason = f"its property {RETENTION} is {property_!r}"
        return _leave_vacuum_to_spark(files, report, reason, wanted)
    notes = []
    if own > wanted.retain:
        notes.append(f"files of earlier versions are kept for {property_} ({RETENTION}), not {wanted.retain}")
    hours = math.ceil(max(own, wanted.retain) / _HOUR)
    needed = wanted.needed.of(report.path)
    unused = table.unused(hours, needed)
    notes += [f"version {one} is gone, and with it {', '.join(needed[one])}" for one in unused.lost]
    if not wanted.dry_run and unused.sizes:
        table.remove(unused.sizes)
    return replace(
        report,
        removed=len(unused.sizes),
        bytes=sum(unused.sizes.values()),
        kept=unused.kept,
        retained_hours=hours,
        notes=tuple(notes),
    )


def _leave_vacuum_to_spark(files: Files | None, report: TableUpkeep, reason: str, wanted: _Wanted) -> TableUpkeep:
    needed = wanted.needed.of(report.path)
    statement = vacuum_statement(report.path, files, needed, retain=wanted.retain, now=wanted.now)
    who = ", ".join(sorted({name for names in needed.values() for name in names}))
    how = f"In Spark: {statement}" if statement else f"Spark's VACUUM would remove files that {who} may need"
    problem = "; ".join(filter(None, (report.problem, f"nothing removed, as only Spark can: {reason}")))
    return replace(report, problem=problem, notes=(*report.notes, how))
