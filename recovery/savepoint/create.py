"""Makes a savepoint: a verified copy of a job's checkpoint, with the versions of its tables.

    0  Have a running job commit a batch for it. The job keeps running meanwhile: Spark never changes a
       file that it has written, and keeps those of a hundred batches.
    1  Read the checkpoint, and the versions of the tables, as of that batch or the last committed one
       (`checkpoint_snapshot.py`).
    2  Store its files as blobs under their checksums; those that the archive has are not sent again.
    3  Read every blob back and compare it; one that another savepoint left damaged is sent again. Then let Spark read
       the copy as the job would, and decode each stored value: a checkpoint that was damaged before is not saved
       (`state_reader.py`).
    4  Write the manifest, unless another savepoint of this name was made meanwhile.

A kill before step 4 leaves blobs that the next savepoint uses, or `prune` removes; without its manifest, a savepoint
does not exist. While one is being made, no prune removes blobs from its location (`activity.py`).
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from panekeeper.framework.declarations.display import Result, format_bytes
from panekeeper.framework.declarations.durations import Duration, to_seconds
from panekeeper.framework.engine.sink.delta_log import newest_version, read_table
from panekeeper.framework.engine.sink.gone_tables import can_be_saved_without
from panekeeper.recovery.errors import ArchiveError, SavepointError, SavepointRefused
from panekeeper.recovery.jobs.checkpoint import (
    current_folder,
    require_current_record,
    require_still_current,
    running_on,
)
from panekeeper.recovery.jobs.gone_tables import gone_among
from panekeeper.recovery.jobs.tables import require_own_tables, versions_after_batch
from panekeeper.recovery.savepoint.activity import active_markers, activity_marker
from panekeeper.recovery.savepoint.catalog import decoded_text, require_no_overlap
from panekeeper.recovery.savepoint.checkpoint_snapshot import (
    CheckpointSnapshot,
    batch_with_control_file,
    read_checkpoint,
)
from panekeeper.recovery.savepoint.manifest import (
    MAX_MANIFEST_BYTES,
    Manifest,
    checked_name,
    manifest_file,
    manifest_key,
)
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import (
    ChangedMeanwhile,
    ProgressCallback,
    SavedFile,
    TransferProgress,
    describe,
    read_small,
    upload,
)
from panekeeper.recovery.storage.delta_tables import (
    WEEK,
    SavedTable,
    commit_checksum,
    parse_interval,
)
from panekeeper.recovery.storage.files import Files, map_parallel
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, checkpoint_at, open_archive, table_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.clock import Deadline, now_us, now_utc
from panekeeper.state.checkpoint.control_files import write_control_file
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, OFFSETS_FOLDER, batch_numbers
from panekeeper.state.checkpoint.job_record import write_last_savepoint
from panekeeper.state.duration_text import duration_text
from panekeeper.state.log import logger
from panekeeper.state.prepared import as_computed
from panekeeper.state.table_roles import kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MAX_ATTEMPTS = 5
_log = logger("savepoint")


@dataclass(frozen=True, kw_only=True)
class Savepoint(Result):
    """A savepoint that was made: where it is, and what it consists of.

    `bytes_sent` is the size of the contents that were sent, equal ones once; `bytes_reused` of those that the location
    had. `values` is how many stored values were decoded; None without `decode`.
    `warnings` are of tables that forget the version of the savepoint too soon; the command alone looks for them.
    """

    location: str
    manifest: Manifest
    bytes_sent: int
    bytes_reused: int
    values: int | None
    warnings: tuple[str, ...] = ()
    _not_in_json: ClassVar[Collection[str]] = ("manifest",)

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields: the manifest in short, and the rest."""
        return self.manifest.summary() | super().fields()

    def _described(self) -> Iterator[str]:
        made, sent, reused = self.manifest, format_bytes(self.bytes_sent), format_bytes(self.bytes_reused)
        what = f"savepoint {made.name} of job {made.job} as of batch {made.batch:,} is in {self.location}"
        yield f"{what}: {len(made.files)} files, {sent} sent, {reused} reused{decoded_text(self.values)}"
        if made.unfinished is not None:
            yield f"batch {made.unfinished} was begun and not committed; it is not in the savepoint"
        for role, path in made.gone.items():
            yield f"table {role}: {path} is gone, so the start after a restore of this savepoint makes it"
        if not made.paths:
            yield "this checkpoint names no Delta tables, so a restore will leave all tables as they are"


