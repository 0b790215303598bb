"""Telling an operator what happened: events are made from turns, one after the other, in their documented order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from framework.core.job_spec import EVENT_TIME, JobSpec
from framework.core.panes.aggregate_output import NO_PANE, Outputs
from framework.core.panes.geometry import Geometry
from framework.core.panes.row_buffer import RowLog
from framework.core.panes.window import PaneTurn
from framework.core.partition_keys import PartitionKeys
from framework.declarations.errors import DeclarationError
from framework.declarations.events import Event, EventType, Pane
from framework.declarations.operator import Operator


class Operating:
    """Answers turns by calling the operator; what it emits becomes result rows of that partition and pane."""

    def __init__(
        self,
        spec: JobSpec,
        operator: Operator,
        log: RowLog,
        keys: PartitionKeys,
        geometry: Geometry,
        outputs: Outputs,
    ) -> None:
        self._port = spec.port
        self._operator = operator
        self._wanted = operator.events
        self._emitted = Emitted(spec.output)
        self._log = log
        self._keys = keys
        self._geometry = geometry
        self._outputs = outputs

    def inserted(self, table: pa.Table, codes: np.ndarray, oldest: np.ndarray, newest: np.ndarray) -> None:
        """INSERTION for each partition and pane, newest pane first [semantics 6.1]."""
        if EventType.INSERTION not in self._wanted:
            return
        grouped: dict[tuple[int, int], list[int]] = {}
        for row, (code, low, high) in enumerate(zip(codes.tolist(), oldest.tolist(), newest.tolist(), strict=True)):
            for pane in range(high, low - 1, -1):
                grouped.setdefault((code, pane), []).append(row)
        plain = table.drop_columns([EVENT_TIME])
        names = self._keys.values([code for code, _ in grouped])
        for ((code, pane), rows), key in zip(grouped.items(), names, strict=True):
            event = Event(EventType.INSERTION, key, taking(plain, rows), pane=self._pane(pane), port=self._port)
            self._tell(event, Origin(code, pane))
        self._collect()

    def dropped(self, table: pa.Table, codes: np.ndarray, detail: Callable[[int], str]) -> None:
        """Give late rows to the quarantine, and DROP for each partition."""
        self._outputs.reject(table, "LATE", detail)
        if EventType.DROP not in self._wanted:
            return
        plain = table.drop_columns([EVENT_TIME])
        for code in dict.fromkeys(codes.tolist()):
            rows = np.flatnonzero(codes == code).tolist()
            event = Event(EventType.DROP, self._keys.values([code])[0], taking(plain, rows), port=self._port)
            self._tell(event, Origin(code, NO_PANE))
        self._collect()

    def turn(self, turns: list[PaneTurn]) -> None:
        """INITIAL_FULL, TRIGGER and CLOSE of each pane, in the order of the panes' ends [S1]."""
        for turn in turns:
            codes, panes = self._log.pairs(np.array([turn.pane], dtype=np.int64))
            if not len(codes) or not self._wants(turn):
                continue
            rows, offsets = self._log.content(codes, panes)
            rows = rows.drop_columns([EVENT_TIME])
            bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
            stretch = dict(zip(codes.tolist(), bounds, strict=True))
            self._tell_turn(turn, rows, stretch)

    def _wants(self, turn: PaneTurn) -> bool:
        return bool(
            (turn.full and EventType.INITIAL_FULL in self._wanted)
            or (turn.trigger and EventType.TRIGGER in self._wanted)
            or (turn.close and EventType.CLOSE in self._wanted)
        )

    def _tell_turn(self, turn: PaneTurn, rows: pa.Table, stretch: dict[int, tuple[int, int]]) -> None:
        names = dict(zip(stretch, self._keys.values(list(stretch)), strict=True))
        pane = self._pane(turn.pane)

        def whole(kind: EventType) -> None:
            for code, (low, high) in stretch.items():
                event = Event(kind, names[code], slicing(rows, low, high), pane=pane, port=self._port)
                self._tell(event, Origin(code, turn.pane))

        if turn.full and EventType.INITIAL_FULL in self._wanted:
            whole(EventType.INITIAL_FULL)
        if turn.trigger and EventType.TRIGGER in self._wanted:
            trigger = turn.trigger
            codes = list(stretch) if trigger.codes is None else trigger.codes.tolist()
            refinements = [0] * len(codes) if trigger.refinements is None else trigger.refinements.tolist()
            for code, refinement in zip(codes, refinements, strict=True):
                event = Event(
                    EventType.TRIGGER,
                    names[code],
                    slicing(rows, *stretch[code]),
                    pane=pane,
                    timing=trigger.timing,
                    index=trigger.index,
                    reason=trigger.reason,
                    refinement=refinement,
                    port=self._port,
                )
                self._tell(event, Origin(code, turn.pane, refinement, trigger.reason.value))
        if turn.close and EventType.CLOSE in self._wanted:
            whole(EventType.CLOSE)
        self._collect()

    def _tell(self, event: Event, origin: Origin) -> None:
        self._emitted.origin = origin
        self._operator.handle_event(event, self._emitted)

    def _collect(self) -> None:
        """Hand on what was emitted, each row with its key, pane, refinement and reason."""
        for rows, origins in self._emitted.take():
            codes, panes, refinements, reasons, _ = zip(*origins, strict=True)
            self._outputs.add(
                np.array(codes, dtype=np.int64),
                np.array(panes, dtype=np.int64),
                rows.columns,
                pa.array(refinements, pa.int32()),
                pa.array(reasons, pa.string()),
            )

    def _pane(self, pane: int) -> Pane:
        return Pane(self._geometry.start(pane), self._geometry.end(pane))


