"""Several windows in one job have the results of as many jobs with one window each: these are the second opinion."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Calendar, Cumulate, Every, Session, SlidingByRow, TimeInterval, agg
from panekeeper.framework.core.job_spec import EVENT_TIME
from panekeeper.framework.testing.run import declared_job
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.testing import Clock, Restart, Watermark, assert_same_for_every_cut, run

SUMS: dict[str, Any] = {"n": agg.count(), "s": agg.sum("v", where="v % 2 = 0")}
VALUES: dict[str, Any] = {"values": agg.collect("v"), "newest": agg.last_row(by="t", columns=["v", "note"])}
TOPS: dict[str, Any] = {"n": agg.count(), "group_within": "note", "top": 1, "by": "n desc"}
WINDOWS: list[tuple[Any, dict[str, Any]]] = [
    (TimeInterval(10), SUMS),
    (TimeInterval(10, creation_period=4, discard_age=7), VALUES),
    (TimeInterval(6, creation_period=9, discard_age=5), SUMS),
    (TimeInterval(8, discard_age=20, late="tuple", refire=Every(rows=2)), SUMS),
    (TimeInterval(12, early=Every("5 seconds"), results="retracting"), SUMS),
    (TimeInterval(12, early=Every(rows=2), discard_age=3), SUMS),
    (TimeInterval(5, emit="on_close", discard_age=9), VALUES),
    (TimeInterval(7, emit="on_update"), SUMS),
    (TimeInterval(9, fires_when="n >= 2", then="begin_anew"), SUMS),
    (TimeInterval(6, discard_age=4), TOPS),
    (TimeInterval(5, fill="last", fill_for=20), SUMS),
    (Calendar("day", zone="Europe/Paris"), SUMS),
    (Cumulate(3, 9, discard_age=2), SUMS),
    (Session(3, discard_age=6), SUMS),
    (Session(4, max_duration=8, early=Every("4 seconds")), VALUES),
    (Session("gap", discard_age=2), SUMS),
    (SlidingByRow(4, discard_age=5), SUMS),
    (SlidingByRow(6, right=False), VALUES),
    (SlidingByRow(3, discard_age=4, emit="on_close"), VALUES),
    (SlidingByRow(3, discard_age=4, emit="on_update"), SUMS),
    (Session(3, discard_age=9, refire=Every(rows=2), results="retracting"), VALUES),
    (Session(4, discard_age=9, refire=Every("5 seconds"), results="discarding"), SUMS),
]
HAS_GAPS = {2, 15}
"""Those that rows may fall out of by no fault of theirs."""
FOLDED = [0, 2, 11, 12, 13]
"""Those whose rows may be folded on their way."""
STREAM: dict[str, Any] = {
    "schema": "k string, t timestamp, v bigint, note string, gap bigint, unread string",
    "partition_by": "k",
    "event_time": "t",
}
KEYS = ("a", "b", None)

rows_of_a_batch = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from(KEYS),
            "t": st.none() | st.integers(0, 60) | st.integers(0, 60),
            "note": st.sampled_from(("x", "y")),
            "gap": st.none() | st.integers(1, 5),
        }
    ),
    max_size=6,
)
items = st.lists(
    rows_of_a_batch
    | st.builds(lambda by: ("watermark", by), st.integers(1, 12))
    | st.builds(lambda by: ("clock", by), st.integers(1, 6))
    | st.just(("restart", 0)),
    min_size=1,
    max_size=9,
)


def script_of(drawn: list[Any]) -> list[Any]:
    """Return the micro-batches: rows are numbered as `v`, and watermarks only rise."""
    found, number, watermark = list[Any](), 0, 0
    for one in drawn:
        if isinstance(one, list):
            found.append([{**row, "v": number + at} for at, row in enumerate(one)])
            number += len(one)
        elif one[0] == "watermark":
            watermark += one[1]
            found.append(Watermark(watermark))
        else:
            found.append(Restart() if one[0] == "restart" else Clock(one[1]))
    return found


def together(chosen: list[int], script: list[Any]) -> Any:
    """Play a script through several windows in one job, called by their numbers."""
    windows = {f"w{number}": WINDOWS[number][0] for number in chosen}
    aggregates = {f"w{number}": WINDOWS[number][1] for number in chosen}
    return run(windows=windows, aggregates=aggregates, **STREAM, script=script)


def alone(number: int, script: list[Any]) -> Any:
    """Play it through one of them."""
    window, aggregates = WINDOWS[number]
    options = {name: one for name, one in aggregates.items() if name in ("group_within", "top", "by")}
    of_rows = {name: one for name, one in aggregates.items() if name not in options}
    return run(window, aggregates=of_rows, **options, **STREAM, script=script)


def refused(results: Any, *windows: str | None) -> list[dict[str, Any]]:
    """Return the quarantine, of these windows if any are named, without the name, as it is in any order of columns."""
    found = [one for one in results.quarantine if not windows or one["window"] in windows]
    return [{name: value for name, value in one.items() if name != "window"} for one in found]


@given(
    chosen=st.lists(st.integers(0, len(WINDOWS) - 1), min_size=1, max_size=4, unique=True),
    drawn=items,
)
def test_each_window_has_the_results_and_late_rows_of_a_job_of_its_own(chosen: list[int], drawn: list[Any]) -> None:
    """For whatever rows, watermarks, clocks and restarts. A row counts once, as late if it is so for each window."""
    script = script_of(drawn)
    job, jobs = together(chosen, script), {number: alone(number, script) for number in chosen}
    assert list(job.windows) == [f"w{number}" for number in chosen]
    for number, one in jobs.items():
        assert job.windows[f"w{number}"] == list(one)
        assert refused(job, f"w{number}", None) == refused(one)
    assert sorted(map(repr, job)) == sorted(repr(row) for one in jobs.values() for row in one)
    rows = [row for item in script if isinstance(item, list) for row in item]
    assert job.counts["rows_in"] == len(rows)
    fates = ("admitted", "refined_late", "dropped_late", "outside", "quarantined", "repeated")
    assert sum(job.counts[name] for name in fates) == len(rows)
    assert job.counts["firings"] == sum(map(len, jobs.values()))
    if not HAS_GAPS & {*chosen}:
        late = [{row["row"]["v"] for row in one.quarantine if row["reason"] == "LATE"} for one in jobs.values()]
        assert job.counts["dropped_late"] == len(set.intersection(*late))
        assert job.counts["quarantined"] == sum(row["t"] is None for row in rows)


@given(
    chosen=st.lists(st.sampled_from(FOLDED), min_size=1, max_size=3, unique=True),
    batches=st.lists(
        st.lists(
            st.fixed_dictionaries({"k": st.sampled_from(KEYS), "t": st.integers(0, 40), "note": st.just("x")}),
            min_size=8,
            max_size=30,
        )
        | st.builds(lambda by: ("watermark", by), st.integers(1, 20)),
        min_size=2,
        max_size=6,
    ),
)
def test_rows_that_are_folded_before_they_arrive_count_as_they_would(chosen: list[int], batches: list[Any]) -> None:
    """Many rows for few panes, some of them late for some windows: those stay rows for all."""
    script = [*script_of(batches), Watermark(200)]
    job, jobs = together(chosen, script), {number: alone(number, script) for number in chosen}
    for number, one in jobs.items():
        assert job.windows[f"w{number}"] == list(one)
        assert refused(job, f"w{number}", None) == refused(one)
    late = [{row["row"]["v"] for row in one.quarantine} for one in jobs.values()]
    assert job.counts["rows_in"] == sum(len(one) for one in script if isinstance(one, list))
    if len(chosen) == 1:
        assert job.counts == jobs[chosen[0]].counts
    elif not HAS_GAPS & {*chosen}:
        assert job.counts["dropped_late"] == len(set.intersection(*late))
        assert job.counts["admitted"] >= max(one.counts["admitted"] for one in jobs.values())
        joined = job.counts["admitted"] + job.counts["refined_late"]
        assert joined >= max(one.counts["admitted"] + one.counts["refined_late"] for one in jobs.values())
        assert joined + job.counts["dropped_late"] == job.counts["rows_in"]


def test_a_row_is_folded_where_each_window_folds_it() -> None:
    """One that is late for a window, or refines all, stays a row; without partial results for one nothing is folded."""

    def folding(**windows: Any) -> Any:
        job = declared_job(windows=windows, aggregates={"n": agg.count()}, **STREAM)
        return job.computation([ScriptedStream(port.columns) for port in job.ports])._pipeline.ports[0].folding()

    assert folding(ten=TimeInterval(10), tail=SlidingByRow(5)) is None
    assert folding(ten=TimeInterval(10), early=TimeInterval(10, early=Every(rows=3))) is None
    assert folding(ten=TimeInterval(10), burst=Session(7)) is None  # which rows came before decides what is too late
    times = [31, 32, 33, 34, 8, 25, 35, 36]
    rows = pa.table({"k": ["a"] * 8, "v": [*range(8)], EVENT_TIME: [1_000_000 * at for at in times]})
    both = folding(ten=TimeInterval(10, discard_age=5), long=TimeInterval(40))
    parts, rest = both.fold(rows, 30_000_000)
    assert (rest.tolist(), [*parts]) == ([4], ["ten", "long"])
    both = folding(ten=TimeInterval(10, discard_age=9), twenty=TimeInterval(20, discard_age=30))
    parts, rest = both.fold(rows, 32_000_000)
    assert (rest.tolist(), {name: one.numbers.tolist() for name, one in parts.items()}) == (
        [4],
        {"ten": [6, 1], "twenty": [7]},
    )
    assert both.fold(rows.slice(0, 1), 32_000_000) is None
    assert both.fold(rows.slice(0, 0), 32_000_000) is None


def test_results_do_not_depend_on_where_batches_end() -> None:
    """The user's own assertion of it takes several windows as it takes one."""
    rows = [
        {"k": key, "t": at, "v": number, "note": "x"}
        for number, (key, at) in enumerate([("a", 1), ("b", 3), ("a", 9), ("a", 2), ("b", 14), ("a", 30), ("a", 4)])
    ]
    declaration = {
        "windows": {"short": TimeInterval(5, discard_age=6), "burst": Session(4), "tail": SlidingByRow(5)},
        "aggregates": SUMS,
        **STREAM,
    }
    assert_same_for_every_cut(declaration, [*rows[:5], Watermark(16), *rows[5:]], tries=20)


