"""What a vector says, checked field by field: a window and the items that happen to it.

Refuses what it does not know, wherever it stands: a misspelt field must never mean "the default". Knows nothing of
micro-batches or engines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from framework.durations import to_us
from framework.errors import DeclarationError
from framework.windows import TimeInterval

_VECTOR = {"name", "source", "window", "input", "expect", "note"}
_EVENT = {"event", "key", "tuples", "at", "pane", "timing", "index", "on", "method", "id"}
_INTERVAL = {
    "kind",
    "partitioned",
    "intervalDuration",
    "creationPeriod",
    "discardAge",
    "intervalOffset",
    "event_time",
    "late",
}
_NOT_YET = ("tumbling", "sliding", "batched", "lifecycle")


@dataclass(frozen=True, kw_only=True)
class Tuple:
    """One tuple: its key and value as JSON text, so that 7 stays 7 and 7.0 stays 7.0; its event time in us."""

    key: str | None
    text: str
    time_us: int | None = None
    at_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class Advance:
    """The watermark, in us."""

    watermark_us: int


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The wall clock reads so, in us."""

    at_us: int


@dataclass(frozen=True, kw_only=True)
class Punct:
    """A window mark or the final mark."""

    kind: Literal["window", "final"]
    at_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Remember the state under a name."""

    name: str
    at_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reset:
    """Go back to the state remembered under a name; None is the initial state."""

    name: str | None
    at_us: int | None = None


Item = Tuple | Advance | Clock | Punct | Checkpoint | Reset


@dataclass(frozen=True, kw_only=True)
class Vector:
    """A parsed vector.

    Attributes:
        window: the declared window.
        partitioned: whether keys tell partitions apart; else every tuple's key is None.
        items: what happens, in order.
    """

    window: TimeInterval
    partitioned: bool
    items: tuple[Item, ...]


def parse(vector: Mapping[str, Any]) -> Vector:
    """Check a vector and return what it says. Raises `DeclarationError` naming the field and where it stands."""
    _known(vector, _VECTOR, "the vector")
    for number, event in enumerate(_list(vector.get("expect", []), "expect")):
        _known(event, _EVENT, f"expect[{number}]")
    declared = _need(vector, "window", "the vector")
    window, event_time = _window(declared)
    partitioned = declared.get("partitioned", False)
    if not isinstance(partitioned, bool):
        raise DeclarationError(f"window.partitioned is {partitioned!r}; it must be true or false")
    reader = _Reader(partitioned, event_time)
    items = _list(_need(vector, "input", "the vector"), "input")
    return Vector(window=window, partitioned=partitioned, items=tuple(reader.read_all(items)))


def _window(declared: Mapping[str, Any]) -> tuple[TimeInterval, str]:
    kind = _need(declared, "kind", "window")
    if kind in _NOT_YET:
        raise DeclarationError(f"{kind} windows cannot be played yet; time intervals can")
    if kind != "timeInterval":
        raise DeclarationError(f"window.kind is {kind!r}; known: timeInterval, {', '.join(_NOT_YET)}")
    if "partition_eviction" in declared:
        raise DeclarationError("window.partition_eviction: a time interval has no partition eviction [S0]")
    _known(declared, _INTERVAL, "window")
    event_time = _need(declared, "event_time", "window")
    window = TimeInterval(
        _need(declared, "intervalDuration", "window"),
        creation_period=declared.get("creationPeriod"),
        discard_age=declared.get("discardAge", 0),
        interval_offset=declared.get("intervalOffset", 0),
        late=declared.get("late", "pane"),
    )
    return window, event_time


class _Reader:
    """Reads input items; holds what the window says about tuples."""

    def __init__(self, partitioned: bool, event_time: str) -> None:  # noqa: FBT001 -- private, one caller
        self.partitioned = partitioned
        self.event_time = event_time
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
            yield _READERS[kinds[0]](self, item, where)

    def tuple(self, item: Mapping[str, Any], where: str) -> Item:
        _known(item, {"at", "key", "value"}, where)
        value = item["value"]
        if not isinstance(value, Mapping) or value.get(self.event_time) is None:
            raise DeclarationError(f"{where}.value has no {self.event_time!r}, the event time of this window")
        key = item.get("key") if self.partitioned else None
        return Tuple(
            key=None if key is None else json.dumps(key, sort_keys=True),
            text=json.dumps(value),
            time_us=to_us(value[self.event_time], f"{where}.value.{self.event_time}"),
            at_us=_at(item, where),
        )

    def watermark(self, item: Mapping[str, Any], where: str) -> Item:
        _known(item, {"watermark"}, where)
        return Advance(watermark_us=to_us(item["watermark"], f"{where}.watermark"))

    def clock(self, item: Mapping[str, Any], where: str) -> Item:
        _known(item, {"advance_clock"}, where)
        return Clock(at_us=to_us(item["advance_clock"], f"{where}.advance_clock"))

    def punct(self, item: Mapping[str, Any], where: str) -> Item:
        _known(item, {"at", "punct"}, where)
        if item["punct"] not in ("window", "final"):
            raise DeclarationError(f'{where}.punct is {item["punct"]!r}; it must be "window" or "final"')
        return Punct(kind=item["punct"], at_us=_at(item, where))

    def checkpoint(self, item: Mapping[str, Any], where: str) -> Item:
        _known(item, {"at", "checkpoint"}, where)
        self.checkpoints.add(item["checkpoint"])
        return Checkpoint(name=item["checkpoint"], at_us=_at(item, where))

    def reset(self, item: Mapping[str, Any], where: str) -> Item:
        _known(item, {"at", "reset"}, where)
        if item["reset"] not in self.checkpoints:
            raise DeclarationError(f"{where}.reset is {item['reset']!r}; no checkpoint of that name stands before it")
        return Reset(name=item["reset"], at_us=_at(item, where))

    def reset_to_initial(self, item: Mapping[str, Any], where: str) -> Item:
        _known(item, {"at", "reset_to_initial"}, where)
        if item["reset_to_initial"] is not True:
            raise DeclarationError(f"{where}.reset_to_initial is {item['reset_to_initial']!r}; it must be true")
        return Reset(name=None, at_us=_at(item, where))

    def evict_partition(self, item: Mapping[str, Any], where: str) -> Item:
        raise DeclarationError(f"{where}.evict_partition: a time interval has no partition eviction [S0]")


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


def _at(item: Mapping[str, Any], where: str) -> int | None:
    return to_us(item["at"], f"{where}.at") if "at" in item else None


def _known(found: Any, known: set[str], where: str) -> None:
    if not isinstance(found, Mapping):
        raise DeclarationError(f"{where} is {found!r}; it must be an object")
    unknown = sorted(found.keys() - known)
    if unknown:
        raise DeclarationError(f"{where} has the unknown field {', '.join(unknown)}; known: {', '.join(sorted(known))}")


def _need(found: Any, field: str, where: str) -> Any:
    if not isinstance(found, Mapping) or field not in found:
        raise DeclarationError(f"{where} needs the field {field!r}")
    return found[field]


def _list(found: Any, where: str) -> list[Any]:
    if not isinstance(found, list):
        raise DeclarationError(f"{where} is {found!r}; it must be a list")
    return found
