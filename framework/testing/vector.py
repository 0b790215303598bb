"""Parses a vector, field by field: a window and the items that happen to it.

An unknown field is refused, wherever it stands: a misspelt field must never mean "the default".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from panekeeper.framework.declarations.durations import seconds_to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.testing.fields import optional_time_us, require_field, require_known_fields, require_list
from panekeeper.framework.testing.window_fields import DeclaredWindow, parse_window

_VECTOR = {"name", "source", "window", "input", "expect", "note"}
_EVENT = {"event", "key", "tuples", "at", "pane", "timing", "index", "on", "method", "id"}


@dataclass(frozen=True, kw_only=True)
class RowItem:
    """One row.

    Attributes:
        key: its partition key as JSON text, so that 7 stays 7 and 7.0 stays 7.0.
        text: its value as JSON text.
        time_us: its event time in microseconds, for a time interval.
        at_us: its arrival time in microseconds, for other windows.
        measures: the numbers in it that delta policies read, by field.
    """

    key: str | None
    text: str
    time_us: int | None = None
    at_us: int | None = None
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WatermarkItem:
    """The watermark, in microseconds."""

    watermark_us: int


@dataclass(frozen=True, kw_only=True)
class ClockItem:
    """The time of the wall clock, in microseconds; no more rows arrive at that instant."""

    at_us: int


@dataclass(frozen=True, kw_only=True)
class MarkItem:
    """A window mark or the final mark."""

    kind: Literal["window", "final"]
    at_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class CheckpointItem:
    """Store the state under a name."""

    name: str
    at_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class ResetItem:
    """Restore the state stored under a name; None is the initial state."""

    name: str | None
    at_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class EvictItem:
    """Evict the partition of a key (JSON text)."""

    key: str | None
    at_us: int | None = None


Item = RowItem | WatermarkItem | ClockItem | MarkItem | CheckpointItem | ResetItem | EvictItem


@dataclass(frozen=True, kw_only=True)
class Vector:
    """A parsed vector: its window, and what happens to it, in order."""

    declared: DeclaredWindow
    items: tuple[Item, ...]

    @property
    def window(self) -> Window:
        """The declared window."""
        return self.declared.window

    @property
    def partitioned(self) -> bool:
        """Whether each key is a partition; else the key of every row is None."""
        return self.declared.partitioned


def parse(vector: Mapping[str, Any]) -> Vector:
    """Check and parse a vector. Raises `DeclarationError` with the field and where it stands."""
    require_known_fields(vector, _VECTOR, "the vector")
    for number, event in enumerate(require_list(vector.get("expect", []), "expect")):
        require_known_fields(event, _EVENT, f"expect[{number}]")
    declared = parse_window(require_field(vector, "window", "the vector"))
    items = require_list(require_field(vector, "input", "the vector"), "input")
    return Vector(declared=declared, items=tuple(_Reader(declared).read_all(items)))


class _Reader:
    """Parses input items, with the declared window and the clock so far."""

    def __init__(self, declared: DeclaredWindow) -> None:
        self.declared = declared
        self.clock_us = declared.ready_us
        self.checkpoints: set[str] = set()

    def read_all(self, items: list[Any]) -> Iterable[Item]:
        for number, item in enumerate(items):
            where = f"input[{number}]"
            if not isinstance(item, Mapping):
                raise DeclarationError(f"{where} is {item!r}; it must be an object")
            kinds = sorted(_READERS.keys() & item.keys())
            if len(kinds) != 1:
                raise DeclarationError(
                    f"{where} has {', '.join(item) or 'no field'}; it needs one of {', '.join(_READERS)}"
                )
            read = _READERS[kinds[0]](self, item, where)
            self._advance_clock(read, where)
            yield read

    def _advance_clock(self, item: Item, where: str) -> None:
        """Advance the clock; only after a reset may it be behind."""
        if self.clock_us is None or isinstance(item, WatermarkItem):
            return
        if item.at_us is None:
            if not isinstance(item, MarkItem):
                raise DeclarationError(f"{where} needs the field 'at': this window goes by the wall clock")
        elif item.at_us < self.clock_us and not isinstance(item, ResetItem):
            raise DeclarationError(
                f"{where} is at {item.at_us / 1e6:g} s, but the clock already reads {self.clock_us / 1e6:g} s"
            )
        else:
            self.clock_us = item.at_us

    def tuple(self, item: Mapping[str, Any], where: str) -> Item:
        require_known_fields(item, {"at", "key", "value"}, where)
        value, event_time = item["value"], self.declared.event_time
        if not isinstance(value, Mapping):
            raise DeclarationError(f"{where}.value is {value!r}; it must be an object")
        if event_time is not None and value.get(event_time) is None:
            raise DeclarationError(f"{where}.value has no {event_time!r}, the event time of this window")
        return RowItem(
            key=_key(item.get("key")) if self.declared.partitioned else None,
            text=json.dumps(value),
            time_us=None if event_time is None else seconds_to_us(value[event_time], f"{where}.value.{event_time}"),
            at_us=optional_time_us(item, where),
            measures={name: _number(value, name, f"{where}.value") for name in self.declared.attributes},
        )

    def watermark(self, item: Mapping[str, Any], where: str) -> Item:
        require_known_fields(item, {"watermark"}, where)
        return WatermarkItem(watermark_us=seconds_to_us(item["watermark"], f"{where}.watermark"))

    def clock(self, item: Mapping[str, Any], where: str) -> Item:
        require_known_fields(item, {"advance_clock"}, where)
        return ClockItem(at_us=seconds_to_us(item["advance_clock"], f"{where}.advance_clock"))

    def punct(self, item: Mapping[str, Any], where: str) -> Item:
        require_known_fields(item, {"at", "punct"}, where)
        if item["punct"] not in ("window", "final"):
            raise DeclarationError(f'{where}.punct is {item["punct"]!r}; it must be "window" or "final"')
        return MarkItem(kind=item["punct"], at_us=optional_time_us(item, where))

    def checkpoint(self, item: Mapping[str, Any], where: str) -> Item:
        require_known_fields(item, {"at", "checkpoint"}, where)
        self.checkpoints.add(item["checkpoint"])
        return CheckpointItem(name=item["checkpoint"], at_us=optional_time_us(item, where))

    def reset(self, item: Mapping[str, Any], where: str) -> Item:
        require_known_fields(item, {"at", "reset"}, where)
        if item["reset"] not in self.checkpoints:
            raise DeclarationError(f"{where}.reset is {item['reset']!r}; no checkpoint of that name stands before it")
        return ResetItem(name=item["reset"], at_us=optional_time_us(item, where))

    def reset_to_initial(self, item: Mapping[str, Any], where: str) -> Item:
        require_known_fields(item, {"at", "reset_to_initial"}, where)
        if item["reset_to_initial"] is not True:
            raise DeclarationError(f"{where}.reset_to_initial is {item['reset_to_initial']!r}; it must be true")
        return ResetItem(name=None, at_us=optional_time_us(item, where))

    def evict_partition(self, item: Mapping[str, Any], where: str) -> Item:
        require_known_fields(item, {"at", "evict_partition"}, where)
        if self.declared.event_time is not None:
            raise DeclarationError(f"{where}.evict_partition: a time interval has no partition eviction")
        if not self.declared.partitioned:
            raise DeclarationError(
                f"{where}.evict_partition is {item['evict_partition']!r}, but the window is not partitioned: "
                "a partition can be evicted only from a partitioned window"
            )
        return EvictItem(key=_key(item["evict_partition"]), at_us=optional_time_us(item, where))


_READERS: dict[str, Callable[[_Reader, Mapping[str, Any], str], Item]] = {
    "value": _Reader.tuple,
    "watermark": _Reader.watermark,
    "advance_clock": _Reader.clock,
    "punct": _Reader.punct,
    "checkpoint": _Reader.checkpoint,
    "reset": _Reader.reset,
    "reset_to_initial": _Reader.reset_to_initial,
    "evict_partition": _Reader.evict_partition,
}


def _key(key: Any) -> str | None:
    return None if key is None else json.dumps(key, sort_keys=True)


def _number(value: Mapping[str, Any], name: str, where: str) -> float:
    """Return a number that a delta policy reads; an int stays an int."""
    number = value.get(name)
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise DeclarationError(f"{where}.{name} is {number!r}; the delta policy of this window needs a number")
    return number
