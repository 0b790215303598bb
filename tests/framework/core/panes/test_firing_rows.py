"""Firings at rows of one batch are those of as many batches, to the last bit, and cost no round each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Cumulate, Emit, Event, EventType, Every, Operator, TimeInterval, agg
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Step, Watermark
from panekeeper.framework.testing.vector import parse
from panekeeper.state.store import MemoryStore
from tests.framework.core.aggregate_rows import comparable, spec, step, text_keys
from tests.framework.core.aggregates.test_properties import ROUGH, run
from tests.framework.core.declared_aggregates import CONTENT, PARTIAL
from tests.framework.core.panes import firings
from tests.framework.core.panes.batch_cost import Cost
from tests.framework.core.panes.firings import rows, shown, spec_of
from tests.framework.core.panes.test_firing_properties import BY_RULE, batches_of, by_pane, declared, panes, scripts
from tests.model.interval_cases import vectors
from tests.model.time_intervals import exact

FLOATS = {
    "total": agg.sum("x"),
    "middle": agg.mean("x"),
    "spread": agg.stddev("x"),
    "both": agg.expr("sum(x) / count(x)"),
}
RULES: Any = st.fixed_dictionaries(
    {"early": st.builds(Every, rows=st.integers(1, 4))},
    optional={"refire": st.builds(Every, rows=st.integers(1, 3)), "results": st.sampled_from(("retracting",))},
)


def with_rules(window: dict[str, Any], rules: dict[str, Any]) -> TimeInterval:
    """The window of a vector, with rules for its firings."""
    options = {"discard_age": window["discardAge"], "interval_offset": window["intervalOffset"], "late": window["late"]}
    if window.get("cumulates"):
        return Cumulate(window["creationPeriod"], window["intervalDuration"], **options, **rules)
    return TimeInterval(window["intervalDuration"], creation_period=window.get("creationPeriod"), **options, **rules)


def steps_of(vector: dict[str, Any]) -> list[Step]:
    """The steps of a vector; all panes close in the end."""
    return [one for item in vector["input"] if (one := step(item))] + [Watermark(exact(100_000))]


@pytest.mark.parametrize("aggregates", [PARTIAL, CONTENT], ids=["partial", "content"])
@given(vector=vectors(ROUGH).map(text_keys), rules=RULES, data=st.data())
def test_no_split_changes_a_bit(
    aggregates: dict[str, agg.Aggregate], vector: dict[str, Any], rules: dict[str, Any], data: st.DataObject
) -> None:
    """Aggregates of all kinds, over panes that overlap, cumulate or stand alone; nothing is left in the end."""
    if aggregates is PARTIAL and data.draw(st.booleans()):
        rules = rules | {"results": "discarding"}
    if vector["window"]["discardAge"] == 0:
        rules = {name: one for name, one in rules.items() if name != "refire"}
    job = replace(spec(parse(vector), aggregates | FLOATS), window=with_rules(vector["window"], rules))
    steps = steps_of(vector)
    each, _ = run(job, steps, set(range(len(steps))))
    whole, store = run(job, steps, data.draw(st.sets(st.integers(0, len(steps)), max_size=3)))
    assert comparable([tuple(row.values()) for row in whole]) == comparable([tuple(row.values()) for row in each])
    assert store.entries == {}


@given(window=panes(), rules=BY_RULE, script=scripts(), aggregates=st.sampled_from(("exact", "others")))
def test_the_view_of_discarded_results_has_those_of_all_rows(
    window: dict[str, Any], rules: dict[str, Any], script: list[tuple[Any, ...]], aggregates: str
) -> None:
    """Each of its rows is the one that the log has where results accumulate, wherever batches end."""
    rules = {name: one for name, one in rules.items() if name not in ("fires_when", "then")}
    of_rows: dict[str, agg.Aggregate] = {"n": agg.count(), "sum": agg.sum("v"), "most": agg.max("v")}
    if aggregates == "others":
        of_rows |= {"last": agg.last("v"), "few": agg.top_k("v", k=1), "mean": agg.expr("sum(v) / count(v)")}
    jobs = {
        results: spec_of(declared(window | rules | {"results": results}), None, None, **of_rows)
        for results in ("accumulating", "discarding")
    }
    if "early" not in rules and "refire" not in rules:  # else each pane is fired by a rule of the others
        jobs["accumulating"] = spec_of(declared(window | {"early": ("rows", 10**6)}), None, None, **of_rows)
    views, store = list[pa.Table](), MemoryStore()
    for batch in batches_of(script):
        done = KeyGroupRunner(jobs["discarding"], store).run(batch)
        assert (done.view is None) == (done.results is None)
        views += [] if done.view is None else [done.view]
    log = firings.run(jobs["accumulating"], batches_of(script))
    names = [*of_rows, "refinement", "is_final", "reason"]
    view = pa.concat_tables(views) if views else log.slice(0, 0)
    assert by_pane(shown(view, *names)) == by_pane(shown(log, *names))


class Contents(Operator):
    """Emits what it has when a pane fires: the rows, in their order, as a number in base 100."""

    events = frozenset({EventType.TRIGGER, EventType.CLOSE})

    def handle_event(self, event: Event, emit: Emit) -> None:
        number = 0
        for value in event.column("v").tolist():
            number = number * 100 + value
        emit(n=len(event.column("v")), sum=number % 2**61)


@given(
    values=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 19), st.integers(1, 99)), max_size=25),
    period=st.integers(2, 12),
    size=st.integers(1, 4),
    cuts=st.sets(st.integers(0, 25)),
)
def test_an_operator_sees_the_rows_until_the_firing(values: list[Any], period: int, size: int, cuts: set[int]) -> None:
    """In arrival order, those of other slices among them, and none that came later in the batch."""
    window = TimeInterval(10, creation_period=period, early=Every(rows=size))
    sums = spec_of(TimeInterval(10)).output
    job = spec_of(window, operator=Contents(), output=sums)
    ends = [*sorted(cut for cut in cuts if cut < len(values)), len(values)]
    cut = [values[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    logs = []
    for batches in ([[one] for one in values], cut):
        log = firings.run(job, [[rows(*some)] for some in batches if some] + [[firings.watermark(100)]])
        logs.append(comparable(shown(log, "n", "sum", "refinement", "reason")))
    assert logs[0] == logs[1]


def test_partial_results_that_are_lists_are_added_in_blocks() -> None:
    """So many firings of one batch that the lists of each would not all be in memory."""
    distinct = {"n": agg.count_distinct("v"), "most": agg.top_k("v", k=1), "sum": agg.sum("v")}
    few = [("ab"[at % 3 == 0], at % 20, at * 7 % 90) for at in range(1500)]
    many = [(f"{at % 300}", 5, at % 90) for at in range(1500)]  # in the end there are rows, and no firing
    for values, window in (
        (many, TimeInterval(10, early=Every(rows=2))),
        (few, TimeInterval(10, early=Every(rows=2))),
        (few, TimeInterval(10, creation_period=5, early=Every(rows=3))),
        (few, TimeInterval(10, creation_period=5, early=Every(rows=2), results="discarding")),
    ):
        job = spec_of(window, None, None, **distinct)
        whole = firings.run(job, [[rows(*values)]])
        cut = firings.run(job, [[rows(*values[at : at + 50])] for at in range(0, 1500, 50)])
        assert whole.num_rows >= 600
        names = [*distinct, "refinement", "reason"]
        assert sorted(map(repr, shown(whole, *names))) == sorted(map(repr, shown(cut, *names)))


def test_a_batch_costs_no_round_for_each_firing_of_a_partition() -> None:
    """The same calls for twice as many firings, one after another, of one partition."""
    aggregates = {"n": agg.count(), "sum": agg.sum("v"), "most": agg.max("v")}
    for window in (TimeInterval(10, early=Every(rows=2)), TimeInterval(10, creation_period=2, early=Every(rows=2))):
        job, costs = spec_of(window, None, None, **aggregates), []
        for number in (100, 200):
            cost = Cost()
            done = cost.of(job, MemoryStore(), rows(*[("a", at * 10 // number, at % 7) for at in range(number)]))
            assert done.results is not None
            assert done.results.num_rows >= number // 2
            costs.append(cost.calls)
        assert costs[1] < 1.1 * costs[0]
