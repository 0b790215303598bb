"""Operators and listeners: user classes that receive the events of a window, with its rows as Arrow tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from panekeeper.framework.declarations.events import Event, EventType


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

    @abstractmethod
    def handle_event(self, event: Event) -> None:
        """Handle one event. What it raises is treated as if the operator had raised it."""


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

    @abstractmethod
    def handle_event(self, event: Event, emit: Emit) -> None:
        """Handle one event; called in order for each partition.

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
        self.events = operator.events.union(*(listener.events for listener in listeners))  # type: ignore[misc]

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Pass the event to each listener and to the operator, if its type is one of theirs."""
        for listener in self.listeners:
            if event.type in listener.events:
                listener.handle_event(event)
        if event.type in self.operator.events:
            self.operator.handle_event(event, emit)
