# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""How sessions become result rows: of aggregates, for all that fire at once, or of an operator, event by event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.aggregates.columns import lists
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.operator_calls import OperatorCalls, Origin, lazy_slice, of_the_user, one_row
from panekeeper.framework.core.panes.output import firing_timing
from panekeeper.framework.core.partition_keys import PartitionKeys, code_of
from panekeeper.framework.core.quarantine import NO_SESSION, FiringPlace, Quarantine
from panekeeper.framework.core.result_rows import ResultRows
from panekeeper.framework.core.sessions.joins import Joined
from panekeeper.framework.core.sessions.open_table import SessionColumns
from panekeeper.framework.core.sessions.protocol import SessionSource, SessionTransitions
from panekeeper.framework.core.sessions.rows import SessionRows
from panekeeper.framework.core.sessions.standing import Standing
from panekeeper.framework.core.stable_order import stable_order
from panekeeper.framework.declarations.events import Event, EventType, Pane, Reason
from panekeeper.framework.declarations.operator import Operator
from panekeeper.framework.declarations.windows import Session
from panekeeper.state.codec import of_type

_STARTS = pa.list_(pa.int64())
_NOT_KNOWN = pa.nulls(1, pa.bool_())


class SessionResults(ResultRows):
    """The result rows of a batch, and its quarantine."""

    def __init__(self, spec: JobSpec, window: Session, keys: PartitionKeys, quarantine: Quarantine) -> None:
        super().__init__(spec, keys, quarantine)
        self.window = window
        self.retracts, self.discards = spec.retracts, spec.discards

    def add(
        self,
        codes: np.ndarray,
        bounds: list[pa.Array],
        columns: list[pa.Array],
        replaces: pa.Array,
        firing: Sequence[pa.Array],
        *,
        of_view: bool = False,
    ) -> None:
        """Add result rows, one entry of each argument a row.

        Args:
            codes: the partition.
            bounds: first row, end and last row of the session, us.
            columns: the results.
            replaces: the starts whose results it takes back, us.
            firing: refinement, whether it is final, 1 or -1 where results are taken back, and the reason.
            of_view: it is for the view only.
        """
        pane_time = self._spec.pane_time
        own = [replaces.cast(pa.list_(pane_time)), *firing]
        self._add(codes, (bound.cast(pane_time) for bound in bounds), columns, own, of_view=of_view)

    def add_drained(self, key: Any, columns: dict[str, Any]) -> None:
        """Add a row that a state handler has emitted in `drain`; it belongs to no session."""
        code, row = code_of(self._keys, key), one_row(self._spec.output, columns)
        nowhere, never = pa.nulls(1, pa.int64()), pa.array([0], pa.int32())
        reason = pa.array([Reason.DRAIN.value])
        firing = [never, _NOT_KNOWN, reason]
        self.add(np.array([code]), [nowhere] * 3, row.columns, pa.array([[]], _STARTS), firing)


def session_place(code: int, first: int, end: int) -> FiringPlace:
    """Return the place of a session, for the quarantine."""
    return FiringPlace(code, {"session_start": first, "session_end": end})