@pytest.mark.parametrize("early", [None, Every("2 seconds")])
def test_what_happened_is_told_by_window(early: Every | None) -> None:
    """By hand: a row that is late for one window and not for the other counts as admitted, and its row says which."""
    script = [
        [{"k": "a", "t": 1, "v": 2}, {"k": "a", "t": 12, "v": 4}],
        Watermark(13),
        [{"k": "a", "t": 5, "v": 6}, {"k": "a", "t": None, "v": 7}],
        Restart(),
        Watermark(40),
        [{"k": "a", "t": 3, "v": 8}],
    ]
    windows = {"ten": TimeInterval(10, early=early), "twenty": TimeInterval(20)}
    job = run(windows=windows, aggregates={"n": agg.count(), "s": agg.sum("v")}, **STREAM, script=script)
    seen = {
        name: [(row["pane_start"].second, row["n"], row["s"]) for row in rows] for name, rows in job.windows.items()
    }
    assert seen == {"ten": [(0, 1, 2), (10, 1, 4)], "twenty": [(0, 3, 12)]}
    assert [(row["batch"], row["n"]) for row in job] == [(1, 1), (4, 1), (4, 3)]
    told = [(row["window"], row["reason"], row["row"]["v"]) for row in job.quarantine]
    assert told == [(None, "NULL_EVENT_TIME", 7), ("ten", "LATE", 6), ("ten", "LATE", 8), ("twenty", "LATE", 8)]
    assert {name: count for name, count in job.counts.items() if count} == {
        "rows_in": 5,
        "admitted": 3,
        "dropped_late": 1,
        "quarantined": 1,
        "firings": 3,
    }


