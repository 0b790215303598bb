"""Panes with rules for their firings against the naive model: random rows, watermarks, clocks, cuts and restarts."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Every, TimeInterval
from panekeeper.framework.core.steps import Step
from panekeeper.state.store import MemoryStore
from tests.framework.core.panes.firings import FLUSH, clock, rows, run, shown, spec_of, watermark
from tests.model.firing_panes import NaivePanes

EVERY = st.one_of(
    st.tuples(st.just("rows"), st.integers(1, 4)),
    st.tuples(st.just("clock"), st.integers(1, 12)),
    st.tuples(st.just("event_time"), st.integers(1, 12)),
)
KEY, SECONDS = st.sampled_from("abc"), st.integers(-6, 40)
ROW = st.tuples(st.just("row"), KEY, SECONDS, st.integers(-9, 9))
MOVED = st.one_of(st.tuples(st.just("watermark"), SECONDS), st.tuples(st.just("clock"), st.integers(0, 60)))
ITEM = st.one_of(ROW, ROW, ROW, MOVED, st.just(("end",)))


LATE = EVERY.filter(lambda one: one[0] != "event_time")
SHOWN: dict[Any, Any] = {"results": st.sampled_from(("discarding", "retracting"))}
BY_RULE = st.one_of(
    st.fixed_dictionaries({"fires_when": st.integers(1, 12)}, optional={"then": st.just("begin_anew")}),
    st.fixed_dictionaries(SHOWN),
    st.fixed_dictionaries({"early": EVERY}, optional=SHOWN),
    st.fixed_dictionaries({"refire": LATE, "discard_age": st.integers(1, 12)}, optional={"early": EVERY} | SHOWN),
)


@st.composite
def panes(draw: st.DrawFn) -> dict[str, Any]:
    """The panes of a window, without rules."""
    duration = draw(st.integers(1, 12))
    return {
        "interval_duration": duration,
        "creation_period": draw(st.integers(1, 12)),
        "interval_offset": draw(st.integers(0, duration - 1)),
        "discard_age": draw(st.sampled_from((0, 0, 3, 9))),
    }


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Rows, watermarks and ends of micro-batches; all panes close in the end, or are flushed, or stay open."""
    last: list[tuple[Any, ...]] = draw(st.sampled_from(([("watermark", 100)], [("flush",)], [])))
    return [*draw(st.lists(ITEM, max_size=40)), *last, ("end",)]


def batches_of(script: list[tuple[Any, ...]]) -> list[list[Step]]:
    """The micro-batches of a script; neighbouring rows are one step."""
    batches: list[list[Step]] = [[]]
    waiting: list[Any] = []
    for kind, *values in script:
        if kind == "row":
            waiting.append(tuple(values))
            continue
        if waiting:
            batches[-1].append(rows(*waiting))
            waiting = []
        if kind == "end":
            batches.append([])
        else:
            batches[-1].append(FLUSH if kind == "flush" else (clock if kind == "clock" else watermark)(values[0]))
    return batches


def by_pane(log: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """The rows of each partition and pane, in their order."""
    found = defaultdict(list)
    for row in log:
        found[row[:2]].append(row[2:])
    return dict(found)


def every(by: str, size: int) -> Any:
    """What a pair of the model means."""
    return Every(size) if by == "clock" else Every(rows=size) if by == "rows" else Every(event_time=size)


def declared(window: dict[str, Any]) -> TimeInterval:
    """The window of these options, with those of `Every` for pairs."""
    options = {name: every(*one) if isinstance(one, tuple) else one for name, one in window.items()}
    if "fires_when" in options:
        options["fires_when"] = f"sum >= {options['fires_when']}"
    return TimeInterval(**options)


def columns_of(log: pa.Table) -> list[str]:
    """The columns of a log that the model has, too."""
    names = ["n", "sum", "refinement", "is_final", "reason", "op"]
    return [name for name in names if name in log.column_names]


def require_the_same(window: dict[str, Any], script: list[tuple[Any, ...]]) -> MemoryStore:
    """Compare the core with the model, and return what the core has stored."""
    expected, store = NaivePanes(window).play(script), MemoryStore()
    log = run(spec_of(declared(window)), batches_of(script), store)
    assert by_pane(shown(log, *columns_of(log))) == by_pane(expected)
    return store


@given(window=panes(), emit=st.sampled_from(("on_complete", "on_close", "on_update")), script=scripts())
def test_panes_emit_as_the_model_does(window: dict[str, Any], emit: Any, script: list[tuple[Any, ...]]) -> None:
    """Every firing of every partition and pane, with its reason, and whether it is the last."""
    store = require_the_same(window | {"emit": emit}, script)
    if script[-2:-1] in ([("flush",)], [("watermark", 100)]):
        assert store.entries == {}


@given(window=panes(), rules=BY_RULE, script=scripts())
def test_panes_fire_by_rules_as_in_the_model(window: dict[str, Any], rules: Any, script: list[tuple[Any, ...]]) -> None:
    """Early and late, at rows, by the clock or by the watermark, wherever batches end."""
    store = require_the_same({"emit": "on_complete"} | window | rules, script)
    if script[-2:-1] in ([("flush",)], [("watermark", 100)]):
        assert store.entries == {}


RULES = st.one_of(st.fixed_dictionaries({"emit": st.sampled_from(("on_complete", "on_close"))}), BY_RULE)


@given(window=panes(), rules=RULES, script=scripts(), data=st.data())
def test_where_batches_end_changes_nothing(
    window: dict[str, Any], rules: Any, script: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """All rules but that of updates give the same firings for other micro-batches."""
    uncut = [item for item in script if item != ("end",)]
    ends = data.draw(st.lists(st.booleans(), min_size=len(uncut), max_size=len(uncut)))
    cut = [
        one for item, ends_here in zip(uncut, ends, strict=True) for one in ([item, ("end",)] if ends_here else [item])
    ]
    spec = spec_of(declared(window | rules))
    logs = [run(spec, batches_of([*one, ("end",)])) for one in (script, cut)]
    first, second = (by_pane(shown(log, *columns_of(log))) for log in logs)
    assert first == second


BATCHES = st.lists(
    st.tuples(
        st.integers(0, 12),  # seconds since the batch before
        st.none() | st.integers(0, 40),  # the watermark
        st.none() | st.integers(0, 3),  # a tick, so many seconds before the batch
        st.lists(st.tuples(KEY, st.integers(0, 40), st.integers(-9, 9)), max_size=5),
    ),
    max_size=12,
)


@given(window=panes(), rules=BY_RULE | st.just({"emit": "on_update"}), batches=BATCHES)
def test_key_groups_change_nothing(window: dict[str, Any], rules: Any, batches: list[Any]) -> None:
    """Rows bring the time of their batch and move the clock of their own partition; ticks come to every key group."""
    spec, logs = spec_of(declared(window | rules)), []
    for groups in ("abc",), ("a", "bc"), ("a", "b", "c"):
        found: dict[Any, list[tuple[Any, ...]]] = {}
        for keys in groups:
            steps, now = list[list[Step]](), 0
            for seconds, moved, tick, values in batches:
                now += seconds
                own = [one for one in values if one[0] in keys]
                steps.append([] if moved is None else [watermark(moved)])
                steps[-1] += [] if tick is None else [clock(max(0, now - tick))]
                steps[-1] += [rows(*own, at=now)] if own else []
            log = run(spec, steps)
            found |= by_pane(shown(log, *columns_of(log)))
        logs.append(found)
    assert logs[0] == logs[1] == logs[2]
