"""Windows by row: against a naive second implementation, by hand, and as Kafka Streams tests them."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import DeclarationError, Emit, Event, Operator, SlidingByRow, agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.joins import kept_rows
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Flush, Rows, Step, Watermark
from panekeeper.state.compatibility import Compatibility, compare_declarations, fingerprint
from panekeeper.state.store import MemoryStore
from panekeeper.testing import Restart, Results, run
from panekeeper.testing import Watermark as WatermarkOf
from tests.model.by_row import Firing, NaiveByRow

if TYPE_CHECKING:
    from panekeeper.framework.declarations.firing import Emit as EmitChoice

COLUMNS = pa.schema([("k", pa.string()), ("v", pa.int64())])
Item = tuple[Any, ...]
ITEM = st.one_of(
    *[st.tuples(st.just("row"), st.sampled_from("ab"), st.integers(-15, 40))] * 3,
    st.tuples(st.just("watermark"), st.integers(-15, 60)),
)
ITEMS = st.one_of(*[st.lists(ITEM, min_size=least, max_size=30) for least in (0, 12)])  # else they have five or so


OPTIONS = st.fixed_dictionaries(
    {
        "difference": st.integers(1, 9),
        "age": st.sampled_from([0, 0, 3, 12]),
        "right": st.booleans(),
        "emit": st.sampled_from(["on_complete", "on_close", "on_update"]),
    }
)
"""Of naive windows; times in microseconds."""


def of_model(difference: int, age: int, right: bool, emit: EmitChoice) -> SlidingByRow:  # noqa: FBT001 -- as the model
    """The windows that naive ones with these options stand for."""
    ages = timedelta(microseconds=difference), timedelta(microseconds=age)
    return SlidingByRow(ages[0], discard_age=ages[1], right=right, emit=emit)


def spec(window: SlidingByRow) -> JobSpec:
    """A job that collects the values of each window."""
    aggregates = {"all": agg.collect("v"), "n": agg.count(), "last": agg.last("v")}
    output = pa.schema([(name, bind(one, COLUMNS).output) for name, one in aggregates.items()])
    return JobSpec(
        window=window, keys=pa.schema([COLUMNS.field("k")]), columns=COLUMNS, aggregates=aggregates, output=output
    )


def steps(items: list[Item], group: int, groups: int) -> list[Step]:
    """The steps of a key group; times in microseconds."""
    made: list[Step] = []
    for item in items:
        if item[0] == "watermark":
            made.append(Watermark(item[1]))
        elif item[0] == "flush":
            made.append(Flush())
        elif ord(item[1]) % groups == group:
            schema = pa.schema([*COLUMNS, (EVENT_TIME, pa.int64())])
            made.append(Rows(pa.Table.from_pylist([{"k": item[1], "v": item[3], EVENT_TIME: item[2]}], schema=schema)))
    return made


def together(made: list[Step]) -> list[Step]:
    """The same steps, with neighbouring rows in one table."""
    joined: list[Step] = []
    for step in made:
        if isinstance(step, Rows) and joined and isinstance(before := joined[-1], Rows):
            joined[-1] = Rows(pa.concat_tables([before.table, step.table]))
        else:
            joined.append(step)
    return joined


def fired(model: NaiveByRow, batch: list[Item]) -> list[Firing]:
    """What the naive windows fire in a micro-batch."""
    found = []
    for item in batch:
        if item[0] == "row":
            model.row(item[1], item[2], item[3])
        else:
            found += model.flush() if item[0] == "flush" else model.advance(item[1])
    return found + model.batch_end()


def us(time: datetime) -> int:
    """A time as microseconds."""
    return round(time.timestamp() * 1_000_000)


@given(
    items=ITEMS,
    options=OPTIONS,
    flushes=st.booleans(),
    cuts=st.lists(st.integers(0, 30), max_size=6),
    groups=st.integers(1, 2),
    slot=st.sampled_from([1, 4, 1_000_000]),
)
def test_firings_are_those_of_the_naive_windows(
    items: list[Item],
    options: dict[str, Any],
    flushes: bool,  # noqa: FBT001 -- a parameter of Hypothesis
    cuts: list[int],
    groups: int,
    slot: int,
) -> None:
    """In whatever micro-batches and key groups, each of which goes on from what is stored; and nothing stays behind."""
    items = [(*item, number) if item[0] == "row" else item for number, item in enumerate(items)]
    items += [("flush",)] if flushes else [("watermark", 10_000_000)]
    batches = [
        items[low:high] for low, high in pairwise([0, *sorted(min(one, len(items)) for one in cuts), len(items)])
    ]
    model, window = NaiveByRow(**options), of_model(**options)
    expected = [firing for batch in batches for firing in fired(model, batch)]
    stores, found, late = [MemoryStore() for _ in range(groups)], list[Firing](), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_LEAST_US", slot)
        for batch in batches:
            for group in range(groups):
                stores[group] = stores[group].copy()
                outcome = KeyGroupRunner(spec(window), stores[group]).run(together(steps(batch, group, groups)))
                late += outcome.counts["dropped_late"]
                for row in [] if outcome.results is None else outcome.results.to_pylist():
                    assert (row["n"], row["last"]) == (len(row["all"]), row["all"][-1])
                    bounds = us(row["pane_start"]), us(row["pane_end"])
                    place = (row["k"], *bounds, tuple(row["all"]))
                    found.append((*place, row["refinement"], row["is_final"], row["reason"]))
    assert Counter(found) == Counter(expected)
    assert late == model.late
    assert all(not store.entries for store in stores)
    if options["emit"] == "on_close":
        assert all(refinement == 0 and is_final for *_, refinement, is_final, _ in found)


@given(items=ITEMS, options=OPTIONS, slot=st.sampled_from([1, 4, 1_000_000]))
def test_nothing_fires_before_it_is_due(items: list[Item], options: dict[str, Any], slot: int) -> None:
    """So a job sleeps until then; and once all is over, it sleeps for good."""
    items = [(*item, number) if item[0] == "row" else item for number, item in enumerate(items)]
    window, store = of_model(**options), MemoryStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_LEAST_US", slot)
        due = KeyGroupRunner(spec(window), store).run(together(steps(items, 0, 1))).due_watermark_us
        for _ in range(1000):
            if due is None:
                break
            assert KeyGroupRunner(spec(window), store).run([Watermark(due - 1)]).results is None
            now = KeyGroupRunner(spec(window), store).run([Watermark(due)]).due_watermark_us
            assert now is None or now > due
            due = now
        if slot == 1:  # else each instant of a slot may be one
            assert due is None


class Silent(Operator):
    """An operator."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Do nothing."""


