"""`AnyOf`, `AllOf`, `when_full` and `aligned`, by hand; the naive model has them, too (`test_properties.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from panekeeper import (
    AllOf,
    AnyOf,
    Batched,
    Count,
    DeclarationError,
    Delta,
    Emit,
    Event,
    EventType,
    Operator,
    PartitionAge,
    Punctuation,
    Sliding,
    Time,
    Tumbling,
    agg,
)
from panekeeper.testing import Clock, Restart, run

ALL = {"all": agg.collect("v")}
SUM = {"total": agg.sum("v")}


def fired(window: Any, *script: Any, aggregates: Any = ALL, **how: Any) -> list[tuple[Any, ...]]:
    """When a window fires, with which values, and why."""
    (name,) = aggregates
    batches = [[{"v": value} for value in item] if isinstance(item, list) else item for item in script]
    found = run(window, aggregates=aggregates, schema="v long", script=batches, **how)
    return [(row["fired_at"], row[name], row["reason"]) for row in found.in_seconds]


@pytest.mark.parametrize("is_folded", [False, True], ids=["rows", "folded"])
def test_a_window_tumbles_by_whichever_is_first_and_both_count_from_there(*, is_folded: bool) -> None:
    """Kept as rows, or as partial results.

    0: 1     4: 2 3     8: 4       11 (7 after 4)   18
             count of 3            time              time, empty: no row
    """
    window, script = Tumbling(AnyOf(Count(3), Time(7))), ([1], Clock(4), [2, 3], Clock(4), [4], Clock(6), Clock(6))
    found = fired(window, *script, aggregates=SUM if is_folded else ALL)
    assert found == [(4, 6, "COUNT"), (11, 4, "TIME")] if is_folded else [(4, [1, 2, 3], "COUNT"), (11, [4], "TIME")]


def test_an_empty_tumble_by_time_is_an_event_and_the_next_is_a_period_later() -> None:
    """As of `Time`; with passes_marks the log has a row of it."""
    found = fired(
        Tumbling(AnyOf(Count(2), Time(5)), passes_marks=True), [1, 2], Clock(12), [3], Clock(3), aggregates=SUM
    )
    assert found == [(0, 3, "COUNT"), (5, None, "TIME"), (10, None, "TIME"), (15, 3, "TIME")]


def test_of_one_instant_time_is_first() -> None:
    """The rows of that instant are in the next window."""
    window, script = Tumbling(AnyOf(Count(2), Time(5))), [[{"t": 0, "v": 1}, {"t": 5, "v": 2}, {"t": 5, "v": 3}]]
    found = run(window, aggregates=ALL, schema="t timestamp, v long", arrival_time="t", script=script)
    assert [(row["all"], row["reason"]) for row in found] == [([1], "TIME"), ([2, 3], "COUNT")]


def test_after_an_outage_an_overdue_tumble_happens_once_and_time_counts_from_there() -> None:
    """With a restart between."""
    found = fired(Tumbling(AnyOf(Count(9), Time(5))), [1], Clock(12), Restart(), [2], Clock(4), [3], Clock(1))
    assert found == [(12, [1], "OVERDUE"), (17, [2, 3], "TIME")]


def test_aligned_periods_count_from_the_epoch() -> None:
    """Also after a tumble by count, and after an outage."""
    script = (Clock(3), [1], Clock(8), [2], Clock(1), [3, 4], Clock(18), Restart(), [5], Clock(10))
    assert fired(Tumbling(Time(10), aligned=True), *script) == [
        (10, [1], "TIME"),
        (30, [2, 3, 4], "OVERDUE"),
        (40, [5], "TIME"),
    ]
    assert fired(Tumbling(AnyOf(Count(2), Time(10)), aligned=True), *script) == [
        (10, [1], "TIME"),
        (12, [2, 3], "COUNT"),
        (30, [4], "OVERDUE"),
        (40, [5], "TIME"),
    ]
    assert fired(Batched(within=60, every=10, aligned=True), *script[:3]) == [(10, [1], "TIME")]
    assert fired(Sliding(evict=Count(9), trigger=Time(10), aligned=True), *script[:3]) == [(10, [1], "TIME")]


def test_a_batched_window_that_begins_at_a_multiple_of_its_period_changes_first_at_the_next_one() -> None:
    """The row at 10 is the first of the window: 20 is the first multiple after it."""
    script = [[{"t": 10, "v": 1}, {"t": 13, "v": 2}, {"t": 35, "v": 3}]]
    window = Batched(within=60, every=10, aligned=True)
    found = run(window, aggregates=ALL, schema="t timestamp, v long", arrival_time="t", script=script)
    assert [(row["fired_at"], row["all"]) for row in found.in_seconds] == [(20, [1, 2])]


def test_a_trigger_fires_by_whichever_is_first_and_both_count_from_there() -> None:
    """Evictions do not change the count."""
    window = Sliding(evict=Count(2), trigger=AnyOf(Count(3), Time(5)))
    assert fired(window, [1, 2], Clock(2), [3, 4], Clock(6), [5, 6], Clock(1), [7]) == [
        (2, [2, 3], "COUNT"),
        (7, [3, 4], "TIME"),
        (9, [6, 7], "COUNT"),
    ]


class Shown(Operator):
    """Emits the rows of each firing, but for empty ones."""

    events = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit them."""
        if event.table.num_rows:
            emit(all=[int(one) for one in event.column("v")])


