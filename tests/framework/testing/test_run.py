"""`run`: a script through a window, in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from panekeeper import (
    Batched,
    CheckpointReason,
    Count,
    DeclarationError,
    Event,
    EventType,
    InputError,
    LifecycleError,
    Listener,
    Operator,
    Punctuation,
    Session,
    Sliding,
    SlidingByRow,
    StateContext,
    StateHandler,
    Time,
    TimeInterval,
    Tumbling,
    agg,
)
from panekeeper.framework.declarations.operator import Emit
from panekeeper.testing import Clock, Flush, Restart, Results, Watermark, run

ROWS: list[Any] = [{"key": "a", "v": 1}, {"key": "b", "v": 10}, {"key": "a", "v": 2}]
KEYED: dict[str, Any] = {"schema": "key string, v long", "partition_by": "key"}
TIMED: dict[str, Any] = {"schema": "k string, t timestamp, v long", "partition_by": "k", "event_time": "t"}
SUM = {"total": agg.sum("v")}


def panes(rows: Results) -> list[tuple[Any, ...]]:
    """Batch, start of the pane in seconds, total and refinement of each firing."""
    return [(row["batch"], row["pane_start"], row["total"], row["refinement"]) for row in rows.in_seconds]


def test_times_inside_arrays_and_structs_are_in_seconds_too() -> None:
    """As the sessions that one replaces, rows of `last_row`, and values of `collect`."""
    found = run(
        Session("10 seconds", discard_age="1 minute"),
        aggregates={"last": agg.last_row(by="t", columns=["t"]), "all": agg.collect("t")},
        script=[[{"k": "a", "t": 5}], Watermark(20), [{"k": "a", "t": 1.5}], Watermark(30)],
        **TIMED,
    )
    shown = [(row["replaces"], row["last"], row["all"]) for row in found.in_seconds]
    assert shown == [([], {"t": 5}, [5]), ([5], {"t": 5}, [5, 1.5])]


def test_rows_have_the_number_of_their_micro_batch_and_the_columns_of_the_log() -> None:
    """With what went in and out."""
    found = run(Tumbling(Count(2)), aggregates=SUM, script=[ROWS[:2], ROWS[2:]], **KEYED)
    assert found == [
        {
            "key": "a",
            "fired_at": datetime(1970, 1, 1, tzinfo=UTC),
            "total": 3,
            "firing": 0,
            "window_mark": True,
            "reason": "COUNT",
            "batch": 1,
        }
    ]
    assert (found.quarantine, found.counts) == (
        [],
        {
            "rows_in": 3,
            "admitted": 3,
            "refined_late": 0,
            "dropped_late": 0,
            "outside": 0,
            "repeated": 0,
            "quarantined": 0,
            "firings": 1,
            "missed_panes": 0,
        },
    )


def test_a_watermark_of_the_script_completes_panes_and_makes_rows_late() -> None:
    """A late row refines its pane at the next advance; after its discard age it is dropped.

    pane    [0,10)              fires
    0       1: 2, 9: 5
    2       ---- 30             [0,10) 7
    3       4: 1 (late)
    4       ---- 40             [0,10) 8, refinement 1
    5       ---- 80 (closed)
    6       4: 1 (too late)
    """
    first = [{"k": "a", "t": 1, "v": 2}, {"k": "a", "t": 9, "v": 5}]
    late = [{"k": "a", "t": 4, "v": 1}]
    found = run(
        TimeInterval("10 seconds", discard_age="1 minute"),
        aggregates=SUM,
        script=[first, Restart(), Watermark(30), late, Watermark(40), Watermark(80), late],
        **TIMED,
    )
    assert panes(found) == [(2, 0, 7, 0), (4, 0, 8, 1)]
    assert [(row["reason"], row["row"]["v"], row["batch"]) for row in found.quarantine] == [("LATE", 1, 6)]
    assert (found.counts["refined_late"], found.counts["dropped_late"]) == (1, 1)


def test_without_a_watermark_in_the_script_it_follows_the_rows_between_batches() -> None:
    """Less the delay, in whole milliseconds as Spark counts; one more micro-batch fires what is complete in the end."""
    script = [[{"t": 1, "v": 1}], [{"t": 11.9999, "v": 2}, {"t": 2, "v": 3}], [{"t": 3, "v": 4}]]
    how: dict[str, Any] = {"schema": "t timestamp, v long", "event_time": "t", "aggregates": SUM, "script": script}
    assert panes(run(TimeInterval(10), **how)) == [(2, 0, 4, 0)]
    assert panes(run(TimeInterval(10, discard_age=9), **how)) == [(2, 0, 4, 0)]
    assert panes(run(TimeInterval(10, discard_age=9), **how | {"script": [*script, [{"t": 12, "v": 0}]]})) == [
        (2, 0, 4, 0),
        (4, 0, 8, 1),
    ]
    assert panes(run(TimeInterval(10), watermark="1.9999 seconds", **how)) == []
    assert panes(run(TimeInterval(10), watermark="1.999 seconds", **how)) == [(2, 0, 4, 0)]


@pytest.mark.parametrize("key_groups", [1, 2, 3])
def test_a_watermark_that_follows_the_rows_stands_within_a_list(key_groups: int) -> None:
    """A clock among the rows of a list ends no micro-batch, also where the first key group has no rows before it."""
    found = run(
        TimeInterval(1),
        script=[
            [{"key": "a", "at": 0, "v": 1.0}],
            [{"key": "a", "at": 1, "v": 2.0}, Clock(by=1.0), {"key": "a", "at": 0, "v": 3.0}],
        ],
        schema="key string, at timestamp, v double",
        aggregates={"n": agg.count()},
        event_time="at",
        watermark=0,
        partition_by="key",
        key_groups=key_groups,
    )
    assert [(row["pane_start"].second, row["n"]) for row in found] == [(0, 2)]
    assert found.quarantine == []


def test_a_list_may_have_watermarks_and_clocks_among_its_rows() -> None:
    """All of it happens in one micro-batch, in order; on Spark a micro-batch has its watermark and time before it."""
    first, second, late = ({"k": "a", "t": t, "v": v} for t, v in ((1, 2), (12, 3), (4, 5)))
    script = [[first, Watermark(10), second, Clock(5), late], Watermark(30)]
    found = run(TimeInterval(10, discard_age=60), aggregates=SUM, script=script, **TIMED)
    assert panes(found) == [(0, 0, 2, 0), (1, 0, 7, 1), (1, 10, 3, 0)]
    with pytest.raises(
        DeclarationError, match=r"script\[0\] has a clock or watermark among its rows, which a batch of Spark"
    ):
        run(TimeInterval(10), aggregates=SUM, script=script, engine="spark", **TIMED)
    found = run(Tumbling(Time(30)), script=[[ROWS[0], Clock(30), ROWS[2]]], aggregates=SUM, **KEYED)
    assert [(row["fired_at"], row["total"], row["batch"]) for row in found.in_seconds] == [(30, 1, 0)]
    following = run(TimeInterval(10), aggregates=SUM, script=[[second, Clock(5), first]], **TIMED)
    assert panes(following) == [(1, 0, 2, 0)]
    with pytest.raises(DeclarationError, match=r"script\[0\], part 2\[0\] is 7; a row is a dict"):
        run(TimeInterval(10), aggregates=SUM, script=[[first, Watermark(1), 7]], **TIMED)


def test_the_clock_of_the_script_is_the_one_by_which_rows_arrive() -> None:
    """What is due by then happens, the last instant, too; rows that come after it arrive then."""
    script = [[{"v": 1}], Clock("10 seconds"), [{"v": 2}], Clock(9), Clock(1)]
    found = run(Batched(within=60, every=10), aggregates={"all": agg.collect("v")}, schema="v long", script=script)
    assert [(row["fired_at"], row["all"], row["batch"]) for row in found.in_seconds] == [(10, [1], 1), (20, [1, 2], 4)]


def test_a_clock_before_a_restart_is_an_outage() -> None:
    """What became due in it happens at the restart, and is overdue; without one it happens on time."""
    window, how = Tumbling(Time(30)), KEYED | {"aggregates": SUM}
    found = run(window, script=[ROWS, Clock(45), Restart()], **how)
    assert [(row["fired_at"], row["reason"], row["batch"]) for row in found.in_seconds] == [(45, "OVERDUE", 2)] * 2
    found = run(window, script=[ROWS, Clock(45), [], Restart()], **how)
    assert [(row["fired_at"], row["reason"], row["batch"]) for row in found.in_seconds] == [(30, "TIME", 1)] * 2


def test_restarts_keep_what_is_stored_and_nothing_else() -> None:
    """An operator has instances of its own for each micro-batch; a handler gets its reset after a restart."""
    how = KEYED | {"output": "total bigint"}
    script = [ROWS[:2], Restart(), ROWS[2:]]
    found = run(Tumbling(Count(1)), operator=Lasting(), script=script, **how)
    assert [(row["key"], row["total"]) for row in found] == [("a", 1), ("b", 10), ("a", 3)]
    found = run(Tumbling(Count(1)), operator=Forgetful(), script=script, **how)
    assert [(row["key"], row["total"]) for row in found] == [("a", 1), ("b", 10), ("a", 2)]
    with pytest.raises(LifecycleError, match="cannot be kept"):
        run(Tumbling(Count(1)), operator=Unfit(), script=script, **how)
    found = run(Tumbling(Count(1)), operator=Runs(), script=[ROWS[:1], ROWS[:1], *script[1:]], **how)
    assert [row["total"] for row in found] == [0, 0, 1]


def test_listeners_and_handlers_take_part() -> None:
    """As they are given to `.operator()`; what one raises is raised."""
    how = KEYED | {"operator": Sizes(), "output": "n bigint", "listeners": [Picky()], "handlers": [Lasting()]}
    assert [row["n"] for row in run(Sliding(evict=Count(1)), script=[ROWS], **how)] == [1, 1, 1]
    with pytest.raises(InputError, match="too many"):
        run(Sliding(evict=Count(2)), script=[ROWS], **how)


def test_ports_have_their_own_windows_and_what_is_given_once_for_all() -> None:
    """Rows come by the names of the ports, and the log has their numbers; a batch has those of the first port first."""
    found = run(
        ports={
            "orders": {"window": Tumbling(Count(1))},
            "quotes": {"window": Sliding(evict=Count(2)), "schema": "key string, v long, x double"},
        },
        operator=Lasting(),
        output="total bigint",
        script=[{"quotes": [{"key": "a", "v": 5, "x": 1.5}], "orders": ROWS[:1]}, Restart(), {"orders": ROWS[:1]}],
        **KEYED,
    )
    assert [(row["port"], row["total"], row["batch"]) for row in found] == [(0, 1, 0), (1, 6, 0), (0, 7, 2)]


def test_the_watermark_of_ports_is_the_least_of_theirs() -> None:
    """By their rows, within the batch, or as the script says it."""
    how: dict[str, Any] = TIMED | {"operator": Sizes(), "output": "n bigint"}
    ports = {"a": {"window": TimeInterval(10)}, "b": {"window": TimeInterval(10)}}
    rows = [{"k": "a", "t": 1, "v": 1}], [{"k": "a", "t": 15, "v": 1}]
    found = run(ports=ports, script=[{"a": rows[0]}, {"a": rows[1]}, {"b": rows[1]}], **how)
    assert [(row["port"], row["n"], row["batch"]) for row in found] == [(0, 1, 2)]
    found = run(ports=ports, script=[{"a": rows[0]}, {"b": rows[0]}, Watermark(10)], **how)
    assert [(row["port"], row["n"], row["batch"]) for row in found] == [(0, 1, 2), (1, 1, 2)]


def test_a_firing_is_in_the_batch_that_acts_on_the_watermark() -> None:
    """Of one stream in the next; of ports, and where the key groups keep it, in that of the rows that moved it."""
    made: dict[str, Any] = {"operator": Sizes(), "output": "n bigint", "schema": "t timestamp", "event_time": "t"}
    window, times = TimeInterval(10), (1, 12, 23)
    alone = [[{"t": t}] for t in times]
    both = [{"a": one, "b": one} for one in alone]
    ports: dict[str, Any] = {"a": {"window": window}, "b": {"window": window}}
    assert [row["batch"] for row in run(window, script=alone, **made)] == [2, 3]
    idle: dict[str, Any] = {"idle_after": "1 hour", "when_idle": "advance"}
    assert [row["batch"] for row in run(window, script=alone, **made, **idle)] == [1, 2]
    assert [row["batch"] for row in run(ports=ports, script=both, **made) if row["port"] == 0] == [1, 2]
    assert [row["batch"] for row in run(ports=ports, script=[*both, Flush()], **made) if row["port"] == 0] == [1, 2, 3]


def test_a_job_starts_with_the_first_item_of_its_script() -> None:
    """So a clock before any row is no time that a window waits; one behind the first item is."""
    how: dict[str, Any] = {"aggregates": {"n": agg.count()}, "schema": "v long"}
    for window in (Tumbling(Time(10), passes_marks=True), Batched(within=60, every=10)):
        for script, at in (
            ([Clock(7), [{"v": 1}]], 17),
            ([[{"v": 1}], Clock(7)], 10),
            ([[], Clock(7), [{"v": 1}]], 10),
        ):
            found = run(window, script=[*script, *[Clock(1)] * 10], **how)
            assert [row["fired_at"] for row in found.in_seconds] == [at]


def test_a_flush_fires_what_is_open_after_what_is_due() -> None:
    """With the reason FLUSH, in a batch of its own, which is the last one; each kind of window does so."""
    script = [[{"t": 1, "v": 1}, {"t": 12, "v": 2}], Clock(4), Flush()]
    how: dict[str, Any] = {"aggregates": {"total": agg.sum("v")}, "schema": "t timestamp, v long"}
    found = run(TimeInterval(10), script=script, event_time="t", **how)
    assert [(row["total"], row["reason"], row["is_final"], row["batch"]) for row in found] == [
        (1, "WATERMARK", True, 1),
        (2, "FLUSH", True, 2),
    ]
    for window in (Session(5), SlidingByRow(5, right=False)):
        assert [row["reason"] for row in run(window, script=script, event_time="t", **how)] == ["WATERMARK", "FLUSH"]
    windows: list[Any] = [Tumbling(Time(3)), Tumbling(Count(5)), Sliding(evict=Count(9), trigger=Count(3))]
    for window, reasons in zip(windows, (["TIME"], ["FLUSH"], ["FLUSH"]), strict=True):
        assert [row["reason"] for row in run(window, script=script, **how)] == reasons
    found = run(Batched(within=60, every=10), script=script, **how)
    assert [(row["total"], row["reason"]) for row in found] == [(3, "FLUSH")]


def test_a_flush_is_the_final_checkpoint_of_state_handlers_and_the_last_item() -> None:
    """A handler is told that it is the last one; nothing can come after it."""
    found = run(Tumbling(Count(9)), operator=Endings(), output="total bigint", script=[ROWS, Flush()], **KEYED)
    assert [(row["total"], row["batch"]) for row in found if row["reason"] == "DRAIN"] == [(0, 0), (1, 1)]
    with pytest.raises(
        DeclarationError, match=r"script\[1\] is Flush\(\), which ends the job for good; make it the last"
    ):
        run(Tumbling(Count(9)), aggregates=SUM, script=[ROWS, Flush(), ROWS], **KEYED)


def test_results_say_how_far_the_watermark_is() -> None:
    """After the last micro-batch; none before the first row, and none for windows in arrival order."""
    how: dict[str, Any] = {"aggregates": {"n": agg.count()}, "schema": "k string, t timestamp, v long"}
    late = datetime.fromtimestamp(12, UTC)
    rows = [{"t": 15, "v": 1}]
    assert run(TimeInterval(10), script=[rows], event_time="t", watermark=3, **how).watermark == late
    assert run(TimeInterval(10), script=[rows, Flush()], event_time="t", watermark=3, **how).watermark == late
    assert run(TimeInterval(10), script=[Watermark(5), rows, Watermark(12)], event_time="t", **how).watermark == late
    ports = {"a": {"window": TimeInterval(10)}, "b": {"window": TimeInterval(10)}}
    made = how | {"aggregates": None, "operator": Sizes(), "output": "n bigint", "event_time": "t"}
    assert run(ports=ports, script=[{"a": rows, "b": [{"t": 12}]}], **made).watermark == late
    assert run(TimeInterval(10), script=[[]], event_time="t", **how).watermark is None
    assert run(Tumbling(Count(1)), script=[rows], **how).watermark is None


def test_two_streams_are_joined() -> None:
    """Rows within a time of each other, and those of equal panes; with what `ports(...)` takes for it."""
    pair = [
        {"a": [{"k": "x", "t": 1, "v": 1}, {"k": "y", "t": 2, "v": 2}]},
        Restart(),
        {"b": [{"k": "x", "t": 3, "v": 3}]},
    ]
    how: dict[str, Any] = TIMED | {"script": [*pair, Watermark(50)]}
    found = run(ports={"a": {}, "b": {}}, join_within={"before": 0, "after": 2, "how": "left"}, **how)
    shown = [(row["batch"], row["k"], row["left_v"], row["right_v"], row["reason"]) for row in found]
    assert shown == [(2, "x", 1, 3, "MATCH"), (3, "y", 2, None, "NO_MATCH")]
    panes_of_both = {name: {"window": TimeInterval(10)} for name in ("a", "b")}
    found = run(ports=panes_of_both, join={"how": "anti"}, **how)
    assert [(row["batch"], row["k"], row["v"], row["is_final"]) for row in found] == [(3, "y", 2, True)]
    with pytest.raises(DeclarationError, match="join_within is of two ports; give ports= with both inputs"):
        run(TimeInterval(10), join_within={"before": 0, "after": 2}, **how)
    with pytest.raises(DeclarationError, match=r"is without before and after"):
        run(ports={"a": {}, "b": {}}, join_within={}, **how)


def test_a_late_row_has_the_columns_that_only_order_rows() -> None:
    """`order_by=` reads a column that no aggregate does; the quarantine has it all the same."""
    found = run(
        TimeInterval(10),
        **{**TIMED, "schema": "k string, t timestamp, v long, place long, note string"},
        aggregates={"n": agg.count()},
        order_by=["place"],
        script=[Watermark(50), [{"k": "a", "t": 1, "v": 2, "place": 7, "note": "late"}]],
    )
    assert [row["row"] for row in found.quarantine] == [
        {"k": "a", "t": "1970-01-01T00:00:01.000000Z", "v": 2, "place": 7, "note": "late"}
    ]


def test_results_are_the_same_in_as_many_key_groups_as_are_asked_for() -> None:
    """Partitions are spread over them; limits on partitions need one, whatever is asked for."""
    rows = [{"k": key, "t": at, "v": at} for at, key in enumerate("abcabdeabf")]
    how: dict[str, Any] = {**TIMED, "aggregates": {"all": agg.collect("v")}, "script": [rows, Watermark(6), rows]}
    one, several = (run(TimeInterval(5, discard_age=9), **how, key_groups=number) for number in (1, 3))
    assert {repr(row) for row in one} == {repr(row) for row in several}
    assert [row["k"] for row in one] != [row["k"] for row in several]  # they are processed apart
    assert (one.counts, len(one.quarantine)) == (several.counts, len(several.quarantine))


def test_an_idle_stream_goes_on_with_the_clock_of_the_script() -> None:
    """Without a further row."""
    how: dict[str, Any] = TIMED | {"aggregates": SUM, "script": [[{"k": "a", "t": 1, "v": 1}], Clock(9), Clock(20)]}
    found = run(TimeInterval(10), idle_after="15 seconds", when_idle="advance", **how)
    assert panes(found) == [(2, 0, 1, 0)]
    with pytest.raises(DeclarationError, match="idle_after goes by the clock of a job"):
        run(TimeInterval(10), idle_after="15 seconds", when_idle="advance", engine="spark", **how)


def test_a_stream_is_idle_from_the_beginning_of_the_script_on() -> None:
    """The wall clock of a script begins at 0, and the rows that arrive then count from there, however ticks are cut."""
    how: dict[str, Any] = TIMED | {"aggregates": SUM, "idle_after": "1 second", "when_idle": "advance"}
    first = [{"k": "a", "t": 7, "v": 1}]
    for clocks in ([Clock(30)], [Clock(0.5), Clock(0.5)], [Restart(), Clock(1)]):
        assert panes(run(TimeInterval(1), script=[first, *clocks], **how)) == [(len(clocks), 7, 1, 0)]
    assert panes(run(TimeInterval(1), script=[first, Clock(0.999)], **how)) == []


def test_two_ports_without_windows_are_joined() -> None:
    """By the arguments of `join_within`; the watermark follows the rows, or the script."""
    how: dict[str, Any] = TIMED | {"ports": {"a": {}, "b": {}}, "join_within": {"before": 5, "after": 5, "how": "left"}}
    one, near = {"k": "x", "t": 1, "v": 1}, {"k": "x", "t": 3, "v": 2}
    found = run(script=[{"a": [one]}, Restart(), {"b": [near]}], **how)
    assert [(row["left_v"], row["right_v"], row["reason"], row["batch"]) for row in found] == [(1, 2, "MATCH", 2)]
    found = run(script=[{"a": [one]}, Watermark(30), {"b": [near]}], **how)
    assert [(row["left_v"], row["right_v"], row["reason"], row["batch"]) for row in found] == [(1, None, "NO_MATCH", 1)]
    assert [row["reason"] for row in found.quarantine] == ["LATE"]


def test_groups_within_a_window_are_ranked_as_a_job_does_it() -> None:
    """What `.aggregate()` takes by keyword goes there."""
    rows = [{"k": "a", "t": 1, "v": value} for value in (1, 2, 2)]
    aggregates = {"n": agg.count()}
    found = run(
        TimeInterval(10),
        aggregates=aggregates,
        group_within="v",
        top=1,
        by="n desc",
        script=[rows, Watermark(10)],
        **TIMED,
    )
    assert [(row["v"], row["n"], row["rank"]) for row in found] == [(2, 2, 1)]


def test_bad_rows_are_quarantined_by_the_rules_of_a_job() -> None:
    """With all columns, also those that the job does not read, and by the first rule that holds."""
    script = [
        [
            {"k": "a", "t": None, "v": 1, "more": "x"},
            {"k": "a", "t": 1, "v": -1, "more": "x"},
            {"k": "a", "t": -63e9, "v": 1},
            {"k": "a", "t": 1, "v": 1, "more": "y"},
        ],
        Watermark(10),
        [{"k": "a", "t": 3, "v": 7, "more": "z"}],
    ]
    how = TIMED | {"schema": TIMED["schema"] + ", more string", "reject": {"NEGATIVE": "v < 0"}}
    found = run(TimeInterval(10), aggregates=SUM, script=script, **how)
    assert panes(found) == [(1, 0, 1, 0)]
    assert [(row["reason"], row["row"]["v"], row["row"]["more"], row["batch"]) for row in found.quarantine] == [
        ("NULL_EVENT_TIME", 1, "x", 0),
        ("NEGATIVE", -1, "x", 0),
        ("EVENT_TIME_OUT_OF_RANGE", 1, None, 0),
        ("LATE", 7, "z", 2),
    ]
    assert "is outside of the years" in found.quarantine[2]["detail"]
    assert (found.counts["rows_in"], found.counts["quarantined"], found.counts["dropped_late"]) == (5, 3, 1)
    with pytest.raises(InputError, match="NULL_EVENT_TIME"):
        run(TimeInterval(10), aggregates=SUM, script=script, on_error="fail", **how)


def test_numbers_that_a_policy_cannot_subtract_are_quarantined() -> None:
    """Null and NaN."""
    from panekeeper import Delta

    script = [[{"v": 1.0}, {"v": None}, {"v": float("nan")}, {"v": 5.0}]]
    found = run(Tumbling(Delta("v", 2.0)), aggregates={"n": agg.count()}, schema="v double", script=script)
    assert [row["n"] for row in found] == [1]
    assert [row["reason"] for row in found.quarantine] == ["NULL_ATTRIBUTE", "NAN_ATTRIBUTE"]


def test_times_that_are_too_far_ahead_are_quarantined() -> None:
    """After the arrival of the row, if it has one; else after a clock that is set, which that of a script seldom is."""
    how = TIMED | {"schema": "k string, t timestamp, at timestamp, v long", "aggregates": SUM}
    rows = [{"k": "a", "t": "2024-05-03T00:00:00", "at": "2024-05-01", "v": 1}]
    found = run(TimeInterval(10), arrival_time="at", script=[rows], **how)
    assert [row["detail"] for row in found.quarantine] == [
        "event time 2024-05-03 00:00:00 is more than 1d ahead of its arrival at 2024-05-01 00:00:00"
    ]
    assert run(TimeInterval(10), script=[rows], **how).quarantine == []
    rows = [{"k": "a", "t": 1, "at": "2200-01-01", "v": 1}]
    found = run(TimeInterval(10), arrival_time="at", script=[Clock("20000 days"), rows], **how)
    assert [row["reason"] for row in found.quarantine] == ["FUTURE_ARRIVAL_TIME"]


def test_marks_in_the_stream_tumble_a_window() -> None:
    """After a row, or in the place of one and in no count, by conditions as a job takes them."""
    script = [[{"v": 1}, {"v": 2}, {"v": 0}, {"v": 3}], [{"v": 0}]]
    how: dict[str, Any] = {"schema": "v long", "aggregates": {"all": agg.collect("v")}, "script": script}
    found = run(Tumbling(Punctuation()), punctuation="v = 0", **how)
    assert [(row["all"], row["batch"]) for row in found] == [([1, 2, 0], 0), ([3, 0], 1)]
    assert (found.counts["rows_in"], found.counts["admitted"]) == (5, 5)
    found = run(Tumbling(Punctuation()), marks="v = 0", **how)
    assert [(row["all"], row["batch"]) for row in found] == [([1, 2], 0), ([3], 1)]
    assert (found.counts["rows_in"], found.counts["admitted"]) == (3, 3)
    refused = run(Tumbling(Punctuation()), marks="v = 0", reject={"ALL": "true"}, **how)
    assert (len(refused.quarantine), refused.counts["rows_in"], refused.counts["quarantined"]) == (3, 3, 3)


def test_order_by_sorts_the_rows_of_a_batch() -> None:
    """Before the window has them."""
    script = [[{"v": 2}, {"v": 1}, {"v": 3}]]
    found = run(Tumbling(Count(3)), aggregates={"all": agg.collect("v")}, schema="v long", order_by="v", script=script)
    assert [row["all"] for row in found] == [[1, 2, 3]]


def test_values_are_taken_in_the_forms_that_have_no_other_meaning() -> None:
    """Times and durations as seconds, in Python's types or as text, also in structs; a row may lack columns."""
    at, local = datetime(2024, 5, 1, 10, tzinfo=UTC), datetime(2024, 5, 1, 10)  # noqa: DTZ001
    five = timedelta(seconds=5)
    rows = [
        {
            "t": at,
            "l": local,
            "d": date(2024, 5, 1),
            "p": Decimal("1.5"),
            "s": {"t": at, "n": 1},
            "many": [at],
            "g": five,
        },
        {
            "t": "2024-05-01T12:00:00+02:00",
            "l": "2024-05-01 10:00",
            "d": "2024-05-01",
            "p": 1.5,
            "s": {"t": at.timestamp(), "n": 1},
            "many": [at.timestamp()],
            "g": "5 seconds",
        },
        {"t": at.timestamp(), "l": at.timestamp(), "d": date(2024, 5, 1), "p": "1.50", "s": {"t": at, "n": 1}, "g": 5},
    ]
    schema = (
        "t timestamp, l timestamp_ntz, d date, p decimal(10, 2), s struct<t: timestamp, n: int>, "
        "many array<timestamp>, g interval day to second, m map<string, int>, b binary, f float"
    )
    names = ("t", "l", "d", "p", "s", "g", "many")
    aggregates = {f"last_{name}": agg.last(name) for name in names}
    found = run(Tumbling(Count(1)), aggregates=aggregates, schema=schema, script=[rows])
    first, second, third = ([row[f"last_{name}"] for name in names] for row in found)
    assert first == second == [at, local, date(2024, 5, 1), Decimal("1.50"), {"t": at, "n": 1}, five, [at]]
    assert third[:6] == first[:6]
    assert third[6] is None


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("v", pa.int64())]),
        {"v": int},
        "v BIGINT",
        "v: long",
    ],
    ids=["arrow", "names", "sql", "colon"],
)
def test_a_schema_is_one_of_arrow_or_of_spark_or_text(schema: Any) -> None:
    """Without a session, and so without Java."""
    assert run(Tumbling(Count(1)), aggregates=SUM, schema=schema, script=[[{"v": 2}]])[0]["total"] == 2