class Origin(NamedTuple):
    """The event that results were emitted for: what the window adds to each emitted row."""

    code: int
    where: int
    """Number of the pane, or the wall-clock instant where there are none."""
    refinement: int | None = None
    reason: str | None = None
    mark: bool = False
    """The row is the last of a tumble."""


class Emitted:
    """What an operator emits; the `Emit` it is given. Rows are kept until `take`, so that events stay cheap."""

    def __init__(self, output: pa.Schema) -> None:
        self._output = output
        self._names = frozenset(output.names)
        self._rows: list[dict[str, Any]] = []
        self._origins: list[Origin] = []
        self._done: list[tuple[pa.Table, list[Origin]]] = []
        self.origin = Origin(0, NO_PANE)

    def __call__(self, **columns: Any) -> None:
        """Emit one row. Raises `DeclarationError` for a column that the output does not declare."""
        self._check(columns)
        self._rows.append(columns)
        self._origins.append(self.origin)

    def table(self, rows: pa.Table) -> None:
        """Emit many rows. Raises `DeclarationError` for a column that the output does not declare."""
        self._check(rows.column_names)
        self._settle()
        missing = pa.nulls(rows.num_rows)
        columns = [rows.column(n) if n in rows.column_names else missing for n in self._output.names]
        aligned = pa.table(columns, names=self._output.names).cast(self._output)
        self._done.append((aligned, [self.origin] * rows.num_rows))

    def end_of_window(self) -> None:
        """Mark the last row emitted for the current event, if any: a window mark follows it."""
        origins = self._origins or (self._done[-1][1] if self._done else [])
        if origins and origins[-1] is self.origin:
            origins[-1] = self.origin._replace(mark=True)

    def take(self) -> list[tuple[pa.Table, list[Origin]]]:
        """Return what was emitted since the last call, with the origin of each row."""
        self._settle()
        taken, self._done = self._done, []
        return taken

    def _settle(self) -> None:
        if self._rows:
            self._done.append((pa.Table.from_pylist(self._rows, schema=self._output), self._origins))
            self._rows, self._origins = [], []

    def _check(self, names: Iterable[str]) -> None:
        if not self._names.issuperset(names):
            unknown = sorted(set(names) - self._names)
            raise DeclarationError(
                f"the operator emitted the column {unknown[0]!r}; its declared output is "
                f"{', '.join(self._output.names)}"
            )


def taking(table: pa.Table, rows: list[int]) -> Callable[[], pa.Table]:
    """Return the content made of these rows, not yet taken."""
    return lambda: table.take(pa.array(rows, pa.int64()))


def slicing(table: pa.Table, low: int, high: int) -> Callable[[], pa.Table]:
    """Return the content made of rows low..high-1, not yet sliced."""
    return lambda: table.slice(low, high - low)
