"""Sessions against the naive model: random windows, rows and watermarks, however batched, restarted and shared out."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Every, agg
from panekeeper.framework.core.sessions import folding, leaves
from panekeeper.framework.declarations.windows import Session
from tests.framework.core.sessions.session_runs import (
    Item,
    SessionRecorder,
    SessionRun,
    aggregate_spec,
    recorder_spec,
    seconds,
)
from tests.model.sessions import NaiveSessions

KEYS = st.sampled_from(["a", "b", "c", None])
TIMES = st.integers(-40, 120)
ROWS = st.tuples(st.just("row"), KEYS, TIMES, st.integers(-5, 9), st.sampled_from([None, 0, 3, 7, 10, 25]))
WATERMARKS = st.tuples(st.just("watermark"), TIMES)
ITEMS = st.lists(st.one_of(ROWS, ROWS, ROWS, WATERMARKS), max_size=40)
AGES = st.sampled_from([0, 5, 30])
END: Item = ("watermark", 10_000)


@pytest.fixture(autouse=True, scope="module")
def small_leaves() -> Any:
    """A leaf has two sessions at most, so that they are split and joined; few rows are folded, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folding, "_LEAST_GAIN", 1)
        for name, sessions in {"_LEAST": 2, "_MOST": 8, "_LEAST_ARCHIVE": 3, "_FEW": 4}.items():
            patch.setattr(leaves, name, sessions)
        yield


def model_of(
    items: list[Item],
    *,
    age: int,
    gap: int | None,
    most: int | None = None,
    emit: str = "on_complete",
    cuts: Sequence[int] = (),
    early: tuple[str, int] | None = None,
) -> NaiveSessions:
    """Return the model after these items; without `gap` each row has its own."""
    model = NaiveSessions(age, most, emit, early)
    for number, item in enumerate(items):
        for _ in range(list(cuts).count(number)):
            model.batch_end()
        if item[0] == "row":
            model.row(item[1], item[2], item[4] if gap is None else gap, item[3])
        elif item[0] == "watermark":
            model.advance(item[1])
        elif item[0] == "tick":
            model.tick(item[1])
        else:
            model.flush()
    model.batch_end()
    return model


def expected_rows(model: NaiveSessions) -> list[dict[str, Any]]:
    """Return the results of aggregates for the firings of the model."""
    return [
        {
            "k": one["key"],
            "session_start": one["start"],
            "session_end": one["end"],
            "last_row": one["last"],
            "n": len(one["values"]),
            "total": sum(one["values"]),
            "first": one["values"][0],
            "last": one["values"][-1],
            "replaces": one["replaces"],
            "refinement": one["refinement"],
            "is_final": one["is_final"],
            "reason": one["reason"],
        }
        for one in model.firings
    ]


def ordered(rows: list[Any]) -> list[Any]:
    """Return rows in one order, whatever order their keys and sessions had."""
    return sorted(rows, key=repr)


@given(items=ITEMS, gap=st.sampled_from([3, 7, 10]), age=AGES, data=st.data())
def test_sessions_are_those_of_the_model(items: list[Item], gap: int, age: int, data: st.DataObject) -> None:
    """Every result, in order for each key, wherever batches end and with any number of key groups, folded or not."""
    items = [*items, ("flush",)] if data.draw(st.booleans()) else items
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    aggregates = {"n": agg.count(), "total": agg.sum("v")}
    folds = data.draw(st.booleans())
    if not folds:
        aggregates |= {"first": agg.first("v"), "last": agg.last("v")}
    job = aggregate_spec(Session(gap, discard_age=age), **aggregates)
    run = SessionRun(job, groups=data.draw(st.integers(1, 3)), folds=folds)
    model = model_of(items, age=age, gap=gap)
    expected = expected_rows(model)
    if folds:
        expected = [{name: row[name] for name in row if name not in ("first", "last")} for row in expected]
    assert ordered(seconds(run.run(items, cuts))) == ordered(expected)
    assert ordered([one[2] for one in run.rejected]) == ordered([time for _, time in model.dropped])


@given(
    items=ITEMS,
    gap=st.sampled_from([None, 3, 7, 10]),
    most=st.sampled_from([None, 10, 15, 40]),
    age=AGES,
    data=st.data(),
)
def test_cut_sessions_and_gaps_of_rows_are_those_of_the_model(
    items: list[Item], gap: int | None, most: int | None, age: int, data: st.DataObject
) -> None:
    """The same with a longest duration, and with a gap for each row."""
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    window = Session("g" if gap is None else gap, max_duration=most, discard_age=age)
    aggregates = {"n": agg.count(), "total": agg.sum("v"), "first": agg.first("v"), "last": agg.last("v")}
    run = SessionRun(aggregate_spec(window, **aggregates), groups=data.draw(st.integers(1, 3)))
    model = model_of(items, age=age, gap=gap, most=most)
    assert ordered(seconds(run.run(items, cuts))) == ordered(expected_rows(model))
    rejected = [(reason, time) for reason, _, time in run.rejected]
    expected = [("LATE", time) for _, time in model.dropped] + [("NO_SESSION", time) for _, time in model.without]
    assert ordered(rejected) == ordered(expected)


