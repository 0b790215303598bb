"""Removes the folders of epochs that are not current any more: those before, and copies that never became current."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from panekeeper.framework.declarations.display import Result, format_bytes
from panekeeper.framework.declarations.errors import CheckpointInUse
from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.jobs.checkpoint import current_folder, holding, running_on
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.locations import Location, checkpoint_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.epochs import POINTER_FILE, epoch_folder, epoch_numbers, read_pointer


@dataclass(frozen=True, kw_only=True)
class PrunedEpochs(Result):
    """What was removed of a checkpoint: the folders of these epochs, and their size in bytes."""

    checkpoint: str
    current: int
    removed: tuple[int, ...]
    bytes: int

    def _described(self) -> Iterator[str]:
        removed = ", ".join(map(str, self.removed)) or "none"
        yield f"former epochs removed: {removed}; {format_bytes(self.bytes)}; epoch {self.current} is current"


def is_checkpoint(place: Location, s3: S3Options | None = None) -> bool:
    """Return whether a folder is a checkpoint, and no location of savepoints."""
    try:
        return checkpoint_at(place, s3).exists(POINTER_FILE)
    except SavepointRefused:
        return False  # a place where no checkpoint can be


def prune_epochs(checkpoint: Location, *, keep: int = 0, s3: S3Options | None = None) -> PrunedEpochs:
    """Remove the folders of former epochs. What a restore has discarded cannot be looked at any more.

    A job may run. Copies that never became current are only removed if none does: a restore may be making one.

    Args:
        checkpoint: the folder or URL that `start(checkpoint=...)` got.
        keep: how many of the former epochs stay, the newest ones.
        s3: how S3 is reached.

    Raises:
        SavepointError: there is no checkpoint of Panekeeper.
        SavepointRefused: `keep` is negative.
    """
    if keep < 0:
        raise SavepointRefused(f"keep is {keep}; it must be 0 or more")
    root = checkpoint_at(checkpoint, s3)
    folder, pointer = current_folder(root), read_pointer(root)
    assert pointer is not None, "its folder is there"
    current = pointer.epoch
    former = [epoch for epoch in epoch_numbers(root) if epoch < current]
    removed = former[: len(former) - keep]
    size = sum(_remove(root, epoch) for epoch in removed)
    if running_on(folder) is None and any(epoch > current for epoch in epoch_numbers(root)):
        try:
            with holding(folder, pointer.name, "the prune of job"):
                orphans = (
                    [epoch for epoch in epoch_numbers(root) if epoch > current] if read_pointer(root) == pointer else []
                )
                size += sum(_remove(root, epoch) for epoch in orphans)
                removed += orphans
        except (SavepointRefused, CheckpointInUse):
            pass  # a job or a restore has begun: the next prune removes them
    return PrunedEpochs(checkpoint=root.root, current=current, removed=tuple(removed), bytes=size)


def _remove(root: Files, epoch: int) -> int:
    folder = epoch_folder(root, epoch)
    size = sum(folder.sizes().values())
    folder.clear()
    return size
