"""Which events can happen in which window, and the refusal of an operator or listener that would never be called."""

from __future__ import annotations

from collections.abc import Iterable

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.events import EventType
from panekeeper.framework.declarations.operator import Listener, Operator
from panekeeper.framework.declarations.windows import Batched, Sliding, TimeInterval, Tumbling, Window

_ARRIVAL = {EventType.INSERTION, EventType.EVICTION, EventType.FINAL}
_EVENTS = {
    TimeInterval: {
        EventType.INSERTION,
        EventType.TRIGGER,
        EventType.INITIAL_FULL,
        EventType.CLOSE,
        EventType.DROP,
    },
    Tumbling: _ARRIVAL,
    Sliding: _ARRIVAL | {EventType.TRIGGER, EventType.INITIAL_FULL},
    Batched: _ARRIVAL | {EventType.TRIGGER},
}


def possible_events(window: Window, *, has_handlers: bool) -> frozenset[EventType]:
    """Return the types of the events that can happen in a window (docs/semantics.md section 5.1).

    Args:
        window: the declared window.
        has_handlers: whether the job has state handlers, which may evict partitions in a drain.
    """
    found = frozenset(next(events for kind, events in _EVENTS.items() if isinstance(window, kind)))
    if isinstance(window, TimeInterval) or (window.partition_eviction is None and not has_handlers):
        return found
    return found | {EventType.PARTITION_EVICTION}


def require_possible_event(receiver: Operator | Listener, windows: Iterable[Window], *, has_handlers: bool) -> None:
    """Raise `DeclarationError` unless the operator or listener can receive an event of one of these windows.

    One possible event is enough: the others in `events` may belong to other windows that the same class is used with.

    Args:
        receiver: the operator or listener.
        windows: the windows whose events it receives.
        has_handlers: as for `possible_events`.
    """
    name, windows = type(receiver).__name__, tuple(windows)
    for event in receiver.events:
        if not isinstance(event, EventType):
            raise DeclarationError(f"{name}.events contains {event!r}; use members of EventType, as EventType.TRIGGER")
    possible = frozenset[EventType]().union(*(possible_events(one, has_handlers=has_handlers) for one in windows))
    if possible.isdisjoint(receiver.events):
        kinds = " and ".join(dict.fromkeys(type(one).__name__ for one in windows))
        results = EventType.EVICTION if EventType.TRIGGER not in possible else EventType.TRIGGER
        raise DeclarationError(
            f"{name}.events is {_names(receiver.events)}, which never happens in a {kinds} window, so handle_event "
            f"would never be called; this window has {_names(possible)}. In the class write, for example, "
            f"events = frozenset({{EventType.{results.name}}})"
        )


def _names(events: frozenset[EventType]) -> str:
    return ", ".join(sorted(event.name for event in events)) or "empty"
