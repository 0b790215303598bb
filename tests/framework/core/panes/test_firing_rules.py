"""When panes fire, by the rules that a window declares: examples by hand (docs/semantics.md section 6.7)."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from panekeeper import EventType, Every, Session, TimeInterval, agg
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.declarations.events import Event
from panekeeper.framework.declarations.operator import Emit, Operator
from panekeeper.state.store import MemoryStore
from tests.framework.core.panes.firings import FLUSH, clock, rows, run, shown, spec_of, watermark


class Firings(Operator):
    """Emits the events of a firing: type, timing and index, and how many rows the pane has."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.INITIAL_FULL, EventType.TRIGGER, EventType.CLOSE})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit one row."""
        how = f" {event.timing.value} {event.index}" if event.type is EventType.TRIGGER else ""
        emit(event=f"{event.type.value}{how}: {event.table.num_rows}")


EVENTS = pa.schema([("event", pa.string())])


def test_a_pane_that_emits_on_close_fires_once() -> None:
    """All rows, late ones too, are in one firing of each partition, when the pane closes."""
    batches = [[rows(("a", 1, 1), ("b", 1, 1))], [watermark(10), rows(("a", 2, 2))], [watermark(12), rows(("c", 3, 4))]]
    window = TimeInterval(10, discard_age=5, emit="on_close")
    log = run(spec_of(window), [*batches, [watermark(14.9)], [watermark(15)], [watermark(99)]])
    #   a: 1 2    b: 1    c: 4, first seen late
    assert shown(log, "sum", "refinement", "is_final", "reason") == [
        ("a", 0, 3, 0, True, "WATERMARK"),
        ("b", 0, 1, 0, True, "WATERMARK"),
        ("c", 0, 4, 0, True, "WATERMARK"),
    ]


def test_an_operator_of_panes_that_emit_on_close_gets_its_events_then() -> None:
    """INITIAL_FULL, TRIGGER and CLOSE, once for each partition."""
    window = TimeInterval(10, discard_age=5, emit="on_close")
    log = run(spec_of(window, Firings(), EVENTS), [[rows(("a", 1, 1))], [watermark(12)], [watermark(15)]])
    assert [one for *_, one in shown(log, "event")] == ["initial_full: 1", "trigger onComplete 0: 1", "close: 1"]


def test_a_flush_fires_panes_that_would_emit_on_close() -> None:
    """It closes them."""
    window = TimeInterval(10, discard_age=50, emit="on_close")
    log = run(spec_of(window), [[rows(("a", 1, 1))], [watermark(10), rows(("a", 2, 2)), FLUSH]])
    assert shown(log, "sum", "reason", "is_final") == [("a", 0, 3, "FLUSH", True)]


def test_a_pane_that_emits_on_update_fires_after_each_batch_that_changed_it() -> None:
    """Early before its end, late after it, and as complete when the watermark reaches the end, changed or not."""
    window = TimeInterval(10, discard_age=5, emit="on_update")
    log = run(
        spec_of(window),
        [
            [rows(("a", 1, 1), ("b", 1, 1), ("a", 11, 1))],  # all three change
            [rows(("a", 2, 2), ("a", 3, 4))],  # a in [0, 10), once
            [watermark(5)],  # nothing
            [watermark(10)],  # complete
            [rows(("a", 4, 8), ("c", 4, 8))],  # late: without a watermark; c for the first time
            [rows(("a", 5, 16)), watermark(15)],  # closes within the batch
        ],
    )
    assert shown(log, "sum", "refinement", "is_final", "reason") == [
        ("a", 0, 1, 0, False, "EARLY"),
        ("b", 0, 1, 0, False, "EARLY"),
        ("a", 10, 1, 0, False, "EARLY"),
        ("a", 0, 7, 1, False, "EARLY"),
        ("a", 0, 7, 2, False, "WATERMARK"),
        ("b", 0, 1, 1, False, "WATERMARK"),
        ("a", 0, 15, 3, False, "LATE"),
        ("c", 0, 8, 0, False, "LATE"),
        ("a", 0, 31, 4, True, "LATE"),
    ]


