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
    cuts: Sequence[int] = (),
    **options: Any,
) -> NaiveSessions:
    """Return the model, which has these options, after these items; without `gap` each row has its own."""
    model = NaiveSessions(age, **options)
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


def expected_rows(model: NaiveSessions, firings: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """Return the results of aggregates for the firings of the model, or for these."""
    return [
        {
            "k": one["key"],
            "session_start": one["start"],
            "session_end": one["end"],
            "last_row": one["last"],
            "n": len(one["values"]),
            "total": sum(one["values"]) if one["values"] else None,
            "first": one["values"][0] if one["values"] else None,
            "last": one["values"][-1] if one["values"] else None,
            "replaces": one["replaces"],
            "refinement": one["refinement"],
            "is_final": one["is_final"],
            **({"op": one["op"]} if "op" in one else {}),
            "reason": one["reason"],
        }
        for one in (model.firings if firings is None else firings)
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


BY_ROWS_OR_CLOCK = [("rows", 1), ("rows", 2), ("rows", 3), ("clock", 5), ("clock", 11)]
EARLY = st.sampled_from([None, *BY_ROWS_OR_CLOCK, ("event_time", 7)])
REFIRE = st.sampled_from([None, *BY_ROWS_OR_CLOCK])
RULES = st.one_of(
    st.fixed_dictionaries({"early": EARLY, "refire": REFIRE}),
    st.fixed_dictionaries({"emit": st.sampled_from(["on_complete", "on_close", "on_update"])}),
)


@st.composite
def timed_items(draw: st.DrawFn) -> list[Item]:
    """Rows around a watermark that rises by little, so that sessions fire often before they close; and a wall clock."""
    steps = st.tuples(st.sampled_from(["row"] * 5 + ["watermark"] * 2 + ["tick"]), st.integers(-20, 15))
    items, watermark, now = list[Item](), 0, 0
    least = draw(st.sampled_from([0, 12, 25]))  # lists without a least size have five entries or so
    for kind, by in draw(st.lists(steps, min_size=least, max_size=40)):
        if kind == "row":
            key, value = draw(st.sampled_from(["a", "a", "b", None])), draw(st.integers(-5, 9))
            items.append(("row", key, watermark + by, value, draw(st.sampled_from([0, 3, 7, 10]))))
        elif kind == "watermark":
            watermark += abs(by) // 2
            items.append(("watermark", watermark))
        else:
            now += abs(by) // 2
            items.append(("tick", now))
    return items


def declared(gap: int | None, age: int, **options: Any) -> Session:
    """Return the sessions that those of a model with these options stand for."""
    most = options.pop("most", None)
    for name in ("early", "refire"):
        if (rule := options.pop(name, None)) is not None:
            options[name] = Every(rule[1]) if rule[0] == "clock" else Every(**{rule[0]: rule[1]})
    return Session("g" if gap is None else gap, max_duration=most, discard_age=age, **options)


@given(
    items=timed_items(),
    gap=st.sampled_from([None, 3, 10]),
    most=st.sampled_from([None, 10, 15]),
    rules=st.fixed_dictionaries({"early": EARLY, "refire": REFIRE}),
    age=st.sampled_from([5, 30]),
    data=st.data(),
)
def test_early_and_late_firings_by_rules_are_those_of_the_model(
    items: list[Item], gap: int | None, most: int | None, rules: dict[str, Any], age: int, data: st.DataObject
) -> None:
    """By rows, by the watermark and by the wall clock, wherever batches end, for aggregates and an operator."""
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    window = declared(gap, age, most=most, **rules)
    model = model_of(items, age=age, gap=gap, most=most, **rules)
    aggregates = {"n": agg.count(), "total": agg.sum("v")}
    needs_rows = data.draw(st.booleans())
    aggregates |= {"first": agg.first("v"), "last": agg.last("v"), "all": agg.collect("v")} if needs_rows else {}
    run = SessionRun(aggregate_spec(window, **aggregates), groups=data.draw(st.integers(1, 3)))
    got = without(run.run(items, cuts), "first", "last", "all")
    assert ordered(seconds(got)) == ordered(without(expected_rows(model), "first", "last"))
    operator = SessionRun(recorder_spec(window, SessionRecorder()))
    events = [ast.literal_eval(row["event"]) for row in operator.run(items, cuts)]
    for key in ("a", "b", "c", None):
        own = [one for one in events if one[1] == key and one[0] != "drop"]
        assert own == [one for one in model.events if one[1] == key]


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Return rows without some columns."""
    return [{name: row[name] for name in row if name not in names} for row in rows]


@given(
    items=timed_items(),
    gap=st.sampled_from([None, 3, 10]),
    most=st.sampled_from([None, 15]),
    rules=RULES,
    age=st.sampled_from([5, 30]),
    data=st.data(),
)
def test_results_that_are_taken_back_are_those_of_the_model(
    items: list[Item], gap: int | None, most: int | None, rules: dict[str, Any], age: int, data: st.DataObject
) -> None:
    """Each by its own start, where sessions have become one, too, and as it was: so at any time they add up."""
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    window = declared(gap, age, most=most, results="retracting", **rules)
    model = model_of(items, age=age, gap=gap, most=most, cuts=cuts, results="retracting", **rules)
    aggregates = {"n": agg.count(), "total": agg.sum("v"), "first": agg.first("v"), "last": agg.last("v")}
    run = SessionRun(aggregate_spec(window, **aggregates), groups=data.draw(st.integers(1, 3)))
    found = seconds(run.run(items, cuts))
    assert ordered(found) == ordered(expected_rows(model))
    standing: set[tuple[Any, ...]] = set()
    for row in found:
        shown = tuple(row[name] for name in (*"kn", "session_start", "session_end", "total", "refinement"))
        assert (shown in standing) is (row["op"] == -1)
        standing ^= {shown}


@given(items=timed_items(), gap=st.sampled_from([3, 10]), rules=RULES, age=st.sampled_from([5, 30]), data=st.data())
def test_results_of_new_rows_are_those_of_the_model(
    items: list[Item], gap: int, rules: dict[str, Any], age: int, data: st.DataObject
) -> None:
    """And the view has those of all rows, folded or not: in the end the log adds up to all rows that were taken."""
    items = [*items, ("flush",)]
    cuts = data.draw(st.lists(st.integers(0, len(items)), max_size=6))
    model = model_of(items, age=age, gap=gap, cuts=cuts, results="discarding", **rules)
    folds = data.draw(st.booleans())
    aggregates = {"n": agg.count(), "total": agg.sum("v")}
    aggregates |= {} if folds else {"first": agg.first("v"), "last": agg.last("v")}
    left_out = ("first", "last") if folds else ()
    job = aggregate_spec(declared(gap, age, results="discarding", **rules), **aggregates)
    run = SessionRun(job, groups=data.draw(st.integers(1, 3)), folds=folds)
    found = seconds(run.run(items, cuts))
    assert ordered(found) == ordered(without(expected_rows(model), *left_out))
    assert ordered(seconds(run.view)) == ordered(without(expected_rows(model, model.view), *left_out))
    assert sum(row["n"] for row in found) == run.counts["admitted"] + run.counts["refined_late"]
    assert run.stores[0].entries == {}


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
