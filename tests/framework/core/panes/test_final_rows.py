"""`is_final`: which firing of a partition and pane is the last one (docs/semantics.md section 6.6)."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from panekeeper import EventType, TimeInterval
from panekeeper.framework.declarations.events import Event
from panekeeper.framework.declarations.operator import Emit, Operator
from tests.framework.core.panes.firings import FLUSH, rows, run, shown, spec_of, watermark


def test_without_a_discard_age_every_firing_is_the_last_of_its_pane() -> None:
    """A pane that closes as it completes fires once, and that row is final."""
    log = run(spec_of(TimeInterval(10)), [[rows(("a", 1, 1), ("b", 2, 2), ("a", 11, 3))], [watermark(20)]])
    #   [0, 10): a 1, b 2    [10, 20): a 3
    assert shown(log, "sum", "is_final") == [("a", 0, 1, True), ("b", 0, 2, True), ("a", 10, 3, True)]


def test_only_a_firing_with_which_the_pane_closes_is_final() -> None:
    """A pane that may still fire again has no final row; one that closes with new rows has one."""
    first, second = rows(("a", 1, 1), ("b", 1, 1)), [watermark(10), rows(("a", 2, 2))]
    third, fourth = [watermark(12), rows(("a", 3, 4))], [watermark(15)]
    log = run(spec_of(TimeInterval(10, discard_age=5)), [[first], second, third, fourth, [watermark(99)]])
    #   a: 1 | 1 2 | 1 2 3, as it closes    b: 1, and nothing since
    assert shown(log, "sum", "refinement", "is_final") == [
        ("a", 0, 1, 0, False),
        ("b", 0, 1, 0, False),
        ("a", 0, 3, 1, False),
        ("a", 0, 7, 2, True),
    ]


def test_a_flush_fires_for_the_last_time() -> None:
    """Whatever a flush fires is final: it closes every pane."""
    spec = spec_of(TimeInterval(10, discard_age=50))
    log = run(spec, [[rows(("a", 1, 1), ("a", 11, 1))], [watermark(10), rows(("a", 2, 2))], [FLUSH]])
    assert shown(log, "sum", "reason", "is_final") == [
        ("a", 0, 1, "WATERMARK", False),
        ("a", 0, 3, "FLUSH", True),
        ("a", 10, 1, "FLUSH", True),
    ]


class EveryEvent(Operator):
    """Emits the name of each event of a pane."""

    events: ClassVar[frozenset[EventType]] = frozenset(
        {EventType.INSERTION, EventType.INITIAL_FULL, EventType.TRIGGER, EventType.CLOSE}
    )

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Emit one row."""
        emit(event=event.type.value)


def test_rows_of_an_operator_say_it_at_trigger_and_close() -> None:
    """What is emitted at CLOSE is final; at INSERTION and INITIAL_FULL nothing is said."""
    spec = spec_of(TimeInterval(10, discard_age=5), EveryEvent(), pa.schema([("event", pa.string())]))
    log = run(spec, [[rows(("a", 1, 1))], [watermark(10), rows(("a", 2, 2))], [watermark(15)]])
    assert shown(log, "event", "is_final") == [
        ("a", 0, "insertion", None),
        ("a", 0, "initial_full", None),
        ("a", 0, "trigger", False),
        ("a", 0, "insertion", None),
        ("a", 0, "trigger", True),
        ("a", 0, "close", True),
    ]
