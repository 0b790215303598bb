"""Takes a job back to a savepoint: its state, its position in the sources and its tables, together.

    1  Check everything before anything is changed: the job is stopped, the folder is that job's, each table is that
       job's and still has its version (`checks.py`).
    2  Hold the lease of the current epoch: no job starts meanwhile, and no other restore runs. If the savepoint was
       made from another checkpoint, hold that of this one, too, until all is done: its job writes to the tables.
    3  Write the copy, each file checked, into the folder of a new epoch, with what is to be done with the tables. Those
       that are gone it does not name: the next start makes them, a view from its log.
    4  Let that epoch be current: one step. Before it, nothing has changed but that a folder is there which nobody
       reads. From it on, no job starts before the tables are back, too.
    5  Let each table refuse commits of all earlier epochs, take it to its version, and own it
       (`framework/engine/job/roll_forward.py`). After a kill the same call does the rest, or the next start. If a table
       is gone meanwhile, the same call begins again, from step 1.

The folder of the epoch before stays as it was, until `panekeeper prune` removes it. A process that was paused there
writes into a folder that nobody reads any more.

A restored Delta table still has the transaction ids of the commits that were discarded, and Delta would silently skip
the batches that are run again. That is why the epoch, which is part of these ids, is a new one.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from panekeeper.framework.engine.job.lease import Lease
from panekeeper.framework.engine.job.roll_forward import roll_forward
from panekeeper.framework.engine.sink.gone_tables import is_gone, lost_tables
from panekeeper.recovery.errors import ArchiveError, DamagedSavepoint, SavepointError, SavepointRefused
from panekeeper.recovery.jobs.checkpoint import holding, require_stopped
from panekeeper.recovery.restore.checks import (
    RestorePreview,
    SharedTables,
    Target,
    epochs_in_tables,
    gone_tables,
    preview_restore,
    require_confirmed,
    target_at,
)
from panekeeper.recovery.savepoint.catalog import require_no_overlap, show_trusted
from panekeeper.recovery.savepoint.checkpoint_copy import checked_copy, read_saved_record, write_checkpoint
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import ProgressCallback
from panekeeper.recovery.storage.delta_tables import session_for
from panekeeper.recovery.storage.files import Files, removed_on_error
from panekeeper.recovery.storage.locations import (
    Location,
    LocationOrArchive,
    checkpoint_at,
    open_archive,
    place_of,
    table_at,
)
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.epochs import STEPS as TABLE_STEPS
from panekeeper.state.checkpoint.epochs import Begin, Pointer, make_epoch, switch, write_begin
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, JOB_FILE, TABLES_FILE, batch_numbers
from panekeeper.state.checkpoint.job_record import (
    JobRecord,
    last_batches,
    read_last_savepoint,
    read_record,
    read_tables,
    write_last_savepoint,
    write_tables,
)
from panekeeper.state.checkpoint.lease_owner import read_owner
from panekeeper.state.errors import CheckpointError
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Transform = Callable[[Files], None]
"""Changes a copy before it becomes current; called with its files."""

STEPS = ("copied", "current", *TABLE_STEPS)
"""The names of the steps from 3 on."""

OnStep = Callable[[str], None]
"""Called with the name of a step, of `STEPS`, when it is done."""

_WHAT = "the restore of job"
_log = logger("restore")


def restore(  # noqa: PLR0913 -- what, where to, and how; all but two by keyword
    location: LocationOrArchive,
    name: str,
    *,
    checkpoint: Location | None = None,
    tables: Collection[Location] = (),
    begin_anew: Collection[str] = (),
    dry_run: bool = False,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
    progress: ProgressCallback | None = None,
    on_step: OnStep = lambda _: None,
    transform: Transform | None = None,
    if_unchanged: bool = False,
) -> RestorePreview:
    """Take a stopped job back to a savepoint. After a kill at any point, the same call completes it.

    Args:
        location: where the savepoint is: a folder, `s3://bucket/prefix`, or an archive.
        name: of the savepoint.
        checkpoint: the folder for the checkpoint, local or on S3; if not given, where the savepoint was made.
        tables: paths of the Delta tables that may be taken back, beside those that the checkpoint there names as its
            own. Needed if there is no checkpoint, as in a new folder or after a loss.
        begin_anew: roles of tables, such as `log` and `quarantine`, that are gone and may begin empty. A view that is
            gone is made again by the next start if its log tells what it had; metrics and downtime begin empty without
            being named.
        dry_run: only return what would be changed, on every path. Raises what the restore would raise: the savepoint is
            read whole.
        s3: how S3 is reached.
        spark: the session that restores the tables; a new one if not given.
        progress: called after each file.
        on_step: called after each step; a drill raises in it.
        transform: changes the copy before it becomes current.
        if_unchanged: refuse if a job has committed a batch on the checkpoint since the savepoint.

    Returns:
        What was changed, or would be.

    Raises:
        SavepointRefused: the job is running; the folder is another job's, or holds the savepoints; or only the manifest
            names a table, or the folder of a checkpoint that is gone, and the caller does not; or a table is gone that
            nothing can make again, and the caller does not let it begin empty (the message has the command).
        UntrustedSavepoint: PANEKEEPER_MANIFEST_KEY is set, and the savepoint is not signed with that key.
        NoSuchSavepoint: there is none of this name.
        TableVersionLost: a table no longer holds the version of the savepoint. Nothing was changed.
        DamagedSavepoint: the savepoint is damaged. Nothing was changed.
    """
    archive = open_archive(location, s3)
    manifest = show_trusted(archive, name)
    root = checkpoint_at(checkpoint or manifest.checkpoint, s3)
    require_no_overlap(archive, root)
    target = target_at(root, manifest.job)
    _require_stopped(target, manifest)
    with ExitStack() as held:
        here, origin = (None, None) if dry_run else _hold(held, target, manifest)  # 2
        pending = target.pending()
        completes = pending is not None and _is_of(pending, archive, manifest) and _are_there(pending, root)
        shared = SharedTables.of(manifest, target)
        are_back = completes and pending is not None and "taken back" in pending.done
        gone = dict(pending.remade) if completes and pending is not None else gone_tables(manifest, root.s3)
        lost = lost_tables(lambda: read_saved_record(archive, manifest), gone)
        if not are_back:
            anew = gone if completes else begin_anew  # which was confirmed
            require_confirmed(shared, archive.location, checkpoint, tables, gone, lost, anew)
        preview = preview_restore(shared, spark=spark, gone=gone, lost=lost, tables_are_back=completes)  # 1
        if dry_run:
            if not completes:
                with checked_copy(archive, manifest, progress) as copy:
                    _fitting_record(copy, manifest)
            return replace(preview, dry_run=True)
        paths = [table.path for table in manifest.tables.values()]
        session = cache(lambda: session_for(paths, spark, s3))
        named = {place_of(str(path)) for path in tables}
        confirmed = [path for path in paths if place_of(path) in named]
        with _advise_on_failure():
            if completes:
                assert target.current is not None, "something of it is pending"
                record = read_record(target.current)
                assert record is not None, "it was current, so it was whole"
                roll_forward(
                    target.current, record, session, _held_by(here, origin), confirmed=confirmed, on_step=on_step
                )
                return preview
            copy, record = _write_epoch(archive, shared, preview, progress, transform)  # 3
            on_step("copied")
            with holding(copy, manifest.job, _WHAT) as lease:  # before a start can see it
                if if_unchanged:
                    _require_same_batch(target, manifest)
                _held_by(here, origin)()
                try:
                    switch(root, target.content, Pointer(name=record.name, id=record.id, epoch=record.epoch))  # 4
                except CheckpointError as error:
                    raise SavepointRefused(str(error)) from error
                on_step("current")
                roll_forward(  # 5
                    copy, record, session, _held_by(lease, origin), confirmed=confirmed, on_step=on_step
                )
    return preview


def _require_stopped(target: Target, manifest: Manifest) -> None:
    """Refuse while a job runs here, or where the savepoint was made: its tables would go back below it."""
    if target.current is not None:
        require_stopped(target.current)
    if (origin := _origin(target, manifest)) is not None and origin.current is not None:
        require_stopped(origin.current)


def _origin(target: Target, manifest: Manifest) -> Target | None:
    """Return the checkpoint from which the savepoint was made; None if it is here, is gone, or somebody else's by now.

    It is here, too, if the same folder has several names: both have one owner of the lease.
    """
    made_at = checkpoint_at(manifest.checkpoint, target.root.s3)
    if made_at.root == target.root.root:
        return None
    try:
        origin = target_at(made_at, manifest.job)
    except (SavepointRefused, ArchiveError, OSError):
        return None
    if origin.current is None or target.current is None:
        return origin
    here, there = read_owner(target.current), read_owner(origin.current)
    return None if here is not None and there is not None and here.token == there.token else origin


def _hold(held: ExitStack, target: Target, manifest: Manifest) -> tuple[Lease | None, Lease | None]:
    """Do step 2 until the block ends; return the lease here, and that of the origin. None: no job can start there.

    An origin that this process cannot write to is not held: it may be read-only, as after a loss of its region. A job
    that starts there nevertheless finds itself fenced off before its next commit.
    """
    here = there = None
    if target.current is not None:
        here = held.enter_context(holding(target.current, manifest.job, _WHAT))
    origin = _origin(target, manifest)
    if origin is not None and origin.current is not None:
        try:
            there = held.enter_context(holding(origin.current, manifest.job, _WHAT))
        except SavepointRefused:
            raise
        except SavepointError as error:
            _log.warning("no lease is held where the savepoint was made, so start no job there: %s", error)
    for checkpoint in (target, origin):
        if checkpoint is not None and not checkpoint.is_unchanged():
            # another one came to its end between the look and the lease
            raise SavepointRefused(
                f"{checkpoint.root.root} was restored or reset just now. Nothing was changed; run the same restore "
                "again if it is still needed"
            )
    return here, there


def _held_by(*leases: Lease | None) -> Callable[[], None]:
    """Return what raises unless each of the leases is held still."""

    def require_held() -> None:
        for lease in leases:
            if lease is not None:
                lease.require_held()

    return require_held


def _is_of(pending: Begin, archive: Archive, manifest: Manifest) -> bool:
    """Return whether what is left to do in the current epoch is that of the restore of this savepoint."""
    begun = (pending.kind, pending.location, pending.savepoint, pending.made_at)
    return begun == ("restore", archive.location, manifest.name, manifest.made_at.isoformat())


def _are_there(pending: Begin, root: Files) -> bool:
    """Return whether what is left to do can be done: no table that goes back is gone since. Else it is begun again."""
    return not any(is_gone(table_at(path, root.s3)) for path in pending.tables.values())


def _require_same_batch(target: Target, manifest: Manifest) -> None:
    committed = -1 if target.current is None else max(batch_numbers(target.current, COMMITS_FOLDER), default=-1)
    if committed != manifest.batch:
        raise SavepointRefused(
            f"the job of {target.root.root} has committed batch {committed} since savepoint {manifest.name!r}, which "
            f"ends with batch {manifest.batch}. Nothing was changed; keep the job stopped, and run the same command "
            "again"
        )


def _write_epoch(
    archive: Archive,
    shared: SharedTables,
    preview: RestorePreview,
    progress: ProgressCallback | None,
    transform: Transform | None,
) -> tuple[Files, JobRecord]:
    """Do step 3: write the copy into the folder of a new epoch; return the folder, and the record of its job."""
    manifest, target = shared.manifest, shared.target
    stays = shared.not_of_this_job()  # what other jobs write there while the restore is interrupted stays
    back = {role: table for role, table in manifest.tables.items() if role not in preview.remade}
    begin = Begin(
        kind="restore",
        savepoint=manifest.name,
        location=archive.location,
        made_at=manifest.made_at.isoformat(),
        tables={role: table.path for role, table in back.items()},
        versions={role: table.version for role, table in back.items() if table.path not in stays},
        remade=preview.remade,
    )
    copy = make_epoch(target.root, preview.epoch, begin)
    with removed_on_error(copy):  # it never becomes current
        write_checkpoint(archive, manifest, into=copy, progress=progress)
        record = _fitting_record(copy, manifest)
        if preview.remade:
            write_tables(copy, begin.tables)  # the next start makes the others, as tables that are new
        if transform is not None:
            transform(copy)
            record = read_record(copy) or record
        # Its id is that of the folder; a new folder gets one.
        former = epochs_in_tables(manifest, target)
        own = uuid.uuid4().hex[:12] if target.pointer is None else target.pointer.id
        former.pop(own, None)
        record = replace(record, id=own, former=former, epoch=preview.epoch)
        copy.put_bytes(JOB_FILE, json.dumps(record.to_json()).encode())
        write_begin(copy, replace(begin, batch=last_batches(copy)[1]))
        # `panekeeper maintain` keeps the files of the savepoints where the newest one is. A savepoint has no such note,
        # and one that was made after it is still there.
        restored = manifest.noted(archive.location)
        before = None if target.current is None else read_last_savepoint(target.current)
        write_last_savepoint(copy, restored if before is None or before.at < restored.at else before)
        os.sync()  # the copy must be on the disk before it becomes current
    return copy, record


def _fitting_record(copy: Files, manifest: Manifest) -> JobRecord:
    """Return the record of a copy; one of another job, or with other tables than the manifest, is refused."""
    record = read_record(copy)
    if record is None or (record.name, record.id, record.epoch) != (manifest.job, manifest.job_id, manifest.epoch):
        wrong = JOB_FILE
    elif read_tables(copy) != manifest.paths:
        wrong = TABLES_FILE
    else:
        return record
    raise DamagedSavepoint(
        f"{wrong} of savepoint {manifest.name!r} does not fit its manifest; do not use this savepoint, and find out "
        "who can write to its location"
    )


@contextmanager
def _advise_on_failure() -> Iterator[None]:
    """Add to an error of the disk or the store how to complete the restore."""
    advice = "remove the cause and run the same restore again"
    try:
        yield
    except OSError as error:
        raise SavepointError(f"the restore stopped: {error.strerror or error} ({error.filename}); {advice}") from error
    except ArchiveError as error:
        raise type(error)(f"the restore stopped: {error}; {advice}") from error