def savepoint(  # noqa: PLR0913 -- all but two have a default that fits
    checkpoint: Location,
    name: str,
    *,
    to: LocationOrArchive,
    s3: S3Options | None = None,
    progress: ProgressCallback | None = None,
    timeout: Duration = 300.0,
    made_at: datetime | None = None,
    decode: bool = True,
    spark: SparkSession | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Savepoint:
    """Make a savepoint of a job that runs, in this process or another one, or is stopped.

    That of a running job is as of a batch that the job commits for it. That of a stopped job is as of the last
    committed batch; the manifest has the number of one that was begun after it.

    Args:
        checkpoint: the job's checkpoint, a local folder or one on S3.
        name: letters, digits, `.`, `_` and `-`; new in this location.
        to: a folder, `s3://bucket/prefix`, or an archive. Savepoints of one location
            share the contents that they have in common.
        s3: how S3 is reached.
        progress: called after each file.
        timeout: how long a running job may take until its next batch is committed: `"5 minutes"`, a `timedelta`, or
            seconds.
        made_at: the time of the savepoint; now, if not given.
        decode: let Spark read the copy and decode every stored value. Without it only the bytes are compared, and state
            that was damaged before is saved as it is.
        spark: the session that reads the copy; a new one if not given.
        sleep: called with a number of seconds to wait.

    Raises:
        SavepointRefused: a running job committed no batch in time; a reset or restore of it has begun; the location is
            being pruned or lies in the checkpoint; the name is taken or cannot be one; the key for signatures is
            short; or a table belongs to another checkpoint.
        CheckpointError, SinkError: the checkpoint or a table was put back from a backup, and they do not fit together.
        SavepointError: there is nothing to save, or a table is gone that a start after a restore could not make.
        ArchiveError: the location cannot be used.
        StateError: the checkpoint's record is damaged, or a stored value. No savepoint was made.
    """
    checked_name(name)
    archive = open_archive(to, s3)
    root, key = checkpoint_at(checkpoint, s3), manifest_key()
    require_no_overlap(archive, root)
    folder = current_folder(root)
    record = require_current_record(folder)
    if archive.exists(manifest_file(name)):
        raise _name_taken(archive, name)
    now = made_at or now_utc()
    with activity_marker(archive, "savepoint", now):
        for file, since in active_markers(archive, "prune", now).items():
            raise SavepointRefused(
                f"a prune of {archive.location} runs since {since:%Y-%m-%dT%H:%M:%SZ}, and might remove files that "
                f"this savepoint needs; try again when it has ended (if it was killed, remove {file} there)"
            )
        batch = request_savepoint_batch(folder, timeout=to_seconds(timeout, "timeout"), sleep=sleep)  # 0
        snapshot, tables, files, cost = _copy_with_retry(folder, batch, archive, progress)  # 1 to 3
        manifest = Manifest(
            name=name,
            made_at=now,
            checkpoint=snapshot.folder.root,
            job=snapshot.record.name,
            job_id=snapshot.record.id,
            epoch=snapshot.record.epoch,
            state_version=snapshot.record.state_version,
            declaration=as_computed(folder, snapshot.record).declaration,
            batch=snapshot.batch,
            unfinished=snapshot.unfinished,
            settings=snapshot.settings,
            versions=snapshot.record.versions,
            tables=tables,
            files=tuple(files),
            gone={role: path for role, path in snapshot.tables.items() if role not in tables},
        )
        values = None
        if decode:
            from panekeeper.recovery.savepoint.state_reader import decode_savepoint

            advice = (
                "no savepoint was made. Restore the job from an earlier one; decode=False (--no-decode) saves it as it "
                "is"
            )
            values = decode_savepoint(archive, manifest, advice=advice, s3=folder.s3, spark=spark)
        os.sync()  # a power cut must not take the versions of tables that it names
        require_still_current(root, record)  # else the tables may have gone back while their versions were read
        _publish(archive, manifest, key)  # 4
    try:
        write_last_savepoint(folder, manifest.noted(archive.location))
    except (OSError, ArchiveError) as error:  # a savepoint is made even where its note is forbidden
        _log.warning("the newest savepoint of %s could not be noted in it: %s", folder.root, error)
    return Savepoint(
        location=archive.location,
        manifest=manifest,
        bytes_sent=cost.sent,
        bytes_reused=cost.reused,
        values=values,
    )


def _publish(archive: Archive, manifest: Manifest, key: bytes | None) -> None:
    file, data = manifest_file(manifest.name), manifest.encode(key)
    Manifest.decode(data, manifest.name, key)  # what could not be read, as for a folder's name, is no savepoint
    try:
        archive.put_new(file, data)
    except FileExistsError:
        # A store may have stored a file although the call failed, and was tried again.
        if read_small(archive, file, MAX_MANIFEST_BYTES) != data:
            raise _name_taken(archive, manifest.name) from None


def _name_taken(archive: Archive, name: str) -> SavepointRefused:
    return SavepointRefused(f"there is a savepoint {name!r} in {archive.location} already; choose another name")


def _copy_with_retry(
    folder: Files,
    batch: int | None,
    archive: Archive,
    progress: ProgressCallback | None,
) -> tuple[CheckpointSnapshot, dict[str, SavedTable], list[SavedFile], TransferProgress]:
    """Do steps 1 to 3, again if the job has meanwhile removed or changed a file."""
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        try:
            snapshot = read_checkpoint(folder, batch=batch)  # 1
            tables = table_versions(_without_gone(snapshot))
            files = [file for _, file in map_parallel(lambda path: describe(folder, path), snapshot.files())]
            if (changed := snapshot.changed_file()) is not None:
                raise ChangedMeanwhile(changed)
            cost = upload(archive, folder, files, progress)  # 2 and 3
        except (FileNotFoundError, ChangedMeanwhile) as error:
            if attempt == _MAX_ATTEMPTS:
                raise SavepointError(
                    f"the job of {folder.root} has changed or removed files while they were copied, in each of "
                    f"{_MAX_ATTEMPTS} attempts, the last one {error.filename}. Drain the job first"
                ) from error
        else:
            return snapshot, tables, files, cost
    raise AssertionError("the last attempt returns or raises")


def _without_gone(snapshot: CheckpointSnapshot) -> CheckpointSnapshot:
    """Return the snapshot without the tables that are gone, if the start after a restore can make all of them again."""
    gone = gone_among(snapshot.folder, snapshot.tables)
    if not gone or not can_be_saved_without(gone, snapshot.folder):
        return snapshot  # its tables are refused, if any is gone
    _log.warning("the savepoint has no version of %s, which is gone", ", ".join(gone.values()))
    return replace(snapshot, tables={role: path for role, path in snapshot.tables.items() if role not in gone})


def table_versions(snapshot: CheckpointSnapshot) -> dict[str, SavedTable]:
    """Return the tables at their versions as of the batch, whether a job runs or is started meanwhile.

    Views are read first: a settlement commits to the log and then to the view, so what a view has, its log has by then.
    The other way round, a later settlement completes it (`recovery/settle/settle.py`).
    """
    require_own_tables(snapshot.folder, snapshot.record, snapshot.tables)
    roles = sorted(snapshot.tables, key=lambda role: kind_of(role) != "view")
    opened = {role: table_at(snapshot.tables[role], snapshot.folder.s3) for role in roles}
    versions = {role: newest_version(files) for role, files in opened.items()}
    if _may_hold_later_rows(snapshot):
        ids = {role: snapshot.record.transaction(role) for role in opened}
        versions = versions_after_batch(opened, ids, snapshot.batch)
    return {
        role: SavedTable(path=path, version=versions[role], sha256=commit_checksum(opened[role], versions[role]))
        for role, path in snapshot.tables.items()
    }


def _may_hold_later_rows(snapshot: CheckpointSnapshot) -> bool:
    """Return whether a job runs, or was started since the checkpoint was read: a batch is logged before its rows."""
    return snapshot.is_followed or any(
        batch > snapshot.batch for batch in batch_numbers(snapshot.folder, OFFSETS_FOLDER)
    )


_POLL_SECONDS = 0.2


def request_savepoint_batch(
    folder: Files,
    *,
    timeout: float,
    now: Callable[[], int] = now_us,
    sleep: Callable[[float], None] = time.sleep,
) -> int | None:
    """Have the job that runs on a checkpoint commit a batch for a savepoint, and return it; None if no job runs.

    Raises `SavepointRefused` if it was not committed in time (seconds); the job continues.
    """
    if running_on(folder, now=now) is None:
        return None
    number = write_control_file(folder, "savepoint")
    deadline = Deadline(timeout, clock=lambda: now() / 1e6)
    while (owner := running_on(folder, now=now)) is not None:
        batch = batch_with_control_file(folder, number)
        if batch is not None and batch in batch_numbers(folder, COMMITS_FOLDER):
            return batch
        if deadline.has_passed():
            raise SavepointRefused(
                f"{owner} has committed no batch within {duration_text(timeout)}, so there is nothing new to save; "
                f"wait longer (--timeout), or drain it first: `panekeeper drain {shlex.quote(folder.root)}`"
            )
        sleep(_POLL_SECONDS)
    return None


# By Delta's defaults a table keeps them for a week or longer.
_RETENTION = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")


def short_retention(manifest: Manifest, s3: S3Options | None) -> list[str]:
    """Return a warning for each table that keeps old versions for less than a week."""
    warnings = []
    for role, table in manifest.tables.items():
        properties = read_table(table_at(table.path, s3)).properties
        for name in _RETENTION:
            value = properties.get(name, "")
            kept = parse_interval(value)
            if kept is not None and kept < WEEK:
                warnings.append(
                    f"table {role} keeps old versions for {value.removeprefix('interval ')} only ({name}), and "
                    f"savepoint {manifest.name} cannot be restored once they are gone: "
                    f"ALTER TABLE delta.`{table.path}` SET TBLPROPERTIES ('{name}' = 'interval 7 days')"
                )
    return warnings