@given(
    items=ITEMS,
    gap=st.sampled_from([None, 3, 10]),
    most=st.sampled_from([None, 15]),
    age=AGES,
    data=st.data(),
)
def test_an_operator_has_the_events_of_the_model(
    items: list[Item], gap: int | None, most: int | None, age: int, data: st.DataObject
) -> None:
    """INSERTION, MERGE, INITIAL_FULL, TRIGGER and CLOSE of each key, in their order, wherever batches end."""
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    window = Session("g" if gap is None else gap, max_duration=most, discard_age=age)
    run = SessionRun(recorder_spec(window, SessionRecorder()))
    got = [ast.literal_eval(row["event"]) for row in run.run(items, cuts)]
    model = model_of(items, age=age, gap=gap, most=most)
    for key in ("a", "b", "c", None):
        own = [one for one in got if one[1] == key and one[0] != "drop"]
        assert own == [one for one in model.events if one[1] == key]
    assert len([one for one in got if one[0] == "drop"]) == len(model.dropped)


@given(
    items=ITEMS,
    gap=st.sampled_from([None, 3, 10]),
    most=st.sampled_from([None, 10, 15]),
    emit=st.sampled_from(["on_close", "on_update"]),
    age=AGES,
    data=st.data(),
)
def test_firings_by_other_rules_are_those_of_the_model(
    items: list[Item], gap: int | None, most: int | None, emit: Any, age: int, data: st.DataObject
) -> None:
    """One firing as a session closes; or one after each batch that changed it, too, for aggregates and an operator."""
    items = [*items, ("flush",)] if data.draw(st.booleans()) else items
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    window = Session("g" if gap is None else gap, max_duration=most, discard_age=age, emit=emit)
    model = model_of(items, age=age, gap=gap, most=most, emit=emit, cuts=cuts)
    aggregates = {"n": agg.count(), "total": agg.sum("v"), "first": agg.first("v"), "last": agg.last("v")}
    run = SessionRun(aggregate_spec(window, **aggregates))
    assert ordered(seconds(run.run(items, cuts))) == ordered(expected_rows(model))
    operator = SessionRun(recorder_spec(window, SessionRecorder()))
    got = [ast.literal_eval(row["event"]) for row in operator.run(items, cuts)]
    for key in ("a", "b", "c", None):
        assert [one for one in got if one[1] == key and one[0] != "drop"] == [
            one for one in model.events if one[1] == key
        ]


TICKS = st.tuples(st.just("tick"), st.integers(0, 60))


@given(
    items=st.lists(st.one_of(ROWS, ROWS, ROWS, WATERMARKS, TICKS), max_size=40),
    gap=st.sampled_from([None, 3, 10]),
    most=st.sampled_from([None, 10, 15]),
    early=st.sampled_from([("rows", 1), ("rows", 2), ("rows", 3), ("event_time", 7), ("clock", 5), ("clock", 11)]),
    age=AGES,
    data=st.data(),
)
def test_early_firings_are_those_of_the_model(
    items: list[Item], gap: int | None, most: int | None, early: tuple[str, int], age: int, data: st.DataObject
) -> None:
    """By rows, by the watermark and by the wall clock, wherever batches end, for aggregates and an operator."""
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    every = Every(early[1]) if early[0] == "clock" else Every(**{early[0]: early[1]})
    window = Session("g" if gap is None else gap, max_duration=most, discard_age=age, early=every)
    model = model_of(items, age=age, gap=gap, most=most, early=early)
    aggregates = {"n": agg.count(), "total": agg.sum("v")}
    needs_rows = data.draw(st.booleans())
    aggregates |= {"first": agg.first("v"), "last": agg.last("v"), "all": agg.collect("v")} if needs_rows else {}
    run = SessionRun(aggregate_spec(window, **aggregates), groups=data.draw(st.integers(1, 3)))
    got = [{name: row[name] for name in row if name not in ("first", "last", "all")} for row in run.run(items, cuts)]
    left_out = ("first", "last")
    expected = [{name: row[name] for name in row if name not in left_out} for row in expected_rows(model)]
    assert ordered(seconds(got)) == ordered(expected)
    operator = SessionRun(recorder_spec(window, SessionRecorder()))
    events = [ast.literal_eval(row["event"]) for row in operator.run(items, cuts)]
    for key in ("a", "b", "c", None):
        own = [one for one in events if one[1] == key and one[0] != "drop"]
        assert own == [one for one in model.events if one[1] == key]


@given(items=ITEMS, gap=st.sampled_from([None, 3, 10]), age=AGES, data=st.data())
def test_floats_are_the_same_to_the_last_bit(items: list[Item], gap: int | None, age: int, data: st.DataObject) -> None:
    """Sums and deviations of floats do not depend on where batches end."""
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    job = aggregate_spec(
        Session("g" if gap is None else gap, discard_age=age), s=agg.sum("f"), m=agg.mean("f"), d=agg.stddev("f")
    )
    items = [*items, END]
    whole, cut = SessionRun(job).run(items), SessionRun(job).run(items, cuts)
    assert ordered(whole) == ordered(cut)


@given(items=ITEMS, gap=st.sampled_from([None, 3, 10]), most=st.sampled_from([None, 15]), data=st.data())
def test_nothing_is_left_behind(items: list[Item], gap: int | None, most: int | None, data: st.DataObject) -> None:
    """Once the last session has closed, the store holds no entry."""
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    window = Session("g" if gap is None else gap, max_duration=most)
    run = SessionRun(aggregate_spec(window, n=agg.count(), all=agg.collect("v")))
    run.run([*items, END], cuts)
    assert run.stores[0].entries == {}
