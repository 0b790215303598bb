"""State handlers on the pure core: what is refused, and what a failure leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from panekeeper import (
    CorruptState,
    LifecycleError,
    StateContext,
    StateHandler,
    StateVersionError,
    TimeInterval,
)
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.steps import Rows, Step, Tick
from panekeeper.state.store import MemoryStore
from tests.framework.core.handler_batches import NotingHandler, rows, run, spec


@pytest.fixture
def calls() -> list[tuple[Any, ...]]:
    """The calls that `Noted` handlers get."""
    NotingHandler.calls.clear()
    return NotingHandler.calls


class Wrong(StateHandler):
    """Does in one method what belongs into another."""

    def __init__(self, method: str, act: str) -> None:
        self.method, self.act = method, act

    def _do(self, method: str, ctx: StateContext) -> None:
        acts: dict[str, Callable[[], object]] = {
            "evict": lambda: ctx.evict_partition("a"),
            "evict a pair": lambda: ctx.evict_partition(("a", "b")),
            "list": ctx.partitions,
            "write": lambda: ctx.write("x", 1),
            "write an object": lambda: ctx.write("x", object()),
            "read": lambda: ctx.read("x"),
        }
        if method == self.method:
            acts[self.act]()

    def drain(self, ctx: StateContext) -> None:
        self._do("drain", ctx)

    def checkpoint(self, ctx: StateContext) -> None:
        self._do("checkpoint", ctx)

    def reset(self, ctx: StateContext) -> None:
        self._do("reset", ctx)

    def retire_checkpoint(self, ctx: StateContext) -> None:
        self._do("retire", ctx)


@pytest.mark.parametrize(
    ("method", "act", "said"),
    [
        ("checkpoint", "evict", r"evict_partition\(\) is for drain\(\); it was called in checkpoint\(\)"),
        ("reset", "evict", r"evict_partition\(\) is for drain\(\)"),
        ("checkpoint", "list", r"partitions\(\) is for drain\(\)"),
        ("drain", "write", r"write\(\) is for checkpoint\(\)"),
        ("drain", "read", r"read\(\) is for reset\(\)"),
        ("drain", "evict a pair", "a key here has 1 values"),
        ("checkpoint", "write an object", "the state 'x' cannot be kept: .* write numbers, text"),
    ],
)
def test_what_a_method_may_not_do_is_an_error_that_names_the_one_that_may(method: str, act: str, said: str) -> None:
    """It fails the batch, of which Spark then stores nothing."""
    made, store = spec(Wrong(method, act)), MemoryStore()
    good = spec(StateHandler())
    run(good, store, 0, Tick(1))
    with pytest.raises(LifecycleError, match=said):
        run(made, store, 1, Tick(2))


@pytest.mark.parametrize("unpartitioned", [True, False])
def test_only_partitioned_windows_in_arrival_order_evict_partitions(unpartitioned: bool) -> None:  # noqa: FBT001
    """A window without partitions, or of panes, says so."""
    wrong = Wrong("drain", "evict")
    if unpartitioned:
        made, said = spec(wrong, keys=pa.schema([])), "not partitioned"
        steps: Iterable[Step] = [rows(("a", 1))]
    else:
        made, said = spec(wrong, window=TimeInterval(10)), "panes and sessions have no partition eviction"
        table = pa.table({"key": ["a"], "v": pa.array([1], pa.int64()), EVENT_TIME: pa.array([5], pa.int64())})
        steps = [Rows(table)]
    with pytest.raises(LifecycleError, match=said):
        run(made, MemoryStore(), 0, *steps)


def raising(method: str) -> StateHandler:
    """A handler that raises in one method."""

    def fail(*_: Any) -> None:
        raise RuntimeError(f"no {method}")

    made: StateHandler = type("Raising", (StateHandler,), {method: fail})()
    return made


@pytest.mark.parametrize("method", ["drain", "checkpoint", "reset", "retire_checkpoint", "close"])
def test_a_handler_that_raises_fails_the_batch(method: str, calls: list[tuple[Any, ...]]) -> None:
    """In any method; the others are closed all the same."""
    store = MemoryStore()
    for number in range(2):
        run(spec(StateHandler(), NotingHandler()), store, number, Tick(number + 1))
    calls.clear()
    with pytest.raises(RuntimeError, match=f"no {method}"):
        run(spec(raising(method), NotingHandler()), store, 2, Tick(3))
    assert calls[-1] == ("noted", "close")


class Versioned(StateHandler):
    """Writes and reads one value."""

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("v", 1)


class Second(Versioned):
    version = 2


class SecondReadingFirst(Second):
    reads = frozenset({1})


def test_state_of_another_version_is_read_only_by_who_says_so() -> None:
    """The error names both versions and what to do."""
    store = MemoryStore()
    run(spec(Versioned()), store, 0, Tick(1))
    with pytest.raises(StateVersionError, match="has version 1, this Second reads version 2; add 1 to its `reads`"):
        run(spec(Second()), store.copy(), 1, Tick(2))
    run(spec(SecondReadingFirst()), store, 1, Tick(2))


def test_damaged_state_of_a_handler_is_noticed() -> None:
    """A flipped byte is an error that says what to do, not a wrong value."""
    store = MemoryStore()
    run(spec(Versioned()), store, 0, Tick(1))
    value = store.entries["handlers", 0, 0]
    store.entries["handlers", 0, 0] = value[:-1] + bytes([value[-1] ^ 1])
    with pytest.raises(CorruptState, match="restore this checkpoint from a savepoint"):
        run(spec(Versioned()), store, 1, Tick(2))