def played(window: SlidingByRow, *script: Any, **options: Any) -> Results:
    """Play rows of (key, time, value) through windows."""
    rows = [[dict(zip("ktv", one, strict=True)) for one in item] if isinstance(item, list) else item for item in script]
    return run(
        window,
        aggregates={"all": agg.collect("v")},
        schema="k string, t timestamp, v long",
        partition_by="k",
        event_time="t",
        script=rows,
        **options,
    )


def last_contents(found: Results) -> dict[tuple[str, float], list[int]]:
    """The values of the newest firing of each window, by key and start, in order of their size."""
    return {(row["k"], round(row["pane_start"] * 1e6)): sorted(row["all"]) for row in found.in_seconds}


def test_a_window_ends_at_each_row_and_begins_after_each_that_is_followed() -> None:
    """Both ends belong to it; what the two rows at 14 have together is one window.

    t     10      14 14      20
          [0,10]  [4,14]     [10,20]
          (10,20]       (14,24]
    """
    script = [[("a", 10, 1), ("a", 14, 2)], Restart(), [("a", 20, 3), ("a", 14, 4)], WatermarkOf(40)]
    found = [(row["pane_start"], row["pane_end"], row["all"]) for row in played(SlidingByRow(10), *script).in_seconds]
    us = 0.000001
    assert found == [
        (0, 10, [1]),
        (4, 14, [1, 2, 4]),
        (10, 20, [1, 2, 4, 3]),
        (10 + us, 20 + us, [2, 4, 3]),
        (14 + us, 24 + us, [3]),
    ]
    left = [(row["pane_end"], row["all"]) for row in played(SlidingByRow(10, right=False), *script).in_seconds]
    assert left == [(10, [1]), (14, [1, 2, 4]), (20, [1, 2, 4, 3])]


