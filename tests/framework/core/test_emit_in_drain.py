"""What a state handler emits while it drains: result rows of a partition, of any kind of window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from panekeeper import Count, DeclarationError, LifecycleError, StateContext, StateHandler, TimeInterval, Tumbling
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.core.steps import Rows, Tick, Watermark
from panekeeper.state.store import MemoryStore
from tests.framework.core.handler_batches import rows, run, spec


class InDrain(StateHandler):
    """Does one thing in drain, or in checkpoint."""

    def __init__(self, act: Callable[[StateContext], None], *, phase: str = "drain") -> None:
        self.act, self.phase = act, phase

    def drain(self, ctx: StateContext) -> None:
        if self.phase == "drain":
            self.act(ctx)

    def checkpoint(self, ctx: StateContext) -> None:
        if self.phase == "checkpoint":
            self.act(ctx)


def emitted(act: Callable[[StateContext], None], *steps: Any, **options: Any) -> list[dict[str, Any]]:
    """The rows with the reason DRAIN of one batch."""
    results = run(spec(InDrain(act), **options), MemoryStore(), 0, *steps).results
    return [] if results is None else [row for row in results.to_pylist() if row["reason"] == "DRAIN"]


def test_a_handler_emits_in_drain_and_nowhere_else() -> None:
    """At the last time of a window in arrival order, for a key with rows or not; of a time interval with no pane."""

    def act(ctx: StateContext) -> None:
        ctx.emit("a", total=1)
        ctx.emit("new", total=None)

    found = emitted(act, rows(("a", 7), at=1), Tick(5), window=Tumbling(Count(2)))
    assert [(row["key"], row["total"], row["window_mark"]) for row in found] == [("a", 1, False), ("new", None, False)]
    assert {row["fired_at"].microsecond for row in found} == {5}
    timed = Rows(rows(("a", 7)).table.rename_columns(["key", "v", EVENT_TIME]))
    found = emitted(act, timed, Watermark(5), window=TimeInterval(60))
    assert [(row["key"], row["total"], row["pane_start"]) for row in found] == [("a", 1, None), ("new", None, None)]
    with pytest.raises(LifecycleError, match=r"emit\(\) is for drain\(\); it was called in checkpoint\(\)"):
        run(spec(InDrain(act, phase="checkpoint")), MemoryStore(), 0, rows(("a", 7)))


def test_it_is_emitted_at_the_time_of_the_partition_or_of_the_window_if_there_is_none() -> None:
    """Rows by the wall clock are later than the last tick; a partition that is evicted first has none any more."""

    def act(ctx: StateContext) -> None:
        ctx.evict_partition("b")
        for key in ("a", "b", "new"):
            ctx.emit(key, total=0)

    early = Rows(rows(("a", 1), at=6).table, has_stream_clock=False)
    late = Rows(rows(("b", 1), at=7).table, has_stream_clock=False)
    found = emitted(act, Tick(5), early, late, window=Tumbling(Count(2)))
    assert [(row["key"], row["fired_at"].microsecond) for row in found] == [("a", 6), ("b", 7), ("new", 7)]


@pytest.mark.parametrize(
    ("act", "error", "said"),
    [
        (lambda ctx: ctx.emit("a", totl=1), DeclarationError, "emitted the column 'totl'"),
        (lambda ctx: ctx.emit("a", total="many"), LifecycleError, "does not fit the declared output"),
        (lambda ctx: ctx.emit(("a", "b"), total=1), LifecycleError, "has no results: a key here has 1 values"),
        (lambda ctx: ctx.emit(3, total=1), LifecycleError, "partition 3 has no results"),
        (lambda ctx: ctx.emit("a", port=1, total=1), LifecycleError, "there is no port 1"),
    ],
)
def test_what_does_not_fit_is_an_error_that_says_why(act: Any, error: type[Exception], said: str) -> None:
    """The key, the columns and their values are checked."""
    with pytest.raises(error, match=said):
        emitted(act, rows(("a", 7)))
