"""What a restore has begun, and how far it is: one file beside the checkpoint, while it lasts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from recovery.storage.files import Files
from state.checkpoint.job_record import RESTORING_SUFFIX
from state.errors import CorruptState

STEPS = ("copied", "intended", "tables", "aside", "in place", "removed")
"""What the steps 2 to 7 are called when they are done."""


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What was begun: enough to go on after a kill.

    Attributes:
        location: where the savepoint is.
        name: which one.
        epoch: the new one.
        replaces: whether a checkpoint stands there, and is removed.
        files: how many files the copy has.
        done: the last of `STEPS` that was done.
        superseded: the epochs of earlier restores that nobody could complete; what they left is removed with the rest.
    """

    location: str
    name: str
    epoch: int
    replaces: bool
    files: int
    done: str = "copied"
    superseded: tuple[int, ...] = ()

    @property
    def epochs(self) -> tuple[int, ...]:
        """Its epoch, and those of the restores whose place it took."""
        return (self.epoch, *self.superseded)

    def has_done(self, step: str) -> bool:
        """Say whether a step was done."""
        return STEPS.index(self.done) >= STEPS.index(step)


@dataclass(frozen=True, kw_only=True)
class Places:
    """The checkpoint, and what stands beside it while it is replaced."""

    checkpoint: Files

    @property
    def folder(self) -> Files:
        """The folder itself, where the checkpoint is a link to one: it is renamed, the link stays."""
        return self.checkpoint.resolved()

    @property
    def incoming(self) -> Files:
        """The copy, until it takes its place."""
        return self._beside(".incoming")

    def replaced(self, epoch: int) -> Files:
        """The old checkpoint, until all is done."""
        return self._beside(f".replaced-{epoch}")

    def intent(self) -> Intent | None:
        """Return what was begun and is not done yet."""
        try:
            said = self.checkpoint.parent().read_json(self._intent)
            return None if said is None else Intent(**{**said, "superseded": tuple(said.get("superseded", ()))})
        except (AttributeError, TypeError, ValueError) as error:
            raise CorruptState(
                f"{self.checkpoint.root}{RESTORING_SUFFIX} is damaged; remove it and run the restore again"
            ) from error

    def intend(self, intent: Intent) -> None:
        """Write down what was begun, and how far it is."""
        self.checkpoint.parent().put_bytes(self._intent, json.dumps(asdict(intent)).encode())

    def end(self) -> None:
        """Forget what was begun: it is done."""
        self.checkpoint.parent().remove(self._intent)

    @property
    def _intent(self) -> str:
        return self.checkpoint.name + RESTORING_SUFFIX

    def _beside(self, suffix: str) -> Files:
        return self.folder.parent().child(self.folder.name + suffix)
