"""Rows that repeat an id: what counts, in all kinds of windows; against a naive rule, and as others test it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import (
    Calendar,
    Count,
    Cumulate,
    DeclarationError,
    Session,
    SlidingByRow,
    TimeInterval,
    Tumbling,
    agg,
    windowed,
)
from panekeeper.framework.builder.result_columns import declared_columns
from panekeeper.framework.core.job_spec import Dedupe, JobSpec
from panekeeper.framework.core.joins import kept_rows
from panekeeper.framework.declarations.joins import Within
from panekeeper.framework.declarations.windows import EventTimeWindow
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.state.compatibility import as_recorded, compare_declarations
from panekeeper.testing import Restart, Watermark, run
from tests.framework.core.joins.join_batches import SECOND, Groups, cut, left, right
from tests.framework.core.joins.join_batches import spec as joined
from tests.framework.core.joins.join_batches import watermark as join_watermark
from tests.framework.core.sessions.session_runs import COLUMNS, Item, SessionRun, aggregate_spec
from tests.model.repeats import NaiveRepeats

COLUMNS_OF_IDS = "id string, tags array<string>, t timestamp"
TIMES = st.integers(-20, 60)
ROWS = st.tuples(st.just("row"), st.sampled_from(["a", "b", None]), TIMES, st.sampled_from([0, 0, 1, 2, None]))
WATERMARKS = st.tuples(st.just("watermark"), TIMES)
WINDOWS: list[EventTimeWindow] = [
    TimeInterval(10),
    TimeInterval(10, creation_period=4, discard_age=5),
    TimeInterval(4, creation_period=7, discard_age=3),
    TimeInterval(10, late="tuple", discard_age=6),
    Cumulate(5, 10, discard_age=2),
    Session(6, discard_age=4),
    Session(6, max_duration=9),
    SlidingByRow(6, discard_age=4),
]


def of_ids(window: EventTimeWindow, within: int | None) -> JobSpec:
    """A job over rows of a key k with an id g."""
    made = aggregate_spec(window, n=agg.count(), ids=agg.collect("v"))
    return replace(made, dedupe=None if within is None else Dedupe(columns=("g",), within_us=within * SECOND))


def is_late(window: EventTimeWindow, time: int, watermark: int | None) -> bool:
    """Whether a row at this time joins nothing: it is too late by itself, or lies in a gap between panes."""
    age = window.age_us // SECOND
    if isinstance(window, Session):
        return watermark is not None and time + 6 + age <= watermark
    if isinstance(window, SlidingByRow):
        return watermark is not None and time + 6 + age < watermark
    if window.late == "tuple" and watermark is not None and time < watermark - age:
        return True
    size, period = window.duration_us // SECOND, window.period_us // SECOND
    if isinstance(window, Cumulate):
        ends = [end for end in range(time // size * size + period, (time // size + 1) * size + 1, period) if end > time]
    else:
        ends = [start + size for start in range(-60, 120) if start % period == 0 and start <= time < start + size]
    return all(watermark is not None and end + age <= watermark for end in ends)


def without_repeats(model: NaiveRepeats, window: EventTimeWindow, items: list[Item]) -> list[Item]:
    """Return what is left."""
    kept, watermark = [], None
    for item in items:
        if item[0] == "watermark":
            watermark = item[1] if watermark is None else max(item[1], watermark)
        elif model.is_repeat((item[1], item[4]), item[2], watermark, is_late=is_late(window, item[2], watermark)):
            continue
        kept.append(item)
    return kept


@given(
    window=st.sampled_from(WINDOWS),
    within=st.integers(1, 15),
    items=st.lists(st.one_of(ROWS, ROWS, ROWS, WATERMARKS), max_size=40),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    groups=st.integers(1, 3),
    slot=st.sampled_from([1, 3_000_000, 7_000_000]),
)
def test_results_are_those_of_the_rows_that_count(
    window: EventTimeWindow, within: int, items: list[Item], cuts: list[int], groups: int, slot: int
) -> None:
    """In whatever micro-batches and key groups; and no id is kept for longer than it may be repeated."""
    model = NaiveRepeats(within, window.reach_us // SECOND)
    plain = SessionRun(of_ids(window, None))
    rows = [(*item[:3], number, item[3]) if item[0] == "row" else item for number, item in enumerate(items)]
    expected = plain.run([*without_repeats(model, window, rows), ("watermark", 10_000)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_LEAST_US", slot)
        made = SessionRun(of_ids(window, within), groups=groups)
        found = made.run(rows, [min(one, len(rows)) for one in cuts])
        made.batch([("watermark", 10_000)])
    assert Counter(map(repr, found)) == Counter(map(repr, expected))
    assert made.counts["repeated"] == model.repeated
    assert Counter(made.rejected) == Counter(plain.rejected)
    assert not [key for store in made.stores for key in store.entries if key[0] == "ids/rows"]


@given(
    within=st.integers(1, 12),
    items=st.lists(
        st.one_of(
            st.tuples(st.sampled_from("lr"), st.sampled_from("ab"), TIMES, st.integers(0, 2)),
            st.tuples(st.just("w"), st.just(""), TIMES, st.just(0)),
        ),
        max_size=30,
    ),
    ends=st.sets(st.integers(1, 30)),
    groups=st.integers(1, 3),
)
def test_each_port_of_a_join_has_ids_of_its_own(
    within: int, items: list[tuple[str, str, int, int]], ends: set[int], groups: int
) -> None:
    """Of both ports the first rows count, and a join has the pairs of these; in a pane, too."""
    for window in (Within(2, 5, discard_age=3), TimeInterval(10, discard_age=3)):
        models = {name: NaiveRepeats(within, window.reach_us // SECOND) for name in "lr"}
        watermark: int | None = None
        rows, kept = [], []
        for number, (port, key, time, kind) in enumerate(items):
            made = {"l": left, "r": right}.get(port)
            row = join_watermark(time) if made is None else made(key, time, number, kind)
            rows.append(row)
            late = False
            if made is None:
                watermark = time if watermark is None else max(time, watermark)
            elif isinstance(window, TimeInterval):
                late = is_late(window, time, watermark)
            else:
                late = watermark is not None and time < watermark - 3
            if made is None or not models[port].is_repeat((key, kind), time, watermark, is_late=late):
                kept.append(row)
        spec = joined(window)
        plain = [repr(row) for row in Groups(spec).run([*kept, join_watermark(500)])]
        ids = Dedupe(columns=("kind",), within_us=within * SECOND)
        deduped = replace(spec, dedupe=ids, other_ports=(replace(spec.other_ports[0], dedupe=ids),))
        job = Groups(deduped, groups)
        found = [repr(row) for batch in cut(rows, ends) for row in job.run(batch)]
        found += [repr(row) for row in job.run([join_watermark(500)])]
        assert Counter(found) == Counter(plain)


def counted(*script: Any, dedupe_for: Any = "10 seconds", window: EventTimeWindow | None = None, **options: Any) -> Any:
    """Play rows of (id, time) through panes of an hour, a partition for all of them."""
    return run(
        window or TimeInterval(3600),
        aggregates={"ids": agg.collect("id"), "n": agg.count()},
        schema="k string, id string, t timestamp",
        event_time="t",
        **({"dedupe": "id", "dedupe_for": dedupe_for} | options),
        script=list(script),
    )


def rows(*given: tuple[str | None, float | datetime]) -> list[dict[str, Any]]:
    """Rows of (id, time)."""
    return [{"id": name, "t": time} for name, time in given]


def test_only_the_first_of_equal_ids_counts_across_a_restart() -> None:
    """The others are counted, and are in no table."""
    found = counted(rows(("x", 1), ("y", 1), ("x", 1)), Restart(), rows(("x", 2), ("z", 3)), Watermark(3600))
    assert [(row["ids"], row["n"]) for row in found] == [(["x", "y", "z"], 3)]
    assert found.quarantine == []
    assert (found.counts["rows_in"], found.counts["admitted"], found.counts["repeated"]) == (5, 3, 2)


def test_an_id_counts_anew_beyond_the_time() -> None:
    """Counted from the row that counts, not from its last repeat; both ways, and both ends are in.

    t     1     6     11    12
          x     =     =     x      10 seconds after the first
    """
    found = counted(rows(("x", 1), ("x", 6), ("x", 11), ("x", 12)), rows(("x", -9)), Watermark(3600))
    assert [row["n"] for row in found] == [2]
    assert counted(rows(("x", 20)), rows(("x", 9.9), ("x", 10)), Watermark(3600))[0]["n"] == 2


def test_a_late_row_does_not_count_and_a_later_one_of_its_id_does() -> None:
    """The late one is in the quarantine."""
    window = TimeInterval(10)
    found = counted(rows(("y", 1)), Watermark(10), rows(("x", 9)), rows(("x", 12)), Watermark(20), window=window)
    assert [row["ids"] for row in found] == [["y"], ["x"]]
    assert [(row["reason"], row["row"]["id"]) for row in found.quarantine] == [("LATE", "x")]
    assert found.counts["repeated"] == 0


def test_a_repeat_of_a_row_in_an_open_pane_is_found_however_far_the_watermark_is() -> None:
    """The pane of an hour is open, so its ids are known for an hour, though they repeat within 10 seconds only."""
    found = counted(rows(("x", 1)), Watermark(3000), rows(("x", 1), ("x", 12)), Watermark(3600))
    assert (found[0]["n"], found.counts["repeated"]) == (2, 1)


def test_null_is_an_id_like_any_other() -> None:
    """As in Spark's dropDuplicates; a rule of reject= sets rows without an id aside."""
    found = counted(rows((None, 1), (None, 2), ("x", 3)), Watermark(3600))
    assert (found[0]["n"], found.counts["repeated"]) == (2, 1)
    found = counted(rows((None, 1), (None, 2), ("x", 3)), Watermark(3600), reject={"NO_ID": "id is null"})
    assert (found[0]["n"], found.counts["quarantined"]) == (1, 2)