class AggregateSessionOutput:
    """Computes the declared aggregates, for all sessions that fire at one watermark at once."""

    needs_every_join = False

    def __init__(self, source: SessionSource, results: SessionResults) -> None:
        self._source = source
        self._results = results

    def on_merge(self, code: int, merged: tuple[Joined, ...], session: Joined, prepare: Callable[[], None]) -> None:
        """Do nothing: partial results are merged as the session fires."""

    def on_insert(self, row: pa.Table, code: int, session: Joined) -> None:
        """Do nothing: the rows are in their cells."""

    def on_drop(self, table: pa.Table, codes: np.ndarray, detail: Callable[[int | None], str]) -> None:
        self._results.quarantine.add_late(table, detail)

    def on_no_session(self, table: pa.Table, detail: Callable[[int | None], str]) -> None:
        self._results.quarantine.add_late(table, detail, NO_SESSION)

    def on_transitions(self, transitions: SessionTransitions) -> list[pa.Array]:
        """Emit one row for every session that fires; before it those that it takes back, where that is declared."""
        if not transitions.fires.any():
            return []
        some, fires = transitions.sessions.take(transitions.fires), pa.array(transitions.fires)
        columns = self._source.results(
            some, lambda at: session_place(int(some.codes[at]), int(some.first[at]), int(some.end[at]))
        )
        bounds = [pa.array(some.first), pa.array(some.end), pa.array(some.last)]
        replaces, refinements = transitions.replaced.filter(fires), pa.array(some.fired, pa.int32())
        finals, reasons = pa.array(transitions.closes[transitions.fires]), transitions.reasons.filter(fires)
        if self._results.retracts:
            again = transitions.standing.of(transitions.fires)
            self._add_retracting(some, bounds, columns, replaces, [refinements, finals, reasons], again)
            return columns
        if self._results.discards:
            columns, of_all = columns[: len(columns) // 2], columns[len(columns) // 2 :]
            self._results.add(some.codes, bounds, of_all, replaces, [refinements, finals, reasons], of_view=True)
        self._results.add(some.codes, bounds, columns, replaces, [refinements, finals, reasons])
        return []

    def _add_retracting(
        self,
        some: SessionColumns,
        bounds: list[pa.Array],
        columns: list[pa.Array],
        replaces: pa.Array,
        firing: Sequence[pa.Array],
        again: Standing,
    ) -> None:
        """Add each result behind those that it takes back, by their starts. Arguments as for `SessionResults.add`."""
        old, new = again.owner, np.arange(len(some))
        order = pa.array(stable_order(np.concatenate([2 * old, 2 * new + 1])))
        at = pa.array(np.concatenate([old, new])).take(order)
        takes_back = pa.array(np.repeat([True, False], [len(old), len(new)])).take(order)

        def both(old: pa.Array, new: pa.Array) -> pa.Array:
            return pa.concat_arrays([of_type(old, new.type), new]).take(order)

        end, last, refinement, *values = again.shown
        refinements, finals, reasons = firing
        nothing = lists(np.zeros(len(old), dtype=np.int64), pa.array([], pa.int64()), _STARTS)
        self._results.add(
            some.codes[at.to_numpy()],
            [both(*pair) for pair in zip((pa.array(again.start), end, last), bounds, strict=True)],
            [both(*pair) for pair in zip(values, columns, strict=True)],
            both(nothing, replaces),
            [
                both(refinement, refinements),
                pc.and_(finals.take(at), pc.invert(takes_back)),
                pc.if_else(takes_back, pa.scalar(-1, pa.int32()), pa.scalar(1, pa.int32())),
                reasons.take(at),
            ],
        )


class _Place(NamedTuple):
    """Where emitted rows belong: the session, and the starts whose results they take back."""

    first: int | None
    end: int | None = None
    last: int | None = None
    replaces: tuple[int, ...] = ()


class OperatorSessionOutput:
    """Calls the operator for each event; what it emits becomes result rows of that partition and session."""

    def __init__(
        self, spec: JobSpec, operator: Operator, rows: SessionRows, keys: PartitionKeys, results: SessionResults
    ) -> None:
        self._port = spec.port
        self._events = frozenset(operator.events)
        self._calls = OperatorCalls(spec, operator, results.quarantine, self._place_of)
        self._rows = rows
        self._keys = keys
        self._results = results
        self._places: list[_Place] = []

    @property
    def needs_every_join(self) -> bool:
        return bool(self._events & {EventType.INSERTION, EventType.MERGE})

    def on_merge(self, code: int, merged: tuple[Joined, ...], session: Joined, prepare: Callable[[], None]) -> None:
        """MERGE with the rows of the sessions that became one, before the INSERTION of the row that joined them."""
        if EventType.MERGE not in self._events:
            return
        parts = tuple(self._pane(part.first, part.end) for part in merged)

        def content() -> pa.Table:
            prepare()
            first, last = (np.array([us]) for us in (merged[0].first, merged[-1].last))
            both = SessionColumns.of_rows(np.array([code]), first, last, last)
            return self._rows.content(both)[0].drop_columns([EVENT_TIME])

        pane, first = self._pane(session.first, session.end), session.first
        event = Event(EventType.MERGE, self._key(code), content, pane=pane, port=self._port, merged=parts)
        replaces = tuple(part.first for part in merged if part.first != first)
        self._call(event, code, _Place(first, pane.end_us, session.last, replaces))
        self._move_emitted_to_results()

    def on_insert(self, row: pa.Table, code: int, session: Joined) -> None:
        """INSERTION of each row: its session is as the row has made it, wherever a batch was cut."""
        if EventType.INSERTION not in self._events:
            return
        pane = self._pane(session.first, session.end)
        event = Event(EventType.INSERTION, self._key(code), lambda: of_the_user(row), pane=pane, port=self._port)
        self._call(event, code, _Place(session.first, pane.end_us, session.last))
        self._move_emitted_to_results()

    def on_drop(self, table: pa.Table, codes: np.ndarray, detail: Callable[[int | None], str]) -> None:
        """Give late rows to the quarantine, and one DROP for each, wherever a batch was cut."""
        self._results.quarantine.add_late(table, detail)
        if EventType.DROP not in self._events:
            return
        plain = of_the_user(table)
        for row, code in enumerate(codes.tolist()):
            event = Event(EventType.DROP, self._key(code), lazy_slice(plain, row, row + 1), port=self._port)
            self._call(event, code, _Place(None))
        self._move_emitted_to_results()

    def on_no_session(self, table: pa.Table, detail: Callable[[int | None], str]) -> None:
        self._results.quarantine.add_late(table, detail, NO_SESSION)

    def on_transitions(self, transitions: SessionTransitions) -> list[pa.Array]:
        """INITIAL_FULL, TRIGGER and CLOSE of each session, in the order of their ends."""
        sessions = transitions.sessions
        if not self._events & {EventType.INITIAL_FULL, EventType.TRIGGER, EventType.CLOSE}:
            return []
        rows, offsets = self._rows.content(sessions)
        rows, keys = rows.drop_columns([EVENT_TIME]), self._keys.values(sessions.codes.tolist())
        bounds = zip(
            *(column.tolist() for column in (sessions.codes, sessions.first, sessions.end, sessions.last)), strict=True
        )
        replaced, reasons = transitions.replaced.to_pylist(), transitions.reasons.to_pylist()
        for at, (code, first, end, last) in enumerate(bounds):
            content = lazy_slice(rows, int(offsets[at]), int(offsets[at + 1]))
            pane, refinement = Pane(first, end), int(sessions.fired[at])
            reason = Reason(reasons[at])
            is_full = reason is not Reason.EARLY and not sessions.full[at]
            if transitions.fires[at] and is_full and EventType.INITIAL_FULL in self._events:
                event = Event(EventType.INITIAL_FULL, keys[at], content, pane=pane, port=self._port)
                self._call(event, code, _Place(first, end, last))
            if transitions.fires[at] and EventType.TRIGGER in self._events:
                event = Event(
                    EventType.TRIGGER,
                    keys[at],
                    content,
                    pane=pane,
                    timing=firing_timing(reason, full=is_full),
                    index=refinement,
                    reason=reason,
                    refinement=refinement,
                    port=self._port,
                )
                place = _Place(first, end, last, tuple(replaced[at]))
                self._call(event, code, place, refinement, reasons[at], is_final=bool(transitions.closes[at]))
            if transitions.closes[at] and EventType.CLOSE in self._events:
                self._call(
                    Event(EventType.CLOSE, keys[at], content, pane=pane, port=self._port),
                    code,
                    _Place(first, end, last),
                    is_final=True,
                )
        self._move_emitted_to_results()
        return []

    def _call(
        self,
        event: Event,
        code: int,
        place: _Place,
        refinement: int | None = None,
        reason: str | None = None,
        *,
        is_final: bool | None = None,
    ) -> None:
        self._places.append(place)
        self._calls.call(event, Origin(code, len(self._places) - 1, refinement, reason, is_final=is_final))

    def _move_emitted_to_results(self) -> None:
        """Move the emitted rows to the results, each with its key, session, refinement and reason."""
        for rows, origins in self._calls.pop_rows():
            codes, numbers, refinements, reasons, _, finals = zip(*origins, strict=True)
            places = [self._places[number] for number in numbers]
            bounds = [pa.array([place[part] for place in places], pa.int64()) for part in range(3)]
            self._results.add(
                np.array(codes, dtype=np.int64),
                bounds,
                rows.columns,
                pa.array([place.replaces for place in places], _STARTS),
                [pa.array(refinements, pa.int32()), pa.array(finals, pa.bool_()), pa.array(reasons, pa.string())],
            )
        self._places = []

    def _place_of(self, origin: Origin) -> FiringPlace:
        place = self._places[origin.instant_or_pane]
        if place.first is None or place.end is None:
            return FiringPlace(origin.code, {})
        return session_place(origin.code, place.first, place.end)

    def _pane(self, first: int, end: int) -> Pane:
        most = self._results.window.max_duration_us
        return Pane(first, end if most is None else min(end, first + most))

    def _key(self, code: int) -> Any:
        return self._keys.values([code])[0]