def test_a_repeat_is_left_out_for_all_windows() -> None:
    """The first of equal ids counts if it is not too late for each window; what repeats it is in none."""
    script = [[{"k": "a", "t": 1, "v": 1}, {"k": "a", "t": 12, "v": 1}, {"k": "a", "t": 13, "v": 2}], Watermark(60)]
    windows: dict[str, Any] = {"ten": TimeInterval(10), "burst": Session(15)}
    job = run(
        windows=windows, aggregates={"n": agg.count()}, dedupe="v", dedupe_for="20 seconds", **STREAM, script=script
    )
    seen = {name: [row["n"] for row in rows] for name, rows in job.windows.items()}
    assert seen == {"ten": [1, 1], "burst": [2]}
    assert (job.counts["rows_in"], job.counts["admitted"], job.counts["repeated"]) == (3, 2, 1)


def test_a_silent_stream_closes_the_panes_of_all_windows() -> None:
    """The watermark that goes on with the wall clock is one for all."""
    script = [[{"k": "a", "t": 1, "v": 1}], Clock(10), Restart(), Clock(100)]
    options: dict[str, Any] = {**STREAM, "idle_after": 5, "when_idle": "advance", "aggregates": {"n": agg.count()}}
    windows: dict[str, Any] = {"ten": TimeInterval(10), "burst": Session(30)}
    job = run(windows=windows, script=script, **options)
    assert {name: len(rows) for name, rows in job.windows.items()} == {"ten": 1, "burst": 1}
    for name, window in windows.items():
        assert job.windows[name] == list(run(window, script=script, **options))
