# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""How a firing becomes result rows: of aggregates, for all firing panes at once, or of an operator, event by event.

The result rows of a batch (`PaneResults`) are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core.aggregates.groups import exploded
from panekeeper.framework.core.guarded_aggregates import GuardedAccumulator, PlaceOf
from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec
from panekeeper.framework.core.operator_calls import OperatorCalls, Origin, lazy_slice, lazy_take, of_the_user, one_row
from panekeeper.framework.core.panes.fills import Fills
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.core.panes.last_results import LastResults
from panekeeper.framework.core.panes.pane_index import number_cells
from panekeeper.framework.core.panes.protocol import PaneFiring, PaneSource, PaneTransition
from panekeeper.framework.core.panes.row_firings import FiringRows, RowFirings
from panekeeper.framework.core.panes.rows import PaneRows
from panekeeper.framework.core.partition_keys import PartitionKeys, code_of
from panekeeper.framework.core.quarantine import FiringPlace, Quarantine
from panekeeper.framework.core.result_rows import ResultRows
from panekeeper.framework.core.stable_order import bounds, gather_ranges, stable_order
from panekeeper.framework.declarations.events import Event, EventType, Pane, Reason, Timing
from panekeeper.framework.declarations.operator import Operator
from panekeeper.state.codec import of_type

_ROWS_AT_ONCE = 2**20
"""About so many rows, repeated for each firing that has them, are computed at once."""
NO_PANE = -(2**63)
"""Stands for a pane where there is none: results emitted for rows that were dropped."""


def pane_place(geometry: Geometry, code: int, pane: int) -> FiringPlace:
    """Return the place of a partition's pane, for the quarantine."""
    return FiringPlace(code, {"pane_start": geometry.start(pane), "pane_end": geometry.end(pane)})


def place_of(geometry: Geometry, codes: np.ndarray, panes: np.ndarray) -> PlaceOf:
    """Return the function that returns the place of each (partition, pane) pair, for the quarantine."""
    return lambda index: pane_place(geometry, int(codes[index]), int(panes[index]))


