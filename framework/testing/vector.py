"""What a vector says, checked field by field: a window and the items that happen to it.

Refuses what it does not know, wherever it stands: a misspelt field must never mean "the default". Knows nothing of
micro-batches or engines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from framework.declarations.durations import to_us
from framework.declarations.errors import DeclarationError
from framework.declarations.windows import Window
from framework.testing.fields import instant, known, listed, need
from framework.testing.window_fields import Declared, declared_by

_VECTOR = {"name", "source", "window", "input", "expect", "note"}
_EVENT = {"event", "key", "tuples", "at", "pane", "timing", "index", "on", "method", "id"}


@dataclass(frozen=True, kw_only=True)
class Tuple:
    """One tuple: its key and value as JSON text, so that 7 stays 7 and 7.0 stays 7.0; its event time in us.

    `measures` are the numbers in it that delta policies read, by field.
    """

    key: str | None
    text: str
    time_us: int | None = None
    at_us: int | None = None
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Advance:
    """The watermark, in us."""

    watermark_us: int


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The wall clock reads so, in us, and nothing more comes at that very instant."""

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


@dataclass(frozen=True, kw_only=True)
class Release:
    """The operator lets go of the partition of a key (JSON text)."""

    key: str | None
    at_us: int | None = None


Item = Tuple | Advance | Clock | Punct | Checkpoint | Reset | Release


@dataclass(frozen=True, kw_only=True)
class Vector:
    """A parsed vector: what its window says, and what happens, in order."""

    declared: Declared
    items: tuple[Item, ...]

    @property
    def window(self) -> Window:
        """The declared window."""
        return self.declared.window

    @property
    def partitioned(self) -> bool:
        """Whether keys tell partitions apart; else every tuple's key is None."""
        return self.declared.partitioned


def parse(vector: Mapping[str, Any]) -> Vector:
    """Check a vector and return what it says. Raises `DeclarationError` naming the field and where it stands."""
    known(vector, _VECTOR, "the vector")
    for number, event in enumerate(listed(vector.get("expect", []), "expect")):
        known(event, _EVENT, f"expect[{number}]")
    declared = declared_by(need(vector, "window", "the vector"))
    items = listed(need(vector, "input", "the vector"), "input")
    return Vector(declared=declared, items=tuple(_Reader(declared).read_all(items)))


class _Reader:
    """Reads input items; holds what the window says about them, and the clock so far."""

    def __init__(self, declared: Declared) -> None:
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
            self.follow(read, where)
            yield read

    def follow(self, item: Item, where: str) -> None:
        """Hold the clock to its one direction; only a process that comes back may find it behind."""
        if self.clock_us is None or isinstance(item, Advance):
            return
        if item.at_us is None:
            if not isinstance(item, Punct):
                raise DeclarationError(f"{where} needs the field 'at': this window goes by the wall clock")
        elif item.at_us < self.clock_us and not isinstance(item, Reset):
            raise DeclarationError(
                f"{where} is at {item.at_us / 1e6:g} s, but the clock already reads {self.clock_us / 1e6:g} s"
            )
        else:
            self.clock_us = item.at_us

    def tuple(self, item: Mapping[str, Any], where: str) -> Item:
        known(item, {"at", "key", "value"}, where)
        value, event_time = item["value"], self.declared.event_time
        if not isinstance(value, Mapping):
            raise DeclarationError(f"{where}.value is {value!r}; it must be an object")
        if event_time is not None and value.get(event_time) is None:
            raise DeclarationError(f"{where}.value has no {event_time!r}, the event time of this window")
        return Tuple(
            key=_key(item.get("key")) if self.declared.partitioned else None,
            text=json.dumps(value),
            time_us=None if event_time is None else to_us(value[event_time], f"{where}.value.{event_time}"),
            at_us=instant(item, where),
            measures={name: _number(value, name, f"{where}.value") for name in self.declared.attributes},
        )

    def watermark(self, item: Mapping[str, Any], where: str) -> Item:
        known(item, {"watermark"}, where)
        return Advance(watermark_us=to_us(item["watermark"], f"{where}.watermark"))

    def clock(self, item: Mapping[str, Any], where: str) -> Item:
        known(item, {"advance_clock"}, where)
        return Clock(at_us=to_us(item["advance_clock"], f"{where}.advance_clock"))

    def punct(self, item: Mapping[str, Any], where: str) -> Item:
        known(item, {"at", "punct"}, where)
        if item["punct"] not in ("window", "final"):
            raise DeclarationError(f'{where}.punct is {item["punct"]!r}; it must be "window" or "final"')
        return Punct(kind=item["punct"], at_us=instant(item, where))

    def checkpoint(self, item: Mapping[str, Any], where: str) -> Item:
        known(item, {"at", "checkpoint"}, where)
        self.checkpoints.add(item["checkpoint"])
        return Checkpoint(name=item["checkpoint"], at_us=instant(item, where))

    def reset(self, item: Mapping[str, Any], where: str) -> Item:
        known(item, {"at", "reset"}, where)
        if item["reset"] not in self.checkpoints:
            raise DeclarationError(f"{where}.reset is {item['reset']!r}; no checkpoint of that name stands before it")
        return Reset(name=item["reset"], at_us=instant(item, where))

    def reset_to_initial(self, item: Mapping[str, Any], where: str) -> Item:
        known(item, {"at", "reset_to_initial"}, where)
        if item["reset_to_initial"] is not True:
            raise DeclarationError(f"{where}.reset_to_initial is {item['reset_to_initial']!r}; it must be true")
        return Reset(name=None, at_us=instant(item, where))

    def evict_partition(self, item: Mapping[str, Any], where: str) -> Item:
        known(item, {"at", "evict_partition"}, where)
        if self.declared.event_time is not None:
            raise DeclarationError(f"{where}.evict_partition: a time interval has no partition eviction [S0]")
        if not self.declared.partitioned:
            raise DeclarationError(
                f"{where}.evict_partition is {item['evict_partition']!r}, but the window is not partitioned: "
                f"a partition can be evicted only from a partitioned window [S3][semantics 0.9]"
            )
        return Release(key=_key(item["evict_partition"]), at_us=instant(item, where))


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
    """A number that a delta policy reads; an int stays an int."""
    number = value.get(name)
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise DeclarationError(f"{where}.{name} is {number!r}; the delta policy of this window needs a number")
    return number