def test_an_operator_gets_early_firings_as_triggers_with_timing_early() -> None:
    """INITIAL_FULL comes with the firing as complete, also after early ones."""
    window = TimeInterval(10, discard_age=5, emit="on_update")
    batches = [[rows(("a", 1, 1))], [rows(("a", 2, 1))], [watermark(10)], [rows(("a", 3, 1), ("b", 3, 1))]]
    log = run(spec_of(window, Firings(), EVENTS), [*batches, [watermark(15)]])
    assert shown(log, "event") == [
        ("a", 0, "trigger early 0: 1"),
        ("a", 0, "trigger early 1: 2"),
        ("a", 0, "initial_full: 2"),
        ("a", 0, "trigger onComplete 2: 2"),
        ("b", 0, "initial_full: 1"),
        ("a", 0, "trigger late 3: 3"),
        ("b", 0, "trigger onComplete 0: 1"),
        ("a", 0, "close: 3"),
        ("b", 0, "close: 1"),
    ]


def test_a_row_of_panes_that_overlap_updates_each_of_them() -> None:
    """Each open pane that the row joins fires."""
    window = TimeInterval(10, creation_period=5, emit="on_update")
    log = run(spec_of(window), [[rows(("a", 7, 1))], [rows(("a", 12, 2))]])
    assert shown(log, "sum") == [("a", 0, 1), ("a", 5, 1), ("a", 5, 3), ("a", 10, 2)]


def test_nothing_is_left_of_what_panes_have_fired() -> None:
    """Once they have closed, the store has no entry."""
    store, window = MemoryStore(), TimeInterval(10, discard_age=5, emit="on_update")
    run(
        spec_of(window), [[rows(("a", 1, 1), ("a", 22, 1))], [watermark(10), rows(("a", 2, 1))], [watermark(50)]], store
    )
    assert store.entries == {}


def test_a_pane_fires_early_exactly_at_each_nth_row_of_a_partition() -> None:
    """Wherever the batches end, with the value of the rows so far; late rows do not count."""
    values = rows(*(("a", 1, 1) for _ in range(5)), ("b", 1, 10), *(("a", 2, 100) for _ in range(2)), ("b", 2, 20))
    window = TimeInterval(10, discard_age=5, early=Every(rows=3))
    log = run(spec_of(window), [[values], [watermark(10), rows(("a", 3, 7))], [watermark(11)]])
    #   a: 1 1 1 | 1 1 100 | 100    b: 10 20
    assert shown(log, "n", "sum", "refinement", "reason") == [
        ("a", 0, 3, 3, 0, "EARLY"),
        ("a", 0, 6, 105, 1, "EARLY"),
        ("a", 0, 7, 205, 2, "WATERMARK"),
        ("b", 0, 2, 30, 0, "WATERMARK"),
        ("a", 0, 8, 212, 3, "LATE"),
    ]


def test_a_row_counts_in_each_of_the_panes_that_overlap() -> None:
    """Each pane fires at its own second row."""
    window = TimeInterval(10, creation_period=5, early=Every(rows=2))
    log = run(spec_of(window), [[rows(("a", 7, 1), ("a", 8, 2), ("a", 12, 4), ("a", 13, 8))]])
    #   [0, 10): 1 2    [5, 15): 1 2 4 8    [10, 20): 4 8
    assert shown(log, "sum") == [("a", 0, 3), ("a", 5, 3), ("a", 5, 15), ("a", 10, 12)]


def test_a_pane_fires_early_by_the_wall_clock() -> None:
    """First one period after the partition's first row, then each period while it has new rows; nothing else is due."""
    window, store = TimeInterval(100, early=Every("10 seconds")), MemoryStore()
    spec = spec_of(window)
    due = [
        KeyGroupRunner(spec, store).run(steps).due_us
        for steps in (
            [clock(1003), rows(("a", 1, 1))],
            [clock(1005), rows(("b", 1, 1))],
            [clock(1013)],  # a fires
            [clock(1020), rows(("a", 2, 2))],  # b fires; a again at 1023, as it would with a row every second
            [clock(1041)],  # a fires once, for two instants
            [watermark(100)],
        )
    ]
    assert [None if at is None else at / 1e6 for at in due] == [1013, 1013, 1015, 1023, None, None]


