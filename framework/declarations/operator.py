"""An operator handles the events of a window itself, with the raw tuples, instead of declared aggregates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from framework.declarations.events import Event, EventType


class Emit(Protocol):
    """What an operator calls to send results; key, pane, refinement and reason are added by the window."""

    def __call__(self, **columns: Any) -> None:
        """Emit one row; the names are the columns of the declared output, absent ones are null."""
        ...

    def table(self, rows: pa.Table) -> None:
        """Emit many rows at once; the columns are those of the declared output."""
        ...


class Listener(ABC):
    """Hears the events of a window before the operator does [S3]; emits nothing.

    Subscribed by `.operator(..., listeners=[...])`. As an operator, it is sent to the workers anew for every batch.
    """

    events: ClassVar[frozenset[EventType]] = frozenset(EventType)
    """The event types that it hears."""

    @abstractmethod
    def handle_event(self, event: Event) -> None:
        """Hear one event. An exception fails the batch, which is replayed."""


class Operator(ABC):
    """The user's own logic against the events of a window.

    An instance is sent to the workers anew for every micro-batch: attributes set while handling events do not
    survive. What must survive belongs into the window, or is kept by a `StateHandler`, which an operator may be.

    >>> class Spread(Operator):
    ...     def handle_event(self, event, emit):
    ...         speeds = event.column("speed")
    ...         emit(spread=float(speeds.max() - speeds.min()))
    """

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.TRIGGER})
    """The event types that `handle_event` is called for; unwanted ones are never built."""

    @abstractmethod
    def handle_event(self, event: Event, emit: Emit) -> None:
        """Handle one event. Called in order for each partition; an exception fails the batch, which is replayed."""


class Heard(Operator):
    """An operator behind its listeners: each event goes to the listeners, in their order, and then to the operator."""

    def __init__(self, operator: Operator, listeners: tuple[Listener, ...]) -> None:
        self.operator = operator
        self.listeners = listeners
        self.events = operator.events.union(*(listener.events for listener in listeners))  # type: ignore[misc]

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Tell everybody who wants to hear of it."""
        for listener in self.listeners:
            if event.type in listener.events:
                listener.handle_event(event)
        if event.type in self.operator.events:
            self.operator.handle_event(event, emit)
