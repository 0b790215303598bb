"""Operators with state of their own, for the drills. In a module of their own: they are sent to the workers by name."""

from __future__ import annotations

from typing import ClassVar

from framework.declarations.events import Event, EventType
from framework.declarations.operator import Emit, Operator
from state.handler import CheckpointReason, StateContext, StateHandler


class Total(Operator, StateHandler):
    """Emits how many windows of a key there were, and the sum of all their values: only its own state carries them."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION})
    output: ClassVar[str] = "windows bigint, total bigint"

    def __init__(self) -> None:
        self.so_far: dict[str, list[int]] = {}

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Count one more window."""
        windows, total = self.so_far.get(event.key, [0, 0])
        self.so_far[event.key] = [windows + 1, total + int(event.column("value").sum())]
        emit(windows=windows + 1, total=self.so_far[event.key][1])

    def checkpoint(self, ctx: StateContext) -> None:
        """Keep them."""
        ctx.write("so_far", self.so_far)

    def reset(self, ctx: StateContext) -> None:
        """Take them back."""
        self.so_far = dict(ctx.read("so_far"))


class LettingGo(Operator, StateHandler):
    """Lets go of every partition when the job is drained, and tells what each held."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION, EventType.PARTITION_EVICTION})
    output: ClassVar[str] = "kind string, n bigint, total bigint"

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Tell one window."""
        emit(kind=event.type.value, n=event.table.num_rows, total=int(event.column("id").sum()))

    def drain(self, ctx: StateContext) -> None:
        """Before an upgrade, say."""
        if ctx.reason is CheckpointReason.DRAIN:
            for partition in ctx.partitions():
                ctx.evict_partition(partition.key)
