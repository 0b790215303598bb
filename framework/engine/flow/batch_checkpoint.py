"""The micro-batch that a task runs: the checkpoint that it is for state handlers, and its watermark.

The record of the run (`state/checkpoint/job_record.py`) is made by the driver before the query starts, and travels with
the plan; number, reason and attempt are in the context of the task that runs the batch.

Spark writes the watermark to the offset log before the batch begins; a run of the same batch after a stop has the same
one. Only checkpoints on a file system of this machine are read: where no watermark is found, rows go to their key
groups as they are, which costs time and changes nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.state.checkpoint.folder import METADATA_FILE, OFFSETS_FOLDER, local_path
from panekeeper.state.checkpoint.job_record import RunRecord
from panekeeper.state.handler import CheckpointReason
from panekeeper.state.records import NO_WATERMARK

_BATCH_ID = "streaming.sql.batchId"  # set by Spark for every task of a micro-batch
_QUERY_ID = "sql.streaming.queryId"  # and of a streaming query
_OFFSET_LOG = "v1"

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


class TaskProperties(Protocol):
    """What is read of Spark's `TaskContext`."""

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802 -- Spark's name
        """Return a property that the driver set for the task's job."""
        ...


@dataclass(frozen=True)
class BatchWatermark:
    """Reads the watermark of the running batch. Picklable; called in Python workers."""

    folder: Path

    @classmethod
    def of(cls, checkpoint: str) -> BatchWatermark | None:
        """Return the reader for a checkpoint; None if it is on no file system of this machine."""
        folder = local_path(checkpoint)
        return None if folder is None else cls(folder)

    def read(self, context: TaskProperties | None) -> int | None:
        """Return the watermark in us, `NO_WATERMARK` before the first; None if it cannot be found out.

        The checkpoint must be that of the task's query: another one's watermark says nothing about late rows.
        """
        if context is None:
            return None
        try:
            owner = json.loads((self.folder / METADATA_FILE).read_text(encoding="utf-8"))["id"]
            batch = self.folder / OFFSETS_FOLDER / str(context.getLocalProperty(_BATCH_ID))
            version, watermark, *_ = batch.read_text(encoding="utf-8").splitlines()
            if owner != context.getLocalProperty(_QUERY_ID) or version != _OFFSET_LOG:
                return None
            milliseconds = int(json.loads(watermark)["batchWatermarkMs"])
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return milliseconds * 1000 if milliseconds > 0 else NO_WATERMARK
