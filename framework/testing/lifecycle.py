"""Plays a lifecycle vector: which methods of the state handlers are called, in which order, with which checkpoint.

Each item runs on handlers made anew and on what the store holds, as a micro-batch does; on Spark that store is Spark's.
A cut is complete when its checkpoint is stored, and then the one before it is retired (a job tells it with the next
batch, the first moment at which it knows). What only carries the state from one batch to the next is not shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from framework.core.state_handlers import BatchCheckpoint, NoPartitionControl, StateHandlerCalls
from framework.declarations.errors import DeclarationError
from framework.testing.fields import known, listed, need, truth
from state.handler import StateContext, StateHandler
from state.store import KeyGroupStore, MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Call = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Act:
    """What happens to the handlers in one micro-batch.

    Attributes:
        kind: "cut", "fail" (a run ends, the next one begins) or "shutdown".
        checkpoint: number of a cut.
        run: the run it happens in, from 1.
        told: whether the handlers of this run have heard of the restart already.
        cut_before: whether a cut was complete when this run began.
    """

    kind: str
    checkpoint: int = 0
    run: int
    told: bool
    cut_before: bool


class Recorder(StateHandler):
    """A handler that notes its calls, and keeps one value, so that there is something to give back."""

    def __init__(self, name: str, calls: list[Call], *, non_blocking: bool) -> None:
        self.name = name
        self.calls = calls
        self.non_blocking = non_blocking  # type: ignore[misc]  # of this instance, as the vector says

    def drain(self, ctx: StateContext) -> None:
        """Note the call."""
        self._note("drain")

    def prepare_for_non_blocking_checkpoint(self, ctx: StateContext) -> None:
        """Note the call."""
        self._note("prepareForNonBlockingCheckpoint", ctx.checkpoint)

    def checkpoint(self, ctx: StateContext) -> None:
        """Note the call and keep its number."""
        self._note("checkpoint", ctx.checkpoint)
        ctx.write("checkpoint", ctx.checkpoint)

    def retire_checkpoint(self, ctx: StateContext) -> None:
        """Note the call."""
        self._note("retireCheckpoint", ctx.checkpoint)

    def reset(self, ctx: StateContext) -> None:
        """Note the number that was kept, at the beginning of a run."""
        if ctx.restarted:
            self._note("reset", ctx.read("checkpoint"))

    def reset_to_initial_state(self, ctx: StateContext) -> None:
        """Note the call."""
        self._note("resetToInitialState")

    def close(self) -> None:
        """Note the call."""
        self._note("close")

    def _note(self, method: str, checkpoint: int | None = None) -> None:
        number = {} if checkpoint is None else {"id": checkpoint}
        self.calls.append({"event": "call", "on": self.name, "method": method, **number})


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a lifecycle vector says of its handlers."""

    handlers: tuple[str, ...]
    non_blocking: bool


def play_lifecycle(vector: Mapping[str, Any], engine: str, spark: SparkSession | None) -> list[Call]:
    """Play a lifecycle vector and return the calls. Raises `DeclarationError` for what it does not know."""
    declared, acts = parse(vector)
    if engine == "spark":
        from framework.testing.lifecycle_spark_run import perform_on_spark

        return perform_on_spark(declared, acts, spark)
    store = MemoryStore()
    return [call for act in acts for call in perform(act, declared, store)]


def parse(vector: Mapping[str, Any]) -> tuple[Declared, list[Act]]:
    """Check a lifecycle vector and return its handlers and what happens to them."""
    known(vector, {"name", "source", "window", "input", "expect", "note"}, "the vector")
    window = need(vector, "window", "the vector")
    known(window, {"kind", "handlers", "start_of_region", "non_blocking"}, "window")
    names = listed(need(window, "handlers", "window"), "window.handlers")
    if truth(window.get("start_of_region", False), "window.start_of_region"):
        raise DeclarationError("window.start_of_region is true; a job has no region and so no start operators")
    declared = Declared(
        handlers=tuple(names), non_blocking=truth(window.get("non_blocking", False), "window.non_blocking")
    )
    return declared, list(_acts(listed(need(vector, "input", "the vector"), "input")))


def perform(act: Act, declared: Declared, store: KeyGroupStore) -> list[Call]:
    """Do one act on handlers made anew, and return the calls it led to."""
    calls: list[Call] = []
    handlers = [Recorder(name, calls, non_blocking=declared.non_blocking) for name in declared.handlers]
    cut = BatchCheckpoint(checkpoint=act.checkpoint, group=0, run=act.run, no_batch_committed=not act.cut_before)
    lifecycle = StateHandlerCalls(handlers, store, cut)
    lifecycle.begin([NoPartitionControl()], retire=False)
    if act.told:
        calls.clear()
    if act.kind == "cut":
        lifecycle.drain()
        lifecycle.checkpoint()
        lifecycle.retire()
    elif act.kind == "shutdown":
        lifecycle.close()
    return calls


def _acts(items: Iterable[Any]) -> Iterator[Act]:
    run, told, cut_before, complete = 1, True, False, False
    for number, item in enumerate(items):
        where = f"input[{number}]"
        if not isinstance(item, Mapping):
            raise DeclarationError(f"{where} is {item!r}; it must be an object")
        kind = next((kind for kind in ("cut", "fail", "shutdown") if kind in item), None)
        if kind is None:
            raise DeclarationError(f"{where} has {', '.join(item) or 'no field'}; it needs cut, fail or shutdown")
        known(item, {kind, "fail_during_drain"} if kind == "cut" else {kind}, where)
        if kind == "fail" or item.get("fail_during_drain"):
            run, told, cut_before = run + 1, False, complete
            yield Act(kind="fail", run=run, told=told, cut_before=cut_before)
        else:
            checkpoint = need(item, "cut", where) if kind == "cut" else 0
            yield Act(kind=kind, checkpoint=checkpoint, run=run, told=told, cut_before=cut_before)
            complete = complete or kind == "cut"
        told = True


def as_text(act: Act) -> str:
    """Return an act as a line of text, as it goes through a stream."""
    return json.dumps(asdict(act))