class RowSource:
    """Aggregates computed from rows, if one of them cannot be merged."""

    def __init__(self, buffer: PaneRows, accumulators: list[GuardedAccumulator], geometry: Geometry) -> None:
        self._buffer = buffer
        self._geometry = geometry
        self._accumulators = accumulators

    def pairs(self, panes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, panes) of every partition present in each of the panes."""
        return self._buffer.pairs(panes)

    def results(self, codes: np.ndarray, panes: np.ndarray) -> list[pa.Array]:
        """Return the finished aggregates of each pair."""
        rows, offsets = self._buffer.content(codes, panes)
        place = place_of(self._geometry, codes, panes)
        return [accumulator.from_content(rows, offsets, place) for accumulator in self._accumulators]

    def insert_firing(self, rows: FiringRows) -> list[pa.Array]:
        """Add rows, and return the finished aggregates of what fires at them."""
        self._buffer.insert(rows.table, rows.codes, rows.slices, rows.seq)
        content, begins, ends = content_at_firings(self._buffer, rows.firings)
        codes, panes = rows.firings.codes, rows.firings.panes
        total, start, results = bounds(ends - begins), 0, []
        while start < len(codes):
            end = int(np.searchsorted(total, total[start] + _ROWS_AT_ONCE, side="right")) - 1
            some = slice(start, max(end, start + 1))
            positions, offsets = gather_ranges(begins[some], ends[some])
            taken, place = content.take(pa.array(positions)), place_of(self._geometry, codes[some], panes[some])
            results.append([accumulator.from_content(taken, offsets, place) for accumulator in self._accumulators])
            start = some.stop
        return [pa.concat_arrays(column) for column in zip(*results, strict=True)]


def content_at_firings(buffer: PaneRows, firings: RowFirings) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """Return the contents of the pairs that fire, end to end, and where those of each firing begin and end."""
    cells, codes, panes = number_cells(firings.codes, firings.panes)
    rows, offsets = buffer.content(codes, panes)
    return rows, offsets[:-1][cells], offsets[1:][cells] - firings.rows_after


class PaneResults(ResultRows):
    """The result rows of a batch, and its quarantine."""

    def __init__(self, spec: JobSpec, keys: PartitionKeys, geometry: Geometry, quarantine: Quarantine) -> None:
        super().__init__(spec, keys, quarantine)
        self._geometry = geometry

    def add(
        self,
        codes: np.ndarray,
        panes: np.ndarray,
        columns: list[pa.Array],
        refinements: pa.Array,
        finals: pa.Array,
        reasons: pa.Array,
        ops: pa.Array | None = None,
        *,
        of_view: bool = False,
    ) -> None:
        """Add result rows; one entry of each argument a row, or its groups. Rows of `NO_PANE` have null bounds."""
        if self._spec.has_groups and columns:
            at, columns = exploded(columns[0], self._spec.output.names)
            codes, panes = codes[at], panes[at]
            refinements, finals, reasons = (column.take(pa.array(at)) for column in (refinements, finals, reasons))
        nowhere = panes == NO_PANE
        somewhere = np.where(nowhere, 0, panes)
        edges = (self._geometry.starts(somewhere), self._geometry.ends(somewhere))
        bounds = [pa.array(edge, mask=nowhere).cast(self._spec.pane_time) for edge in edges]
        firing = [refinements, finals, *([] if ops is None else [ops]), reasons]
        self._add(codes, bounds, columns, firing, of_view=of_view)

    def add_drained(self, key: Any, columns: dict[str, Any]) -> None:
        """Add a row that a state handler has emitted in `drain`; it belongs to no pane."""
        code, row = code_of(self._keys, key), one_row(self._spec.output, columns)
        never, reason = pa.array([0], pa.int32()), pa.array([Reason.DRAIN.value])
        self.add(np.array([code]), np.array([NO_PANE]), row.columns, never, pa.nulls(1, pa.bool_()), reason)


@dataclass(frozen=True)
class Firings:
    """The partitions and panes that fire at once, panes ascending, and what the log says of each."""

    codes: np.ndarray
    panes: np.ndarray
    refinements: np.ndarray
    finals: pa.Array
    reasons: pa.Array
    filled: np.ndarray
    """Whether the partition has never had a row in the pane."""


def firings_of(
    transitions: list[PaneTransition], pairs: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
) -> Firings | None:
    """Return what fires; None if nothing does. `pairs` returns (codes, panes) of the partitions present in panes."""
    whole = np.array([t.pane for t in transitions if t.trigger and t.trigger.past is None], dtype=np.int64)
    codes, panes = pairs(whole) if len(whole) else (whole, whole)
    refinements, filled = np.zeros(len(codes), dtype=np.int32), np.zeros(len(codes), dtype=np.bool_)
    for transition in transitions:
        if transition.trigger and (past := transition.trigger.past) is not None:
            codes = np.concatenate([codes, past.codes])
            panes = np.concatenate([panes, np.full(len(past), transition.pane)])
            refinements = np.concatenate([refinements, past.fired])
            filled = np.concatenate([filled, past.is_without_rows])
    if not len(codes):
        return None
    order = stable_order(panes)
    codes, panes, refinements = codes[order], panes[order], refinements[order]
    fired = {t.pane: (t.trigger.reason.value, t.close) for t in transitions if t.trigger}
    distinct, at = np.unique(panes, return_inverse=True)
    reasons, finals = zip(*(fired[pane] for pane in distinct.tolist()), strict=True)
    reason, final = (
        pa.array(of_panes, kind).take(pa.array(at)) for of_panes, kind in ((reasons, pa.string()), (finals, pa.bool_()))
    )
    return Firings(codes, panes, refinements, final, reason, filled[order])


class AggregatePaneOutput:
    """Computes the declared aggregates, for all panes that fire at one watermark at once."""

    has_ordered_drops = False

    def __init__(
        self,
        source: PaneSource,
        results: PaneResults,
        last: LastResults | None = None,
        fills: Fills | None = None,
        *,
        discards: bool = False,
    ) -> None:
        """`last` has the last results, where each firing takes the one before back; `fills` those without rows.

        `discards`: the results are of the new rows, and then come those of all rows of the pane, for the view.
        """
        self._discards = discards
        self._source = source
        self._results = results
        self._last = last
        self._fills = fills

    def on_insert(self, table: pa.Table, codes: np.ndarray, oldest: np.ndarray, newest: np.ndarray) -> None:
        """Do nothing: the rows are in their cells."""

    def on_drop(self, table: pa.Table, codes: np.ndarray, detail: Callable[[int | None], str]) -> None:
        self._results.quarantine.add_late(table, detail)

    def on_transitions(self, transitions: list[PaneTransition]) -> None:
        """Emit one row for every partition and pane that fires."""
        if not (fired := firings_of(transitions, self._source.pairs)):
            return
        self._emit(fired, self._results_of(fired))

    def on_firing_rows(self, rows: FiringRows) -> None:
        """Emit one row for every firing."""
        fired = rows.firings
        n = len(fired.codes)
        reasons = pa.array([Reason.EARLY.value, Reason.LATE.value]).take(pa.array(fired.is_late.astype(np.int8)))
        of_rows = Firings(
            codes=fired.codes,
            panes=fired.panes,
            refinements=fired.refinements,
            finals=pa.array(np.zeros(n, dtype=np.bool_)),
            reasons=reasons,
            filled=np.zeros(n, dtype=np.bool_),
        )
        self._emit(of_rows, self._source.insert_firing(rows))

    def _emit(self, fired: Firings, columns: list[pa.Array]) -> None:
        """Emit a row for each firing; before it one that takes back the result before, where that is declared."""
        codes, panes, refinements = fired.codes, fired.panes, fired.refinements
        final, reason = fired.finals, fired.reasons
        if self._fills is not None:
            reason = pc.if_else(pa.array(fired.filled), Reason.FILLED.value, reason)
        if self._discards:
            columns, of_all = columns[: len(columns) // 2], columns[len(columns) // 2 :]
            self._results.add(codes, panes, of_all, pa.array(refinements, pa.int32()), final, reason, of_view=True)
        if self._last is None:
            self._results.add(codes, panes, columns, pa.array(refinements, pa.int32()), final, reason)
            return
        again, before = self._last.replace(codes, panes, columns)
        # Each firing comes after the row that takes back the one before it.
        order = stable_order(np.concatenate([2 * again, 2 * np.arange(len(codes)) + 1]))
        at, ops = np.concatenate([again, np.arange(len(codes))])[order], np.repeat([-1, 1], [len(again), len(codes)])
        takes_back = pa.array(ops[order] < 0)
        self._results.add(
            codes[at],
            panes[at],
            [pa.concat_arrays([old, new]).take(pa.array(order)) for old, new in zip(before, columns, strict=True)],
            pa.array(refinements[at] - (ops[order] < 0), pa.int32()),
            pc.and_(final.take(pa.array(at)), pc.invert(takes_back)),
            reason.take(pa.array(at)),
            pa.array(ops[order], pa.int32()),
        )

    def _results_of(self, fired: Firings) -> list[pa.Array]:
        """Return the aggregates of what fires, in its order, also of that which has no rows."""
        if self._fills is None:
            return self._source.results(fired.codes, fired.panes)
        rows, gaps = np.flatnonzero(~fired.filled), np.flatnonzero(fired.filled)
        columns: list[pa.Array] = []
        if len(rows):
            columns = self._source.results(fired.codes[rows], fired.panes[rows])
            self._fills.note(fired.codes[rows], fired.panes[rows], columns)
        if not len(gaps):
            return columns
        values = self._fills.values(fired.codes[gaps], fired.panes[gaps])
        if not len(rows):
            return values
        order = pa.array(np.argsort(np.concatenate([rows, gaps])))
        return [
            pa.concat_arrays([of_type(column, value.type), value]).take(order)
            for column, value in zip(columns, values, strict=True)
        ]


class OperatorPaneOutput:
    """Calls the operator for each transition; what it emits becomes result rows of that partition and pane."""

    def __init__(
        self,
        spec: JobSpec,
        operator: Operator,
        buffer: PaneRows,
        keys: PartitionKeys,
        geometry: Geometry,
        results: PaneResults,
    ) -> None:
        self._port = spec.port
        self._events = frozenset(operator.events)
        self._has_state = bool(spec.handlers)
        self._quarantines_with_state = self._has_state and spec.on_error == "quarantine"
        self._calls = OperatorCalls(spec, operator, results.quarantine, self._place)
        self._buffer = buffer
        self._keys = keys
        self._geometry = geometry
        self._results = results

    @property
    def has_ordered_drops(self) -> bool:
        """Whether state of the operator may depend on which rows came before one that is too late."""
        return self._has_state and {EventType.INSERTION, EventType.DROP} <= self._events

    def on_insert(self, table: pa.Table, codes: np.ndarray, oldest: np.ndarray, newest: np.ndarray) -> None:
        """INSERTION for each partition and pane, newest pane first (docs/semantics.md section 6.1).

        Where the rows are cut into batches must not decide what is left out if the operator raises for one of them. So
        it gets them one by one then; with state, which it may have changed by half, from the beginning.
        """
        if EventType.INSERTION not in self._events:
            return
        joined = zip(codes.tolist(), oldest.tolist(), newest.tolist(), strict=True)
        groups = [*_in_order(joined)] if self._has_state else [*_by_pane(joined)]
        plain = of_the_user(table)
        names = self._keys.values([code for code, _, _ in groups])
        for (code, pane, rows), key in zip(groups, names, strict=True):
            one_by_one = partial(self._insertions, key, pane, plain, [[row] for row in rows])
            for event in one_by_one() if self._quarantines_with_state else self._insertions(key, pane, plain, [rows]):
                is_repeatable = len(rows) > 1 and not self._has_state
                self._calls.call(event, Origin(code, pane), parts=one_by_one if is_repeatable else None)
        self._move_emitted_to_results()

    def on_firing_rows(self, rows: FiringRows) -> None:
        """The events of rows and of what fires at them: those of each partition until it fires, then the firing."""
        self._buffer.insert(rows.table, rows.codes, rows.slices, rows.seq)
        fired, rounds = rows.firings, rows.rounds()
        content, begins, ends = content_at_firings(self._buffer, fired)
        content, bounds = content.drop_columns([EVENT_TIME]), [*zip(begins.tolist(), ends.tolist(), strict=True)]
        order, last = stable_order(rounds), np.arange(int(rounds.max()) + 2)
        in_rounds = np.split(order, np.searchsorted(rounds[order], last)[1:-1])
        of_firings = rounds[fired.rows]
        order = stable_order(fired.codes, fired.panes, of_firings)
        firing_in_rounds = np.split(order, np.searchsorted(of_firings[order], last)[1:-1])
        for at, firings in zip(in_rounds, firing_in_rounds, strict=True):
            self.on_insert(rows.table.take(pa.array(at)), rows.codes[at], rows.oldest[at], rows.newest[at])
            for same_pane in np.split(firings, np.flatnonzero(np.diff(fired.panes[firings])) + 1):
                if len(same_pane) and EventType.TRIGGER in self._events:
                    past = fired.past(same_pane)
                    reason = Reason.LATE if fired.is_late[same_pane[0]] else Reason.EARLY
                    trigger = PaneFiring(reason=reason, past=past)
                    transition = PaneTransition(pane=int(fired.panes[same_pane[0]]), trigger=trigger)
                    ranges = dict(zip(past.codes.tolist(), (bounds[at] for at in same_pane.tolist()), strict=True))
                    self._emit_transition(transition, content, ranges)

    def _insertions(self, key: Any, pane: int, table: pa.Table, groups: list[list[int]]) -> Iterator[Event]:
        for rows in groups:
            yield Event(EventType.INSERTION, key, lazy_take(table, rows), pane=self._pane(pane), port=self._port)

    def on_drop(self, table: pa.Table, codes: np.ndarray, detail: Callable[[int | None], str]) -> None:
        """Give late rows to the quarantine, and one DROP for each, wherever a batch was cut."""
        self._results.quarantine.add_late(table, detail)
        if EventType.DROP not in self._events:
            return
        plain = of_the_user(table)
        for row, (code, key) in enumerate(zip(codes.tolist(), self._keys.values(codes.tolist()), strict=True)):
            event = Event(EventType.DROP, key, lazy_take(plain, [row]), port=self._port)
            self._calls.call(event, Origin(code, NO_PANE))
        self._move_emitted_to_results()

    def on_transitions(self, transitions: list[PaneTransition]) -> None:
        """INITIAL_FULL, TRIGGER and CLOSE of each pane, in the order of the panes' ends."""
        needed = [transition for transition in transitions if self._needs(transition)]
        if not needed:
            return
        self._buffer.load(np.array([transition.pane for transition in needed], dtype=np.int64))
        for transition in needed:
            codes, panes = self._buffer.pairs(np.array([transition.pane], dtype=np.int64))
            if not len(codes):
                continue
            rows, offsets = self._buffer.content(codes, panes)
            rows = rows.drop_columns([EVENT_TIME])
            bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
            ranges = dict(zip(codes.tolist(), bounds, strict=True))
            self._emit_transition(transition, rows, ranges)

    def _needs(self, transition: PaneTransition) -> bool:
        return bool(
            (transition.trigger and self._events & {EventType.INITIAL_FULL, EventType.TRIGGER})
            or (transition.close and EventType.CLOSE in self._events)
        )

    def _emit_transition(self, transition: PaneTransition, rows: pa.Table, ranges: dict[int, tuple[int, int]]) -> None:
        names = dict(zip(ranges, self._keys.values(list(ranges)), strict=True))
        pane = self._pane(transition.pane)

        def whole(kind: EventType, codes: Iterable[int], *, is_final: bool | None = None) -> None:
            for code in codes:
                event = Event(kind, names[code], lazy_slice(rows, *ranges[code]), pane=pane, port=self._port)
                self._calls.call(event, Origin(code, transition.pane, is_final=is_final))

        if transition.trigger:
            trigger, past = transition.trigger, transition.trigger.past
            codes = list(ranges) if past is None else past.codes.tolist()
            refinements = [0] * len(codes) if past is None else past.fired.tolist()
            completes = [True] * len(codes) if past is None else trigger.completes(past).tolist()
            if EventType.INITIAL_FULL in self._events:
                whole(EventType.INITIAL_FULL, [code for code, full in zip(codes, completes, strict=True) if full])
            fired = zip(codes, refinements, completes, strict=True) if EventType.TRIGGER in self._events else ()
            for code, refinement, full in fired:
                event = Event(
                    EventType.TRIGGER,
                    names[code],
                    lazy_slice(rows, *ranges[code]),
                    pane=pane,
                    timing=firing_timing(trigger.reason, full=full),
                    index=refinement,
                    reason=trigger.reason,
                    refinement=refinement,
                    port=self._port,
                )
                origin = Origin(code, transition.pane, refinement, trigger.reason.value, is_final=transition.close)
                self._calls.call(event, origin)
        if transition.close and EventType.CLOSE in self._events:
            whole(EventType.CLOSE, ranges, is_final=True)
        self._move_emitted_to_results()

    def _place(self, origin: Origin) -> FiringPlace:
        code, pane = origin.code, origin.instant_or_pane
        return FiringPlace(code, {}) if pane == NO_PANE else pane_place(self._geometry, code, pane)

    def _move_emitted_to_results(self) -> None:
        """Move the emitted rows to the results, each with its key, pane, refinement and reason."""
        for rows, origins in self._calls.pop_rows():
            codes, panes, refinements, reasons, _, finals = zip(*origins, strict=True)
            self._results.add(
                np.array(codes, dtype=np.int64),
                np.array(panes, dtype=np.int64),
                rows.columns,
                pa.array(refinements, pa.int32()),
                pa.array(finals, pa.bool_()),
                pa.array(reasons, pa.string()),
            )

    def _pane(self, pane: int) -> Pane:
        return Pane(self._geometry.start(pane), self._geometry.end(pane))


