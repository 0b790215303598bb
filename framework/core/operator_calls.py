"""Calls of an operator, and what it emits until that becomes result rows. Shared by panes and arrival windows.

What an operator raises for one event goes to the quarantine, and the others keep what they emitted (docs/semantics.md
section 12).
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.job_spec import EVENT_TIME, REST, JobSpec
from panekeeper.framework.core.quarantine import USER_ERROR, FiringPlace, Quarantine
from panekeeper.framework.declarations.arrow_types import (
    may_be_cut_off,
    require_no_field_left_out,
    require_nothing_cut_off,
)
from panekeeper.framework.declarations.errors import (
    DeclarationError,
    EventError,
    InputError,
    LifecycleError,
    note_user_frames,
)
from panekeeper.framework.declarations.events import Event
from panekeeper.framework.declarations.operator import Operator, OperatorWithListeners, handle
from panekeeper.state.codec import with_columns
from panekeeper.state.user_values import snapshot


class Origin(NamedTuple):
    """The event for which rows were emitted: what the window adds to each of them."""

    code: int
    instant_or_pane: int
    """Number of the pane; for a window in arrival order the wall-clock instant, us."""
    refinement: int | None = None
    reason: str | None = None
    is_window_mark: bool = False
    """Whether the row is the last of a tumble."""
    is_final: bool | None = None
    """Whether the pane closes at this event; None for an event that is neither TRIGGER nor CLOSE of a pane."""


_BINARIES = (pa.binary(), pa.large_binary())


class EmitBuffer:
    """The `Emit` that an operator receives. Rows are collected until `pop_rows`, so that emitting one is cheap."""

    def __init__(self, output: pa.Schema) -> None:
        self._output = output
        self._names = frozenset(output.names)
        self._may_change = [field.name for field in output if pa.types.is_nested(field.type) or field.type in _BINARIES]
        self._may_be_cut_off = [field for field in output if may_be_cut_off(field.type)]
        self._rows: list[dict[str, Any]] = []
        self._origins: list[Origin] = []
        self._completed: list[tuple[pa.Table, list[Origin]]] = []
        self.origin = Origin(0, 0)
        self._first_table = 0
        self._misfits: list[tuple[Origin, Exception]] = []
        self._marked: dict[int, tuple[Origin, bool]] = {}
        """id() of an origin with a mark, which a row here has -> that of the other rows of its event; `always`."""

    def __call__(self, *unnamed: Any, **columns: Any) -> None:
        """Emit one row. Raises `DeclarationError` for a column that the output does not declare, or has no name."""
        if unnamed:
            name, (first, *_) = self._output.names[0] if self._output.names else "column", unnamed
            hint = "emit(**row) emits a dict" if isinstance(first, Mapping) else f"as in emit({name}=...)"
            raise DeclarationError(f"emit() got {reprlib.repr(first)}, and takes columns by their names; {hint}")
        self._check(columns)
        for name in self._may_change:
            if name in columns:  # rows are made later, and an operator may go on with its list
                columns[name] = snapshot(columns[name])
        self._rows.append(columns)
        self._origins.append(self.origin)

    def table(self, rows: pa.Table) -> None:
        """Emit many rows. Raises `DeclarationError` for a column, or a field of a struct, that is not declared."""
        if not isinstance(rows, pa.Table | pa.RecordBatch):
            raise DeclarationError(
                f"emit.table() got a {type(rows).__name__}, and takes a pyarrow.Table; of a frame of pandas make one "
                "by pyarrow.Table.from_pandas(frame, preserve_index=False)"
            )
        self._check(rows.column_names)
        if not rows.num_rows:
            return
        self._complete_row()
        missing = pa.nulls(rows.num_rows)
        columns = [rows.column(n) if n in rows.column_names else missing for n in self._output.names]
        for field, column in zip(self._output, columns, strict=True):
            require_no_field_left_out(column.type, field.type)
        aligned = with_columns(pa.table(columns, names=self._output.names), self._output)
        own = aligned.take(pa.array(np.arange(rows.num_rows)))  # a copy: Arrow refers to the memory of numpy's arrays
        self._completed.append((own, [self.origin] * rows.num_rows))

    def end_of_window(self, *, always: bool) -> None:
        """Mark the last row of the current event, for the window mark; `always`: if there is none, emit nulls."""
        mark = self.origin._replace(is_window_mark=True)
        origins = self._origins or (self._completed[-1][1] if self._completed else [])
        if origins and origins[-1] is self.origin:
            origins[-1] = mark
            self._marked[id(mark)] = (self.origin, always)
        elif always:
            self._rows.append({})
            self._origins.append(mark)

    def begin_event(self, origin: Origin) -> None:
        """Begin an event: `drop_event` takes back what is emitted from here on."""
        self.origin = origin
        self._first_table = len(self._completed)

    def drop_event(self) -> None:
        """Take back the rows of the current event, whose operator raised."""
        later, self._completed[self._first_table :] = self._completed[self._first_table :], []
        for table, origins in later:  # the first one may begin with rows of events before
            before = sum(origin is not self.origin for origin in origins)
            if before:
                self._completed.append((table.slice(0, before), origins[:before]))
        while self._origins and self._origins[-1] is self.origin:
            del self._rows[-1], self._origins[-1]
        self._misfits = [misfit for misfit in self._misfits if misfit[0] is not self.origin]

    def pop_rows(self) -> list[tuple[pa.Table, list[Origin]]]:
        """Return the rows emitted since the last call, with the origin of each."""
        self._complete_row()
        taken, self._completed, self._marked = self._completed, [], {}
        return taken

    def pop_misfits(self) -> list[tuple[Origin, Exception]]:
        """Return the origin of each emitted row with a value that its column does not take, and the error."""
        taken, self._misfits = self._misfits, []
        return taken

    def _complete_row(self) -> None:
        if self._rows:
            try:
                self._completed.append((self._table(self._rows), self._origins))
            except Exception:  # noqa: BLE001 -- an emitted value may be any object, and raise anything when it is read
                self._complete_one_by_one()
            self._rows, self._origins = [], []

    def _complete_one_by_one(self) -> None:
        """Complete the rows that fit the output, and note the origin of each of the others."""
        for row, origin in zip(self._rows, self._origins, strict=True):
            try:
                self._completed.append((self._table([row]), [origin]))
            except Exception as error:  # noqa: BLE001 -- as above
                self._misfits.append((origin, self._misfit(row, error)))
                if origin.is_window_mark:
                    self._mark_row_before(origin)

    def _mark_row_before(self, mark: Origin) -> None:
        """Give the mark of a row that does not fit to the one before it of the event, or to a row of nulls."""
        event, always = self._marked.pop(id(mark))
        if self._completed and self._completed[-1][1][-1] is event:
            self._completed[-1][1][-1] = mark
        elif always:
            self._completed.append((self._table([{}]), [mark]))

    def _table(self, rows: list[dict[str, Any]]) -> pa.Table:
        for column in self._may_be_cut_off:
            require_nothing_cut_off((row.get(column.name) for row in rows), column.type)
        return pa.Table.from_pylist(rows, schema=self._output)

    def _misfit(self, row: dict[str, Any], error: Exception) -> Exception:
        """Return the error of a row with the column whose value does not fit, if it is that of one column."""
        for column in self._output:
            try:
                self._table([{column.name: row.get(column.name)}])  # with its checks: Arrow may end the process
            except Exception:  # noqa: BLE001 -- as above
                named = InputError(f"the column {column.name!r} is declared as {column.type}: {error}")
                named.__cause__ = error
                return named
        return error

    def _check(self, names: Iterable[str]) -> None:
        if not self._names.issuperset(names):
            unknown = sorted(set(names) - self._names)
            raise DeclarationError(
                f"the operator emitted the column {unknown[0]!r}; its declared output is "
                f"{', '.join(self._output.names)}"
            )


def one_row(output: pa.Schema, columns: dict[str, Any]) -> pa.Table:
    """Return one emitted row.

    Raises:
        DeclarationError: a column that the output does not declare.
        LifecycleError: a value that its column does not take.
    """
    emitted = EmitBuffer(output)
    emitted(**columns)
    rows = emitted.pop_rows()
    for _, error in emitted.pop_misfits():
        raise LifecycleError(f"the row {columns!r} does not fit the declared output: {error}") from error
    return rows[0][0]


def lazy_take(table: pa.Table, rows: list[int]) -> Callable[[], pa.Table]:
    """Return a function that takes these rows of a table: content that is made when it is read."""
    return lambda: table.take(pa.array(rows, pa.int64()))


def of_the_user(table: pa.Table) -> pa.Table:
    """Return rows without the columns that Panekeeper adds, as events have them."""
    return table.drop_columns([name for name in (EVENT_TIME, REST) if name in table.column_names])


def lazy_slice(table: pa.Table, low: int, high: int) -> Callable[[], pa.Table]:
    """Return a function that slices rows low..high-1 of a table: content that is made when it is read."""
    return lambda: table.slice(low, high - low)


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
            handle(self._operator, event, self._emitted)
        except _WRONG_CODE as error:
            note_user_frames(error, error)
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
