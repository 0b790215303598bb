# ruff: noqa: D102 -- the handler records its calls
"""Lifecycle vectors: which methods of state handlers are called, in which order, with which checkpoint?

Each item of a vector is a step. It runs on newly made handlers and on what the store holds, as a micro-batch does; on
Spark that store is Spark's. A cut is a checkpoint; it is complete when it is stored, and then the one before it is
retired (a job retires it in the next batch, the first that can see the commit). Calls that only carry the state from
one batch to the next are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from panekeeper.framework.core.state_handlers import BatchCheckpoint, NoPartitionControl, StateHandlerCalls
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.testing.vector import require_bool, require_field, require_known_fields, require_list
from panekeeper.state.handler import StateContext, StateHandler
from panekeeper.state.store import KeyGroupStore

Call = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LifecycleStep:
    """What happens to the handlers in one micro-batch.

    Attributes:
        kind: "cut", "fail" (a run ends, the next one begins) or "shutdown".
        checkpoint: number of a cut.
        run: the run it happens in, from 1.
        restart_reported: whether the calls of this run after its restart were returned by an earlier step.
        checkpoint_before: whether a cut was complete when this run began.
    """

    kind: str
    checkpoint: int = 0
    run: int
    restart_reported: bool
    checkpoint_before: bool


class CallRecorder(StateHandler):
    """A handler that records its calls, and stores one value, so that a reset has something to read."""

    def __init__(self, name: str, calls: list[Call], *, non_blocking: bool) -> None:
        self.name = name
        self.calls = calls
        self.non_blocking = non_blocking  # type: ignore[misc]  # of this instance, as the vector says

    def drain(self, ctx: StateContext) -> None:
        self._record("drain")

    def prepare_for_non_blocking_checkpoint(self, ctx: StateContext) -> None:
        self._record("prepareForNonBlockingCheckpoint", ctx.checkpoint)

    def checkpoint(self, ctx: StateContext) -> None:
        """Record the call and store its number."""
        self._record("checkpoint", ctx.checkpoint)
        ctx.write("checkpoint", ctx.checkpoint)

    def retire_checkpoint(self, ctx: StateContext) -> None:
        self._record("retireCheckpoint", ctx.checkpoint)

    def reset(self, ctx: StateContext) -> None:
        """Record the stored number, at the beginning of a run."""
        if ctx.restarted:
            self._record("reset", ctx.read("checkpoint"))

    def reset_to_initial_state(self, ctx: StateContext) -> None:
        self._record("resetToInitialState")

    def close(self) -> None:
        self._record("close")

    def _record(self, method: str, checkpoint: int | None = None) -> None:
        number = {} if checkpoint is None else {"id": checkpoint}
        self.calls.append({"event": "call", "on": self.name, "method": method, **number})


@dataclass(frozen=True, kw_only=True)
class LifecycleDeclaration:
    """The handlers of a lifecycle vector.

    Attributes:
        handlers: their names, in the order of registration.
        non_blocking: whether each prepares its checkpoints.
    """

    handlers: tuple[str, ...]
    non_blocking: bool


def parse_lifecycle(vector: Mapping[str, Any]) -> tuple[LifecycleDeclaration, list[LifecycleStep]]:
    """Check a lifecycle vector and return its handlers and what happens to them.

    Raises:
        DeclarationError: an unknown or missing field; the message says where.
    """
    require_known_fields(vector, {"name", "source", "window", "input", "expect", "note"}, "the vector")
    window = require_field(vector, "window", "the vector")
    require_known_fields(window, {"kind", "handlers", "start_of_region", "non_blocking"}, "window")
    names = require_list(require_field(window, "handlers", "window"), "window.handlers")
    if require_bool(window.get("start_of_region", False), "window.start_of_region"):
        raise DeclarationError("window.start_of_region is true; a job has no region and so no start operators")
    declaration = LifecycleDeclaration(
        handlers=tuple(names), non_blocking=require_bool(window.get("non_blocking", False), "window.non_blocking")
    )
    return declaration, list(_read_steps(require_list(require_field(vector, "input", "the vector"), "input")))


def run_step(step: LifecycleStep, declaration: LifecycleDeclaration, store: KeyGroupStore) -> list[Call]:
    """Run one step on newly made handlers, and return the calls that it caused."""
    calls: list[Call] = []
    handlers = [CallRecorder(name, calls, non_blocking=declaration.non_blocking) for name in declaration.handlers]
    batch = BatchCheckpoint(
        checkpoint=step.checkpoint, group=0, run=step.run, no_batch_committed=not step.checkpoint_before
    )
    calls_of_batch = StateHandlerCalls(handlers, store, batch)
    calls_of_batch.begin([NoPartitionControl()], retire=False)
    if step.restart_reported:
        calls.clear()
    if step.kind == "cut":
        calls_of_batch.drain()
        calls_of_batch.checkpoint()
        calls_of_batch.retire()
    elif step.kind == "shutdown":
        calls_of_batch.close()
    return calls


def _read_steps(items: Iterable[Any]) -> Iterator[LifecycleStep]:
    run, reported, checkpoint_before, complete = 1, True, False, False
    for number, item in enumerate(items):
        where = f"input[{number}]"
        if not isinstance(item, Mapping):
            raise DeclarationError(f"{where} is {item!r}; it must be an object")
        kind = next((kind for kind in ("cut", "fail", "shutdown") if kind in item), None)
        if kind is None:
            raise DeclarationError(f"{where} has {', '.join(item) or 'no field'}; it needs cut, fail or shutdown")
        require_known_fields(item, {kind, "fail_during_drain"} if kind == "cut" else {kind}, where)
        if kind == "fail" or item.get("fail_during_drain"):
            run, reported, checkpoint_before = run + 1, False, complete
            yield LifecycleStep(kind="fail", run=run, restart_reported=reported, checkpoint_before=checkpoint_before)
        else:
            checkpoint = require_field(item, "cut", where) if kind == "cut" else 0
            yield LifecycleStep(
                kind=kind,
                checkpoint=checkpoint,
                run=run,
                restart_reported=reported,
                checkpoint_before=checkpoint_before,
            )
            complete = complete or kind == "cut"
        reported = True