def firing_timing(reason: Reason, *, full: bool) -> Timing:
    """Return the timing of a firing; `full`: it is the first one as complete."""
    return Timing.EARLY if reason is Reason.EARLY else Timing.ON_COMPLETE if full else Timing.LATE


def _by_pane(joined: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield partition, pane and the numbers of its rows: one event for each pane of a partition, newest pane first."""
    grouped: dict[tuple[int, int], list[int]] = {}
    for row, (code, low, high) in enumerate(joined):
        for pane in range(high, low - 1, -1):
            grouped.setdefault((code, pane), []).append(row)
    yield from ((code, pane, rows) for (code, pane), rows in grouped.items())


def _in_order(joined: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield the same, but of each partition in the order of its rows: only neighbours in one pane are one event.

    An operator with state may see in which order they come, which must be the same wherever a batch is cut (section
    1.3).
    """
    runs: dict[int, list[tuple[int, int, list[int]]]] = {}
    for row, (code, low, high) in enumerate(joined):
        of_partition = runs.setdefault(code, [])
        if low == high and of_partition and of_partition[-1][:2] == (low, high):
            of_partition[-1][2].append(row)
        else:
            of_partition.append((low, high, [row]))
    for code, of_partition in runs.items():
        for low, high, rows in of_partition:
            yield from ((code, pane, rows) for pane in range(high, low - 1, -1))
