"""An operator or listener that could never be called is refused, and the events of each window are those it makes."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper import (
    Batched,
    Count,
    DeclarationError,
    Event,
    EventType,
    Listener,
    Operator,
    PartitionCount,
    Session,
    Sliding,
    Time,
    TimeInterval,
    Tumbling,
)
from panekeeper.framework.declarations.operator import possible_events, require_possible_event
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.testing.vector import parse
from panekeeper.testing import play, run

WINDOWS: list[Window] = [TimeInterval(10), Tumbling(Count(2)), Sliding(evict=Count(2)), Batched(every=2, retain=2)]
TUMBLING_AND_PANES: list[Window] = [Tumbling(Count(2)), TimeInterval(10)]
TUMBLING_AND_SLIDING: list[Window] = [Tumbling(Count(2)), Sliding(evict=Count(2))]


def operator_of(*events: Any) -> Operator:
    """An operator that takes these events."""

    class Picky(Operator):
        def handle_event(self, event: Event, emit: Any) -> None: ...

    made = Picky()
    made.events = frozenset(events)  # type: ignore[misc]
    return made


class Everything(Listener):
    def handle_event(self, event: Event) -> None: ...


class OnlyDropped(Everything):
    events = frozenset({EventType.DROP})


class Plain(Operator):
    def handle_event(self, event: Event, emit: Any) -> None: ...


def test_the_default_events_of_an_operator_never_happen_in_a_tumbling_window() -> None:
    """The message names the operator, the event, the events there are, and the line to write."""
    with pytest.raises(DeclarationError) as caught:
        require_possible_event(Plain(), [Tumbling(Count(2))], has_handlers=False)
    assert str(caught.value) == (
        "Plain.events is TRIGGER, which never happens in a Tumbling window, so handle_event would never be called; "
        "this window has EVICTION, FINAL, INSERTION. In the class write, for example, "
        "events = frozenset({EventType.EVICTION})"
    )


@pytest.mark.parametrize("window", WINDOWS[:1] + WINDOWS[2:], ids=lambda window: type(window).__name__)
def test_the_default_events_happen_in_every_other_window(window: Any) -> None:
    """They fire."""
    require_possible_event(Plain(), [window], has_handlers=False)


@pytest.mark.parametrize("events", [[EventType.TRIGGER], (EventType.TRIGGER,), {EventType.TRIGGER}])
def test_events_may_be_in_a_list(events: Any) -> None:
    """Also beside listeners, whose events are added."""

    class Counts(Operator):
        def handle_event(self, event: Event, emit: Any) -> None:
            emit(n=1)

    operator, listener = Counts(), Everything()
    operator.events = listener.events = events  # type: ignore[misc]
    given: Any = {"operator": operator, "listeners": [listener], "output": "n long", "schema": "v long"}
    assert len(run(Sliding(evict=Count(1)), script=[[{"v": 1}]], **given)) == 1
    given |= {"schema": "t timestamp", "event_time": "t"}
    assert len(run(TimeInterval(1), script=[[{"t": 1}, {"t": 5}]], **given)) == 1
    assert len(run(Session(1), script=[[{"t": 1}, {"t": 5}]], **given)) == 1


@pytest.mark.parametrize("events", [EventType.TRIGGER, None, 7])
def test_events_that_are_no_set_are_refused(events: Any) -> None:
    """With the line to write."""
    operator = Plain()
    operator.events = events  # type: ignore[misc]
    with pytest.raises(DeclarationError, match=r"Plain\.events is .* no set; .* events = frozenset\(\{EventType"):
        require_possible_event(operator, [TimeInterval(10)], has_handlers=False)


def test_one_possible_event_is_enough() -> None:
    """The same class may serve windows of several kinds."""
    require_possible_event(operator_of(EventType.TRIGGER, EventType.EVICTION), [Tumbling(Count(2))], has_handlers=False)


def test_a_partition_is_evicted_by_a_limit_or_by_a_handler() -> None:
    """Without either, an operator that waits for it waits for ever."""
    waiting = operator_of(EventType.PARTITION_EVICTION)
    require_possible_event(waiting, [Tumbling(Count(2))], has_handlers=True)
    limited = Tumbling(Count(2), partition_eviction=PartitionCount(9))
    require_possible_event(waiting, [limited], has_handlers=False)
    for window in WINDOWS:
        with pytest.raises(DeclarationError, match=r"Picky\.events is PARTITION_EVICTION, which never happens"):
            require_possible_event(waiting, [window], has_handlers=False)
    with pytest.raises(DeclarationError, match="never happens in a TimeInterval"):
        require_possible_event(waiting, [TimeInterval(10)], has_handlers=True)


def test_a_listener_needs_an_event_of_one_port() -> None:
    """It receives those of all."""
    require_possible_event(Everything(), [Tumbling(Count(2))], has_handlers=False)
    require_possible_event(OnlyDropped(), TUMBLING_AND_PANES, has_handlers=False)
    with pytest.raises(
        DeclarationError, match=r"OnlyDropped\.events is DROP, which never happens in a Tumbling and Sliding"
    ):
        require_possible_event(OnlyDropped(), TUMBLING_AND_SLIDING, has_handlers=False)


def test_events_are_members_of_the_enumeration() -> None:
    """A text would silently match nothing."""
    with pytest.raises(DeclarationError, match=r"Picky\.events contains 'trigger'; use members of EventType"):
        require_possible_event(operator_of("trigger"), WINDOWS, has_handlers=False)
    with pytest.raises(DeclarationError, match=r"Picky\.events is empty"):
        require_possible_event(operator_of(), WINDOWS, has_handlers=False)


VECTORS: list[dict[str, Any]] = [
    {
        "window": {"kind": "timeInterval", "intervalDuration": 10, "event_time": "ts"},
        "input": [{"value": {"ts": 1}}, {"watermark": 30}, {"value": {"ts": 2}}, {"watermark": 40}],
    },
    {
        "window": {"kind": "tumbling", "eviction": {"policy": "count", "size": 2}},
        "input": [{"at": at, "value": {"v": at}} for at in (1, 2, 3)] + [{"at": 4, "punct": "final"}],
    },
    {
        "window": {"kind": "sliding", "eviction": {"policy": "count", "size": 2}},
        "input": [{"at": at, "value": {"v": at}} for at in (1, 2, 3)] + [{"at": 4, "punct": "final"}],
    },
    {
        "window": {"kind": "batched", "every": 1, "retain": 2},
        "input": [{"at": at, "value": {"v": at}} for at in (1, 2, 3)] + [{"at": 4, "punct": "final"}],
    },
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["window"]["kind"])
def test_the_events_of_a_window_are_those_that_it_makes(vector: dict[str, Any]) -> None:
    """One played vector of each kind has every event that the table promises, and no other."""
    made = {EventType(event["event"]) for event in play(vector)}
    assert made == possible_events(parse(vector).window, has_handlers=False)


def test_a_window_of_a_subclass_has_the_events_of_its_kind() -> None:
    """A user may give a window a name of their own."""

    class Dozen(Tumbling):
        pass

    assert possible_events(Dozen(Count(12)), has_handlers=False) == possible_events(
        Tumbling(Count(12)), has_handlers=False
    )


def test_time_goes_by_the_wall_clock_in_its_own_words() -> None:
    """Whoever writes `Tumbling(Time(30))` for event time reads of the other window at once."""
    for documented in (Time.__doc__, Tumbling.__doc__):
        assert documented is not None
        assert "wall clock" in documented
        assert "TimeInterval(30)" in documented
