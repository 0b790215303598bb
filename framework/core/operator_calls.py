"""Calls of an operator: what it raises for one event goes to the quarantine, and the others keep what they emitted.

The rule is docs/semantics.md section 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from panekeeper.framework.core.emit_buffer import EmitBuffer, Origin
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.quarantine import USER_ERROR, FiringPlace, Quarantine
from panekeeper.framework.declarations.errors import DeclarationError, EventError, LifecycleError
from panekeeper.framework.declarations.events import Event
from panekeeper.framework.declarations.operator import Operator, OperatorWithListeners

_WRONG_CODE = (DeclarationError, EventError, LifecycleError)
"""Errors that are in the code, whatever the rows are: they fail the batch."""


class OperatorCalls:
    """Calls one operator, and collects what it emits."""

    def __init__(
        self, spec: JobSpec, operator: Operator, quarantine: Quarantine, place: Callable[[Origin], FiringPlace]
    ) -> None:
        self._operator = operator
        self._quarantine = quarantine
        self._place = place
        self._emitted = EmitBuffer(spec.output)
        own = operator.operator if isinstance(operator, OperatorWithListeners) else operator
        self._name = type(own).__name__

    def end_window(self, origin: Origin) -> None:
        """Emit a window mark alone, where the operator does not handle the tumble."""
        self._emitted.begin_event(origin)
        self._emitted.end_of_window(always=True)

    def call(
        self,
        event: Event,
        origin: Origin,
        *,
        ends_window: bool = False,
        always: bool = False,
        parts: Callable[[], Iterable[Event]] | None = None,
    ) -> None:
        """Call the operator with an event.

        Args:
            event: what it handles.
            origin: of what it emits.
            ends_window: a window mark follows the last row that it emits.
            always: it also does if the operator emits nothing.
            parts: returns the event as several ones, which it handles instead if it raises: then only what it emitted
                for the part that it cannot handle is left out.

        Raises:
            InputError: it raised, and the job fails on errors.
        """
        self._emitted.begin_event(origin)
        try:
            self._operator.handle_event(event, self._emitted)
        except _WRONG_CODE:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever the user's code raises
            self._emitted.drop_event()
            if parts is None:
                self._quarantine.add_firing(
                    self._place(origin), f"{self._name}, which handled {event.type.value}", error, USER_ERROR
                )
            else:
                for part in parts():
                    self.call(part, Origin(*origin))  # one of its own: what is emitted for an event is known by it
        if ends_window:
            self._emitted.end_of_window(always=always)

    def pop_rows(self) -> list[tuple[pa.Table, list[Origin]]]:
        """Return the rows emitted since the last call, with the origin of each; quarantine those that do not fit."""
        taken = self._emitted.pop_rows()
        for origin, error in self._emitted.pop_misfits():
            self._quarantine.add_firing(self._place(origin), f"a row that {self._name} emitted", error, USER_ERROR)
        return taken
