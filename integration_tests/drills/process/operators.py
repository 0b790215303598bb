"""Operators with state, for the drilled jobs. A module of its own, for the workers import them by name."""

from __future__ import annotations

from typing import ClassVar

from panekeeper.framework.declarations.events import Event, EventType
from panekeeper.framework.declarations.operator import Emit, Operator
from panekeeper.state.handler import CheckpointReason, StateContext, StateHandler


class RunningTotalOperator(Operator, StateHandler):
    """Emits how many windows of a key there were and the sum of their values. Both are in its own state only."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION})
    output: ClassVar[str] = "windows bigint, total bigint"

    def __init__(self) -> None:
        self.so_far: dict[str, list[int]] = {}

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Add one window to the totals and emit them."""
        windows, total = self.so_far.get(event.key, [0, 0])
        self.so_far[event.key] = [windows + 1, total + int(event.column("value").sum())]
        emit(windows=windows + 1, total=self.so_far[event.key][1])

    def checkpoint(self, ctx: StateContext) -> None:
        """Store the totals."""
        ctx.write("so_far", self.so_far)

    def reset(self, ctx: StateContext) -> None:
        """Set the totals to the stored ones."""
        self.so_far = dict(ctx.read("so_far"))


class EvictOnDrainOperator(Operator, StateHandler):
    """Emits the content of each window, and evicts every partition when the job is drained."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION, EventType.PARTITION_EVICTION})
    output: ClassVar[str] = "kind string, n bigint, total bigint"

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit one window."""
        emit(kind=event.type.value, n=event.table.num_rows, total=int(event.column("id").sum()))

    def drain(self, ctx: StateContext) -> None:
        """Evict every partition, as a job does before an upgrade."""
        if ctx.reason is CheckpointReason.DRAIN:
            for partition in ctx.partitions():
                ctx.evict_partition(partition.key)