def test_what_one_tick_makes_due_fires_by_the_ends_of_panes() -> None:
    """Not by the instants at which each was due; two ticks fire one after the other. Sessions do the same."""
    #   rows arrive at 1000 (pane 200), 1004 (pane 0), 1008 (pane 100), so these are due at 1010, 1014 and 1018
    arrived = [clock(1000), rows(("a", 201, 1)), clock(1004), rows(("a", 1, 2)), clock(1008), rows(("a", 101, 4))]
    for window in (TimeInterval(100, early=Every("10 seconds")), Session(50, early=Every("10 seconds"))):
        for ticks, expected in (([1040], [2, 4, 1]), ([1010, 1040], [1, 2, 4]), ([1010, 1014, 1018], [1, 2, 4])):
            log = run(spec_of(window), [arrived, [clock(at) for at in ticks]])
            assert log.column("sum").to_pylist() == expected


def test_what_is_due_by_the_clock_fires_before_a_row_that_comes_then() -> None:
    """A tick that comes late changes nothing: the row is not in the firing that was due before it."""
    spec = spec_of(TimeInterval(100, early=Every("10 seconds")))
    ticks = [[clock(0), rows(("a", 1, 1))], [clock(10)], [clock(12), rows(("a", 2, 2))], [clock(20)]]
    late = [[clock(0), rows(("a", 1, 1))], [clock(12), rows(("a", 2, 2))], [clock(35)]]
    expected = [("a", 0, 1, "EARLY"), ("a", 0, 3, "EARLY")]
    assert shown(run(spec, ticks), "sum", "reason") == expected == shown(run(spec, late), "sum", "reason")


def test_a_pane_fires_early_when_the_watermark_passes_a_multiple() -> None:
    """Where it has new rows, once however many multiples were passed, until it completes."""
    window = TimeInterval(100, early=Every(event_time="10 seconds"))
    steps = [rows(("a", 1, 1))], [watermark(9)], [watermark(11)], [watermark(19), rows(("a", 50, 2))], [watermark(55)]
    log = run(spec_of(window), [*steps, [watermark(99)], [rows(("a", 60, 4)), watermark(100)]])
    #   1 at 11, with 2 at 55; the first watermark passes nothing
    assert shown(log, "sum", "refinement", "reason") == [
        ("a", 0, 1, 0, "EARLY"),
        ("a", 0, 3, 1, "EARLY"),
        ("a", 0, 7, 2, "WATERMARK"),
    ]


def test_a_pane_that_fired_early_asks_for_the_next_watermark_only_with_new_rows() -> None:
    """So an idle job is not woken up."""
    spec, store = spec_of(TimeInterval(100, early=Every(event_time="10 seconds"))), MemoryStore()
    due = [
        KeyGroupRunner(spec, store).run(steps).due_watermark_us
        for steps in ([watermark(3), rows(("a", 1, 1))], [watermark(10)], [rows(("a", 2, 1))])
    ]
    assert due == [10_000_000, 100_000_000, 20_000_000]


def test_late_rows_fire_at_each_nth_of_a_partition_and_the_rest_when_the_pane_closes() -> None:
    """Not at each watermark; a partition that is first seen late fires as complete at the next one."""
    window = TimeInterval(10, discard_age=5, refire=Every(rows=2))
    first, late = rows(("a", 1, 1)), rows(("a", 2, 2), ("b", 2, 7), ("a", 3, 4), ("a", 4, 8))
    log = run(spec_of(window), [[first], [watermark(10), late], [watermark(11)], [rows(("b", 2, 9))], [watermark(15)]])
    assert shown(log, "sum", "refinement", "reason", "is_final") == [
        ("a", 0, 1, 0, "WATERMARK", False),
        ("a", 0, 7, 1, "LATE", False),
        ("b", 0, 7, 0, "LATE", False),
        ("a", 0, 15, 2, "LATE", True),
        ("b", 0, 16, 1, "LATE", True),
    ]


