"""What earlier declarations of a job have left in its state and its tables.

It is recorded with the declaration, as its field `history`, from the first change on. Without that field it follows
from the declaration alone: no aggregate was ever added or removed, so partial results are numbered in its order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

HISTORY = "history"
"""Field of a recorded declaration: what earlier ones have left. It is not declared, and neither is `BEFORE`."""
WINDOWS = "windows"
"""Field of a recorded declaration of several windows: the name of each -> what is recorded of a job with it alone, its
history among that."""
BEFORE = "before"
"""Field of a recorded declaration: the one before, and the last batch that was computed by it.

While no later batch is committed, the state is still that of the declaration before: a process may have been killed
between the record and its first batch, and the next start compares with the declaration before.
"""

_OUTPUT = "output."
_COLUMN = "column."
_AGE = "window.discard_age_us"
_ZONE_DATA = "window.zone_data"  # with the prefix of a further port
_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_LIST = re.compile(r"list<(\w+): (.+)>")


@dataclass(frozen=True, kw_only=True)
class ClosedPanes:
    """The panes that were closed when the discard age changed, and stay closed.

    Attributes:
        watermark_us: the watermark of the last batch with the discard age before; the new one holds from the next
            greater watermark on.
        end_us: the panes that end at this time or before were closed then.
        age_us: the discard age until then.
    """

    watermark_us: int
    end_us: int
    age_us: int


@dataclass(frozen=True, kw_only=True)
class FormerZoneData:
    """What was known of a zone before: panes that it lets begin until an instant begin there still.

    Attributes:
        zone_data: the data, as the declaration of a calendar has it.
        until_us: the instant; when the data changed, panes with rows began and ended until then.
    """

    zone_data: str
    until_us: int


@dataclass(frozen=True, kw_only=True)
class History:
    """What a job must know of its earlier declarations.

    Attributes:
        numbers: aggregate -> its number in the names of the columns in which its partial results are stored.
        next_number: the number of the next aggregate that is added; none is given twice.
        begins: aggregate that was added -> start of the first pane that has it, us since the epoch; of a calendar, its
            number, which does not depend on what is known of the zone. None: all have it.
        retired: result column of an aggregate that was removed -> its type, as text; it is null from then on.
        closed: the panes that a change of the discard age found closed; None if it never changed.
        zones: zone of a calendar -> what was known of it before, the oldest first.
        declaration: how many declarations of a stream came before that lack a column which one after them has.
        carried_since: column that was added, or came back -> the number of the declaration by which it did.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    next_number: int = 0
    begins: Mapping[str, int | None] = field(default_factory=dict)
    retired: Mapping[str, str] = field(default_factory=dict)
    closed: ClosedPanes | None = None
    zones: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    declaration: int = 0
    carried_since: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, declaration: Mapping[str, Any]) -> History:
        """Return the history in a recorded declaration."""
        stored = declaration.get(HISTORY)
        if stored is None:
            names = aggregates_of(declaration)
            return cls(numbers={name: number for number, name in enumerate(names)}, next_number=len(names))
        closed = stored["closed"]
        return cls(**{**stored, "closed": None if closed is None else ClosedPanes(**closed)})

    def former_zone_data(self, zone: str) -> tuple[FormerZoneData, ...]:
        """Return what was known of a zone before."""
        return tuple(FormerZoneData(**former) for former in self.zones.get(zone, ()))

    def retired_columns(self) -> pa.Schema:
        """Return the result columns of aggregates that were removed."""
        return pa.schema([pa.field(name, column_type(text)) for name, text in self.retired.items()])

    def added_columns(self) -> frozenset[str]:
        """Return the result columns that a table of an earlier declaration may lack."""
        return frozenset({*self.begins, *self.retired})


