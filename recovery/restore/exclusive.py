"""Steps 3 and 4 of a restore: nothing else changes the checkpoint or its tables meanwhile, or once it is done.

- Another restore: a lease beside the checkpoint is held from the first check to the end.
- A job that starts: the intent is written while the lease of the checkpoint is held. A job takes that lease first and
  checks for an intent second, so it is refused by one or the other.
- A process that was paused, and continues during the restore or after it: it has lost its lease, and the tables refuse
  the commits of its epoch (`framework/engine/sink/fencing.py`). But Spark would write to the folder that it has open:
  offsets, and entries in the logs of the sources. So where a process may still live, its folder is not replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress

from framework.declarations.errors import CheckpointInUse
from framework.engine.job.lease import Lease
from recovery.errors import SavepointError, SavepointRefused
from recovery.jobs.lease import holding
from recovery.savepoint.manifest import Manifest
from recovery.savepoint.restore_paths import RestorePaths
from recovery.storage.files import Files
from state.checkpoint.claims import unaccounted_after
from state.checkpoint.layout import RUNNING_FILE, UNACCOUNTED_FILE

_WHAT = "the restore of job"


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
def without_jobs(folders: Collection[Files], job: str) -> Iterator[None]:
    """Hold the leases of checkpoints while the block lasts.

    Args:
        folders: the checkpoints.
        job: the name of their job.

    Raises:
        SavepointRefused: a job runs on one of them.
    """
    with ExitStack() as held:
        for folder in folders:
            held.enter_context(holding(folder, job, _WHAT))
        yield


def require_no_paused_process(checkpoint: Files, manifest: Manifest) -> None:
    """Refuse to replace a folder to which Spark may still write: a process there was lost, and may only be paused.

    Args:
        checkpoint: the folder.
        manifest: the savepoint that it would be replaced by.

    Raises:
        SavepointRefused: there may be such a process.
    """
    lost = unaccounted_after(checkpoint, manifest.batch)
    if lost:
        root = checkpoint.root
        raise SavepointRefused(
            f"{root} was in use by {'; '.join(map(str, lost))}, whose end is not known: if it is only paused, and "
            "continues, Spark writes into this folder after the restore. Restore to another folder, to which it cannot "
            f"write: --checkpoint {root}-restored, and start the job there. Or make sure that this process is gone, "
            f"remove {RUNNING_FILE} and {UNACCOUNTED_FILE} in {root}, and run the same restore again"
        )