def test_partitions_have_ids_of_their_own_and_an_id_may_be_of_several_columns() -> None:
    """Rows of two partitions do not repeat each other."""
    script = [[{"k": key, "id": "x", "t": 1} for key in ("a", "b", "a")], Watermark(3600)]
    assert sorted(row["n"] for row in counted(*script, partition_by="k")) == [1, 1]
    assert counted(*script, dedupe=["k", "id"])[0]["n"] == 2
    assert counted(*script)[0]["n"] == 1


def test_after_a_flush_nothing_is_kept() -> None:
    """A flush ends the job, and its ids."""
    made = SessionRun(of_ids(TimeInterval(10), 5))
    made.batch([("row", "a", 1, 0, 7), ("flush",)])
    made.batch([("row", "a", 1, 0, 7)])
    assert made.counts["dropped_late"] == 1
    assert not [key for key in made.stores[0].entries if key[0] == "ids/rows"]


def test_ids_survive_a_changed_discard_age() -> None:
    """What is stored keeps its place in the store when the times change that it was chosen by."""
    made = SessionRun(of_ids(TimeInterval(10, discard_age=5), 5))
    made.batch([("row", "a", 1, 0, 7)])
    made.spec = of_ids(TimeInterval(10, discard_age=timedelta(days=400)), 60)
    made.batch([("row", "a", 2, 0, 7), ("row", "a", 50, 0, 7)])
    assert made.counts["repeated"] == 2


