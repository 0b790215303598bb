"""Takes a job back to a savepoint: its state, its position in the sources and its tables, together.

    1  Check everything before anything is changed: the job is stopped, the folder is that job's and can be replaced,
       each table is that job's (`confirmed_tables.py`) and still has its version (`preview.py`; `interrupted.py`, if a
       restore was interrupted).
    2  Write the copy below `<checkpoint>.incoming`, each file checked, its record with a new epoch (`incoming.py`).
    3  Write the intent, `<checkpoint>.restoring.json` (`intent.py`), while the lease of the checkpoint is held. From
       here on no job starts from it until the restore is complete. If the copy goes to another folder than the
       savepoint was made of, no job starts from that one any more (`superseded.py`).
    4  Let each table refuse commits of all epochs until now, then take it to its version by a RESTORE
       (`recovery/storage/delta_tables.py`).
    5  Rename the old checkpoint to `<checkpoint>.replaced-<epoch>`.
    6  Rename the copy to the checkpoint.
    7  Remove the old checkpoint, then the intent.

From step 1 to the end this is the only restore of the checkpoint (`exclusive.py`).

A kill before step 3 leaves nothing but an unfinished `.incoming`. After it, the same call continues at the step that
was not done; if its savepoint is lost by then, a restore of another one takes its place. On a local disk steps 5 and 6
are one rename each. On S3 each copies many objects and removes the originals, and after a kill a folder may have a part
of them: that is why the intent records the last step that was done.

A restored Delta table still has the transaction ids of the commits that were discarded, and Delta would silently skip
the batches that are run again. That is why the epoch, which is part of these ids, goes up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from panekeeper.recovery.errors import ArchiveError, SavepointError, SavepointRefused, TableVersionLost
from panekeeper.recovery.jobs.lease import require_stopped
from panekeeper.recovery.restore.confirmed_tables import require_confirmed, unchanged_tables, unconfirmed_tables
from panekeeper.recovery.restore.exclusive import RequireLease, begin, only_restore, require_no_paused_process
from panekeeper.recovery.restore.former_epochs import epochs_to_fence
from panekeeper.recovery.restore.incoming import Transform, move_copy, require_free_for_copy, write_incoming
from panekeeper.recovery.restore.intent import RestoreIntent, read_intent, remove_intent, write_intent
from panekeeper.recovery.restore.interrupted import completes_interrupted, find_savepoint, with_steps_done
from panekeeper.recovery.restore.last_commit import take_tables
from panekeeper.recovery.restore.preview import RestorePreview, has_table_versions, preview_restore
from panekeeper.recovery.restore.superseded import checkpoints_with_same_tables, successors
from panekeeper.recovery.savepoint.checkpoint_reader import COPIED
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.savepoint.overlap import require_no_overlap
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import ProgressCallback
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.checkpoint.layout import JOB_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnStep = Callable[[str], None]
"""Called with the name of a step, of `panekeeper.recovery.restore.intent.STEPS`, when it is done."""


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
        transform: changes the copy before it replaces the checkpoint.
        if_unchanged: refuse if a job has committed a batch on the checkpoint since the savepoint.

    Returns:
        What was changed, or would be.

    Raises:
        SavepointRefused: the job is running; the folder is another job's, a mount point, or holds the savepoints; or
            a restore of another savepoint was interrupted; or only the manifest names a table, or the folder of a
            checkpoint that is gone, and the caller does not (the message has the command).
        UntrustedSavepoint: PANEKEEPER_MANIFEST_KEY is set, and the savepoint is not signed with that key.
        NoSuchSavepoint: there is none of this name.
        TableVersionLost: a table no longer holds the version of the savepoint. Nothing was changed.
        DamagedSavepoint: the savepoint is damaged. Nothing was changed.
    """
    archive = open_archive(location, s3)
    manifest = find_savepoint(archive, name, checkpoint, s3)
    paths = RestorePaths(checkpoint=checkpoint_at(checkpoint or manifest.checkpoint, s3))
    _require_can_restore(archive, paths, manifest, s3)
    with nullcontext() if dry_run else only_restore(paths, manifest.job) as lease:
        intent = read_intent(paths)
        unconfirmed = unconfirmed_tables(manifest, paths, intent, tables, s3)
        if not dry_run:
            require_confirmed(manifest, archive.location, paths, intent, checkpoint, unconfirmed, s3)
        has_tables = partial(has_table_versions, s3=s3, spark=spark)
        completes = intent and completes_interrupted(paths, intent, archive, manifest, s3, has_tables)
        intent, abandoned = (with_steps_done(paths, intent), None) if intent and completes else (None, intent)
        preview = _preview(paths, manifest, intent, abandoned, s3, spark)  # 1
        preview = replace(preview, unconfirmed=unconfirmed, superseded=_superseded(manifest, paths, s3))
        if lease is None:
            return preview
        held = lease.require_held
        with _advise_on_failure():
            if intent is None:
                how: dict[str, Any] = {"epoch": preview.epoch, "progress": progress, "transform": transform, "s3": s3}
                intent = write_incoming(archive, manifest, paths, require_lease=held, **how)  # 2
                on_step("copied")
                intent = replace(intent, superseded=abandoned.epochs if abandoned else ())
            intent = begin(paths, manifest, intent, s3, held, on_step, if_unchanged=if_unchanged)  # 3
            _complete(paths, intent, partial(_restore_tables, paths, intent, manifest, s3, spark, held), held, on_step)
    return preview


def _require_can_restore(archive: Archive, paths: RestorePaths, manifest: Manifest, s3: S3Options | None) -> None:
    require_no_overlap(archive, paths.checkpoint, s3)
    require_replaceable(paths)
    others = checkpoints_with_same_tables(manifest, paths.checkpoint, s3)
    for folder in (paths.checkpoint, *others):
        require_stopped(folder)
    _require_no_interrupted(paths, manifest, s3)
    require_no_paused_process(paths, manifest)


