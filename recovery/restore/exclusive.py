"""Steps 3 and 4 of a restore: nothing else changes the checkpoint or its tables meanwhile, or once it is done.

- Another restore: a lease beside the checkpoint is held from the first check to the end.
- A job that starts: the intent is written while the lease of the checkpoint is held. A job takes that lease first and
  checks for an intent second, so it is refused by one or the other.
- A restore that was paused until another process took over: before each change it checks that its leases are still
  held. Once the intent is written it looks again: a job that has begun in between has not found it.
- A process that was paused, and continues during the restore or after it: it has lost its lease, and the tables refuse
  the commits of its epoch (`framework/engine/sink/fencing.py`). But Spark would write to the folder that it has open:
  offsets, and entries in the logs of the sources. So where a process may still live, its folder is not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from panekeeper.framework.declarations.errors import CheckpointInUse
from panekeeper.framework.engine.job.lease import Lease
from panekeeper.recovery.errors import SavepointError, SavepointRefused
from panekeeper.recovery.jobs.lease import holding
from panekeeper.recovery.restore.former_epochs import last_known_epochs
from panekeeper.recovery.restore.intent import RestoreIntent, moved_aside, remove_intent, write_intent
from panekeeper.recovery.restore.superseded import checkpoints_with_same_tables, mark_superseded
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.claims import unaccounted_after, unaccounted_processes
from panekeeper.state.checkpoint.folder import batch_numbers
from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, RUNNING_FILE, UNACCOUNTED_FOLDER
from panekeeper.state.checkpoint.owner import LeaseOwner

_WHAT = "the restore of job"

RequireLease = Callable[[], None]
"""Called before each change; raises if this was paused until another restore took its place."""


@contextmanager
def only_restore(paths: RestorePaths, job: str) -> Iterator[Lease]:
    """Be the only restore of a checkpoint while the block lasts.

    Args:
        paths: of the checkpoint.
        job: the name of its job.

    Raises:
        SavepointRefused: another restore of it is under way.
    """
    with holding(paths.lease_folder, job, _WHAT) as lease:
        try:
            yield lease
        finally:
            with suppress(CheckpointInUse, SavepointError, OSError):
                lease.require_held()
                paths.lease_folder.clear()


@contextmanager
def without_jobs(folders: Collection[Files], job: str) -> Iterator[Callable[[], None]]:
    """Hold the leases of checkpoints while the block lasts; yield what raises `CheckpointInUse` once one is lost.

    Args:
        folders: the checkpoints.
        job: the name of their job.

    Raises:
        SavepointRefused: a job runs on one of them.
    """
    with ExitStack() as held:
        leases = [held.enter_context(holding(folder, job, _WHAT)) for folder in folders]

        def require_all() -> None:
            for lease in leases:
                lease.require_held()

        yield require_all


def begin(
    paths: RestorePaths,
    manifest: Manifest,
    intent: RestoreIntent,
    s3: S3Options | None,
    require_lease: RequireLease,
    on_step: Callable[[str], None],
    *,
    if_unchanged: bool,
) -> RestoreIntent:
    """Do step 3, and return the intent. Nothing was changed before: if a job runs by now, nothing is.

    Args:
        paths: of the checkpoint.
        manifest: the savepoint.
        intent: what is to be recorded, or was before the restore was interrupted.
        s3: how S3 is reached.
        require_lease: raises if another restore has taken the place of this one.
        on_step: called once the intent is written.
        if_unchanged: refuse if a job has committed a batch since the savepoint.

    Raises:
        SavepointRefused: a job runs, or has run.
        CheckpointInUse: this was paused, and a job has begun, or another restore.
    """
    is_new = not intent.has_done("intended")
    own = [paths.checkpoint] if is_new and intent.replaces else []
    others = checkpoints_with_same_tables(manifest, paths.checkpoint, s3)
    with without_jobs([*own, *others], manifest.job) as require_no_job:
        if is_new:
            if if_unchanged:
                _require_unchanged(paths, manifest)
            require_lease()
            # A job may have begun while the copy was made, and been paused: the lease was taken from it just now.
            _require_none_lost(paths, paths.checkpoint, unaccounted_processes(paths.checkpoint, manifest.batch))
            _require_new_epoch(paths, manifest, intent, others, s3)
            intent = replace(intent, done="intended")
            require_no_job()
            require_lease()
            write_intent(paths, intent)
            _require_no_job_yet(paths, require_no_job, require_lease)
            on_step("intended")
        require_no_job()
        require_lease()
        mark_superseded(manifest, paths.checkpoint, s3)
    return intent


def _require_new_epoch(
    paths: RestorePaths, manifest: Manifest, intent: RestoreIntent, others: Collection[Files], s3: S3Options | None
) -> None:
    """Refuse an epoch that has begun since it was chosen: no lease was held while the copy was made."""
    if max(last_known_epochs({}, paths.checkpoint, manifest, others, s3).values()) >= intent.epoch:
        raise SavepointRefused(
            f"the job of {paths.checkpoint.root} was reset or restored while the copy was made. Nothing was changed; "
            "run the same restore again"
        )


def _require_no_job_yet(paths: RestorePaths, require_no_job: RequireLease, require_lease: RequireLease) -> None:
    """Take the intent back if a job has begun just before it was written, which did not find it."""
    try:
        require_no_job()
    except CheckpointInUse:
        require_lease()
        remove_intent(paths)
        raise


def _require_unchanged(paths: RestorePaths, manifest: Manifest) -> None:
    committed = max(batch_numbers(paths.checkpoint, COMMITS_FOLDER), default=-1)
    if committed != manifest.batch:
        raise SavepointRefused(
            f"a job has run on {paths.checkpoint.root} since savepoint {manifest.name!r} of it was made: it has "
            f"committed batch {committed}, after {manifest.batch}, and would lose what it has done. Nothing was "
            "changed; let no job start there meanwhile, and run the same command again"
        )


def require_no_paused_process(paths: RestorePaths, manifest: Manifest) -> None:
    """Refuse to replace a folder to which Spark may still write: a process there was lost, and may only be paused.

    What is known of that is in the checkpoint, which an interrupted restore may have moved aside.

    Args:
        paths: of the checkpoint.
        manifest: the savepoint that it would be replaced by.

    Raises:
        SavepointRefused: there may be such a process.
    """
    _require_none_lost(paths, paths.checkpoint, unaccounted_after(paths.checkpoint, manifest.batch))
    for aside in moved_aside(paths):  # its lease was looked at when it was moved
        _require_none_lost(paths, aside, unaccounted_processes(aside, manifest.batch))


def _require_none_lost(paths: RestorePaths, folder: Files, processes: Collection[LeaseOwner]) -> None:
    if processes:
        root = paths.checkpoint.root
        raise SavepointRefused(
            f"{root} was in use by {'; '.join(map(str, processes))}, whose end is not known: if it is only paused, "
            "and continues, Spark writes into this folder after the restore. Restore to another folder, to which it "
            f"cannot write: --checkpoint {root}-restored, and start the job there. Or make sure that this process is "
            f"gone, remove {RUNNING_FILE} and {UNACCOUNTED_FOLDER} in {folder.root}, and run the same restore again"
        )
