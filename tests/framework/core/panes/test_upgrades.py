"""A job whose declaration changes between two batches, against the naive model of docs/semantics.md section 13."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Calendar, TimeInterval, agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.panes.folding import PaneFolding
from panekeeper.framework.core.steps import PartialRows, Rows, Step, Watermark
from panekeeper.framework.testing.vector import parse
from panekeeper.state.compatibility import Compatibility, as_recorded, compare_declarations
from panekeeper.state.history import History, declared_part, in_force, upgraded
from panekeeper.state.records import NO_WATERMARK, IntervalRecord
from panekeeper.state.store import MemoryStore
from tests.framework.core.aggregate_rows import COLUMNS, VALUES, comparable, merged, spec, step, text_keys, us_of
from tests.framework.core.declared_aggregates import CONTENT, PARTIAL
from tests.model.interval_cases import vectors
from tests.model.time_intervals import exact
from tests.model.upgraded_intervals import Declared, results


def recorded(job: JobSpec) -> dict[str, Any]:
    """The declaration of a job as its checkpoint records it."""
    assert job.aggregates is not None
    declared = {
        "window": job.window.declaration(),
        "column": {field.name: str(field.type) for field in job.columns},
        "aggregate": {name: one.declaration() for name, one in job.aggregates.items()},
        "output": {field.name: str(field.type) for field in job.output},
    }
    return as_recorded(declared, 1)


class UpgradedJob:
    """One key group of a job, whose declaration can be changed between two batches."""

    def __init__(self, job: JobSpec) -> None:
        self.store = MemoryStore()
        self.record = recorded(job)
        self.job = self._with_history(job)
        self.batch: int | None = None
        self.log: list[dict[str, Any]] = []

    def upgrade(self, job: JobSpec) -> None:
        """Go on with another declaration, as a start does."""
        new = recorded(job)
        changes = compare_declarations(in_force(self.record, self.batch), new)
        assert {one.compatibility for one in changes} == {Compatibility.COMPATIBLE}, changes
        header = IntervalRecord.decode(self.store.read_header())
        watermark = None if header.watermark == NO_WATERMARK else header.watermark
        if declared_part(self.record) != new:
            last = max(header.panes, default=None) if job.has_panes and not keeps_rows(job) else None
            self.record = upgraded(
                self.record, new, committed=self.batch, watermark_us=watermark, last_panes={"": last}
            )
        self.job = self._with_history(job)

    def run(self, steps: list[Step]) -> None:
        """Run one batch on a copy of the store, as after a restart."""
        self.store = self.store.copy()
        self.batch = 0 if self.batch is None else self.batch + 1
        outcome = KeyGroupRunner(self.job, self.store).run(merged(steps))
        self.log += outcome.results.to_pylist() if outcome.results is not None else []

    def _with_history(self, job: JobSpec) -> JobSpec:
        return replace(job, history=History.of(self.record))


def keeps_rows(job: JobSpec) -> bool:
    """Whether an aggregate has no partial results."""
    return any(one.needs_content for one in (job.aggregates or {}).values())


AGES = [0, 1, 2, 5]
"""Discard ages, in durations of a pane."""


@pytest.mark.parametrize("known", [PARTIAL, CONTENT], ids=["partial", "content"])
@given(vector=vectors(VALUES).map(text_keys), data=st.data())
def test_results_are_those_of_the_naive_rule_whatever_changes_and_when(
    known: dict[str, agg.Aggregate], vector: dict[str, Any], data: st.DataObject
) -> None:
    """Another discard age, fewer, more, or reordered aggregates, one after the other, however the stream is split."""
    items = [item for item in vector["input"] if step(item)]
    points = data.draw(st.lists(st.integers(0, len(items)), min_size=1, max_size=3).map(sorted))
    rows_are_kept = "collect" in known
    declared, aggregates = [], []
    for begin, end in zip([0, *points], [*points, len(items)], strict=True):
        names = data.draw(st.lists(st.sampled_from(sorted(PARTIAL)), min_size=1, unique=True))
        names = ["collect", *names] if rows_are_kept else names
        age = round(data.draw(st.sampled_from(AGES)) * vector["window"]["intervalDuration"], 6)
        declared.append(Declared(age, names, items[begin:end]))
        aggregates.append({name: known[name] for name in names})
    expected = results(vector["window"] | {"discardAge": declared[0].age}, declared, keeps_rows=rows_are_kept)

    jobs = [
        spec(parse(vector | {"window": vector["window"] | {"discardAge": one.age}}), chosen)
        for one, chosen in zip(declared, aggregates, strict=True)
    ]
    running = UpgradedJob(jobs[0])
    for number, (job, one) in enumerate(zip(jobs, declared, strict=True)):
        if number:
            running.upgrade(job)
        steps = [found for item in one.items if (found := step(item))]
        splits = data.draw(st.sets(st.integers(0, len(steps))))
        for first, last in zip([0, *sorted(splits)], [*sorted(splits), len(steps)], strict=True):
            running.run(steps[first:last])
    every = sorted({name for one in declared for name in one.columns})
    got = [
        (r.get("key"), us_of(r["pane_start"]), r["refinement"], *(r.get(name) for name in every)) for r in running.log
    ]
    assert comparable(got) == comparable([tuple(row.values()) for row in expected])


@given(vector=vectors(VALUES).map(text_keys), data=st.data())
def test_nothing_is_left_behind_by_an_upgrade(vector: dict[str, Any], data: st.DataObject) -> None:
    """Once the last pane has closed, the store is empty, whatever the discard age was before."""
    steps = [found for item in vector["input"] if (found := step(item))]
    at = data.draw(st.integers(0, len(steps)))
    ages = data.draw(st.lists(st.sampled_from([0, 2, 5, 30]), min_size=2, max_size=2))
    first, second = (
        spec(parse(vector | {"window": vector["window"] | {"discardAge": age}}), {"count": PARTIAL["count"]})
        for age in ages
    )
    job = UpgradedJob(first)
    job.run(steps[:at])
    job.upgrade(second)
    job.run([*steps[at:], Watermark(exact(100_000))])
    assert job.store.entries == {}


def rows(*values: tuple[str, int, int]) -> pa.Table:
    """Rows of (key, second, n)."""
    made = [{"key": key, "n": n, "x": None, "who": None, EVENT_TIME: second * 1_000_000} for key, second, n in values]
    return pa.Table.from_pylist(made, schema=COLUMNS.append(pa.field(EVENT_TIME, pa.int64())))


def minute_job(age: int = 60, **aggregates: agg.Aggregate) -> JobSpec:
    """Panes of a minute that overlap by half, for the rows of `rows`."""
    declared = spec(parse({"window": WINDOW, "input": []}), aggregates)
    return replace(declared, window=TimeInterval(60, creation_period=30, discard_age=age))


WINDOW = {"kind": "timeInterval", "intervalDuration": 60, "event_time": "ts", "partitioned": True}


def test_a_larger_discard_age_brings_no_closed_pane_back() -> None:
    """What was discarded is gone: a late row joins the panes that were open, and is dropped if there is none.

    pane     -30..30   0..60   30..90
    before    closed   closed   open, at watermark 60
    row 10   dropped   dropped
    row 40             not in   joins
    """
    job = UpgradedJob(minute_job(n=agg.count()))
    job.run([Rows(rows(("a", 10, 1), ("a", 40, 1))), Watermark(130_000_000)])
    job.upgrade(minute_job(age=600, n=agg.count()))
    before = len(job.log)
    job.run([Watermark(140_000_000), Rows(rows(("a", 10, 1), ("a", 40, 1))), Watermark(150_000_000)])
    got = [(us_of(row["pane_start"]) // 1_000_000, row["n"], row["refinement"]) for row in job.log[before:]]
    assert got == [(30, 2, 1)]
    folding = PaneFolding.of(job.job)
    assert folding is not None
    folded = folding.fold(rows(*[("a", 10, 1)] * 4, *[("a", 40, 1)] * 4), 150_000_000)
    assert folded is not None
    assert folded.rest.tolist() == [0, 1, 2, 3]


def test_a_smaller_discard_age_is_due_at_the_next_watermark() -> None:
    """So a key group that gets no row discards its panes, too, and a late row between is still taken."""
    job = UpgradedJob(minute_job(age=600, n=agg.count()))
    job.run([Rows(rows(("a", 10, 1))), Watermark(100_000_000)])
    job.upgrade(minute_job(age=0, n=agg.count()))
    outcome = KeyGroupRunner(job.job, job.store).run([Rows(rows(("a", 10, 1)))])
    assert outcome.due_watermark_us == 100_000_001
    assert outcome.counts["refined_late"] == 1
    job.run([Watermark(100_001_000)])
    assert [(us_of(row["pane_start"]), row["n"], row["refinement"]) for row in job.log[-2:]] == [
        (-30_000_000, 2, 1),
        (0, 2, 1),
    ]
    assert job.store.read_header() is not None
    assert not IntervalRecord.decode(job.store.read_header()).panes


def test_rows_that_are_folded_before_they_arrive_count_for_an_aggregate_that_was_added() -> None:
    """Partial rows have the aggregates of the new declaration only; cells that are stored have those of the old one.

    pane     -30..30   0..60   30..90   60..120
    before      1        1
    after                2        2        4
    total               null    the first pane without rows: 30..90
    """
    job = UpgradedJob(minute_job(n=agg.count()))
    job.run([Rows(rows(("a", 10, 1)))])
    job.upgrade(minute_job(total=agg.sum("n"), n=agg.count()))
    folding = PaneFolding.of(job.job)
    assert folding is not None
    later = rows(*[("a", 40, 5)] * 2, *[("a", 70, 7)] * 4)
    folded = folding.fold(later, NO_WATERMARK)
    assert folded is not None
    job.run([PartialRows(folded.table), Watermark(200_000_000)])
    got = {us_of(row["pane_start"]) // 1_000_000: (row["n"], row["total"]) for row in job.log}
    assert got == {-30: (1, None), 0: (3, None), 30: (6, 38), 60: (4, 28)}


def test_an_aggregate_that_is_added_to_a_calendar_begins_with_the_first_pane_without_rows() -> None:
    """Of days of New York: it is recorded by the number of the pane."""

    def days(**aggregates: agg.Aggregate) -> JobSpec:
        window = Calendar("day", zone="America/New_York", discard_age="1 day")
        return replace(minute_job(60, **aggregates), window=window)

    hour = 3600
    job = UpgradedJob(days(n=agg.count()))
    job.run([Rows(rows(("a", 6 * hour, 1)))])
    job.upgrade(days(n=agg.count(), total=agg.sum("n")))
    later = rows(("a", 4 * hour, 9), ("a", 28 * hour, 3), ("a", 29 * hour, 5), ("a", 60 * hour, 7))
    job.run([Rows(later), Watermark(100 * hour * 1_000_000)])
    got = {us_of(row["pane_start"]) // 1_000_000 // hour: (row["n"], row["total"]) for row in job.log}
    assert got == {-19: (1, None), 5: (2, None), 29: (1, 5), 53: (1, 7)}
    assert job.record["history"]["begins"] == {"total": 1}


def test_what_a_row_of_an_older_pane_holds_does_not_concern_an_aggregate_that_begins_later() -> None:
    """A sum beyond 64 bits in a pane that has no such column yet is no error of it."""
    job = UpgradedJob(minute_job(n=agg.count()))
    job.run([Rows(rows(("a", 100, 1)))])
    job.upgrade(minute_job(n=agg.count(), total=agg.sum("n")))
    job.store = job.store.copy()
    outcome = KeyGroupRunner(job.job, job.store).run(
        [Rows(rows(("a", 10, 2**62), ("a", 10, 2**62))), Watermark(500_000_000)]
    )
    assert outcome.rejected is None
    assert outcome.results is not None
    assert {*outcome.results.column("total").to_pylist()} == {None}


def test_the_order_of_aggregates_changes_nothing() -> None:
    """Stored partial results belong to the names, in whatever order they are declared now."""
    job = UpgradedJob(minute_job(low=agg.min("n"), high=agg.max("n")))
    job.run([Rows(rows(("a", 10, 1), ("a", 11, 9)))])
    job.upgrade(minute_job(high=agg.max("n"), low=agg.min("n")))
    job.run([Rows(rows(("a", 12, 5))), Watermark(200_000_000)])
    assert {(row["low"], row["high"]) for row in job.log} == {(1, 9)}


def changed(before: dict[str, agg.Aggregate], now: dict[str, agg.Aggregate]) -> set[Compatibility]:
    """What it means that a job of minutes has other aggregates now."""
    old, new = (recorded(_with_conditions(aggregates)) for aggregates in (before, now))
    return {one.compatibility for one in compare_declarations(old, new)} - {Compatibility.COMPATIBLE}


def _with_conditions(aggregates: dict[str, agg.Aggregate]) -> JobSpec:
    columns = pa.schema([*COLUMNS, *(pa.field(c, pa.bool_()) for one in aggregates.values() for c in one.conditions)])
    fields = [pa.field(name, bind(one, columns).output) for name, one in aggregates.items()]
    if [*aggregates] == [agg.GROUPS]:
        fields = list(fields[0].type.value_type)
    job = minute_job(n=agg.count())
    return replace(job, aggregates=aggregates, columns=columns, output=pa.schema(fields))


def test_another_condition_or_bound_is_another_aggregate() -> None:
    """One that is added, or removed, keeps the state, whatever its condition."""
    one = {"n": agg.count(where="n > 1")}
    assert changed({"m": agg.max("n")}, {"m": agg.max("n"), **one}) == set()
    assert changed({"m": agg.max("n"), **one}, {"m": agg.max("n")}) == set()
    assert changed(one, {"n": agg.count(where="n > 2")}) == {Compatibility.NEEDS_FLUSH}
    assert changed(one, {"n": agg.count()}) == {Compatibility.NEEDS_FLUSH}
    few, many = ({"d": agg.count_distinct("n", at_most=bound)} for bound in (10, 20))
    assert changed(few, many) == {Compatibility.NEEDS_FLUSH}
    ratio, other = ({"r": agg.expr(text)} for text in ("sum(n) / count()", "sum(n) / count(n)"))
    assert changed(ratio, other) == {Compatibility.NEEDS_FLUSH}


def test_groups_keep_their_aggregates() -> None:
    """Their partial results are stored together, by group."""

    def groups(top: int | None = None, by: str | None = None, **more: agg.Aggregate) -> dict[str, agg.Aggregate]:
        return {agg.GROUPS: agg.of_groups({"n": agg.count(), **more}, ["who"], top, by, ["key"])}

    assert changed(groups(), groups()) == set()
    for other in (groups(by="n"), groups(top=3, by="n"), groups(m=agg.max("n")), {"n": agg.count()}):
        assert changed(groups(), other) == {Compatibility.NEEDS_FLUSH}
        assert changed(other, groups()) == {Compatibility.NEEDS_FLUSH}
