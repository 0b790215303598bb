"""Takes a job back to a savepoint: its state, its position in the sources and its tables, together.

    1  Check everything before anything is changed: the job is stopped, the folder is that job's (`target.py`), each
       table is that job's (`confirmed_tables.py`) and still has its version (`preview.py`).
    2  Hold the lease of the current epoch: no job starts meanwhile, and no other restore runs.
    3  Write the copy, each file checked, into the folder of a new epoch, with what is to be done with the tables
       (`new_epoch.py`).
    4  Let that epoch be current: one step. Before it, nothing has changed but that a folder is there which nobody
       reads. From it on, no job starts before the tables are back, too.
    5  Let each table refuse commits of all earlier epochs, take it to its version, and own it
       (`framework/engine/job/roll_forward.py`). After a kill the same call does the rest, or the next start.

The folder of the epoch before stays as it was, until `panekeeper prune` removes it. A process that was paused there
writes into a folder that nobody reads any more.

A restored Delta table still has the transaction ids of the commits that were discarded, and Delta would silently skip
the batches that are run again. That is why the epoch, which is part of these ids, is a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from panekeeper.framework.engine.job.roll_forward import roll_forward
from panekeeper.recovery.errors import ArchiveError, SavepointError, SavepointRefused
from panekeeper.recovery.jobs.checkpoint import holding, require_stopped
from panekeeper.recovery.restore.confirmed_tables import (
    require_confirmed,
    unconfirmed_tables,
    versions_to_take_back,
)
from panekeeper.recovery.restore.new_epoch import Transform, write_epoch
from panekeeper.recovery.restore.preview import RestorePreview, preview_restore
from panekeeper.recovery.restore.target import Target, target_at
from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.savepoint.overlap import require_no_overlap
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import ProgressCallback
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, checkpoint_at, files_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.epochs import STEPS as TABLE_STEPS
from panekeeper.state.checkpoint.epochs import Begin, Pointer, switch
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, batch_numbers
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = ("copied", "current", *TABLE_STEPS)
"""The names of the steps from 3 on."""

OnStep = Callable[[str], None]
"""Called with the name of a step, of `STEPS`, when it is done."""

_WHAT = "the restore of job"


def restore(  # noqa: PLR0913 -- what, where to, and how; all but two by keyword
    location: LocationOrArchive,
    name: str,
    *,
    checkpoint: Location | None = None,
    tables: Collection[Location] = (),
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
        location: where the savepoint is: a folder, `s3://bucket/prefix`, a URL of a registered scheme, or an archive.
        name: of the savepoint.
        checkpoint: the folder for the checkpoint, local or on S3; if not given, where the savepoint was made.
        tables: paths of the Delta tables that may be taken back, beside those that the checkpoint there names as its
            own. Needed if there is no checkpoint, as in a new folder or after a loss.
        dry_run: only return what would be changed, on every path.
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
            names a table, or the folder of a checkpoint that is gone, and the caller does not (the message has the
            command).
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
        if not dry_run and target.current is not None:
            lease = held.enter_context(holding(target.current, manifest.job, _WHAT))  # 2
            require_held = lease.require_held
            _require_unchanged_pointer(target)
        else:
            require_held = _nothing_to_hold
        pending = target.pending()
        completes = pending is not None and _is_of(pending, archive, manifest)
        are_back = completes and pending is not None and "taken back" in pending.done
        unconfirmed = () if are_back else unconfirmed_tables(manifest, target, tables)
        if not dry_run:
            require_confirmed(manifest, archive.location, target, checkpoint, unconfirmed)
        preview = preview_restore(manifest, target, spark=spark, tables_are_back=completes)  # 1
        preview = replace(preview, unconfirmed=unconfirmed)
        if dry_run:
            return preview
        with _advise_on_failure():
            if completes:
                assert target.current is not None, "something of it is pending"
                record = read_record(target.current)
                assert record is not None, "it was current, so it was whole"
                _roll_forward(target.current, record, manifest, spark, require_held, on_step)
                return preview
            copy, record = write_epoch(
                archive,
                manifest,
                target,
                epoch=preview.epoch,
                versions=versions_to_take_back(manifest, target),
                progress=progress,
                transform=transform,
            )  # 3
            on_step("copied")
            with holding(copy, manifest.job, _WHAT) as lease:  # before a start can see it
                if if_unchanged:
                    _require_same_batch(target, manifest)
                require_held()
                _switch(target, record)  # 4
                on_step("current")
                _roll_forward(copy, record, manifest, spark, lease.require_held, on_step)  # 5
    return preview


def _nothing_to_hold() -> None:
    """There is no epoch that a job could start from."""


def _require_stopped(target: Target, manifest: Manifest) -> None:
    """Refuse while a job runs here, or where the savepoint was made: its tables would go back below it."""
    if target.current is not None:
        require_stopped(target.current)
    made_at = checkpoint_at(manifest.checkpoint, target.root.s3)
    if made_at.root == target.root.root:
        return
    try:
        origin = target_at(made_at, manifest.job)
    except (SavepointRefused, ArchiveError, OSError):
        return  # it is gone, or somebody else's by now
    if origin.current is not None:
        require_stopped(origin.current)


def _require_unchanged_pointer(target: Target) -> None:
    """Refuse if a restore or reset has come to its end between the look at the folder and the lease."""
    if not target.is_unchanged():
        raise SavepointRefused(
            f"{target.root.root} was restored or reset just now. Nothing was changed; run the same restore again if "
            "it is still needed"
        )


def _is_of(pending: Begin, archive: Archive, manifest: Manifest) -> bool:
    """Return whether what is left to do in the current epoch is that of the restore of this savepoint."""
    begun = (pending.kind, pending.location, pending.savepoint, pending.made_at)
    return begun == ("restore", archive.location, manifest.name, manifest.made_at.isoformat())


def _require_same_batch(target: Target, manifest: Manifest) -> None:
    committed = -1 if target.current is None else max(batch_numbers(target.current, COMMITS_FOLDER), default=-1)
    if committed != manifest.batch:
        raise SavepointRefused(
            f"a job has run on {target.root.root} since savepoint {manifest.name!r} of it was made: it has "
            f"committed batch {committed}, after {manifest.batch}, and would lose what it has done. Nothing was "
            "changed; let no job start there meanwhile, and run the same command again"
        )


def _switch(target: Target, record: JobRecord) -> None:
    try:
        switch(target.root, target.content, Pointer(name=record.name, id=record.id, epoch=record.epoch))
    except CheckpointError as error:
        raise SavepointRefused(str(error)) from error


def _roll_forward(
    folder: Files,
    record: JobRecord,
    manifest: Manifest,
    spark: SparkSession | None,
    require_held: Callable[[], None],
    on_step: OnStep,
) -> None:
    """Do step 5. The library takes tables back where it can: Spark takes seconds for each."""
    from panekeeper.recovery.storage.delta_tables import restore_table, session_for

    paths = [table.path for table in manifest.tables.values()]
    by_path = {table.path: table for table in manifest.tables.values()}

    def take_back(path: str, _: int) -> None:
        table = files_at(path, folder.s3)
        restore_table(session(), by_path[path], table, before_commit=require_held)

    session = partial(session_for, paths, spark, folder.s3)
    roll_forward(folder, record, session, require_held, restore_table=take_back, on_step=on_step)


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
