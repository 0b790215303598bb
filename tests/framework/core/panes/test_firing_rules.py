"""When panes fire, by the rules that a window declares: examples by hand (docs/semantics.md section 6.7)."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from panekeeper import EventType, TimeInterval
from panekeeper.framework.declarations.events import Event
from panekeeper.framework.declarations.operator import Emit, Operator
from panekeeper.state.store import MemoryStore
from tests.framework.core.panes.firings import FLUSH, rows, run, shown, spec_of, watermark


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
