"""What the recorded declaration of a job says of the window of each port (`Pipeline.declaration`).

A checkpoint is looked at without the program that declares its job, so the window is built again from what is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.inspection.recorded_windows import fields_below, window_of
from panekeeper.framework.core.job_spec import TIMESTAMP, JobSpec
from panekeeper.framework.core.joins.panes import stored_key
from panekeeper.framework.core.panes.settleable import against_settling
from panekeeper.framework.declarations.aggregates import GROUPS, count
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.joins import Within
from panekeeper.framework.declarations.windows import ArrivalWindow, Session, SlidingByRow, TimeInterval, Window
from panekeeper.state.history import History, aggregates_of, column_type, declarations_by_window, in_force
from panekeeper.state.store import KeyGroupStore, PortStore, WindowStore

_PANES, _WITHIN = "timeInterval", "within"


@dataclass(frozen=True, kw_only=True)
class RecordedPort:
    """The window of one port, as it is recorded.

    Attributes:
        number: of the port.
        window: which of several windows of the job it is; empty if there is only one.
        can_settle: whether rows of closed panes can be settled.
        fields: what is recorded of the window, by names such as `evict.size`.
        keys: the partition columns, as they are stored.
        row_keys: what they are called in the rows of the port.
        rows_of: the same for each port whose rows the window has: of panes that are joined, both.
        event_time: the column with the event time; None for a window in arrival order.
        pane_time: the type of the bounds of panes.
        declared: the window, or the join in its place, built again.
        history: what earlier declarations have left: panes that are closed, among others.
        counted_by: the number of the aggregate that counts all rows; None if there is no such one.
        log_keys: what the partition columns are called in the log: as those of port 0.
    """

    number: int
    fields: Mapping[str, Any]
    declared: Window | Within
    keys: pa.Schema
    event_time: str | None = None
    pane_time: pa.DataType = TIMESTAMP
    history: History = field(default_factory=History)
    counted_by: int | None = None
    log_keys: tuple[str, ...] = ()
    row_keys: tuple[str, ...] = ()
    rows_of: tuple[tuple[str, ...], ...] = ()
    window: str = ""
    can_settle: bool = False

    @property
    def kind(self) -> str:
        """The kind of the window, as it is recorded."""
        return str(self.fields["kind"])

    @property
    def panes(self) -> TimeInterval | None:
        """The window, where it is one of panes."""
        return self.declared if isinstance(self.declared, TimeInterval) else None

    @property
    def is_session(self) -> bool:
        """Whether it is a session."""
        return isinstance(self.declared, Session)

    @property
    def is_arrival(self) -> bool:
        """Whether it is a window in arrival order."""
        return isinstance(self.declared, ArrivalWindow)

    @property
    def is_by_row(self) -> bool:
        """Whether its windows end at, or begin after, each row."""
        return isinstance(self.declared, SlidingByRow)

    @property
    def is_within(self) -> bool:
        """Whether it is a side of an interval join: it has rows and no windows."""
        return isinstance(self.declared, Within)

    @property
    def has_panes(self) -> bool:
        """Whether it has panes, sessions or windows by row, each with its time."""
        return not self.is_arrival and not self.is_within

    @property
    def part(self) -> str:
        """What the names of what is stored of it begin with."""
        if self.window:
            return f"{WindowStore.name_of(self.window)}/"
        return f"port {self.number}/" if self.number else ""

    def own(self, store: KeyGroupStore) -> KeyGroupStore:
        """Return the part of the store of a key group that it has."""
        if self.window:
            return WindowStore(store, self.window)
        return PortStore(store, self.number) if self.number else store


def recorded_ports(declaration: Mapping[str, Any], committed: int | None = None) -> list[RecordedPort]:
    """Return the ports of each window of a job, by its recorded declaration; of panes that are joined, one for both.

    `committed` is the last committed batch: a declaration that no batch has run with is not the one of the state.

    Raises `DeclarationError` for a partition column by which nothing can be looked up.
    """
    windows = declarations_by_window(in_force(declaration, committed))
    return [port for name, window_declaration in windows.items() for port in _ports(name, window_declaration)]


def _ports(window: str, declaration: Mapping[str, Any]) -> list[RecordedPort]:
    history = History.of(declaration)
    parts = [fields_below(declaration, "")]
    if not _is_joined(declaration) or parts[0]["window.kind"] == _WITHIN:
        while f"port_{len(parts)}.window.kind" in declaration:
            parts.append(fields_below(declaration, f"port_{len(parts)}."))
    count = None if len(parts) > 1 else _counted_by(declaration, history)
    join = {f"window.{name}": value for name, value in fields_below(declaration, "join.").items()}
    log_keys = tuple(_keys(parts[0]).names)
    return [_port(number, part | join, history, count, log_keys, window) for number, part in enumerate(parts)]


def _is_joined(declaration: Mapping[str, Any]) -> bool:
    return any(name.startswith("join.") for name in declaration)


def _port(
    number: int, part: Mapping[str, Any], history: History, count: int | None, log_keys: tuple[str, ...], window: str
) -> RecordedPort:
    fields, keys = fields_below(part, "window."), _keys(part)
    kind = fields["kind"]
    joined = [fields_below(part, "port_1.")] if _is_joined(part) and kind == _PANES else []
    if joined:
        keys = pa.schema([pa.field(stored_key(place), column.type) for place, column in enumerate(keys)])
    return RecordedPort(
        number=number,
        fields=fields,
        declared=window_of(fields),
        keys=keys,
        event_time=part.get("event_time"),
        pane_time=pa.timestamp("us") if part.get("event_time_type") == "timestamp_ntz" else TIMESTAMP,
        history=history,
        counted_by=count,
        log_keys=log_keys,
        row_keys=tuple(_keys(part).names),
        rows_of=tuple(tuple(_keys(port_part).names) for port_part in (part, *joined)),
        window=window,
        can_settle=_can_settle(part, is_one_of_several=bool(joined or number)),
    )


def _can_settle(part: Mapping[str, Any], *, is_one_of_several: bool) -> bool:
    against = against_settling(
        window_of(fields_below(part, "window.")),
        has_several_inputs=is_one_of_several or "port_1.window.kind" in part,
        has_aggregates=bool(aggregates_of(part)) and "operator" not in part and "handlers" not in part,
        has_groups=any(name.startswith("aggregate.") and value == GROUPS for name, value in part.items()),
        has_dedupe="dedupe" in part,
    )
    return against is None


def _keys(part: Mapping[str, Any]) -> pa.Schema:
    columns = []
    for name, text in fields_below(part, "partition_by.").items():
        kind = column_type(text)
        if kind is None:
            raise DeclarationError(
                f"the partition column {name!r} is of the type {text}, by which nothing is looked up"
            )
        columns.append(pa.field(name, kind))
    return pa.schema(columns)


def _counted_by(declaration: Mapping[str, Any], history: History) -> int | None:
    """Return the number of an aggregate that counts every row, since the first one."""
    for name in aggregates_of(declaration):
        own = fields_below(declaration, f"aggregate.{name}.")
        if own.get("kind") == "count" and not own.get("columns") and "where" not in own and name not in history.begins:
            return history.numbers[name]
    return None


def that_counts(port: RecordedPort) -> JobSpec:
    """Return a job with the window of a port that computes how many rows there are, if the recorded one does, alone."""
    numbers = {} if port.counted_by is None else {"rows": port.counted_by}
    return JobSpec(
        window=port.declared,
        keys=port.keys,
        columns=port.keys,
        aggregates={name: count() for name in numbers},
        output=pa.schema([pa.field(name, pa.int64()) for name in numbers]),
        history=replace(port.history, numbers=numbers, begins={}, retired={}),
    )