def test_a_late_row_refines_what_is_open_and_makes_windows_of_its_own() -> None:
    """The one that it ends is closed, if its end is longer ago than the discard age."""
    script = [[("a", 10, 1), ("a", 14, 2)], WatermarkOf(15), [("a", 12, 3)], WatermarkOf(16), WatermarkOf(100)]
    found = [
        (row["pane_end"], row["all"], row["refinement"], row["is_final"], row["reason"])
        for row in played(SlidingByRow(4, discard_age=2, right=False), *script).in_seconds
    ]
    assert found == [
        (10, [1], 0, True, "WATERMARK"),
        (14, [1, 2], 0, False, "WATERMARK"),
        (14, [1, 3, 2], 1, False, "LATE"),
    ]
    longer = played(SlidingByRow(4, discard_age=4, right=False), *script).in_seconds
    assert [(row["pane_end"], row["refinement"]) for row in longer] == [(10, 0), (14, 0), (12, 0), (14, 1)]


def test_a_window_that_emits_on_close_fires_once_with_its_late_rows() -> None:
    """So that firing is final. The window that a late row makes does not fire, if it would be closed at once.

    t  10        12.9   13.5   14     watermark  15: [6, 10]; [8.9, 12.9] would be closed
                 late   late                     16: [9.5, 13.5]
                                                 17: [10, 14]
    """
    window = SlidingByRow(4, discard_age=2, right=False, emit="on_close")
    script: list[Any] = [[("a", 10, 1), ("a", 14, 2)], WatermarkOf(15), [("a", 12.9, 3), ("a", 13.5, 4)], Restart()]
    found = played(window, *script, WatermarkOf(16), WatermarkOf(17)).in_seconds
    assert [(row["pane_end"], row["all"], row["refinement"], row["is_final"], row["reason"]) for row in found] == [
        (10, [1], 0, True, "WATERMARK"),
        (13.5, [1, 3, 4], 0, True, "WATERMARK"),
        (14, [1, 3, 4, 2], 0, True, "WATERMARK"),
    ]


def test_a_window_that_emits_on_update_fires_after_each_batch_that_changed_or_made_it() -> None:
    """And as complete, whatever came before; then after a batch with late rows, and not again at the next watermark."""
    window = SlidingByRow(4, discard_age=9, right=False, emit="on_update")
    script: list[Any] = [[("a", 10, 1), ("a", 14, 2)], [("a", 12, 3), ("b", 12, 4)], Restart(), WatermarkOf(15)]
    found = played(window, *script, [("a", 13, 5)], WatermarkOf(16), WatermarkOf(99))
    fired = [(row["batch"], row["k"], row["pane_end"], row["all"], row["refinement"]) for row in found.in_seconds]
    assert [one for one in fired if one[1] == "a"] == [
        (0, "a", 10, [1], 0),
        (0, "a", 14, [1, 2], 0),
        (1, "a", 12, [1, 3], 0),
        (1, "a", 14, [1, 3, 2], 1),
        (3, "a", 10, [1], 1),
        (3, "a", 12, [1, 3], 1),
        (3, "a", 14, [1, 3, 2], 2),
        (4, "a", 13, [1, 3, 5], 0),
        (4, "a", 14, [1, 3, 5, 2], 3),
    ]
    reasons = [row["reason"] for row in found if row["k"] == "a"]
    assert reasons == ["EARLY"] * 4 + ["WATERMARK"] * 3 + ["LATE"] * 2
    assert [one[2:] for one in fired if one[1] == "b"] == [(12, [4], 0), (12, [4], 1)]


def test_another_emit_needs_a_flush_and_the_default_is_not_recorded() -> None:
    """Which windows have fired, and how often, was stored by the rule that was declared."""
    plain = SlidingByRow(4, discard_age=2).declaration()
    assert SlidingByRow(4, discard_age=2, emit="on_complete").declaration() == plain
    emits: tuple[EmitChoice, ...] = ("on_close", "on_update")
    for emit in emits:
        other = SlidingByRow(4, discard_age=2, emit=emit).declaration()
        assert other == plain | {"emit": emit}
        for old, new in ((plain, other), (other, plain)):
            (change,) = compare_declarations(fingerprint({"window": old}), fingerprint({"window": new}))
            assert (change.item, change.compatibility) == ("window", Compatibility.NEEDS_FLUSH)


