"""What a vector says, checked field by field: a window and the items that happen to it.

A misspelt field must never mean "the default", so an unknown one is refused, wherever it stands. Values are refused by
the declarations themselves; what only a vector can get wrong is refused here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from panekeeper.framework.core.arrival.policies.registry import RUNNING_POLICIES
from panekeeper.framework.declarations.durations import seconds_to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.policies import Count, Policy
from panekeeper.framework.declarations.windows import Batched, Cumulate, Sliding, TimeInterval, Tumbling, Window


def require_known_fields(json_value: Any, names: set[str], where: str) -> None:
    """Raise `DeclarationError` unless `json_value` is an object without other fields."""
    if not isinstance(json_value, Mapping):
        raise DeclarationError(f"{where} is {json_value!r}; it must be an object")
    unknown = sorted(map(str, json_value.keys() - names))
    if unknown:
        raise DeclarationError(f"{where} has the unknown field {', '.join(unknown)}; known: {', '.join(sorted(names))}")


def require_field(json_value: Any, field: str, where: str) -> Any:
    """Return a field. Raises `DeclarationError` if it is missing."""
    if not isinstance(json_value, Mapping) or field not in json_value:
        raise DeclarationError(f"{where} needs the field {field!r}")
    return json_value[field]


def require_list(json_value: Any, where: str) -> list[Any]:
    """Return a list. Raises `DeclarationError` for anything else."""
    if not isinstance(json_value, list):
        raise DeclarationError(f"{where} is {json_value!r}; it must be a list")
    return json_value


def require_bool(json_value: Any, where: str) -> bool:
    """Return a truth value. Raises `DeclarationError` for anything else."""
    if not isinstance(json_value, bool):
        raise DeclarationError(f"{where} is {json_value!r}; it must be true or false")
    return json_value


def require_no_text(json_object: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Raise `DeclarationError` if one of these fields is text: durations of a vector are numbers of seconds."""
    for name in names:
        if isinstance(json_object.get(name), str):
            raise DeclarationError(f"{where}.{name} is {json_object[name]!r}; in a vector it must be a number")


def optional_time_us(json_object: Mapping[str, Any], where: str, field: str = "at") -> int | None:
    """Return the time in a field in us, None if it is absent."""
    return seconds_to_us(json_object[field], f"{where}.{field}") if field in json_object else None


@dataclass(frozen=True, kw_only=True)
class Item:
    """What happens at one place of a vector. Keys and rows are JSON text, so that 7 stays 7 and 7.0 stays 7.0.

    Attributes:
        kind: the field of the item that says so.
        value: of a "value" the row; of a "watermark" or "advance_clock" the time, us; of a "punct" its kind; the name
            of a "checkpoint" or "reset" (None: the initial state); of an "evict_partition" the key.
        at_us: when it happens by the wall clock; no more rows arrive at the time of an "advance_clock".
        key: the partition key of a row.
        time_us: the event time of a row, for a time interval.
        measures: the numbers in a row that delta policies read, by field.
    """

    kind: str
    value: Any = None
    at_us: int | None = None
    key: str | None = None
    time_us: int | None = None
    measures: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_between_batches(self) -> bool:
        """Whether it acts on the state between two micro-batches: a checkpoint or a reset."""
        return self.kind in ("checkpoint", "reset")


@dataclass(frozen=True, kw_only=True)
class Vector:
    """A parsed vector: its window, and what happens to it, in order.

    Attributes:
        window: the declared window.
        partitioned: whether each key is a partition; else the key of every row is None.
        event_time: the field of a row that is its event time, for a time interval.
        attributes: the fields that delta policies read, each once.
        ready_us: when all inputs are ready: the clock starts there. None for a time interval, which has no clock.
        items: what happens.
    """

    window: Window
    partitioned: bool
    event_time: str | None = None
    attributes: tuple[str, ...] = ()
    ready_us: int | None = None
    items: tuple[Item, ...] = ()


_WINDOWS = {
    "timeInterval": {
        "intervalDuration",
        "creationPeriod",
        "discardAge",
        "intervalOffset",
        "event_time",
        "late",
        "cumulates",
    },
    "tumbling": {"partition_eviction", "ready_at", "eviction", "aligned"},
    "sliding": {"partition_eviction", "ready_at", "eviction", "trigger", "when_full", "aligned"},
    "batched": {"partition_eviction", "ready_at", "within", "every", "retain", "created_at", "aligned"},
}
"""Kind of a window -> the fields that it can have."""
_DURATIONS = ("intervalDuration", "creationPeriod", "discardAge", "intervalOffset", "within", "every")
_ATTRIBUTE = "attr"
_FIELD_NAMES = {"attribute": _ATTRIBUTE}
"""Field of a declared policy -> the name that it has in a vector; the others have their own."""
_NAMES = {"punctuation": "punct"}
_OF_OTHERS = ("anyOf", "allOf")
"""The policies that are made of others, which are listed in `of`."""
_POLICIES: dict[str, Any] = {
    _NAMES.get(declared.declared_as, declared.declared_as): declared
    for declared in RUNNING_POLICIES
    if declared.declared_as
}
"""Name in a vector -> declared policy: every built-in one."""