def test_late_rows_fire_by_the_wall_clock() -> None:
    """At the instants that lie whole periods after the partition's first row in the pane, while there are new rows."""
    window = TimeInterval(10, discard_age=5, refire=Every("1 minute"))
    steps = [clock(1000), rows(("a", 1, 1))], [clock(1030), watermark(10), rows(("a", 2, 2))], [watermark(12)]
    log = run(spec_of(window), [*steps, [clock(1059)], [clock(1060)], [clock(1120)], [watermark(15)]])
    assert shown(log, "sum", "refinement", "reason") == [("a", 0, 1, 0, "WATERMARK"), ("a", 0, 3, 1, "LATE")]


def test_early_and_late_rules_go_together() -> None:
    """The count begins anew with each firing; an operator sees early, onComplete and late."""
    window = TimeInterval(10, discard_age=5, early=Every(rows=2), refire=Every(rows=3))
    early, late = [rows(("a", 1, 1), ("a", 1, 1), ("a", 1, 1))], [rows(*(("a", 2, 1) for _ in range(4)))]
    log = run(spec_of(window, Firings(), EVENTS), [early, [watermark(10)], late, [watermark(15)]])
    assert [one for *_, one in shown(log, "event")] == [
        "trigger early 0: 2",
        "initial_full: 3",
        "trigger onComplete 1: 3",
        "trigger late 2: 6",
        "trigger late 3: 7",
        "close: 7",
    ]


def test_discarding_results_have_the_rows_since_the_last_firing() -> None:
    """Also those of panes that overlap; the firing as complete comes without new rows, too, with results of none."""
    window = TimeInterval(10, creation_period=5, discard_age=5, early=Every(rows=2), results="discarding")
    first = rows(("a", 1, 1), ("a", 7, 2), ("a", 8, 4), ("a", 9, 8))
    log = run(spec_of(window), [[first], [watermark(10), rows(("a", 6, 16))], [watermark(15)], [watermark(99)]])
    #   [-5, 5): 1    [0, 10): 1 2 | 4 8 | | 16    [5, 15): 2 4 | 8 16 |
    assert [row for row in shown(log, "n", "sum", "reason") if row[1] == 0] == [
        ("a", 0, 2, 3, "EARLY"),
        ("a", 0, 2, 12, "EARLY"),
        ("a", 0, 0, None, "WATERMARK"),
        ("a", 0, 1, 16, "LATE"),
    ]
    assert [row for row in shown(log, "n", "sum", "reason") if row[1] == 5] == [
        ("a", 5, 2, 6, "EARLY"),
        ("a", 5, 2, 24, "EARLY"),
        ("a", 5, 0, None, "WATERMARK"),
    ]


def test_retracting_results_take_back_the_one_before() -> None:
    """With its values and its refinement, before the new one: the sum over `op` times a value is always the newest."""
    window = TimeInterval(10, discard_age=5, early=Every(rows=2), results="retracting")
    first = rows(("a", 1, 1), ("b", 1, 7), ("a", 2, 2), ("a", 3, 4))
    log = run(spec_of(window), [[first], [watermark(10), rows(("a", 4, 8))], [watermark(15)]])
    assert shown(log, "sum", "op", "refinement", "reason", "is_final") == [
        ("a", 0, 3, 1, 0, "EARLY", False),
        ("a", 0, 3, -1, 0, "WATERMARK", False),
        ("a", 0, 7, 1, 1, "WATERMARK", False),
        ("b", 0, 7, 1, 0, "WATERMARK", False),
        ("a", 0, 7, -1, 1, "LATE", False),
        ("a", 0, 15, 1, 2, "LATE", True),
    ]


