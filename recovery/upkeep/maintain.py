"""Maintains the tables of a job, beside it or while it is stopped: OPTIMIZE and VACUUM that know its savepoints.

    1  Which tables? Those that the checkpoint names, unless another checkpoint has taken them over.
    2  Which versions must remain readable? Those of every savepoint that is found: of this job and of any other one,
       because several jobs may share a quarantine table. And those that a savepoint of this job would have if it were
       made now: after a crash amid the commits of a batch these are not the newest ones. A savepoint that cannot be
       read ends it here, with nothing changed.
    3  OPTIMIZE, of a table with small files: one commit, repeated if the job came first. No row changes. On S3 two
       commits of Spark and of the job might both win, so no job may run there.
    4  VACUUM: files are removed that no version within the retention has, nor any of step 2; of a table that only
       Spark can read, none.

Files of a version that a job may be reading or writing are safe for as long as the retention is longer than a batch
takes: it is at least seven days. How the files of one table are found, compacted and removed: `table_files.py`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from panekeeper.framework.declarations.display import Result, format_bytes
from panekeeper.framework.declarations.durations import Duration, to_us
from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.session.s3_settings import is_s3
from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.checkpoint import current_folder, holding_current, require_current_record
from panekeeper.recovery.jobs.tables import require_owned
from panekeeper.recovery.savepoint.activity import active_markers
from panekeeper.recovery.savepoint.catalog import no_savepoints, readable_savepoints
from panekeeper.recovery.savepoint.checkpoint_snapshot import read_checkpoint
from panekeeper.recovery.savepoint.create import table_versions
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.delta_tables import WEEK, delta_options, parse_interval
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, checkpoint_at, open_archive, table_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.recovery.upkeep.table_files import RETENTION, DeltaFiles, compact
from panekeeper.state.checkpoint.clock import now_utc
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, batch_numbers, place_of
from panekeeper.state.checkpoint.job_record import JobRecord, read_last_savepoint, read_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Needed = Mapping[int, list[str]]
"""Version of a table -> who needs it, as text."""


@dataclass(frozen=True, kw_only=True)
class TableUpkeep:
    """The upkeep of one table.

    Attributes:
        role: what it is to the job: log, view, ...
        path: its path or URL.
        compacted: how many files were replaced by larger ones; in a dry run, how many small ones there are, or None if
            that is not known without Spark.
        added: how many files have replaced them; 0 in a dry run.
        removed: how many files that no version within the retention has were removed, or would be.
        bytes: size of the removed files.
        kept: how many more of such files are there, which a savepoint needs.
        retained_hours: for how long the files of earlier versions are kept, in hours; None without VACUUM.
        notes: what a user should know of it, in sentences.
        problem: why not all of it could be done; None if all was.
    """

    role: str
    path: str
    compacted: int | None = 0
    added: int = 0
    removed: int = 0
    bytes: int = 0
    kept: int = 0
    retained_hours: int | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Upkeep(Result):
    """What was done with each table of a checkpoint, and how many savepoints have a version of one."""

    checkpoint: str
    job: str
    dry_run: bool
    savepoints: int
    tables: tuple[TableUpkeep, ...]
    _computed: ClassVar[Mapping[str, str]] = {"complete": "is_complete"}

    def _described(self) -> Iterator[str]:
        yield f"tables of job {self.job} ({self.checkpoint}); {self.savepoints} savepoints have them"
        done = "would be" if self.dry_run else "were"
        for table in self.tables:
            small = "small files" if table.compacted is None else f"{table.compacted} small files"
            parts = [f"{small} {done} compacted{'' if self.dry_run else f' into {table.added}'}"]
            if table.retained_hours is not None:
                parts.append(f"{table.removed} unused files {done} removed ({format_bytes(table.bytes)})")
            if table.kept:
                parts.append(f"{table.kept} are kept for savepoints")
            yield f"{table.role}: {', '.join(parts)}"
            yield from (f"    {line}" for line in (table.problem, *table.notes) if line)

    @property
    def is_complete(self) -> bool:
        """Return whether everything was done for every table."""
        return all(table.problem is None for table in self.tables)


@dataclass(frozen=True, kw_only=True)
class _Wanted:
    """What is to be done with each table; `is_held`: no job can start meanwhile."""

    root: Files
    checkpoint: Files
    record: JobRecord
    is_held: bool
    optimize: bool
    vacuum: bool
    retain: timedelta
    dry_run: bool
    now: datetime
    spark: SparkSession | None

    def stopped(self, *, needed: bool) -> AbstractContextManager[Any]:
        """Let no job start on the checkpoint while a block lasts, if that is needed."""
        return holding_current(self.root, self.record, "the upkeep of job") if needed else nullcontext()


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
    root, length = checkpoint_at(checkpoint, s3), timedelta(microseconds=to_us(retain, "retain"))
    folder = current_folder(root)
    wanted = _Wanted(
        root=root,
        checkpoint=folder,
        record=require_current_record(folder),
        is_held=vacuum and length < WEEK and not dry_run,
        optimize=optimize,
        vacuum=vacuum,
        retain=length,
        dry_run=dry_run,
        now=now or now_utc(),
        spark=spark,
    )
    chosen = _wanted_tables(folder, tables)  # 1
    if vacuum and length < WEEK and not allow_short_retention:
        raise SavepointRefused(
            f"a retention of {length} is shorter than seven days, within which readers and writers may use files of "
            "earlier versions; drain the job, and confirm it: --allow-short-retention"
        )
    needed, number = dict[str, _Needed](), 0
    with wanted.stopped(needed=wanted.is_held):
        if vacuum:
            needed, number = _needed_versions(wanted, chosen, savepoints, recorded=recorded)  # 2
        done = [_maintain_table(role, path, needed.get(place_of(path), {}), wanted) for role, path in chosen.items()]
    name = wanted.record.name
    return Upkeep(checkpoint=folder.root, job=name, dry_run=dry_run, savepoints=number, tables=tuple(done))


def _wanted_tables(checkpoint: Files, wanted: Collection[str]) -> dict[str, str]:
    """Return role -> path of the tables with these roles or paths; of all of the checkpoint, if none is given."""
    own = read_tables(checkpoint)
    if not own:
        raise SavepointRefused(f"the checkpoint {checkpoint.root} names no Delta tables; start the job once")
    if not wanted:
        return own
    by_name = {role: role for role in own} | {place_of(path): role for role, path in own.items()}
    roles = {name: by_name.get(name) or by_name.get(place_of(name)) for name in wanted}
    for name, role in roles.items():
        if role is None:
            raise SavepointRefused(
                f"{name} is no table of the checkpoint {checkpoint.root}, and no other is touched; its tables are "
                f"{', '.join(f'{role} ({path})' for role, path in own.items())}"
            )
    return {role: path for role, path in own.items() if role in roles.values()}


def _needed_versions(
    wanted: _Wanted, tables: Mapping[str, str], locations: Collection[LocationOrArchive], *, recorded: bool
) -> tuple[dict[str, _Needed], int]:
    """Return place of a table -> its needed versions, and how many savepoints need one of them.

    A location that holds no savepoints may be misspelled, and is refused, as is a savepoint that cannot be read.
    """
    checkpoint, places = wanted.checkpoint, {place_of(path) for path in tables.values()}
    needed: defaultdict[str, dict[int, list[str]]] = defaultdict(dict)
    used = 0
    for manifest in _manifests(wanted, locations, recorded=recorded):
        named = {place_of(table.path): table.version for table in manifest.tables.values()}
        used += bool(places & set(named))
        for place in places & set(named):
            needed[place].setdefault(named[place], []).append(f"savepoint {manifest.name}")
    if batch_numbers(checkpoint, COMMITS_FOLDER):
        for table in table_versions(replace(read_checkpoint(checkpoint), tables=dict(tables))).values():
            needed[place_of(table.path)].setdefault(table.version, []).append("a savepoint that is made now")
    return dict(needed), used


def _manifests(wanted: _Wanted, locations: Collection[LocationOrArchive], *, recorded: bool) -> list[Manifest]:
    """Return all savepoints of the locations, and of the one where the newest of the checkpoint was made."""
    checkpoint = wanted.checkpoint
    archives = [open_archive(location, checkpoint.s3) for location in locations]
    manifests = []
    for archive in archives:
        if not (in_location := readable_savepoints(archive)):
            raise no_savepoints(archive.location)
        manifests += in_location
    last = read_last_savepoint(checkpoint) if recorded else None
    if last is not None and last.location not in {archive.location for archive in archives}:
        archives.append(open_archive(last.location, checkpoint.s3))
        if not (in_location := readable_savepoints(archives[-1])):
            raise SavepointRefused(
                f"savepoint {last.name} of {checkpoint.root} was made in {last.location}, which holds no savepoints "
                "now: the versions of tables that they need are not known. Mount or bring back that location; if they "
                "are gone for good, say so: --no-recorded"
            )
        manifests += in_location
    for archive in archives:
        for file, since in active_markers(archive, "savepoint", wanted.now).items():
            raise SavepointRefused(
                f"a savepoint is being made in {archive.location} since {since:%Y-%m-%dT%H:%M:%SZ}; try again when it "
                f"is complete (if it was killed, remove {file} there)"
            )
    return manifests


def _maintain_table(role: str, path: str, needed: _Needed, wanted: _Wanted) -> TableUpkeep:
    report, files = TableUpkeep(role=role, path=path), table_at(path, wanted.checkpoint.s3)
    table, reason = None, ""
    try:
        table = DeltaFiles(files, delta_options(files))
    except UnsupportedTable as unsupported:
        reason = str(unsupported)
    else:
        require_owned(path, table.table.owner, wanted.checkpoint, wanted.record)
    if wanted.optimize:
        report = _optimize(table, files, report, wanted)
    if not wanted.vacuum:
        return report
    if table is None:
        return _not_vacuumed(report, reason)
    return _vacuum(table, report, needed, wanted)


def _optimize(table: DeltaFiles | None, files: Files, report: TableUpkeep, wanted: _Wanted) -> TableUpkeep:
    """Step 3."""
    small = None if table is None else table.small_files()
    if small == 0 or wanted.dry_run:
        return replace(report, compacted=small)
    from panekeeper.recovery.storage.delta_tables import session_for

    is_exclusive = is_s3(files.root) and not wanted.is_held
    try:
        with wanted.stopped(needed=is_exclusive):
            spark = session_for([files.root], wanted.spark, wanted.checkpoint.s3)
            compacted, added = compact(spark, report.path)
    except SavepointRefused as running:
        return replace(
            report, compacted=0, problem=f"not compacted, as its commits on S3 take a stopped job: {running}"
        )
    except SinkError:
        return replace(report, compacted=0, problem="not compacted: other writers came first at each attempt")
    return replace(report, compacted=compacted, added=added)


def _vacuum(table: DeltaFiles, report: TableUpkeep, needed: _Needed, wanted: _Wanted) -> TableUpkeep:
    """Step 4. The property of a table is its owner's word: it is never undercut."""
    property_ = table.table.properties.get(RETENTION)
    own = timedelta() if property_ is None else parse_interval(property_)
    if own is None:
        return _not_vacuumed(report, f"its property {RETENTION} is {property_!r}")
    notes = []
    if own > wanted.retain:
        notes.append(f"files of earlier versions are kept for {property_} ({RETENTION}), not {wanted.retain}")
    hours = math.ceil(max(own, wanted.retain) / timedelta(hours=1))
    unused = table.unused(hours, needed)
    notes += [f"version {version} is gone, and with it {', '.join(needed[version])}" for version in unused.lost]
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


def _not_vacuumed(report: TableUpkeep, reason: str) -> TableUpkeep:
    """Spark's VACUUM knows no savepoints, so whether it may run is for the user to say."""
    problem = f"nothing removed, as only Spark can: {reason}"
    return replace(report, problem="; ".join(filter(None, (report.problem, problem))))