def column_of(attribute: str) -> str:
    """Return the column with a field of the rows that a delta policy reads.

    >>> column_of("age")
    'value_age'
    """
    return f"value_{attribute}"


def _window(window: Any) -> Vector:
    """Check and parse the `window` of a vector."""
    kind = require_field(window, "kind", "window")
    if kind not in _WINDOWS:
        raise DeclarationError(f"window.kind is {kind!r}; known: {', '.join(_WINDOWS)}, lifecycle")
    require_no_text(window, _DURATIONS, "window")
    partitioned = require_bool(window.get("partitioned", False), "window.partitioned")
    if window.get("partition_eviction") is not None and kind != "timeInterval" and not partitioned:
        raise DeclarationError(
            f"window.partition_eviction is {window['partition_eviction']!r}, but the window is not partitioned: "
            "there is no partition to evict"
        )
    if kind == "timeInterval" and "partition_eviction" in window:
        raise DeclarationError("window.partition_eviction: a time interval has no partition eviction")
    if "created_at" in window and "ready_at" in window:
        raise DeclarationError("window has both created_at and ready_at; they name the same instant")
    require_known_fields(window, {"kind", "partitioned", *_WINDOWS[kind]}, "window")
    if kind == "timeInterval":
        event_time = require_field(window, "event_time", "window")
        size, period = require_field(window, "intervalDuration", "window"), window.get("creationPeriod")
        cumulates = require_bool(window.get("cumulates", False), "window.cumulates")
        make = partial(Cumulate, period) if cumulates else partial(TimeInterval, creation_period=period)
        interval = make(
            size,
            discard_age=window.get("discardAge", 0),
            interval_offset=window.get("intervalOffset", 0),
            late=window.get("late", "pane"),
        )
        return Vector(window=interval, partitioned=partitioned, event_time=event_time)
    policies = [window.get("eviction"), window.get("trigger")]
    attributes = dict.fromkeys(policy[_ATTRIBUTE] for policy in policies if policy and _ATTRIBUTE in policy)
    ready = optional_time_us(window, "window", "created_at") or optional_time_us(window, "window", "ready_at") or 0
    return Vector(window=_in_order(kind, window), partitioned=partitioned, attributes=tuple(attributes), ready_us=ready)


def _in_order(kind: str, window: Mapping[str, Any]) -> Window:
    """Return a window in arrival order."""
    eviction = window.get("partition_eviction")
    if isinstance(eviction, list):
        raise DeclarationError(
            f"window.partition_eviction is {eviction!r}; a window has at most one such policy, as an object"
        )
    leaves = None if eviction is None else _policy(eviction, "window.partition_eviction")
    further = {name: window[name] for name in ("aligned", "when_full") if name in window}
    if kind == "batched":
        every, within, retain = require_field(window, "every", "window"), window.get("within"), window.get("retain")
        return Batched(within=within, every=every, retain=retain, partition_eviction=leaves, **further)
    evict = _policy(require_field(window, "eviction", "window"), "window.eviction")
    if kind == "tumbling":
        return Tumbling(evict, partition_eviction=leaves, **further)
    trigger = _policy(window["trigger"], "window.trigger") if "trigger" in window else Count(1)
    return Sliding(evict=evict, trigger=trigger, partition_eviction=leaves, **further)


def _policy(policy_json: Any, where: str) -> Policy:
    """Return a policy; the declaration of the window checks that it fits its place."""
    name = require_field(policy_json, "policy", where)
    if name not in _POLICIES:
        raise DeclarationError(f"{where}.policy is {name!r}; known: {', '.join(_POLICIES)}")
    declared = _POLICIES[name]
    if name in _OF_OTHERS:
        require_known_fields(policy_json, {"policy", "of"}, where)
        others = require_list(require_field(policy_json, "of", where), f"{where}.of")
        made: Policy = declared(*[_policy(other, f"{where}.of[{number}]") for number, other in enumerate(others)])
        return made
    names = {field.name: _FIELD_NAMES.get(field.name, field.name) for field in fields(declared)}
    require_known_fields(policy_json, {"policy", *names.values()}, where)
    require_no_text(policy_json, [name for name in names.values() if name != _ATTRIBUTE], where)
    values = {name: require_field(policy_json, written, where) for name, written in names.items()}
    if "attribute" in values:
        if not isinstance(values["attribute"], str) or not values["attribute"]:
            raise DeclarationError(
                f"{where}.attr is {values['attribute']!r}; it must be the name of a field of the rows"
            )
        values["attribute"] = column_of(values["attribute"])
    policy: Policy = declared(**values)
    return policy


