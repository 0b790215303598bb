"""Runs of a job: how often it was started, and which batch it may have to do once more.

A run is one streaming query. Handlers are told the run's first batch from the others, and a batch that was begun
before from a new one; both are known to the driver when the run begins, so they travel with the plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.core.state_handlers import BatchCheckpoint
from framework.declarations.errors import CorruptState
from state.checkpoint.folder import batch_numbers
from state.handler import CheckpointReason

if TYPE_CHECKING:
    from framework.engine.session.checkpoint_files import CheckpointFiles

RUNS_FILE = "panekeeper/runs.json"
_BATCH_ID = "streaming.sql.batchId"  # set by Spark for every task of a micro-batch
_REASONS = {
    "flush": CheckpointReason.FINAL,
    "savepoint": CheckpointReason.SAVEPOINT,
    "drain": CheckpointReason.DRAIN,
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the driver knows when a run begins. Picklable; the same for every batch of the run.

    Attributes:
        number: how often the job was started, this time included.
        fresh: whether no batch has been committed yet.
        begun: number of the batch that was begun and not committed, if there is one: it is run again, first.
        attempt: how often that batch will have been begun.
    """

    number: int = 1
    no_batch_committed: bool = True
    begun: int | None = None
    attempt: int = 1

    def checkpoint_info(self, group: int, heard: Iterable[str], now_us: int | None = None) -> BatchCheckpoint:
        """Return the checkpoint that the running task's batch is, asked for at an instant (us). Called on a worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a checkpoint has a number only inside a task of a micro-batch")
        number = int(context.getLocalProperty(_BATCH_ID) or 0)
        again = self.attempt if number == self.begun else 1
        kinds = [reason for kind, reason in _REASONS.items() if kind in heard]
        return BatchCheckpoint(
            checkpoint=number,
            group=group,
            reason=kinds[0] if kinds else CheckpointReason.BATCH,
            attempt=again + context.attemptNumber(),
            run=self.number,
            no_batch_committed=self.no_batch_committed,
            now_us=now_us,
        )


def require_settled(files: CheckpointFiles) -> None:
    """Raise `CorruptState` unless every batch that was begun is committed."""
    offsets, commits = batch_numbers(files, "offsets"), batch_numbers(files, "commits")
    if offsets[-1:] != commits[-1:]:
        raise CorruptState(
            f"{files.root} has begun batch {offsets[-1:]} and committed {commits[-1:]} although its job has ended; "
            "start the job again, which runs that batch once more"
        )


def begin_run(files: CheckpointFiles) -> Run:
    """Count one more run of the job and return what is known of it. Called by the driver, before the query starts."""
    known = files.read_json(RUNS_FILE) or {"runs": 0, "begun": None, "attempts": 0}
    offsets, commits = batch_numbers(files, "offsets"), batch_numbers(files, "commits")
    begun = offsets[-1] if offsets and offsets[-1:] != commits[-1:] else None
    attempts = 0 if begun is None else 1 + (known["attempts"] if known["begun"] == begun else 0)
    files.write_json(RUNS_FILE, {"runs": known["runs"] + 1, "begun": begun, "attempts": attempts}, replace=True)
    return Run(number=known["runs"] + 1, no_batch_committed=not commits, begun=begun, attempt=attempts + 1)
