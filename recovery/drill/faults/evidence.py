"""What shows that a kill hit a job: the batch that its checkpoint holds half done. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from recovery.drill.actions import POINTS
from recovery.drill.faults.damage import Missed
from state.checkpoint.folder import LocalFolder, batch_numbers

if TYPE_CHECKING:
    from recovery.drill.actions import Point


class Checkpoints:
    """The checkpoints of some jobs, each in a folder of its own under `jobs`."""

    def __init__(self, jobs: Path, names: Iterable[str]) -> None:
        self._folders = {name: LocalFolder(jobs / name / "checkpoint") for name in names}

    def last_done(self) -> dict[str, int]:
        """By job, the last batch that Spark has committed; -1 before the first."""
        return {name: max(batch_numbers(one, "commits"), default=-1) for name, one in self._folders.items()}

    def half_done(self, batch: int) -> set[str]:
        """Which jobs have begun `batch`, or one after it, and not committed it.

        An older one does not count: an earlier kill may have left it, and this one come before it was run again.
        """
        begun = {name: max(batch_numbers(one, "offsets"), default=-1) for name, one in self._folders.items()}
        return {name for name, done in self.last_done().items() if begun[name] > done and begun[name] >= batch}

    def missed(self, point: Point, batch: int) -> dict[str, str]:
        """By job, why a kill at a point of `batch` is not shown to have hit it; empty if it hit them all.

        All jobs wait for each other at a point, so each must have a batch half done; between two batches, none may. In
        the midst of a batch nobody waits, and one job is enough.

        Raises:
            Missed: it hit none, in the midst of a batch.
        """
        done = self.last_done()
        if POINTS[point] is None:
            why = {name: "came before the first batch was done" for name, last in done.items() if last < 0}
            why |= dict.fromkeys(self.half_done(0), "left a batch half done")
            return {name: f"the kill {point} {told}" for name, told in why.items()}
        hit, told = self.half_done(batch), f"the kill {point} left no batch from {batch} on half done"
        if POINTS[point] != "mid-batch":
            return dict.fromkeys(done.keys() - hit, told)
        if not hit:
            raise Missed(told)
        return {}