def declarations_by_window(declaration: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return what is recorded of each window that has results of its own, by its name; the empty one if it is alone.

    >>> declarations_by_window({"window.kind": "session"})
    {'': {'window.kind': 'session'}}
    """
    windows: Mapping[str, Mapping[str, Any]] = declaration.get(WINDOWS) or {"": declaration}
    return windows


def declared_part(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is declared of a recorded declaration."""
    declared = {name: value for name, value in declaration.items() if name not in (HISTORY, BEFORE)}
    if WINDOWS in declared:
        declared[WINDOWS] = {name: declared_part(window) for name, window in declared[WINDOWS].items()}
    return declared


def in_force(declaration: Mapping[str, Any], committed: int | None) -> Mapping[str, Any]:
    """Return the recorded declaration that the state was computed by; `committed` is the last committed batch."""
    before = declaration.get(BEFORE)
    if before is None or _number(committed) > _number(before["batch"]):
        return declaration
    old: Mapping[str, Any] = before["declaration"]
    return old


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch


def computed_by(declaration: Mapping[str, Any], batch: int, declared_then: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the recorded declaration, with that by which a batch was computed as the one in force up to this batch.

    It is the same one if that is so already.
    """
    then, now = _without_before(declared_then), _without_before(in_force(declaration, batch))
    if json.dumps(then, sort_keys=True) == json.dumps(now, sort_keys=True):  # one may not have been stored yet
        return declaration
    return {**_without_before(declaration), BEFORE: {"batch": batch, "declaration": then}}


def _without_before(declaration: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in declaration.items() if name != BEFORE}


def aggregates_of(declaration: Mapping[str, Any]) -> list[str]:
    """Return the names of the aggregates in a recorded declaration, in order; empty if an operator computes."""
    if not any(name.startswith("aggregate.") for name in declaration):
        return []
    return [name.removeprefix(_OUTPUT) for name in declaration if name.startswith(_OUTPUT)]


def upgraded(
    recorded: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    committed: int | None,
    watermark_us: int | None,
    last_panes: Mapping[str, int | None] | None = None,
    edges_until_us: Mapping[str, int | None] | None = None,
) -> dict[str, Any]:
    """Return the new declaration as it is recorded, with what those before leave.

    Every change to it from the one in force keeps the state (`compatibility.py`). `committed` is the last committed
    batch and `watermark_us` its watermark. By the name of each window, as `declarations_by_window` has them,
    `last_panes` says which is the last pane of which a row is stored, and `edges_until_us` where the last pane of a
    calendar ends that has had one; None if there is none.
    """
    old = in_force(recorded, committed)
    before, in_force_before = declarations_by_window(recorded), declarations_by_window(old)
    last_panes, edges_until_us = last_panes or {}, edges_until_us or {}
    after = {
        name: _upgraded(
            before[name], in_force_before[name], window, watermark_us, last_panes.get(name), edges_until_us.get(name)
        )
        for name, window in declarations_by_window(new).items()
    }
    whole = {**new, WINDOWS: after} if WINDOWS in new else after[""]
    return {**whole, BEFORE: {"batch": committed, "declaration": _without_before(old)}}


def _upgraded(
    recorded: Mapping[str, Any],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    watermark_us: int | None,
    last_pane: int | None,
    edges_until_us: int | None,
) -> dict[str, Any]:
    """Return the declaration of one window with its history; `old` is the one in force."""
    history, names = History.of(old), aggregates_of(new)
    added = [name for name in names if name not in history.numbers]
    numbers = {name: number for name, number in history.numbers.items() if name in names}
    numbers |= {name: history.next_number + place for place, name in enumerate(added)}
    begins = {name: start for name, start in history.begins.items() if name in names}
    start = None
    if last_pane is not None and "window.calendar" in new:
        start = last_pane + 1
    elif last_pane is not None:
        period, offset = new["window.creation_period_us"], new["window.interval_offset_us"]
        start = (last_pane + 1) * period + (offset if new.get("window.cumulates") else offset % period)
    begins |= dict.fromkeys(added, start)
    # Tables have the columns of a declaration that was only recorded, too, or may have them.
    columns = {**History.of(recorded).retired, **history.retired, **_outputs(recorded), **_outputs(old)}
    after = History(
        numbers=numbers,
        next_number=history.next_number + len(added),
        begins=begins,
        retired={name: text for name, text in columns.items() if name not in names} if names else {},
        closed=_closed(old, new, history.closed, watermark_us),
        zones=_zones(old, new, history, edges_until_us),
        **_carried(old, new, history),
    )
    return {**new, HISTORY: asdict(after)}


def begun_again(recorded: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declaration to record after a reset: nothing is stored, but tables keep the columns they have."""
    if WINDOWS in new:
        before = recorded.get(WINDOWS, {})
        return {
            **new,
            WINDOWS: {name: begun_again(before.get(name, {}), window) for name, window in new[WINDOWS].items()},
        }
    names = aggregates_of(new)
    retired = {name: text for name, text in History.of(recorded).retired.items() if name not in names}
    if not retired or not names:
        return dict(new)
    return {**new, HISTORY: asdict(replace(History.of(new), retired=retired))}


def _outputs(declaration: Mapping[str, Any]) -> dict[str, str]:
    """Return result column -> type of the aggregates of a recorded declaration."""
    return {name: declaration[f"{_OUTPUT}{name}"] for name in aggregates_of(declaration)}


def _carried(old: Mapping[str, Any], new: Mapping[str, Any], history: History) -> dict[str, Any]:
    """Return since when each column is carried, as fields of the history: rows from before are null in it."""
    added = [name for name in new if name.startswith(_COLUMN) and name not in old]
    since = {name: number for name, number in history.carried_since.items() if f"{_COLUMN}{name}" in new}
    number = history.declaration + bool(added)
    return {"declaration": number, "carried_since": since | {column.removeprefix(_COLUMN): number for column in added}}


def calendars_with_other_data(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return with what the fields of each window begin that is a calendar of a zone of which other data are known."""
    names = [name for name in new if name.endswith(_ZONE_DATA) and old.get(name, new[name]) != new[name]]
    return [name.removesuffix("zone_data") for name in names]


def _zones(
    old: Mapping[str, Any], new: Mapping[str, Any], history: History, until_us: int | None
) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return what was known of each zone before, until when it holds."""
    if until_us is None:
        return history.zones
    changed = {new[f"{window}zone"]: old[f"{window}zone_data"] for window in calendars_with_other_data(old, new)}
    added = {zone: asdict(FormerZoneData(zone_data=data, until_us=until_us)) for zone, data in changed.items()}
    return {**history.zones, **{zone: [*history.zones.get(zone, ()), former] for zone, former in added.items()}}


def _closed(
    old: Mapping[str, Any], new: Mapping[str, Any], before: ClosedPanes | None, watermark_us: int | None
) -> ClosedPanes | None:
    """Return the panes that are closed at a change of the discard age, by the rules that held until then."""
    if old.get(_AGE) == new.get(_AGE) or watermark_us is None:
        return before
    if before is not None and watermark_us <= before.watermark_us:
        return before  # the age of this declaration was not in force yet
    age = int(old[_AGE])
    end = watermark_us - age
    return ClosedPanes(watermark_us=watermark_us, end_us=end if before is None else max(end, before.end_us), age_us=age)


def column_type(text: str) -> pa.DataType | None:
    """Return the Arrow type with this text; None for one that is not read back, such as a struct.

    >>> column_type("list<item: decimal128(5, 2)>"), column_type("struct<a: int64>")
    (ListType(list<item: decimal128(5, 2)>), None)
    """
    kind = _parsed(text)
    return kind if str(kind) == text else None


def _parsed(text: str) -> pa.DataType | None:
    if match := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(match[1], tz=match[2])
    if match := _LIST.fullmatch(text):
        item = column_type(match[2])
        return None if item is None else pa.list_(pa.field(match[1], item))
    try:
        return pa.type_for_alias(text)
    except ValueError:
        return None