def test_nothing_is_left_of_what_was_shown() -> None:
    """Once panes have closed, the store has no entry, whatever their results were."""
    for results in ("discarding", "retracting"):
        store, window = MemoryStore(), TimeInterval(10, discard_age=5, early=Every(rows=1), results=results)
        run(spec_of(window), [[rows(("a", 1, 1), ("a", 22, 1))], [watermark(10), rows(("a", 2, 1))]], store)
        assert store.entries
        run(spec_of(window), [[watermark(50)]], store)
        assert store.entries == {}


def test_a_pane_fires_at_each_row_after_which_a_condition_holds() -> None:
    """Exactly there, for its own partition, and when it is complete."""
    window = TimeInterval(10, discard_age=5, fires_when="sum >= 9")
    first = rows(("a", 1, 4), ("b", 1, 8), ("a", 2, 5), ("a", 3, -3), ("a", 4, 4))
    log = run(spec_of(window), [[first], [watermark(10), rows(("b", 2, 1))], [watermark(15)]])
    #   a: 4 9! 6 10!    b: 8 | 9!, late
    assert shown(log, "n", "sum", "reason", "refinement") == [
        ("a", 0, 2, 9, "EARLY", 0),
        ("a", 0, 4, 10, "EARLY", 1),
        ("a", 0, 4, 10, "WATERMARK", 2),
        ("b", 0, 1, 8, "WATERMARK", 0),
        ("b", 0, 2, 9, "LATE", 1),
    ]


def test_a_pane_that_begins_anew_is_empty_after_it_has_fired() -> None:
    """As a count of three, or a sum, in each pane; what is left fires when the pane is complete, nothing if none is."""
    window = TimeInterval(10, creation_period=5, fires_when="sum >= 9 or n == 3", then="begin_anew")
    first = rows(("a", 6, 9), ("a", 7, 1), ("a", 8, 1), ("a", 9, 1), ("a", 12, 2), ("a", 13, 5), ("b", 7, 9))
    log = run(spec_of(window), [[first], [watermark(10)], [watermark(15)]])
    #   [0, 10): 9! 1 1 1!    [5, 15): 9! 1 1 1! 2 5    [10, 20): 2 5
    assert shown(log, "n", "sum", "reason", "refinement") == [
        ("a", 0, 1, 9, "EARLY", 0),
        ("b", 0, 1, 9, "EARLY", 0),
        ("a", 5, 1, 9, "EARLY", 0),
        ("b", 5, 1, 9, "EARLY", 0),
        ("a", 0, 3, 3, "EARLY", 1),
        ("a", 5, 3, 3, "EARLY", 1),
        ("a", 5, 2, 7, "WATERMARK", 2),
    ]


def test_a_condition_is_tried_at_every_row_however_many_come_at_once() -> None:
    """Rows are tried many at once, and those after a firing again; floats add up as row by row."""
    values = [(k, 1, v) for v in range(1, 400) for k in "abc"]
    window = TimeInterval(10, fires_when="n % 7 == 0 and mean > 0")
    by_rows = spec_of(window, n=agg.count(), sum=agg.sum("v"), mean=agg.mean("v"))
    one_by_one = [[rows(value)] for value in values]
    expected = shown(run(by_rows, one_by_one), "n", "sum", "refinement")
    assert sorted(shown(run(by_rows, [[rows(*values)]]), "n", "sum", "refinement")) == sorted(expected)
    assert len(expected) == 3 * (399 // 7)


def test_a_partition_first_seen_after_the_end_is_not_early_whoever_else_is_in_the_pane() -> None:
    """It fires as complete at the next advancing watermark, alone in its key group or not."""
    spec = spec_of(TimeInterval(10, discard_age=5, early=Every(rows=1)))
    late = [[watermark(10), rows(("a", 1, 1))], [watermark(11)]]
    together = shown(run(spec, [[rows(("b", 1, 1))], *late]), "sum", "reason")
    assert [row for row in together if row[0] == "a"] == [("a", 0, 1, "LATE")]
    assert shown(run(spec, late), "sum", "reason") == [("a", 0, 1, "LATE")]
