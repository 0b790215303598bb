"""What the workers need of the declaration of a job: windows, partition columns, and what is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from panekeeper.framework.declarations.aggregates import GROUPS
from panekeeper.framework.declarations.firing import FiringOptions
from panekeeper.framework.declarations.joins import Join, Within
from panekeeper.framework.declarations.windows import ArrivalWindow, EventTimeWindow, Session, Window
from panekeeper.state.codec import that_may_be_null
from panekeeper.state.handler import StateHandler
from panekeeper.state.history import History, declarations_by_window

if TYPE_CHECKING:
    from panekeeper.framework.declarations.aggregates import Aggregate
    from panekeeper.framework.declarations.operator import Operator

EVENT_TIME = "_t"
"""Column of a segment: event time, int64 us since the epoch."""

ARRIVAL_TIME = "_at"
"""Column of a segment: arrival time, int64 us since the epoch; windows in arrival order count from it."""

ARRIVAL_NUMBER = "_seq"
"""Column of stored rows: arrival number inside the key group."""

PORT = "port"
"""Column of the tables of an operator over several ports: number of the port."""

WINDOW = "window"
"""Column of the quarantine of a job with several windows: which of them has refused the row; null for none."""

TIMESTAMP = pa.timestamp("us", tz="UTC")

OnError = Literal["quarantine", "fail"] | None
"""What is done about a row or a firing that cannot be computed; None if it is not declared."""


@dataclass(frozen=True, kw_only=True)
class Idle:
    """When a source of a port is idle, and what its watermark does then (docs/semantics.md section 14).

    Attributes:
        after_us: how long it brings no row, by the wall clock.
        advances: its watermark goes on with the wall clock then.
    """

    after_us: int
    advances: bool = False


@dataclass(frozen=True, kw_only=True)
class Dedupe:
    """Which rows of a port are repeats, of which only the first counts (docs/semantics.md section 17).

    Attributes:
        columns: those that are equal, beside the partition columns.
        within_us: how far apart their event times are at most.
    """

    columns: tuple[str, ...]
    within_us: int


@dataclass(frozen=True, kw_only=True)
class PortSpec:
    """One input, with a window of its own.

    Attributes:
        window: the declared window.
        keys: the partition columns, in order; empty if the window is not partitioned. They have the same types for all
            ports of a job; the names may differ.
        columns: the columns of a segment beside the time, the partition columns among them.
        on_error: what is done about a row or a firing that cannot be computed; None if not declared.
        idle: when the port, or a partition that it reads, is idle; None: never.
        dedupe: which rows are repeats; None: none.
        origin: columns that tell the offset of a row in Kafka, the last of them; none if they do not.
    """

    window: Window | Within
    keys: pa.Schema
    columns: pa.Schema
    on_error: OnError = None
    idle: Idle | None = None
    dedupe: Dedupe | None = None
    origin: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class JobSpec(PortSpec):
    """All that the runner of a key group needs. Picklable; the same on the driver and on every worker.

    What it has of a port is of port 0, the only port unless there are `other_ports`.

    Attributes:
        other_ports: the ports after port 0, in order. Only an operator or a join can have them.
        port: number of the port that this spec is for, in the specs that `ports` returns.
        aggregates: result column -> aggregate, in order; None if an operator handles the events.
        fires_when: a condition over the aggregates, at which panes fire; None if they have none.
        operator: handles the events; None if there are aggregates, or a join.
        join: how the rows of two ports are joined; None if there are aggregates, or an operator.
        output: the user's result columns (of the aggregates, the operator or the join).
        handlers: state handlers in the order of their registration; the operator first, if it is one.
        windows: name -> the spec of one of several windows on the rows of the only port, each with aggregates and a
            history of its own; none in a job with one window. This spec has what they share then: as `window` the
            first one, as `columns` those of all of them, and no `output`.
        history: what earlier declarations of the job have left in its state and tables.
        pane_time: the type of the bounds of panes: that of the event time, with or without a time zone.
    """

    aggregates: dict[str, Aggregate] | None = None
    fires_when: Aggregate | None = None
    operator: Operator | None = None
    join: Join | None = None
    output: pa.Schema
    handlers: tuple[StateHandler, ...] = ()
    other_ports: tuple[PortSpec, ...] = ()
    windows: Mapping[str, JobSpec] = field(default_factory=dict)
    port: int = 0
    history: History = field(default_factory=History)
    pane_time: pa.DataType = TIMESTAMP

    @property
    def fails_on_error(self) -> bool:
        """Whether what cannot be computed fails the batch, and does not go to the quarantine.

        If nothing is declared, errors of a job with state handlers fail it: the state may have changed by half.
        """
        return self.on_error == "fail" or (self.on_error is None and bool(self.handlers))

    @property
    def ports(self) -> tuple[JobSpec, ...]:
        """A spec for each port alone, in port order: what the window of that port needs."""
        own = [
            replace(self, **vars(port), other_ports=(), port=number) for number, port in enumerate(self.other_ports, 1)
        ]
        return (replace(self, other_ports=()), *own) if own else (self,)

    @property
    def parts(self) -> Mapping[str, JobSpec]:
        """A spec for each window that has results of its own, by its name; the empty one if there is only one."""
        return self.windows or {"": self}

    def with_history(self, declaration: Mapping[str, Any]) -> JobSpec:
        """Return the spec with what the earlier declarations have left, by the recorded one."""
        histories = {name: History.of(recorded) for name, recorded in declarations_by_window(declaration).items()}
        if not self.windows:
            return replace(self, history=histories[""])
        return replace(
            self, windows={name: replace(spec, history=histories[name]) for name, spec in self.windows.items()}
        )

    @property
    def reach_us(self) -> int:
        """How far behind the watermark a row may be that is late in none of the windows, in microseconds."""
        windows = [part.window for part in self.parts.values()]
        return max(window.reach_us for window in windows if isinstance(window, EventTimeWindow | Within))

    @property
    def arrival_window(self) -> ArrivalWindow:
        """The window, where it is one in arrival order."""
        if isinstance(self.window, EventTimeWindow | Within):
            raise TypeError(f"{type(self.window).__name__} is not a window in arrival order")
        return self.window

    @property
    def has_groups(self) -> bool:
        """Whether a firing has a row for each of its groups: `output` is that of the rows, not of the aggregate."""
        return any(aggregate.kind == GROUPS for aggregate in (self.aggregates or {}).values())

    @property
    def has_panes(self) -> bool:
        """Whether results belong to panes, or sessions, of event time."""
        return isinstance(self.window, EventTimeWindow)

    @property
    def has_sessions(self) -> bool:
        """Whether results belong to sessions."""
        return isinstance(self.window, Session)

    @property
    def retracts(self) -> bool:
        """Whether a firing takes the result before back."""
        return getattr(self.window, "results", None) == "retracting"

    @property
    def discards(self) -> bool:
        """Whether a firing shows only the rows since the one before, and the view all of the pane."""
        return getattr(self.window, "results", None) == "discarding"

    @property
    def fires_by_clock(self) -> bool:
        """Whether panes fire by the wall clock, too, so that their rows need an arrival time."""
        windows = [part.window for part in self.parts.values()]
        return any(isinstance(window, FiringOptions) and window.fires_by_clock for window in windows)

    @property
    def uses_event_time(self) -> bool:
        """Whether rows are taken by their event time, and the watermark moves the window; else the wall clock does."""
        return isinstance(self.window, EventTimeWindow | Within)

    @property
    def time_column(self) -> str:
        """The time column of segments: `EVENT_TIME` or `ARRIVAL_TIME`."""
        return EVENT_TIME if self.uses_event_time else ARRIVAL_TIME

    @cached_property
    def retired(self) -> pa.Schema:
        """The result columns of aggregates that were removed: they are null."""
        return self.history.retired_columns()

    def retired_nulls(self, rows: int) -> list[pa.Array]:
        """Return the values of the retired columns for so many result rows."""
        return [pa.nulls(rows, field.type) for field in self.retired]

    @property
    def mixes_window_kinds(self) -> bool:
        """Whether some ports have panes of event time, or sessions, and others not."""
        return len({(port.has_panes, port.has_sessions) for port in self.ports}) > 1

    @cached_property
    def results_schema(self) -> pa.Schema:
        """Schema of the result log.

        Time intervals: partition, pane, the user's columns, refinement, whether the pane closes with this row (no
        firing follows), 1 or -1 where results are taken back, reason. Sessions: partition, start and end of the
        session, time of its last row, the user's columns, starts of the sessions whose results the row replaces, then
        as time intervals. Others: partition, wall-clock instant, the user's columns, number of the firing (rising for
        each partition), whether the row ends the results of a tumble (a window mark, for the next job's punctuation),
        reason.

        Of several ports: which one, after the partition; then what the rows of any of them have. A partition may be
        null, even if the stream has none any more: of those before, windows may be open.

        A join of rows: partition, the columns of both rows, whether they matched. One of panes: as time intervals of
        one port.
        """
        if isinstance(self.window, Within):
            return pa.schema([*that_may_be_null(self.keys), *self.output, pa.field("reason", pa.string())])
        any_paned = any(port.has_panes and not port.has_sessions for port in self.ports)
        any_session = any(port.has_sessions for port in self.ports)
        any_event_time = any_paned or any_session
        any_timed = not all(port.has_panes for port in self.ports)
        pane = [pa.field("pane_start", self.pane_time), pa.field("pane_end", self.pane_time)]
        session = [pa.field(name, self.pane_time) for name in ("session_start", "session_end", "last_row")]
        number = [pa.field("firing", pa.int64()), pa.field("window_mark", pa.bool_())]
        return pa.schema(
            [
                *that_may_be_null(self.keys),
                *([pa.field(PORT, pa.int32())] if self.other_ports and self.join is None else []),
                *(pane if any_paned else []),
                *(session if any_session else []),
                *([pa.field("fired_at", TIMESTAMP)] if any_timed else []),
                *self.output,
                *self.retired,
                *([pa.field("replaces", pa.list_(self.pane_time))] if any_session else []),
                *([pa.field("refinement", pa.int32()), pa.field("is_final", pa.bool_())] if any_event_time else []),
                *([pa.field("op", pa.int32())] if self.retracts else []),
                *(number if any_timed else []),
                pa.field("reason", pa.string()),
            ]
        )

    @property
    def rejected_schema(self) -> pa.Schema:
        """Schema of rows that join no window; of several ports, or windows: which one, first."""
        if self.windows:
            return pa.schema([pa.field(WINDOW, pa.string()), *REJECTED_SCHEMA])
        return pa.schema([pa.field(PORT, pa.int32()), *REJECTED_SCHEMA]) if self.other_ports else REJECTED_SCHEMA


REST = "_rest"
"""Column of segments: a struct with what a row has beside the columns that the job reads. Only rows that may get into
the quarantine on their way have it."""
REST_AS_JSON = "_json"
"""Field of `REST`: the columns of types that Arrow does not carry as they are, as a JSON object of Spark's."""

REJECTED_SCHEMA = pa.schema(
    [
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("event_time", TIMESTAMP),
        pa.field("row", pa.string()),
        pa.field("source", pa.string()),
    ]
)
"""Schema of rows that join no window, and of what cannot be computed: why, in words, the event time of the row, and
the row itself as JSON; of a firing, its partition and times. `source`: the file or the offset of a row, where known."""