def parse(vector: Mapping[str, Any]) -> Vector:
    """Check and parse a vector. Raises `DeclarationError` with the field and where it stands."""
    require_known_fields(vector, {"name", "source", "window", "input", "expect", "note"}, "the vector")
    for number, event in enumerate(require_list(vector.get("expect", []), "expect")):
        require_known_fields(event, _EVENT, f"expect[{number}]")
    declared = _window(require_field(vector, "window", "the vector"))
    items = require_list(require_field(vector, "input", "the vector"), "input")
    return replace(declared, items=tuple(_items(items, declared)))


_EVENT = {"event", "key", "tuples", "at", "pane", "timing", "index", "on", "method", "id"}
_ITEMS = {
    "value": {"at", "key"},
    "watermark": set[str](),
    "advance_clock": set[str](),
    "punct": {"at"},
    "checkpoint": {"at"},
    "reset": {"at"},
    "reset_to_initial": {"at"},
    "evict_partition": {"at"},
}
"""Field that an item has -> the others that it can have."""


def _items(items: list[Any], declared: Vector) -> Iterator[Item]:
    clock_us, checkpoints = declared.ready_us, set[str]()
    for number, item in enumerate(items):
        where = f"input[{number}]"
        if not isinstance(item, Mapping):
            raise DeclarationError(f"{where} is {item!r}; it must be an object")
        kinds = sorted(_ITEMS.keys() & item.keys())
        if len(kinds) != 1:
            raise DeclarationError(f"{where} has {', '.join(item) or 'no field'}; it needs one of {', '.join(_ITEMS)}")
        require_known_fields(item, {kinds[0], *_ITEMS[kinds[0]]}, where)
        _require_possible(kinds[0], item[kinds[0]], declared, checkpoints, where)
        parsed = _item(kinds[0], item, declared, where)
        if parsed.kind == "checkpoint":
            checkpoints.add(parsed.value)
        if clock_us is not None and parsed.kind != "watermark":
            clock_us = _advanced(clock_us, parsed, where)
        yield parsed


def _advanced(clock_us: int, item: Item, where: str) -> int:
    """Return the clock at an item; only after a reset may it be behind."""
    if item.at_us is None:
        if item.kind != "punct":
            raise DeclarationError(f"{where} needs the field 'at': this window goes by the wall clock")
        return clock_us
    if item.at_us < clock_us and item.kind != "reset":
        raise DeclarationError(
            f"{where} is at {item.at_us / 1e6:g} s, but the clock already reads {clock_us / 1e6:g} s"
        )
    return item.at_us


def _require_possible(kind: str, value: Any, declared: Vector, checkpoints: set[str], where: str) -> None:
    """Raise `DeclarationError` for an item that cannot be there."""
    if kind == "punct" and value not in ("window", "final"):
        raise DeclarationError(f'{where}.punct is {value!r}; it must be "window" or "final"')
    if kind == "reset" and value not in checkpoints:
        raise DeclarationError(f"{where}.reset is {value!r}; no checkpoint of that name stands before it")
    if kind == "reset_to_initial" and value is not True:
        raise DeclarationError(f"{where}.reset_to_initial is {value!r}; it must be true")
    if kind == "evict_partition" and declared.event_time is not None:
        raise DeclarationError(f"{where}.evict_partition: a time interval has no partition eviction")
    if kind == "evict_partition" and not declared.partitioned:
        raise DeclarationError(
            f"{where}.evict_partition is {value!r}, but the window is not partitioned: "
            "a partition can be evicted only from a partitioned window"
        )


def _item(kind: str, item: Mapping[str, Any], declared: Vector, where: str) -> Item:
    value, at_us = item[kind], optional_time_us(item, where)
    match kind:
        case "value":
            return _row(item, declared, where)
        case "watermark":
            return Item(kind=kind, value=seconds_to_us(value, f"{where}.watermark"))
        case "advance_clock":
            time_us = seconds_to_us(value, f"{where}.advance_clock")
            return Item(kind=kind, value=time_us, at_us=time_us)
        case "evict_partition":
            return Item(kind=kind, value=_key(value), at_us=at_us)
        case "reset_to_initial":
            return Item(kind="reset", at_us=at_us)
    return Item(kind=kind, value=value, at_us=at_us)


def _row(item: Mapping[str, Any], declared: Vector, where: str) -> Item:
    value, event_time = item["value"], declared.event_time
    if not isinstance(value, Mapping):
        raise DeclarationError(f"{where}.value is {value!r}; it must be an object")
    if event_time is not None and value.get(event_time) is None:
        raise DeclarationError(f"{where}.value has no {event_time!r}, the event time of this window")
    for name in declared.attributes:  # a number stays an int or a float
        number = value.get(name)
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise DeclarationError(
                f"{where}.value.{name} is {number!r}; the delta policy of this window needs a number"
            )
    return Item(
        kind="value",
        key=_key(item.get("key")) if declared.partitioned else None,
        value=json.dumps(value),
        time_us=None if event_time is None else seconds_to_us(value[event_time], f"{where}.value.{event_time}"),
        at_us=optional_time_us(item, where),
        measures={name: value[name] for name in declared.attributes},
    )


def _key(key: Any) -> str | None:
    return None if key is None else json.dumps(key, sort_keys=True)
