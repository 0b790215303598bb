"""A method of the user's that would do nothing when it is called, or return what goes nowhere, is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest

from panekeeper import Count, DeclarationError, Listener, Operator, Sliding, StateHandler, UserPolicy, agg
from panekeeper.framework.builder.outputs import DeltaJob
from panekeeper.framework.declarations.errors import LifecycleError
from panekeeper.testing import run

ROWS: list[Any] = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]


def generator(*_: Any) -> Any:
    """Does nothing when it is called."""
    yield {"n": 1}


async def asynchronous(*_: Any) -> Any:
    """Does nothing when it is called."""
    return {"n": 1}


async def both(*_: Any) -> Any:
    """Does nothing when it is called."""
    yield {"n": 1}


def returning(*_: Any) -> Any:
    """Returns what it was to emit."""
    return {"n": 1}


def of_rows(operator: Any, **options: Any) -> Any:
    """The results of an operator over the last two rows."""
    given = {"schema": "k string, v long", "partition_by": "k", "output": "n long"} | options
    return run(Sliding(evict=Count(2)), operator=operator, script=[ROWS], **given)


def made(base: Any, method: str, function: Any) -> Any:
    """An object of a class with this method, whose other ones do nothing."""
    rest = {"handle_event": lambda *_: None} if base is not StateHandler else {}
    return type("Own", (base,), {**rest, method: function})()


def policy(method: str, function: Any) -> Any:
    """A policy with this method."""
    kind: Any = type("Own", (UserPolicy,), {"__annotations__": {"attribute": str}, method: function})
    frozen: Any = dataclass(frozen=True)(kind)
    return frozen("v")


def aggregate(method: str, function: Any) -> Any:
    """An aggregate with this method."""
    methods = {"zero": lambda _: 0, "add": lambda _, state, value: state + value, "result": lambda _, state: state}
    return agg.user(cast("Any", type("Own", (agg.UserAggregate,), {**methods, method: function})()), "v")


class Store:
    def prepare(self, *_: Any) -> None: ...

    def commit(self, *_: Any, **__: Any) -> None: ...


def with_sink(function: Any) -> Any:
    """A job with a sink whose `commit` this is."""
    return DeltaJob(cast("Any", None), cast("Any", None)).with_sink(type("Own", (Store,), {"commit": function})())


PLACES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an operator": (lambda one: of_rows(made(Operator, "handle_event", one)), r"Own.handle_event\(\) .* by emit\("),
    "a listener": (
        lambda one: of_rows(made(Operator, "x", None), listeners=[made(Listener, "handle_event", one)]),
        r"Own.handle_event\(\) .* return nothing",
    ),
    "a handler": (
        lambda one: of_rows(made(Operator, "x", None), handlers=[made(StateHandler, "checkpoint", one)]),
        r"Own.checkpoint\(\) .* ctx.write",
    ),
    "an operator's drain": (
        lambda one: of_rows(type("Both", (Operator, StateHandler), {"handle_event": returning, "drain": one})()),
        r"Both.drain\(\) .* ctx.write",
    ),
    "an aggregate": (lambda one: aggregate("result", one), r"Own.result\(\) .* return the state or the result"),
    "a policy": (
        lambda one: run(
            Sliding(evict=policy("evict", one)), aggregates={"n": agg.count()}, schema="v long", script=[ROWS[:0]]
        ),
        r"Own.evict\(\) .* return its decision",
    ),
    "a sink": (with_sink, r"Own.commit\(\) .* store the rows"),
    "a function of batches": (
        lambda one: DeltaJob(cast("Any", None), cast("Any", None)).foreach_batch(one),
        r"the function \w+\(\) .* use the rows in it",
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("function", [generator, asynchronous, both])
def test_a_generator_and_an_asynchronous_function_are_refused_where_they_are_declared(
    place: str, function: Any
) -> None:
    """A call of such a function runs nothing of it, so its results, its state or its rows would be lost silently."""
    declare, said = PLACES[place]
    kind = "a generator function" if function is generator else "asynchronous"
    with pytest.raises(DeclarationError, match=f"{kind} .*make it a plain function") as caught:
        declare(function)
    assert caught.match(said)


def test_what_an_operator_or_listener_returns_is_an_error_of_that_event() -> None:
    """It was to be emitted, most likely: the quarantine says so for each event."""
    wrong = made(Operator, "handle_event", returning)
    for given in ({"operator": wrong}, {"operator": made(Operator, "x", None), "listeners": [wrong_listener()]}):
        done = of_rows(**given, allow_errors=True)
        assert [*done] == []
        assert {one["reason"] for one in done.quarantine} == {"USER_ERROR"}
        assert "InputError: Own.handle_event() returned {'n': 1}, which goes nowhere" in done.quarantine[0]["detail"]


def wrong_listener() -> Any:
    """A listener that returns something."""
    return made(Listener, "handle_event", returning)


@pytest.mark.parametrize(
    ("method", "said"), [("checkpoint", r"store it by ctx\.write\(name, value\)"), ("drain", "return nothing")]
)
def test_what_a_state_handler_returns_fails_the_batch(method: str, said: str) -> None:
    """It would be state that is not there after the next batch."""
    with pytest.raises(LifecycleError, match=rf"Own\.{method}\(\) returned {{'n': 1}}, which goes nowhere; {said}"):
        of_rows(made(Operator, "x", None), handlers=[made(StateHandler, method, returning)])


def test_methods_that_return_nothing_are_taken() -> None:
    """As are those of a handler that defines none, and of an aggregate that returns its state."""
    assert [*of_rows(made(Operator, "x", None), handlers=[StateHandler()])] == []
    assert aggregate("add", returning).kind == "user"
