"""Defects that drills must find: a sink that is not idempotent, one that loses a commit, a store that loses a batch.

Only the tests of the drills inject them, by `Drills(defect=...)`.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from panekeeper.framework.engine.flow import pipeline
from panekeeper.framework.engine.flow.processor import KeyGroupProcessor
from panekeeper.framework.engine.sink.delta_tables import DeltaTables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from panekeeper.state.prepared import TableWrite


Defect = Literal["sink commits twice", "sink skips a commit", "store loses a batch"]

LOST_BATCH = 1


def inject_defect(what: Defect) -> None:
    """Replace a part of the engine in this process by a defective one.

    Args:
        what: the defect.
    """
    if what == "store loses a batch":
        pipeline.KeyGroupProcessor = LosingProcessor  # type: ignore[attr-defined]
    else:
        append = {"sink commits twice": _append_without_transaction, "sink skips a commit": _append_skipping_batch}[
            what
        ]
        DeltaTables.append = append  # type: ignore[method-assign]


_append = DeltaTables.append


def _append_without_transaction(
    self: DeltaTables, spark: SparkSession, rows: pa.Table | DataFrame, write: TableWrite, number: int, **rest: Any
) -> None:
    """Append a repeated batch again: under another transaction id, if the table has the batch under its own."""
    has_it = self.last_transaction(spark, write.path, write.transaction) >= number
    to = replace(write, transaction=uuid.uuid4().hex, after=-1) if has_it else write
    _append(self, spark, rows, to, number, **rest)


def _append_skipping_batch(
    self: DeltaTables, spark: SparkSession, rows: pa.Table | DataFrame, write: TableWrite, number: int, **rest: Any
) -> None:
    """Append the rows of all batches but one."""
    if number != LOST_BATCH:
        _append(self, spark, rows, write, number, **rest)


class LosingProcessor(KeyGroupProcessor):
    """A processor that stores nothing of one batch, which Spark commits."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Make the store read-only in that batch."""
        super().init(handle)
        from pyspark import TaskContext

        context = TaskContext.get()
        batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        if batch is not None and int(batch) == LOST_BATCH:
            self._store = _ReadOnlyStore(self._store)  # type: ignore[assignment]


class _ReadOnlyStore:
    """A store whose writes have no effect."""

    def __init__(self, store: Any) -> None:
        self.read_header, self.read, self.find = store.read_header, store.read, store.find

    def write_header(self, value: bytes) -> None:
        """Ignore the header."""

    def write(self, kind: str, slot: int, seq: int, value: bytes) -> None:
        """Ignore the segment."""

    def remove(self, kind: str, slot: int, seq: int) -> None:
        """Keep the segment: the stored header still refers to it."""
