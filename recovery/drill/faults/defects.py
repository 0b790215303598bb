"""What a drill must notice: a sink that is not idempotent, one that loses a commit, and a store that forgets.

Only for the drill's own tests, and for whoever wants to see a drill fail. Nothing of it is reached otherwise.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from framework.engine.flow import pipeline
from framework.engine.flow.processor import GroupProcessor
from framework.engine.sink.delta_sink import DeltaSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from recovery.drill.process.messages import Broken

FORGOTTEN_BATCH = 1


def break_on_purpose(what: Broken) -> None:
    """Break this process's copy of the product."""
    if what == "store forgets":
        pipeline.GroupProcessor = Forgetful  # type: ignore[attr-defined]
    else:
        append = {"sink commits twice": _append_again, "sink skips a commit": _append_not_again}[what]
        DeltaSink._append = append  # type: ignore[method-assign] # noqa: SLF001 -- that is what is broken


_append = DeltaSink._append  # noqa: SLF001 -- as above


def _append_again(self: DeltaSink, frame: DataFrame, table: str, path: str, number: int) -> None:
    """Each run of a batch appends its rows, as a sink without transaction ids does."""
    own = replace(self.record, id=uuid.uuid4().hex[:12])
    _append(replace(self, record=own), frame, table, path, number)


def _append_not_again(self: DeltaSink, frame: DataFrame, table: str, path: str, number: int) -> None:
    """One commit is taken for done and is not."""
    if number != FORGOTTEN_BATCH:
        _append(self, frame, table, path, number)


class Forgetful(GroupProcessor):
    """Stores nothing of one batch, though Spark commits it."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Take the store away in that batch."""
        super().init(handle)
        from pyspark import TaskContext

        context = TaskContext.get()
        batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        if batch is not None and int(batch) == FORGOTTEN_BATCH:
            self._store = _Deaf(self._store)  # type: ignore[assignment]


class _Deaf:
    """Reads what is stored, and only seems to write."""

    def __init__(self, store: Any) -> None:
        self.read_header, self.read, self.find = store.read_header, store.read, store.find

    def write_header(self, value: bytes) -> None:
        """Forget it."""

    def write(self, kind: str, slot: int, seq: int, value: bytes) -> None:
        """Forget it."""

    def remove(self, kind: str, slot: int, seq: int) -> None:
        """Keep it: what is read next must be whole."""