# the first row has left at 3 6 9: each is an empty firing by time; the third row is the second after it, at 10.25
@pytest.mark.parametrize("computed", [{"aggregates": ALL}, {"operator": Shown(), "output": "all array<long>"}])
@pytest.mark.parametrize(
    "meanwhile",
    [[Clock(10.25)], [Clock(3), Clock(3), Clock(3), Clock(1.25)], [Clock(7), [{"k": "b"}], Clock(3.25)]],
    ids=["nothing", "ticks", "a row of another partition"],
)
@pytest.mark.parametrize("evict", [Time(0.5), AllOf(Time(0.5), Count(9))], ids=["time", "both"])
def test_an_empty_firing_by_time_begins_the_count_anew(evict: Any, meanwhile: list[Any], computed: Any) -> None:
    """Whether or not anything makes a micro-batch at its instant, and whether or not anybody gets it."""
    window = Sliding(evict=evict, trigger=AnyOf(Count(2), Time(3)))
    first, second, third = ([{"k": "a", "v": value}] for value in (1, 2, 3))
    script = [first, *meanwhile, second, third]
    found = run(window, **computed, schema="k string, v long", partition_by="k", script=script)
    assert [(row["k"], row["all"], row["batch"]) for row in found] == [("a", [2, 3], len(script) - 1)]


def test_a_row_stays_only_while_both_keep_it() -> None:
    """The newest two of those that are not older than 5 seconds."""
    window = Sliding(evict=AllOf(Time(5), Count(2)), trigger=Count(1))
    assert [rows for _, rows, _ in fired(window, [1, 2], Clock(3), [3], Clock(3), [4], Clock(6), [5])] == [
        [1],
        [1, 2],
        [2, 3],
        [3, 4],
        [5],
    ]


def test_a_window_fires_only_once_it_has_been_full() -> None:
    """With the row that fills it by count; a fall in a delta window does not take it back; nor does a restart."""
    full = Sliding(evict=Count(3), trigger=Count(1), when_full=True)
    assert fired(full, [1, 2], Restart(), [3], [4]) == [(0, [1, 2, 3], "COUNT"), (0, [2, 3, 4], "COUNT")]
    by_delta = Sliding(evict=Delta("v", 2), trigger=Count(1), when_full=True)
    assert [rows for _, rows, _ in fired(by_delta, [1, 2, 4, 4])] == [[2, 4], [2, 4, 4]]
    by_time = Sliding(evict=Count(2), trigger=Time(10), when_full=True)
    assert fired(by_time, [1], Clock(15), [2], Clock(5)) == [(20, [1, 2], "TIME")]
    both = Sliding(evict=AllOf(Time(5), Count(2)), when_full=True)
    assert [rows for _, rows, _ in fired(both, [1], Clock(9), [2], [3], Clock(9), [4])] == [[2, 3], [4]]


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: AnyOf(Count(1)), r"AnyOf\(Count\(1\)\): it takes one Count and one Time"),
        (lambda: AnyOf(Count(1), Count(2)), "it takes one Count and one Time"),
        (lambda: AnyOf(Count(1), Time(1), Time(2)), "it takes one Count and one Time"),
        (lambda: AllOf(Time(1), cast("Any", Delta("v", 1))), "it takes one Count and one Time"),
        (AllOf, "it takes one Count and one Time"),
        (lambda: AnyOf(Count(1), cast("Any", 30)), "it takes one Count and one Time"),
        (lambda: Tumbling(AllOf(Count(1), Time(1))), "cannot evict from a tumbling window: use Count, Time, Delta"),
        (lambda: Sliding(evict=AnyOf(Count(1), Time(1))), "cannot evict from a sliding window"),
        (lambda: Sliding(evict=Count(1), trigger=AllOf(Count(1), Time(1))), "cannot be the trigger"),
        (lambda: Tumbling(Count(1), partition_eviction=AnyOf(Count(1), Time(1))), "cannot evict partitions"),
        (lambda: Tumbling(Count(3), aligned=True), "aligned is True, but no period of time counts"),
        (lambda: Tumbling(Punctuation(), aligned=True), "aligned is True, but no period of time counts"),
        (lambda: Sliding(evict=Time(3), aligned=True), "aligned is True, but no period of time counts"),
        (lambda: Batched(retain=1, every=1, aligned=True), "aligned is True, but no period of time counts"),
        (lambda: Tumbling(Time(3), aligned=cast("Any", "yes")), "aligned is 'yes'; it must be True or False"),
        (lambda: Sliding(evict=Time(3), when_full=True), "a window is full from its first row on"),
        (lambda: Sliding(evict=Count(3), when_full=cast("Any", 1)), "when_full is 1; it must be True or False"),
    ],
)
def test_what_cannot_be_is_refused(declare: Callable[[], Any], words: str) -> None:
    """Where it is declared."""
    with pytest.raises(DeclarationError, match=words):
        declare()


def test_the_order_of_both_does_not_matter_and_a_declaration_has_both() -> None:
    """What is not given is not in the declaration, so checkpoints of before fit."""
    assert AnyOf(Time(30), Count(2)) == AnyOf(Count(2), Time(30))
    assert AnyOf(Time(30), Count(2)).declaration() == {"policy": "anyOf", "rows": 2, "size_us": 30_000_000}
    plain = Sliding(evict=Count(1), partition_eviction=PartitionAge(1)).declaration()
    assert not {"aligned", "when_full"} & plain.keys()
    marked = Sliding(evict=Count(1), trigger=Time(1), aligned=True, when_full=True).declaration()
    assert (marked["aligned"], marked["when_full"]) == (True, True)