def test_a_row_is_late_once_every_window_that_could_have_it_is_closed() -> None:
    """Which is one of the length of the difference after its time."""
    found = played(SlidingByRow(4, discard_age=1), WatermarkOf(20), [("a", 15, 1)], [("a", 14.9, 2)], WatermarkOf(100))
    assert [row["all"] for row in found] == []
    assert [row["row"]["v"] for row in found.quarantine] == [2]
    assert "every window it may be in is closed" in found.quarantine[0]["detail"]


def test_rows_of_one_window_count_in_the_order_of_their_times() -> None:
    """Not in that of their arrival, which decides between equal times only."""
    script = [[("a", 3, 1), ("a", 1, 2), ("a", 3, 3)], WatermarkOf(4)]
    assert [row["all"] for row in played(SlidingByRow(5), *script) if row["pane_end"].second == 3] == [[2, 1, 3]]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SlidingByRow(0), "difference is 0; it must be greater than 0"),
        (lambda: SlidingByRow("-1 second"), "difference is '-1 second'; it must be greater than 0"),
        (lambda: SlidingByRow(1, discard_age=-1), "discard_age is -1; it must not be negative"),
        (lambda: SlidingByRow(1, emit="final"), "emit is 'final'; it must be 'on_complete', 'on_close' or"),  # type: ignore[arg-type]
        (lambda: SlidingByRow(1, right=1), "right is 1; it must be True or False"),  # type: ignore[arg-type]
        (lambda: run(SlidingByRow(1), aggregates={"n": agg.count()}, schema="v long", script=[]), "event_time"),
        (
            lambda: run(
                SlidingByRow(1),
                operator=Silent(),
                output="v long",
                schema="t timestamp",
                event_time="t",
                script=[],
            ),
            "which is for aggregates; use .aggregate",
        ),
        (
            lambda: run(
                SlidingByRow(1),
                aggregates={"n": agg.count()},
                group_within="v",
                schema="t timestamp, v long",
                event_time="t",
                script=[],
            ),
            "group_within is for the panes of a TimeInterval, and not with a SlidingByRow",
        ),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_declared(make: Any, said: str) -> None:
    """With the value, and the rule."""
    with pytest.raises(DeclarationError, match=said):
        make()


# -- Cases of Kafka Streams: a millisecond there is a microsecond here, as the next instant after a row is --------


def of_kafka(
    difference: int, grace: int, *rows: tuple[str, int, int], each: bool = False, emit: EmitChoice = "on_complete"
) -> Results:
    """Play rows of (key, value, time); each in a micro-batch of its own, behind the watermark of those before."""
    window = SlidingByRow(timedelta(microseconds=difference), discard_age=timedelta(microseconds=grace), emit=emit)
    script = [(key, time / 1e6, value) for key, value, time in rows]
    if each:
        latest = [max(time for _, _, time in rows[: place + 1]) for place in range(len(rows))]
        behind = [WatermarkOf(us / 1e6) for us in latest]
        return played(window, *(one for row, mark in zip(script, behind, strict=True) for one in ([row], mark)))
    return played(window, script, WatermarkOf(max(time for _, _, time in rows) / 1e6))


SMALL = [("A", 1, 10), ("A", 2, 10), ("A", 3, 14), ("A", 4, 15), ("A", 5, 20), ("A", 6, 22), ("A", 7, 30)]


def test_kafka_small_input() -> None:
    """KStreamSlidingWindowAggregateTest: testAggregateSmallInput, by window update and by window close."""
    expected = {0: [1, 2], 4: [1, 2, 3], 5: [1, 2, 3, 4], 10: [1, 2, 3, 4, 5], 11: [3, 4, 5], 12: [3, 4, 5, 6]}
    found = of_kafka(10, 5, *SMALL, emit="on_close")
    assert last_contents(found) == {("A", start): values for start, values in expected.items()}
    assert all(row["is_final"] and row["refinement"] == 0 for row in found)
    expected |= {15: [4, 5, 6], 16: [5, 6], 20: [5, 6, 7], 21: [6, 7], 23: [7]}
    found = of_kafka(10, 5, *SMALL, ("other", 0, 1000))
    found[:] = [row for row in found if row["k"] == "A"]
    assert last_contents(found) == {("A", start): values for start, values in expected.items()}