def test_a_script_runs_without_java() -> None:
    """As it stands in a test file."""
    program = (
        "import os\n"
        "os.environ['JAVA_HOME'] = os.environ['PATH'] = '/nonexistent'\n"
        "from panekeeper import Count, Tumbling, agg\n"
        "from panekeeper.testing import run\n"
        "from pyspark import SparkContext\n"
        "rows = run(Tumbling(Count(1)), aggregates={'n': agg.count(where='v > 1')}, schema='v long',\n"
        "           script=[[{'v': 1}, {'v': 2}]])\n"
        "assert [row['n'] for row in rows] == [0, 1]\n"
        "assert SparkContext._gateway is None and SparkContext._active_spark_context is None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_hundred_thousand_rows_take_seconds() -> None:
    """And as many firings: nothing is done for each row in Python but reading it."""
    rows = [{"key": f"k{number % 1000}", "v": number} for number in range(100_000)]
    found = run(Tumbling(Count(1)), aggregates=SUM, script=[rows], **KEYED)
    assert len(found) == 100_000


def _refused() -> dict[str, tuple[Callable[[], Any], str]]:
    count = Tumbling(Count(1))

    def with_script(*script: Any, **how: Any) -> Callable[[], Any]:
        declared: dict[str, Any] = {"window": count, "aggregates": SUM, "script": list(script)} | KEYED | how
        return lambda: run(**declared)

    return {
        "no computation": (with_script(ROWS, aggregates=None), "takes aggregates, such as"),
        "two computations": (with_script(ROWS, operator=Lasting(), output="total int"), "takes aggregates, such as"),
        "an operator without output": (
            lambda: run(count, operator=Lasting(), script=[ROWS], **KEYED),
            "an operator needs output=",
        ),
        "no window": (with_script(ROWS, window=None), "takes a window, or ports"),
        "window and ports": (with_script(ROWS, ports={"a": {"window": count}}), "takes a window, or ports"),
        "a function that declares": (
            with_script(ROWS, window=_refused, aggregates=None),
            r"takes a window, and got the function _refused; give what it declares, .* spark_job takes a function",
        ),
        "a window that is none": (with_script(ROWS, window=Count(1)), "the window is Count"),
        "a port without a window": (
            lambda: run(ports={"a": {}, "b": {"window": count}}, aggregates=SUM, script=[{}], **KEYED),
            "ports: 'a': the window is None",
        ),
        "an unknown option of a port": (
            lambda: run(ports={"a": {"window": count, "delay": 1}}, aggregates=SUM, script=[{}], **KEYED),
            "ports: 'a' has no option 'delay'",
        ),
        "no schema": (with_script(ROWS, schema=None), "schema is None; write columns as SQL does"),
        "a wrong schema": (with_script(ROWS, schema="key strin"), "schema is 'key strin'"),
        "an unknown option": (with_script(ROWS, partition="key"), "has no option 'partition'; did you mean"),
        "handlers of aggregates": (
            with_script(ROWS, handlers=[]),
            "has no option 'handlers' with aggregates, but with operator; leave it out, or give operator= in place",
        ),
        "groups of an operator": (
            with_script(ROWS, top=1, aggregates=None, operator=Lasting(), output="total int"),
            "has no option 'top' with operator, but with aggregates; leave it out",
        ),
        "a result with the name of an option that is given": (
            with_script(ROWS, aggregates={"top": agg.count()}, top=1),
            "'top' is given twice, as a name in aggregates= and as an option; rename it in aggregates=",
        ),
        "aggregates in a list": (
            with_script(ROWS, aggregates=[agg.count()]),
            r'aggregates is \[agg.count\(\)\]; give a dict, such as \{"n": agg.count\(\)\}',
        ),
        "a join that is a text": (
            lambda: run(ports={"a": {}, "b": {}}, join="left", script=[{}], **KEYED),  # type: ignore[arg-type]
            "join is 'left'; give a dict, such as",
        ),
        "windows in a list": (with_script(ROWS, window=None, windows=[count]), "windows is .*; give a dict, such as"),
        "ports in a list": (with_script(ROWS, window=None, ports=[count]), "ports is .*; give a dict, such as"),
        "a port that is a window": (
            with_script(ROWS, window=None, ports={"a": count}),
            "ports: 'a' is Tumbling.*; give a dict, such as",
        ),
        "an aggregate of an unknown column": (
            with_script(ROWS, aggregates={"n": agg.count(where="vv > 2")}),
            r"aggregate n=agg.count\(where='vv > 2'\): 'vv > 2' is not a condition on these columns: .* column 'vv'",
        ),
        "an unknown engine": (with_script(ROWS, engine="flink"), "engine is 'flink'"),
        "a session in memory": (with_script(ROWS, spark=object()), 'give engine="spark", too'),
        "no script": (with_script(ROWS, script={"a": 1}), "it must be a list of micro-batches"),
        "an unknown item": (with_script(ROWS, 7), r"script\[1\] is 7; it must be a list of rows"),
        "a row outside of a list": (with_script(ROWS[0]), r"script\[0\] is \{.*it must be a list of rows"),
        "a class": (with_script(Restart), r"script\[0\] is <class .*Restart.*it must be a list"),
        "a row that is none": (with_script([7]), r"script\[0\]\[0\] is 7; a row is a dict"),
        "an unknown column": (
            with_script(ROWS, [{"key": "a", "w": 1}]),
            r"script\[1\]\[0\] has the unknown column 'w'.* \(columns: key, v\)",
        ),
        "a wrong type": (with_script([*ROWS, {"v": "x"}]), r"script\[0\]\[3\]: v is 'x', and the column is int64"),
        "a fraction": (with_script([{"v": 1.5}]), r"script\[0\]\[0\]: v is 1.5"),
        "a truth value": (with_script([{"v": True}]), r"script\[0\]\[0\]: v is True"),
        "a time that is none": (
            with_script([{"t": "soon"}], **TIMED, window=TimeInterval(1)),
            r"script\[0\]\[0\]: t is 'soon'.*a time is seconds since the epoch",
        ),
        "rows of no port": (
            lambda: run(
                ports={"a": {"window": count}, "b": {"window": count}},
                operator=Lasting(),
                output="total int",
                script=[{"c": ROWS}],
                **KEYED,
            ),
            r"script\[0\] is .*a dict of lists of rows by 'a', 'b'",
        ),
        "a watermark without event time": (with_script(ROWS, Watermark(3)), "no window goes by event time"),
        "a watermark of a window that has none": (
            with_script(Watermark(3), **TIMED),
            "no window goes by event time",
        ),
        "a watermark that goes back": (
            with_script(Watermark(3), Watermark(2), **TIMED, window=TimeInterval(1)),
            r"script\[1\] is Watermark\(to=2\), but a watermark never goes back",
        ),
        "a watermark that is no time": (lambda: Watermark("soon"), "Watermark is 'soon'"),
        "a clock that stands": (lambda: Clock(0), "the clock of a script only goes on"),
        "a clock that goes back": (lambda: Clock("-1 minute"), "Clock is -1m"),
        "a clock that is no duration": (lambda: Clock("soon"), "not a duration"),
        "what a job refuses": (with_script(ROWS, window=TimeInterval(1)), "give windowed\\(\\) an event_time"),
        "a column that is not there": (with_script(ROWS, partition_by="kee"), "there is no column 'kee'"),
        "an event that never happens": (
            lambda: run(TimeInterval(1), operator=Evicting(), output="total int", script=[], **TIMED),
            "never happens in a TimeInterval",
        ),
        "a condition that is none": (with_script(ROWS, reject={"BAD": "v <"}), "'v <' is not a condition"),
        "a condition on other columns": (with_script(ROWS, reject={"BAD": "w < 1"}), "there is no column 'w'"),
        "marks of files": (
            with_script(ROWS, window=Tumbling(Punctuation()), punctuation="end_of_file"),
            "does not come straight from files",
        ),
    }


class Lasting(Operator, StateHandler):
    """Emits the sum of each window, and that of all windows before in this partition."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION, EventType.TRIGGER})

    def __init__(self) -> None:
        self.totals: dict[Any, int] = {}

    def handle_event(self, event: Event, emit: Emit) -> None:
        self.totals[event.key] = self.totals.get(event.key, 0) + int(event.column("v").sum())
        emit(total=self.totals[event.key])

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("totals", self.totals)

    def reset(self, ctx: StateContext) -> None:
        self.totals = ctx.read("totals")


class Endings(Lasting):
    """Emits for each checkpoint whether it is the final one."""

    def drain(self, ctx: StateContext) -> None:
        ctx.emit("a", total=int(ctx.reason is CheckpointReason.FINAL))


class Forgetful(Lasting):
    """Writes nothing of what it knows."""

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("totals", {})


class Unfit(Lasting):
    """Writes what cannot be stored."""

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("totals", object())


class Runs(Operator, StateHandler):
    """Emits how often its state was read back by a new run."""

    events = frozenset({EventType.EVICTION})

    def __init__(self) -> None:
        self.restarts = 0

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(total=self.restarts)

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("restarts", self.restarts)

    def reset(self, ctx: StateContext) -> None:
        self.restarts = ctx.read("restarts") + ctx.restarted


class Evicting(Lasting):
    """Waits for what no pane has."""

    events = frozenset({EventType.EVICTION})


class Sizes(Operator):
    """Emits how many rows a pane has."""

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(n=event.table.num_rows)


class Picky(Listener):
    """Takes no window of two rows."""

    def handle_event(self, event: Event) -> None:
        if event.table.num_rows > 1:
            raise ValueError("too many")


REFUSED = _refused()


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_played_is_refused(case: str) -> None:
    """With an error that says what, where and what to do."""
    call, words = REFUSED[case]
    with pytest.raises(DeclarationError, match=words):
        call()


def test_whole_rows_have_all_columns_if_none_is_named() -> None:
    """Without the column of a condition; of equals the first to arrive is first."""
    rows: list[dict[str, Any]] = [{"v": v, "who": who} for v, who in ((1, "a"), (3, "b"), (3, "c"), (None, "d"))]
    (found,) = run(
        Tumbling(Count(4)),
        schema="v long, who string",
        script=[rows[:2], Restart(), rows[2:]],
        aggregates={
            "top": agg.top_rows(k=2, by="v desc"),
            "least": agg.first_row(by="v", where="v > 1"),
            "none": agg.last_row(by="v", columns=["who"], where="v > 9"),
        },
    )
    assert (found["top"], found["least"], found["none"]) == (rows[1:3], rows[1], None)


def test_an_expression_is_over_aggregates_and_other_results() -> None:
    """With conditions of its own; columns are found in any case; null where it divides by 0."""
    rows: list[Any] = [{"k": k, "v": v} for k, v in (("a", 1), ("a", 5), ("b", 0), ("b", -1))]
    found = run(
        Tumbling(Count(2)),
        schema="k string, v long",
        partition_by="k",
        script=[rows[:1], Restart(), rows[1:]],
        aggregates={
            "part": agg.expr("count(where='v > 4') / n"),
            "mean": agg.expr("sum(V) / n"),
            "n": agg.count(),
            "none": agg.expr("n / (max(v) + min(v) + 1)", where="v < 1"),
            "many": agg.expr("n >= 3 or total > 5"),
            "total": agg.sum("v"),
        },
    )
    got = {row["k"]: [row[name] for name in ("part", "mean", "none", "many")] for row in found}
    assert got == {"a": [0.5, 3.0, None, True], "b": [0.0, -0.5, None, False]}


GROUPED: dict[str, Any] = {
    "schema": "k string, t timestamp, s string, v long",
    "partition_by": "k",
    "event_time": "t",
    "aggregates": {"total": agg.sum("v"), "n": agg.count()},
}


def test_groups_within_a_pane_have_a_row_each_with_their_rank() -> None:
    """Of overlapping panes, through restarts; a late row brings the first groups again, as they are now."""
    rows: list[Any] = [
        {"k": "a", "t": t, "s": s, "v": v}
        for t, s, v in ((1, "x", 1), (2, "y", 5), (2, "x", 3), (3, None, 9), (6, "z", 2), (7, "y", 1))
    ]
    found = run(
        TimeInterval("10 seconds", creation_period="5 seconds", discard_age="1 minute"),
        **GROUPED,
        group_within=["S"],
        top=2,
        by="total desc",
        script=[
            rows[:2],
            Restart(),
            rows[2:],
            Watermark(20),
            Restart(),
            [rows[0] | {"s": "z", "v": 50}],
            Watermark(30),
        ],
    )
    shown = [(int(r["pane_end"].timestamp()), r["s"], r["total"], r["n"], r["rank"], r["refinement"]) for r in found]
    assert shown == [
        (5, None, 9, 1, 1, 0),
        (5, "y", 5, 1, 2, 0),
        (10, None, 9, 1, 1, 0),
        (10, "y", 6, 2, 2, 0),
        (15, "z", 2, 1, 1, 0),
        (15, "y", 1, 1, 2, 0),
        (5, "z", 50, 1, 1, 1),
        (5, None, 9, 1, 2, 1),
        (10, "z", 52, 2, 1, 1),
        (10, None, 9, 1, 2, 1),
    ]


def test_a_group_that_cannot_be_computed_takes_the_firing_with_it() -> None:
    """Which of the groups are the first ones is not known then; the quarantine says so."""
    rows = [{"k": k, "t": 1, "s": s, "v": 2**62} for k, s in (("a", "x"), ("a", "x"), ("a", "y"), ("b", "x"))]
    found = run(TimeInterval(5), **GROUPED, group_within="s", script=[rows, Watermark(9)])
    assert [(row["k"], row["s"], row["rank"]) for row in found] == [("b", "x", 1)]
    assert [row["reason"] for row in found.quarantine] == ["SUM_OVERFLOW"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_within": "k"}, "group_within: 'k' is a partition column, of which a pane has one value"),
        ({"group_within": ["s", "s"]}, "group_within names the column 's' twice"),
        ({"group_within": []}, r"group_within is \[\]; give names of columns"),
        ({"group_within": 7}, "group_within is 7; give names of columns"),
        ({"group_within": "nowhere"}, "group_within: there is no column 'nowhere'"),
        ({"top": 3}, "top without group_within, the columns by which rows are grouped"),
        ({"group_within": "s", "top": 3}, "top is 3 without by; say by which result"),
        ({"group_within": "s", "top": 0, "by": "n"}, "top is 0; it must be a whole number of 1 or more"),
        ({"group_within": "s", "by": "v desc"}, "by is 'v desc'; give a result column, .*: 'total desc'"),
        ({"group_within": "s", "by": 7}, "by is 7; give a result column"),
        ({"group_within": "s", "aggregates": {"c": agg.collect("v")}}, "needs the rows themselves; groups have none"),
        (
            {"group_within": "s", "aggregates": {"rank": agg.count()}},
            "the result column 'rank' has the name of another",
        ),
        (
            {"group_within": "s", "window": Tumbling(Count(1))},
            "for the panes of a TimeInterval, and not with a Tumbling",
        ),
        ({"group_within": "s", "window": TimeInterval(5, fires_when="n > 3")}, "fires_when is 'n > 3', a rule for one"),
        ({"group_within": "s", "window": TimeInterval(5, results="retracting")}, 'not with results="retracting"'),
    ],
)
def test_groups_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    """Where they are declared."""
    given: dict[str, Any] = {**GROUPED, **options}
    window = given.pop("window", TimeInterval(5))
    given |= {} if isinstance(window, TimeInterval) else {"event_time": None}
    with pytest.raises(DeclarationError, match=message):
        run(window, **given, script=[[]])


def test_a_result_may_have_the_name_of_an_option() -> None:
    """What is an aggregate is one."""
    (found,) = run(
        Tumbling(Count(1)), schema="v long", aggregates={"top": agg.max("v"), "by": agg.count()}, script=[[{"v": 3}]]
    )
    assert (found["top"], found["by"]) == (3, 1)
