"""The names beside a checkpoint that a restore uses. A location of savepoints must overlap none of them."""

from __future__ import annotations

from dataclasses import dataclass

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.layout import REPLACED_SUFFIX, RESTORING_SUFFIX


@dataclass(frozen=True, kw_only=True)
class RestorePaths:
    """A checkpoint, and what stands beside it while a restore replaces it.

    Attributes:
        checkpoint: the checkpoint as the job names it; may be a link to a folder.
    """

    checkpoint: Files

    @property
    def folder(self) -> Files:
        """The folder itself: where the checkpoint is a link, the folder is renamed and the link stays."""
        return self.checkpoint.resolved()

    @property
    def incoming(self) -> Files:
        """The folder with the copy of a savepoint, until it replaces the checkpoint, and what was left of others."""
        return self._sibling(".incoming")

    def copy(self, name: str) -> Files:
        """Return a copy of a savepoint. Each restore has its own: one that was paused must not write to another's.

        Args:
            name: of the copy; empty if an older version has made it.
        """
        return self.incoming.child(name) if name else self.incoming

    def replaced(self, epoch: int) -> Files:
        """Return the old checkpoint, until the restore is complete.

        Args:
            epoch: the new epoch, which is different for each restore of a checkpoint.
        """
        return self._sibling(f"{REPLACED_SUFFIX}{epoch}")

    @property
    def siblings(self) -> Files:
        """The folder in which the checkpoint and its intent file are."""
        return self.checkpoint.parent()

    @property
    def intent_file(self) -> str:
        """The name of the intent file among the siblings; it is there while a restore is not complete."""
        return self.checkpoint.name + RESTORING_SUFFIX

    @property
    def lease_folder(self) -> Files:
        """The folder with the lease of a restore, which it holds for its whole length; the checkpoint is moved."""
        return self.siblings.child(f"{self.checkpoint.name}.restore-lease")

    def require_no_restore(self) -> None:
        """Raise `SavepointRefused` if a restore of this checkpoint was begun and is not complete."""
        if self.siblings.exists(self.intent_file):
            raise SavepointRefused(
                f"a restore of {self.checkpoint.root} was begun and is not complete; wait for it, or, if it was "
                "interrupted, run the same restore again first, which completes it"
            )

    def _sibling(self, suffix: str) -> Files:
        return self.folder.parent().child(self.folder.name + suffix)
