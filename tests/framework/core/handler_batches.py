"""State handlers to test with, and the batches of one key group to run them in."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from panekeeper import Count, Event, EventType, Operator, StateContext, StateHandler, Tumbling
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import BatchOutcome, Rows, Step
from panekeeper.framework.declarations.operator import Emit
from panekeeper.state.store import MemoryStore

KEYS = pa.schema([("key", pa.string())])
COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64())])
OUTPUT = pa.schema([("total", pa.int64())])


class StatefulTotal(Operator, StateHandler):
    """Emits a running total over all windows, which nothing but its own state carries."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION, EventType.PARTITION_EVICTION})

    def __init__(self) -> None:
        self.total = 0

    def handle_event(self, event: Event, emit: Emit) -> None:
        self.total += int(event.column("v").sum())
        emit(total=self.total)

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("total", self.total)

    def reset(self, ctx: StateContext) -> None:
        self.total = ctx.read("total")


def spec(
    *handlers: StateHandler, operator: Operator | None = None, window: Any = None, keys: pa.Schema = KEYS
) -> JobSpec:
    """A window with state handlers; the operator is the first of them."""
    operator = operator or StatefulTotal()
    own = (operator,) if isinstance(operator, StateHandler) else ()
    return JobSpec(
        window=window or Tumbling(Count(2)),
        keys=keys,
        columns=COLUMNS,
        operator=operator,
        output=OUTPUT,
        handlers=(*own, *handlers),
    )


def rows(*pairs: tuple[str, int], at: int = 1) -> Rows:
    """Rows of (key, v) that arrived at one instant."""
    keys, values = zip(*pairs, strict=True)
    return Rows(pa.table({"key": keys, "v": pa.array(values, pa.int64()), ARRIVAL_TIME: [at] * len(keys)}))


def run(made: JobSpec, store: MemoryStore, number: int, *steps: Step, **checkpoint_info: Any) -> BatchOutcome:
    """One batch, as the checkpoint of that number."""
    return KeyGroupRunner(made, store, BatchCheckpoint(checkpoint=number, group=0, **checkpoint_info)).run(steps)


def totals(outcome: BatchOutcome) -> list[int]:
    """What the operator emitted."""
    emitted: list[int] = [] if outcome.results is None else outcome.results.column("total").to_pylist()
    return emitted


class NotingHandler(StateHandler):
    """Notes its calls in a list that all its copies share."""

    calls: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, name: str = "noted") -> None:
        self.name = name

    def drain(self, ctx: StateContext) -> None:
        self.calls.append((self.name, "drain", ctx.checkpoint, ctx.reason.value))

    def checkpoint(self, ctx: StateContext) -> None:
        self.calls.append((self.name, "checkpoint", ctx.checkpoint, ctx.attempt))

    def retire_checkpoint(self, ctx: StateContext) -> None:
        self.calls.append((self.name, "retire", ctx.checkpoint))

    def reset(self, ctx: StateContext) -> None:
        self.calls.append((self.name, "reset", ctx.checkpoint, ctx.restarted))

    def reset_to_initial_state(self, ctx: StateContext) -> None:
        self.calls.append((self.name, "initial"))

    def close(self) -> None:
        self.calls.append((self.name, "close"))
