"""What a start holds of its checkpoint: the lease, which is put back as it was if the job does not come to run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from panekeeper.framework.engine.job.lease import Lease, acquire
from panekeeper.framework.engine.session.s3_settings import is_s3

if TYPE_CHECKING:
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles

_CONFIRM_DELAY_SECONDS = 1.0  # lets the writes of two starts pass each other, where a create may not be exclusive


@contextmanager
def acquire_for_start(files: CheckpointFiles, name: str) -> Iterator[tuple[Lease, CheckpointFiles]]:
    """Acquire the lease for a start, and yield it with the folder, which is changed only while it is held.

    If the block fails before the job runs, everything is put back as it was.

    Args:
        files: the checkpoint.
        name: the job's name.

    Raises:
        CheckpointInUse, CheckpointError: as `acquire`.
    """
    local = files.local_folder()
    delay = 0.0 if local is not None or is_s3(files.root) else _CONFIRM_DELAY_SECONDS
    lease = acquire(local or files, name, confirm_delay_seconds=delay)
    try:
        yield lease, files.while_held(lease.require_held)
    except BaseException:
        lease.roll_back()
        raise