def _require_no_interrupted(paths: RestorePaths, manifest: Manifest, s3: S3Options | None) -> None:
    """Refuse while the tables go back with another checkpoint: completed later, that restore would not take them back.

    Its folder may be away already, or not be there yet, so it is looked for by its name.
    """
    for other in successors(manifest, paths.checkpoint, s3):
        if intent := read_intent(RestorePaths(checkpoint=other)):
            raise SavepointRefused(
                f"a restore of savepoint {intent.name!r} to {other.root} was interrupted, and the tables go back "
                f"with that checkpoint. Complete it first: panekeeper restore {intent.location} {intent.name} "
                f"--checkpoint {other.root}; then restore to another folder"
            )


def _superseded(manifest: Manifest, paths: RestorePaths, s3: S3Options | None) -> tuple[str, ...]:
    others = checkpoints_with_same_tables(manifest, paths.checkpoint, s3) if manifest.tables else []
    return tuple(folder.root for folder in others)


def require_replaceable(paths: RestorePaths) -> None:
    """Refuse a checkpoint that cannot be renamed; checked before the tables are restored.

    Raises:
        SavepointRefused: it is a mount point, or other files are in its folder.
    """
    others = sorted({*paths.checkpoint.names("")} - {*COPIED}) if paths.checkpoint.exists(JOB_FILE) else []
    if others:
        raise SavepointRefused(
            f"{paths.checkpoint.root} holds more than the checkpoint ({', '.join(others)}), which would be removed "
            "with it; move it to another place, and run the same command again"
        )
    if paths.folder.is_mount_point():
        root = paths.checkpoint.root
        raise SavepointRefused(
            f"{root} is a mount point and cannot be replaced by another folder; keep the checkpoint in a folder below "
            f"it: restore with --checkpoint {root}/checkpoint, and start the job there"
        )


def _preview(
    paths: RestorePaths,
    manifest: Manifest,
    intent: RestoreIntent | None,
    abandoned: RestoreIntent | None,
    s3: S3Options | None,
    spark: SparkSession | None,
) -> RestorePreview:
    """Do step 1; `intent` is that of an interrupted restore that this one completes."""
    if intent is None and abandoned is None:
        require_free_for_copy(paths, manifest)
    epoch = _next_epoch(intent, abandoned, manifest)
    try:
        return preview_restore(manifest, paths.checkpoint, epoch=epoch, interrupted=intent, s3=s3, spark=spark)
    except TableVersionLost as error:
        if intent is None:
            raise
        raise TableVersionLost(
            f"{error} The restore that was interrupted cannot be completed; restore another savepoint of the job, "
            f"which takes its place: panekeeper restore LOCATION NAME --checkpoint {paths.checkpoint.root}"
        ) from error


def _next_epoch(intent: RestoreIntent | None, abandoned: RestoreIntent | None, manifest: Manifest) -> int | None:
    """Return the new epoch if a restore was interrupted; None: it follows that of the checkpoint.

    The epoch of an abandoned restore is not used again: that restore may have got as far as its last step.
    """
    if intent is not None:
        return intent.epoch
    return None if abandoned is None else max(manifest.epoch, *abandoned.epochs) + 1


def _complete(
    paths: RestorePaths,
    intent: RestoreIntent,
    restore_tables: Callable[[], None],
    require_lease: RequireLease,
    on_step: OnStep,
) -> None:
    """Do steps 4 to 7. A call that was killed may have done one without recording it: each can be done twice."""

    def record(step: str) -> RestoreIntent:
        done = replace(intent, done=step)
        require_lease()
        write_intent(paths, done)
        on_step(step)
        return done

    if not intent.has_done("tables"):
        restore_tables()  # 4
        intent = record("tables")
    if not intent.has_done("aside"):
        if intent.replaces:
            require_lease()
            paths.folder.move_to(paths.replaced(intent.epoch), require_lease)  # 5
        intent = record("aside")
    if not intent.has_done("in place"):
        move_copy(paths, intent, require_lease)  # 6
        intent = record("in place")
    for folder in (*map(paths.replaced, intent.epochs), paths.incoming):
        require_lease()
        folder.clear()  # 7
    on_step("removed")
    require_lease()
    remove_intent(paths)


def _restore_tables(
    paths: RestorePaths,
    intent: RestoreIntent,
    manifest: Manifest,
    s3: S3Options | None,
    spark: SparkSession | None,
    require_lease: RequireLease,
) -> None:
    """Do step 4. The metrics are last, as in a batch: their row says that the other tables are complete."""
    if not manifest.tables:
        return
    from panekeeper.framework.engine.sink.fencing import fence
    from panekeeper.recovery.storage.delta_tables import restore_table, session_for

    session = session_for((table.path for table in manifest.tables.values()), spark, s3)
    others = checkpoints_with_same_tables(manifest, paths.checkpoint, s3)
    tables = {role: table.path for role, table in manifest.tables.items()}
    record = read_record(paths.copy(intent.copy))
    assert record is not None  # the copy of a savepoint has one
    require_lease()
    fence(session, tables, epochs_to_fence(record, paths.checkpoint, manifest, others, s3))
    unchanged = unchanged_tables(manifest, s3)
    go_back = (role for role, path in tables.items() if path not in unchanged)
    for role in sorted(go_back, key=lambda role: role == "metrics"):
        restore_table(session, manifest.tables[role], s3, before_commit=require_lease)
    require_lease()
    take_tables(session, tables, paths.copy(intent.copy), record)


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