@pytest.mark.parametrize("most", [("day", 1), ("week", 7), ("month", 31), ("quarter", 92), ("year", 366)])
def test_ids_of_a_calendar_are_known_for_its_longest_unit_and_a_day(most: tuple[str, int]) -> None:
    """A repeat that comes until then is counted as one, and one that comes later is late."""
    window, known = Calendar(most[0], zone="UTC"), 1 + 2 + (most[1] + 1) * 86_400
    script = [rows(("x", 1)), Watermark(known), rows(("x", 1)), Watermark(known + 1), rows(("x", 1))]
    found = counted(*script, window=window, dedupe_for=2).counts
    assert (found["admitted"], found["repeated"], found["dropped_late"]) == (1, 1, 1)


def test_ids_are_known_throughout_a_day_that_came_twice() -> None:
    """In Alaska it was the same day again in 1867: a pane of 48 hours is open, and so are the ids in it."""
    begins, ends = datetime.fromisoformat("1867-10-18T09:00Z"), datetime.fromisoformat("1867-10-20T08:00Z")
    script = [rows(("x", begins)), Watermark(ends), rows(("x", begins)), Watermark(ends + timedelta(days=2))]
    found = counted(*script, window=Calendar("day", zone="America/Juneau"), dedupe_for=1)
    assert [row["n"] for row in found] == [1]
    assert found[0]["pane_end"] - found[0]["pane_start"] == timedelta(hours=48)
    assert found.counts["repeated"] == 1