def test_kafka_reduce_small_input() -> None:
    """KStreamSlidingWindowAggregateTest: testReduceSmallInput."""
    rows = [("A", 1, 10), ("A", 2, 14), ("A", 3, 15), ("A", 4, 22), ("A", 5, 26), ("A", 6, 30)]
    expected = {0: [1], 4: [1, 2], 5: [1, 2, 3], 11: [2, 3], 12: [2, 3, 4], 15: [3, 4], 16: [4, 5], 20: [4, 5, 6]}
    expected |= {23: [5, 6], 27: [6]}
    found = of_kafka(10, 5, *rows, ("other", 0, 1000))
    found[:] = [row for row in found if row["k"] == "A"]
    assert last_contents(found) == {("A", start): values for start, values in expected.items()}


LARGE = [
    *(("A", 1, 10), ("A", 2, 20), ("A", 3, 22), ("A", 4, 15)),
    *(("B", 1, 12), ("B", 2, 13), ("B", 3, 18), ("B", 4, 19), ("B", 5, 25), ("B", 6, 14)),
    *(("C", 1, 11), ("C", 2, 15), ("C", 3, 16), ("C", 4, 21), ("C", 5, 23)),
    *(("D", 4, 11), ("D", 2, 12), ("D", 3, 29), ("D", 5, 16)),
]


def test_kafka_large_input_out_of_order() -> None:
    """KStreamSlidingWindowAggregateTest: testAggregateLargeInput, by window update: the last content of each."""
    expected = {
        "A": {0: [1], 5: [1, 4], 10: [1, 2, 4], 11: [2, 4], 12: [2, 3, 4], 16: [2, 3], 21: [3]},
        "B": {2: [1], 3: [1, 2], 4: [1, 2, 6], 8: [1, 2, 3, 6], 9: [1, 2, 3, 4, 6], 13: [2, 3, 4, 6], 14: [3, 4, 6]}
        | {15: [3, 4, 5], 19: [4, 5], 20: [5]},
        "C": {1: [1], 5: [1, 2], 6: [1, 2, 3], 11: [1, 2, 3, 4], 12: [2, 3, 4], 13: [2, 3, 4, 5], 16: [3, 4, 5]}
        | {17: [4, 5], 22: [5]},
        "D": {1: [4], 2: [2, 4], 6: [2, 4, 5], 12: [2, 5], 13: [5], 19: [3]},
    }
    found = of_kafka(10, 50, *LARGE, ("other", 0, 1000))
    found[:] = [row for row in found if row["k"] != "other"]
    assert last_contents(found) == {(k, start): values for k, one in expected.items() for start, values in one.items()}


def test_kafka_large_input_each_row_behind_the_stream_time() -> None:
    """KStreamSlidingWindowAggregateTest: testAggregateLargeInput, by window close: rows are late by those before them.

    Both have what is closed by 29, less the grace of 10. What differs: C@11 comes when [1, 11] is closed, and [5, 15]
    and [6, 16], in which it is, are open. Here it is in both. Kafka keeps windows and no rows, so those that C@15 and
    C@16 open have it not: ("C", 5) is [2], ("C", 6) [2, 3].
    """
    found = of_kafka(10, 10, *LARGE, each=True, emit="on_close")
    assert last_contents(found) == {
        ("A", 0): [1],
        ("A", 5): [1, 4],
        ("B", 2): [1],
        ("B", 3): [1, 2],
        ("B", 8): [1, 2, 3, 6],
        ("C", 5): [1, 2],
        ("C", 6): [1, 2, 3],
    }


def test_kafka_early_rows() -> None:
    """KStreamSlidingWindowAggregateTest: testEarlyRecordsSmallInput, whose windows do not begin before the epoch.

    There rows at 0, 5, 6, 3, 13 and 10 are in one window [0, 50]; here each ends one of its own, from -50 on. What
    begins after a row is the same.
    """
    rows = [("A", 1, 0), ("A", 2, 5), ("A", 3, 6), ("A", 4, 3), ("A", 5, 13), ("A", 6, 10), ("A", 7, 70)]
    found = last_contents(of_kafka(50, 0, *rows))
    after = {1: [2, 3, 4, 5, 6], 4: [2, 3, 5, 6], 6: [3, 5, 6], 7: [5, 6], 11: [5]}
    assert {start: values for (_, start), values in found.items() if start > 0} == after
    before = {-50: [1], -47: [1, 4], -45: [1, 2, 4], -44: [1, 2, 3, 4], -40: [1, 2, 3, 4, 6], -37: [1, 2, 3, 4, 5, 6]}
    assert {start: values for (_, start), values in found.items() if start < 0} == before
