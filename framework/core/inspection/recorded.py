"""What the recorded declaration of a job says of the window of each port (`Pipeline.declaration`).

A checkpoint is looked at without the program that declares its job, so the window is built again from what is recorded.
Windows in arrival order stay what is recorded of them: a policy of the user's is a class that may not be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.job_spec import TIMESTAMP
from panekeeper.framework.core.joins.panes import stored_key
from panekeeper.framework.declarations.aggregates import GROUPS
from panekeeper.framework.declarations.calendar import Calendar, CalendarStart
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.firing import Every
from panekeeper.framework.declarations.windows import Cumulate, TimeInterval
from panekeeper.state.history import History, aggregates_of, column_type, declarations_by_window, in_force
from panekeeper.state.store import KeyGroupStore, PortStore, WindowStore

_PANES, _SESSIONS, _ARRIVALS = "timeInterval", "session", ("tumbling", "sliding", "batched")
_BY_ROW, _WITHIN = "slidingByRow", "within"


@dataclass(frozen=True, kw_only=True)
class RecordedPort:
    """The window of one port, as it is recorded.

    Attributes:
        number: of the port.
        window: which of several windows of the job it is; empty if there is only one.
        can_settle: whether rows of closed panes can be settled (`recovery.settle.panes.require_supported`).
        fields: what is recorded of the window, by names such as `evict.size`.
        keys: the partition columns, as they are stored.
        row_keys: what they are called in the rows of the port.
        rows_of: the same for each port whose rows the window has: of panes that are joined, both.
        event_time: the column with the event time; None for a window in arrival order.
        pane_time: the type of the bounds of panes.
        panes: the window, where it is one of panes.
        history: what earlier declarations have left: panes that are closed, among others.
        counted_by: the column of stored partial results that counts all rows; None if there is no such aggregate.
        log_keys: what the partition columns are called in the log: as those of port 0.
    """

    number: int
    fields: Mapping[str, Any]
    keys: pa.Schema
    event_time: str | None = None
    pane_time: pa.DataType = TIMESTAMP
    panes: TimeInterval | None = None
    history: History = field(default_factory=History)
    counted_by: str | None = None
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
    def is_session(self) -> bool:
        """Whether it is a session."""
        return self.kind == _SESSIONS

    @property
    def is_arrival(self) -> bool:
        """Whether it is a window in arrival order."""
        return self.kind in _ARRIVALS

    @property
    def is_by_row(self) -> bool:
        """Whether its windows end at, or begin after, each row."""
        return self.kind == _BY_ROW

    @property
    def is_within(self) -> bool:
        """Whether it is a side of an interval join: it has rows and no windows."""
        return self.kind == _WITHIN

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

    def rule(self, option: str) -> Mapping[str, int]:
        """Return what `early` or `refire` declares, as `Every.declaration` has it; nothing if it is not given."""
        return _nested(self.fields, option)

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
    return [port for name, one in windows.items() for port in _ports(name, one)]


def _ports(window: str, declaration: Mapping[str, Any]) -> list[RecordedPort]:
    history = History.of(declaration)
    parts = [_part(declaration, "")]
    if not _is_joined(declaration) or parts[0]["window.kind"] == _WITHIN:
        while f"port_{len(parts)}.window.kind" in declaration:
            parts.append(_part(declaration, f"port_{len(parts)}."))
    count = None if len(parts) > 1 else _counted_by(declaration, history)
    join = {f"window.{name}": one for name, one in _part(declaration, "join.").items()}
    log_keys = tuple(_keys(parts[0]).names)
    return [_port(number, one | join, history, count, log_keys, window) for number, one in enumerate(parts)]


def _is_joined(declaration: Mapping[str, Any]) -> bool:
    return any(name.startswith("join.") for name in declaration)


def _part(declaration: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): one for name, one in declaration.items() if name.startswith(prefix)}


def _port(
    number: int, part: Mapping[str, Any], history: History, count: str | None, log_keys: tuple[str, ...], window: str
) -> RecordedPort:
    fields, keys = _part(part, "window."), _keys(part)
    kind = fields["kind"]
    joined = [_part(part, "port_1.")] if _is_joined(part) and kind == _PANES else []
    if joined:
        keys = pa.schema([pa.field(stored_key(place), one.type) for place, one in enumerate(keys)])
    return RecordedPort(
        number=number,
        fields=fields,
        keys=keys,
        event_time=part.get("event_time"),
        pane_time=pa.timestamp("us") if part.get("event_time_type") == "timestamp_ntz" else TIMESTAMP,
        panes=panes_of(fields) if kind == _PANES else None,
        history=history,
        counted_by=count,
        log_keys=log_keys,
        row_keys=tuple(_keys(part).names),
        rows_of=tuple(tuple(_keys(one).names) for one in (part, *joined)),
        window=window,
        can_settle=not joined and number == 0 and _can_settle(part),
    )


def _can_settle(part: Mapping[str, Any]) -> bool:
    """Return whether rows can be settled, of a job with one port."""
    if part["window.kind"] != _PANES or part.get("port_1.window.kind") or not aggregates_of(part):
        return False
    window = panes_of(_part(part, "window."))
    has_rules = any(getattr(window, name) is not None for name in ("fires_when", "then", "fill"))
    computed = any(name in part for name in ("operator", "handlers", "dedupe"))
    has_groups = any(name.startswith("aggregate.") and one == GROUPS for name, one in part.items())
    return window.results == "accumulating" and not (has_rules or computed or has_groups)


def _keys(part: Mapping[str, Any]) -> pa.Schema:
    found = []
    for name, text in _part(part, "partition_by.").items():
        kind = column_type(text)
        if kind is None:
            raise DeclarationError(
                f"the partition column {name!r} is of the type {text}, by which nothing is looked up"
            )
        found.append(pa.field(name, kind))
    return pa.schema(found)


def _counted_by(declaration: Mapping[str, Any], history: History) -> str | None:
    """Return the stored column of an aggregate that counts every row, since the first one."""
    for name in aggregates_of(declaration):
        own = _part(declaration, f"aggregate.{name}.")
        if own.get("kind") == "count" and not own.get("columns") and "where" not in own and name not in history.begins:
            return f"{history.numbers[name]}.0"
    return None


def panes_of(fields: Mapping[str, Any]) -> TimeInterval:
    """Return the window of panes that has recorded these fields.

    >>> panes_of(TimeInterval(60, discard_age=5).declaration()).age_us
    5000000
    """
    options: dict[str, Any] = {"discard_age": _duration(fields["discard_age_us"]), "late": fields["late"]}
    options |= {name: fields[name] for name in ("emit", "results", "fires_when", "then", "fill") if name in fields}
    if "fill_for_us" in fields:
        options["fill_for"] = _duration(fields["fill_for_us"])
    for name in ("early", "refire"):
        if every := _nested(fields, name):
            options[name] = _every(every)
    if "calendar" in fields:
        months, days, time_us = (fields[f"starts_{part}"] for part in ("months", "days", "us"))
        starts = CalendarStart(months=months, days=days, time_us=time_us).text(fields["calendar"])
        return Calendar(fields["calendar"], zone=fields["zone"], starts=starts, **options)
    duration, period = _duration(fields["interval_duration_us"]), _duration(fields["creation_period_us"])
    options["interval_offset"] = _duration(fields["interval_offset_us"])
    if fields.get("cumulates"):
        return Cumulate(period, duration, **options)
    return TimeInterval(duration, creation_period=period, **options)


def _nested(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return what is recorded below a name, be it flattened or not."""
    return fields[name] if name in fields else _part(fields, f"{name}.")


def _every(fields: Mapping[str, Any]) -> Every:
    if "rows" in fields:
        return Every(rows=fields["rows"])
    if "event_time_us" in fields:
        return Every(event_time=_duration(fields["event_time_us"]))
    return Every(_duration(fields["period_us"]))


def _duration(us: int) -> timedelta:
    return timedelta(microseconds=us)
