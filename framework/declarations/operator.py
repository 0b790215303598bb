"""Operators and listeners: user classes that receive the events of a window; and which events each window has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from panekeeper.framework.declarations.errors import DeclarationError, InputError
from panekeeper.framework.declarations.events import Event, EventType
from panekeeper.framework.declarations.methods import unwanted_result
from panekeeper.framework.declarations.parameters import shown_object
from panekeeper.framework.declarations.windows import (
    Batched,
    EventTimeWindow,
    Session,
    Sliding,
    TimeInterval,
    Tumbling,
    Window,
)


class Emit(Protocol):
    """What an operator calls to emit result rows; the window adds the key, pane, refinement and reason columns."""

    def __call__(self, **columns: Any) -> None:
        """Emit one row.

        Args:
            columns: values by the names of the declared output columns; absent ones are null.

        Raises:
            DeclarationError: a name that the declared output does not have.
        """
        ...

    def table(self, rows: pa.Table) -> None:
        """Emit all rows of a table.

        Args:
            rows: its columns are some of the declared output; absent ones are null.

        Raises:
            DeclarationError: a column that the declared output does not have.
        """
        ...


class Listener(ABC):
    """Receives the events of a window before the operator does, and emits nothing (docs/semantics.md section 5.2).

    Registered by `.operator(..., listeners=[...])`. As an operator, it is sent to the workers for every micro-batch.
    """

    events: ClassVar[frozenset[EventType]] = frozenset(EventType)
    """The types of the events that `handle_event` is called with."""

    def __repr__(self) -> str:
        return shown_object(self)

    @abstractmethod
    def handle_event(self, event: Event) -> None:
        """Handle one event, and return nothing. What it raises is treated as if the operator had raised it."""


class Operator(ABC):
    """The user's own computation on the events of a window, in place of declared aggregates.

    An instance is sent to the workers for every micro-batch: attributes that are set while handling events are lost
    with the batch. State that must be persisted belongs into the window, or is stored by a `StateHandler`; an operator
    may be one itself.

    `events` is TRIGGER unless the class says otherwise. A tumbling window has no TRIGGER: its rows leave in EVICTION
    events. Which events each window has is in docs/semantics.md section 5.1; `.operator(...)` refuses an operator if
    none of its events can happen in the window.

    >>> class Spread(Operator):
    ...     def handle_event(self, event, emit):
    ...         speeds = event.column("speed")
    ...         emit(spread=float(speeds.max() - speeds.min()))
    """

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER})
    """The types of the events that `handle_event` is called with; others are never built."""

    def __repr__(self) -> str:
        return shown_object(self)

    @abstractmethod
    def handle_event(self, event: Event, emit: Emit) -> None:
        """Handle one event, and return nothing; called in order for each partition.

        Args:
            event: what happened, with the rows it concerns.
            emit: sends result rows to the log.

        What it raises for an event goes to the quarantine in place of what it emitted for this event, or fails the
        batch, by `windowed(on_error=)` (docs/semantics.md section 12).
        """


class OperatorWithListeners(Operator):
    """An operator with its listeners: each event goes to the listeners, in their order, and then to the operator."""

    def __init__(self, operator: Operator, listeners: tuple[Listener, ...]) -> None:
        self.operator = operator
        self.listeners = listeners
        self.events = frozenset(operator.events).union(*(listener.events for listener in listeners))  # type: ignore[misc]

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Pass the event to each listener and to the operator, if its type is one of theirs."""
        for listener in self.listeners:
            if event.type in listener.events:
                handle(listener, event)
        if event.type in self.operator.events:
            handle(self.operator, event, emit)


def handle(receiver: Operator | Listener, event: Event, *emit: Emit) -> None:
    """Call `handle_event`. Raises `InputError` if it returns something, such as a row that was to be emitted."""
    call: Callable[..., object] = receiver.handle_event
    returned = call(event, *emit)
    if returned is not None:
        instead = "emit each row by emit(...), and return nothing" if emit else "return nothing"
        raise InputError(unwanted_result(f"{type(receiver).__name__}.handle_event()", returned, instead))


_ARRIVAL = {EventType.INSERTION, EventType.EVICTION, EventType.FINAL}
_OF_PANES = {
    EventType.INSERTION,
    EventType.TRIGGER,
    EventType.INITIAL_FULL,
    EventType.CLOSE,
    EventType.DROP,
}
_EVENTS = {
    TimeInterval: _OF_PANES,
    Session: _OF_PANES | {EventType.MERGE},
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
    possible = frozenset(next(events for kind, events in _EVENTS.items() if isinstance(window, kind)))
    if isinstance(window, EventTimeWindow) or (window.partition_eviction is None and not has_handlers):
        return possible
    return possible | {EventType.PARTITION_EVICTION}


def require_possible_event(receiver: Operator | Listener, windows: Iterable[Window], *, has_handlers: bool) -> None:
    """Raise `DeclarationError` unless the operator or listener can receive an event of one of these windows.

    One possible event is enough: the others in `events` may belong to other windows that the same class is used with.

    Args:
        receiver: the operator or listener.
        windows: the windows whose events it receives.
        has_handlers: as for `possible_events`.
    """
    name, windows = type(receiver).__name__, tuple(windows)
    events: object = receiver.events  # of a class that no type checker has seen
    if not isinstance(events, Collection):
        raise DeclarationError(
            f"{name}.events is {events!r}, which is no set; in the class write, for example, "
            "events = frozenset({EventType.TRIGGER})"
        )
    for event in receiver.events:
        if not isinstance(event, EventType):
            raise DeclarationError(f"{name}.events contains {event!r}; use members of EventType, as EventType.TRIGGER")
    possible = frozenset[EventType]().union(*(possible_events(window, has_handlers=has_handlers) for window in windows))
    if possible.isdisjoint(receiver.events):
        kinds = " and ".join(dict.fromkeys(type(window).__name__ for window in windows))
        results = EventType.EVICTION if EventType.TRIGGER not in possible else EventType.TRIGGER
        raise DeclarationError(
            f"{name}.events is {_names(receiver.events)}, which never happens in a {kinds} window, so handle_event "
            f"would never be called; this window has {_names(possible)}. In the class write, for example, "
            f"events = frozenset({{EventType.{results.name}}})"
        )


def _names(events: frozenset[EventType]) -> str:
    return ", ".join(sorted(event.name for event in events)) or "empty"
