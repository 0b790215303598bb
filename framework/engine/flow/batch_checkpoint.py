"""The checkpoint that a micro-batch is, as state handlers see it: its number, reason and attempt.

The record of the run (`state/checkpoint/run_record.py`) is made by the driver before the query starts, and travels with
the plan; the rest is in the context of the task that runs the batch.
"""

from __future__ import annotations

from collections.abc import Iterable

from framework.core.state_handlers import BatchCheckpoint
from state.checkpoint.run_record import RunRecord
from state.handler import CheckpointReason

_BATCH_ID = "streaming.sql.batchId"  # set by Spark for every task of a micro-batch
_REASONS = {
    "flush": CheckpointReason.FINAL,
    "savepoint": CheckpointReason.SAVEPOINT,
    "drain": CheckpointReason.DRAIN,
}


def batch_checkpoint(run: RunRecord, group: int, kinds: Iterable[str], now_us: int | None = None) -> BatchCheckpoint:
    """Return the checkpoint that the running task's batch is. Called in a Python worker.

    Args:
        run: the run that the batch belongs to.
        group: number of the key group.
        kinds: kinds of the rows that the batch has for the group; a command among them is the reason.
        now_us: when the newest command was given, us since the epoch; None if windows do not follow the wall clock.

    Raises:
        RuntimeError: called outside a task of a micro-batch.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a checkpoint has a number only inside a task of a micro-batch")
    number = int(context.getLocalProperty(_BATCH_ID) or 0)
    attempts = run.attempt if number == run.interrupted_batch else 1
    reasons = [reason for kind, reason in _REASONS.items() if kind in kinds]
    return BatchCheckpoint(
        checkpoint=number,
        group=group,
        reason=reasons[0] if reasons else CheckpointReason.BATCH,
        attempt=attempts + context.attemptNumber(),
        run=run.number,
        no_batch_committed=run.no_batch_committed,
        now_us=now_us,
    )
