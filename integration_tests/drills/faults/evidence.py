"""Which jobs a kill has hit: those whose checkpoint has an uncommitted batch. Needs no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from integration_tests.drills.actions import POINTS
from integration_tests.drills.faults.armed import IN_OTHER_THREADS
from integration_tests.drills.faults.damage import FaultNotConfirmed
from panekeeper.state.checkpoint.epochs import current_epoch, epoch_folder
from panekeeper.state.checkpoint.folder import OFFSETS_FOLDER, LocalFolder, batch_numbers
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.prepared import is_recorded
from panekeeper.state.spark_logs import NO_OFFSET

if TYPE_CHECKING:
    from integration_tests.drills.actions import Point


def epoch_of(checkpoint: Path) -> LocalFolder:
    """Return the folder of the current epoch of a checkpoint; of the first one, if the job has not begun it."""
    root = LocalFolder(checkpoint)
    return current_epoch(root) or epoch_folder(root, 0)


class CheckpointEvidence:
    """Reads the checkpoints of some jobs, each in a folder of its own under `jobs`."""

    def __init__(self, jobs: Path, names: Iterable[str]) -> None:
        self._checkpoints = {name: jobs / name / "checkpoint" for name in names}

    @property
    def _folders(self) -> dict[str, LocalFolder]:
        return {name: epoch_of(checkpoint) for name, checkpoint in self._checkpoints.items()}

    def last_committed(self) -> dict[str, int]:
        """Return, by job, the last batch that Spark has committed; -1 before the first."""
        return {name: max(batch_numbers(one, "commits"), default=-1) for name, one in self._folders.items()}

    def committed_files(self) -> dict[str, int]:
        """Return, by job, how many input files its committed batches have read. Not each batch reads one."""
        return {name: _files_read(self._folders[name], batch) for name, batch in self.last_committed().items()}

    def decided_files(self) -> dict[str, int]:
        """Return the same, with the batch that is prepared and not committed: it is completed as it is recorded."""
        prepared = {name: batch for name, batch in self.unfinished_batches().items() if self._is_prepared(name, batch)}
        return self.committed_files() | {
            name: _files_read(self._folders[name], last) for name, last in prepared.items()
        }

    def unfinished_batches(self) -> dict[str, int]:
        """Return, by job, the batch that it has begun and not committed; jobs without one are left out."""
        begun = {name: max(batch_numbers(one, OFFSETS_FOLDER), default=-1) for name, one in self._folders.items()}
        return {name: begun[name] for name, done in self.last_committed().items() if begun[name] > done}

    def interrupted_jobs(self, batch: int) -> set[str]:
        """Return the jobs that have begun `batch` or a later one, and not committed it.

        An older uncommitted batch does not count: an earlier kill may have left it.
        """
        return {name for name, begun in self.unfinished_batches().items() if begun >= batch}

    def not_hit(self, point: Point, batch: int) -> dict[str, str]:
        """Return, by job, why it is not confirmed that a kill has hit it; empty if it has hit all jobs.

        At most points all jobs wait for each other, so each must have an uncommitted batch; between two batches none
        may have one. In the middle of a batch, and of a commit, no job waits, and one interrupted job is enough.

        Args:
            point: of the kill.
            batch: the first batch in which it could happen.

        Raises:
            FaultNotConfirmed: it has hit no job, at a point at which none waits.
        """
        done = self.last_committed()
        if POINTS[point] is None:
            why = {name: "came before the first batch was committed" for name, last in done.items() if last < 0}
            why |= dict.fromkeys(self.interrupted_jobs(0), "left an uncommitted batch")
            return {name: f"the kill {point} {reason}" for name, reason in why.items()}
        hit, reason = self.interrupted_jobs(batch), f"the kill {point} left no uncommitted batch from {batch} on"
        if POINTS[point] not in IN_OTHER_THREADS:
            return dict.fromkeys(done.keys() - hit, reason)
        if not hit:
            raise FaultNotConfirmed(reason)
        return {}

    def _is_prepared(self, name: str, batch: int) -> bool:
        record = read_record(self._folders[name])
        return record is not None and is_recorded(self._folders[name], record, batch)


def _files_read(checkpoint: LocalFolder, batch: int) -> int:
    """Return how many files the input had until a batch; each is an entry of the log of the first source."""
    if batch < 0:
        return 0
    _, _, first, *_ = (checkpoint.path / OFFSETS_FOLDER / str(batch)).read_text().splitlines()
    return 0 if first == NO_OFFSET else int(json.loads(first)["logOffset"]) + 1