def test_ids_are_known_for_the_discard_age_where_rows_are_late_by_that_alone() -> None:
    """With late="tuple" the duration of the panes does not count: a repeat after that is late."""
    window = TimeInterval(10, discard_age=5, late="tuple")
    script = [rows(("x", 1)), Watermark(6), rows(("x", 1), ("x", 3)), Watermark(8), rows(("x", 3)), Watermark(9)]
    found = counted(*script, rows(("x", 3)), window=window, dedupe_for=2).counts
    assert (found["admitted"], found["repeated"], found["dropped_late"]) == (1, 3, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dedupe": "id"}, "dedupe is without dedupe_for, and every id would be kept for ever"),
        ({"dedupe_for": "1 hour"}, "dedupe_for is '1 hour' without dedupe; name the columns"),
        ({"dedupe": "id", "dedupe_for": 0}, "dedupe_for is 0s; it must be positive"),
        ({"dedupe": "id", "dedupe_for": "-1 hour"}, "dedupe_for is -1h; it must be positive"),
        ({"dedupe": "ib", "dedupe_for": 1}, "dedupe: there is no column 'ib'"),
        ({"dedupe": ["id", "id"], "dedupe_for": 1}, "dedupe names the column 'id' twice"),
        ({"dedupe": "tags", "dedupe_for": 1}, "dedupe: column 'tags' is a array<string>; use plain columns"),
        ({"dedupe": "id", "dedupe_for": 1, "event_time": None}, "dedupe needs event_time"),
        ({"dedupe": "id", "dedupe_for": 1, "window": Tumbling(Count(3))}, "dedupe is for a TimeInterval or a Session"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_declared(options: dict[str, Any], said: str) -> None:
    """The message names the option, and what to give."""
    given: dict[str, Any] = {"window": TimeInterval(10), "event_time": "t"} | options
    with pytest.raises(DeclarationError, match=said):
        run(
            given.pop("window"),
            aggregates={"n": agg.count()},
            schema="id string, tags array<string>, t timestamp",
            script=[],
            **given,
        )


def test_how_long_ids_are_kept_may_change_and_what_they_are_may_not() -> None:
    """Between two runs on one checkpoint."""

    def declared(**options: Any) -> dict[str, Any]:
        columns: Any = ScriptedStream(spark_schema(declared_columns("id string, other string, t timestamp")))
        stream = windowed(
            columns,
            name="ids",
            event_time="t",
            watermark=0,
            **options,
        )
        return stream.window(TimeInterval(10)).aggregate(n=agg.count())._pipeline.declaration()

    def change(old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
        found = compare_declarations(as_recorded(declared(**old), 4), as_recorded(declared(**new), 4))
        return {one.item: one.compatibility.value for one in found if one.differences}

    by_id = {"dedupe": "id", "dedupe_for": "1 hour"}
    assert change(by_id, by_id | {"dedupe_for": "2 hours"}) == {"dedupe_for_us": "compatible"}
    for old, new in ((by_id, by_id | {"dedupe": "other"}), (by_id, {}), ({}, by_id)):
        assert change(old, new)["dedupe"] == "needs a flush"


# -- Cases of other systems ------------------------------------------------------------------------------------

ORDERS = [("pen", 1000), ("pen", 2000), ("pen", 3000), ("apple", 4000), ("apple", 5000)]
AFTER_RESTORE = [("pen", 6000), ("apple", 7000), ("banana", 8000), ("apple", 9000)]


def test_flink_first_of_each_product_before_and_after_a_restore() -> None:
    """Orders 1, 4 and, after the restore, 8 are the first of their products.

    Flink: DeduplicationTestPrograms, deduplicate-asc and deduplicate-asc-proctime, which keep ids for ever; here for a
    time that is longer than the test.
    """
    found = counted(
        rows(*ORDERS),
        Restart(),
        rows(*AFTER_RESTORE),
        Watermark(14_400),
        window=TimeInterval(14_400),
        dedupe_for=20_000,
    )
    assert [row["ids"] for row in found] == [["pen", "apple", "banana"]]


def test_flink_first_rows_by_event_time_and_a_state_that_expires() -> None:
    """key1@99, key2@101, key3@299; then, once the state has expired, key1@400 and key2@401.

    Flink: RowTimeDeduplicateFunctionTest, testRowTimeDeduplicateKeepFirstRow. There the state expires by the wall
    clock, so that key1@300 is a repeat and key1@400 is none; here by event time: 201 on from 99 is within, 301 is not.
    """
    found = counted(
        rows(("key1", 99), ("key1", 99), ("key1", 100), ("key2", 101)),
        Watermark(102),
        Restart(),
        rows(("key1", 300), ("key2", 301), ("key3", 299)),
        Watermark(302),
        rows(("key1", 400), ("key2", 401)),
        Watermark(3600),
        dedupe_for=250,
    )
    assert [row["ids"] for row in found] == [["key1", "key2", "key3", "key1", "key2"]]


def test_spark_ids_within_the_delay_of_the_watermark() -> None:
    """a@17 counts; a@16 repeats it; a@13 is late; b@22 and c@21 count, and a@21, which is 4 seconds on; then d@25.

    Spark: StreamingDeduplicationWithinWatermarkSuite, "deduplicate with subset of columns which event time column is
    not in subset". Whether Spark takes a row anew depends on the micro-batch in which its id expires; here its time
    decides. The panes are of one microsecond, so that a row behind the watermark is late, as there.
    """
    script = [
        *(rows(("a", 17)), Watermark(15), rows(("a", 16)), rows(("a", 13))),
        *(rows(("b", 22), ("c", 21)), Watermark(20), rows(("a", 21)), rows(("d", 25)), Watermark(100)),
    ]
    found = counted(*script, dedupe_for="2 seconds", window=TimeInterval(0.000001))
    assert [row["ids"] for row in found] == [["a"], ["c", "a"], ["b"], ["d"]]
    assert [row["reason"] for row in found.quarantine] == ["LATE"]


def test_spark_ids_with_the_event_time_among_them() -> None:
    """10 to 15, five times each; 13 to 17, of which 16 and 17 are new; 5 is late; 35 and 55.

    Spark: StreamingDeduplicationWithinWatermarkSuite, "deduplicate with all columns with event time column".
    """
    script = [
        *(rows(*((str(n), n) for _ in range(5) for n in range(10, 16))), Watermark(5)),
        *(rows(*((str(n), n) for n in range(13, 18))), Watermark(7), rows(("5", 5))),
        *(rows(("35", 35)), Watermark(25), rows(("55", 55)), Watermark(100)),
    ]
    found = counted(*script, window=TimeInterval(0.000001))
    assert [int(row["ids"][0]) for row in found] == [*range(10, 18), 35, 55]
    assert (found.counts["repeated"], found.counts["dropped_late"]) == (24 + 3, 1)


def test_columns_of_ids_travel_though_no_aggregate_reads_them() -> None:
    """An aggregate of another column has the rows that count."""
    assert COLUMNS.field("v").type == pa.int64()
    found = run(
        TimeInterval(10),
        aggregates={"n": agg.count()},
        schema="id double, t timestamp",
        event_time="t",
        dedupe="ID",
        dedupe_for=5,
        script=[
            [{"id": 0.0, "t": 1}, {"id": -0.0, "t": 1}, {"id": float("nan"), "t": 1}, {"id": float("nan"), "t": 1}]
        ],
    )
    assert found.counts["repeated"] == 2
