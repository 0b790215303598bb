"""Parses the window of a vector: the fields of each kind of window.

Values are refused by the declarations themselves; what only a vector can get wrong is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from panekeeper.framework.core.arrival.policies.registry import RUNNING_POLICIES
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.policies import Count
from panekeeper.framework.declarations.policy import Policy
from panekeeper.framework.declarations.windows import Batched, Sliding, TimeInterval, Tumbling, Window
from panekeeper.framework.testing.fields import (
    optional_time_us,
    require_bool,
    require_field,
    require_known_fields,
    require_no_text,
)

_COMMON = {"kind", "partitioned"}
_IN_ORDER = _COMMON | {"partition_eviction", "ready_at"}
_INTERVAL = _COMMON | {"intervalDuration", "creationPeriod", "discardAge", "intervalOffset", "event_time", "late"}
_DURATIONS = ("intervalDuration", "creationPeriod", "discardAge", "intervalOffset", "within", "every")
_ATTRIBUTE = "attr"
_FIELD_NAMES = {"attribute": _ATTRIBUTE}
"""Field of a declared policy -> the name that it has in a vector; the others have their own."""
_NAMES = {"punctuation": "punct"}
_POLICIES: dict[str, Any] = {
    _NAMES.get(declared.declared_as, declared.declared_as): declared
    for declared in RUNNING_POLICIES
    if declared.declared_as
}
"""Name in a vector -> declared policy: every built-in one."""


@dataclass(frozen=True, kw_only=True)
class DeclaredWindow:
    """The `window` of a vector.

    Attributes:
        window: the declared window.
        partitioned: whether each key is a partition; else the key of every row is None.
        event_time: the field of a row that is its event time, for a time interval.
        attributes: the fields that delta policies read, each once.
        ready_us: when all inputs are ready: the clock starts there. None for a time interval, which has no clock.
    """

    window: Window
    partitioned: bool
    event_time: str | None = None
    attributes: tuple[str, ...] = ()
    ready_us: int | None = None


def column_of(attribute: str) -> str:
    """Return the column with a field of the rows that a delta policy reads.

    >>> column_of("age")
    'value_age'
    """
    return f"value_{attribute}"


def parse_window(window: Any) -> DeclaredWindow:
    """Check and parse the `window` of a vector. Raises `DeclarationError` with the field or the rule."""
    kind = require_field(window, "kind", "window")
    if kind not in _KINDS:
        raise DeclarationError(f"window.kind is {kind!r}; known: {', '.join(_KINDS)}, lifecycle")
    require_no_text(window, _DURATIONS, "window")
    partitioned = require_bool(window.get("partitioned", False), "window.partitioned")
    if window.get("partition_eviction") is not None and kind != "timeInterval" and not partitioned:
        raise DeclarationError(
            f"window.partition_eviction is {window['partition_eviction']!r}, but the window is not partitioned: "
            "there is no partition to evict"
        )
    return _KINDS[kind](window, partitioned)


def _interval(window: Mapping[str, Any], partitioned: bool) -> DeclaredWindow:  # noqa: FBT001 -- one caller, by table
    if "partition_eviction" in window:
        raise DeclarationError("window.partition_eviction: a time interval has no partition eviction")
    require_known_fields(window, _INTERVAL, "window")
    event_time = require_field(window, "event_time", "window")
    interval = TimeInterval(
        require_field(window, "intervalDuration", "window"),
        creation_period=window.get("creationPeriod"),
        discard_age=window.get("discardAge", 0),
        interval_offset=window.get("intervalOffset", 0),
        late=window.get("late", "pane"),
    )
    return DeclaredWindow(window=interval, partitioned=partitioned, event_time=event_time)


def _tumbling(window: Mapping[str, Any], partitioned: bool) -> DeclaredWindow:  # noqa: FBT001 -- as above
    require_known_fields(window, _IN_ORDER | {"eviction"}, "window")
    evict = _policy(require_field(window, "eviction", "window"), "window.eviction")
    return _in_order(Tumbling(evict, partition_eviction=_partition_eviction(window)), window, partitioned)


def _sliding(window: Mapping[str, Any], partitioned: bool) -> DeclaredWindow:  # noqa: FBT001 -- as above
    require_known_fields(window, _IN_ORDER | {"eviction", "trigger"}, "window")
    evict = _policy(require_field(window, "eviction", "window"), "window.eviction")
    trigger = _policy(window["trigger"], "window.trigger") if "trigger" in window else Count(1)
    sliding = Sliding(evict=evict, trigger=trigger, partition_eviction=_partition_eviction(window))
    return _in_order(sliding, window, partitioned)


def _batched(window: Mapping[str, Any], partitioned: bool) -> DeclaredWindow:  # noqa: FBT001 -- as above
    require_known_fields(window, _IN_ORDER | {"within", "every", "retain", "created_at"}, "window")
    if "created_at" in window and "ready_at" in window:
        raise DeclarationError("window has both created_at and ready_at; they name the same instant")
    batched = Batched(
        within=window.get("within"),
        every=require_field(window, "every", "window"),
        retain=window.get("retain"),
        partition_eviction=_partition_eviction(window),
    )
    return _in_order(batched, window, partitioned)


_KINDS: dict[str, Callable[[Mapping[str, Any], bool], DeclaredWindow]] = {
    "timeInterval": _interval,
    "tumbling": _tumbling,
    "sliding": _sliding,
    "batched": _batched,
}


def _in_order(window: Window, fields: Mapping[str, Any], partitioned: bool) -> DeclaredWindow:  # noqa: FBT001 -- as above
    policies = [fields.get("eviction"), fields.get("trigger")]
    attributes = dict.fromkeys(policy[_ATTRIBUTE] for policy in policies if policy and _ATTRIBUTE in policy)
    ready = optional_time_us(fields, "window", "created_at") or optional_time_us(fields, "window", "ready_at") or 0
    return DeclaredWindow(window=window, partitioned=partitioned, attributes=tuple(attributes), ready_us=ready)


def _policy(found: Any, where: str) -> Policy:
    """Return a policy; the declaration of the window checks that it fits its place."""
    name = require_field(found, "policy", where)
    if name not in _POLICIES:
        raise DeclarationError(f"{where}.policy is {name!r}; known: {', '.join(_POLICIES)}")
    declared = _POLICIES[name]
    names = {field.name: _FIELD_NAMES.get(field.name, field.name) for field in fields(declared)}
    require_known_fields(found, {"policy", *names.values()}, where)
    require_no_text(found, [name for name in names.values() if name != _ATTRIBUTE], where)
    values = {name: require_field(found, written, where) for name, written in names.items()}
    if "attribute" in values:
        if not isinstance(values["attribute"], str) or not values["attribute"]:
            raise DeclarationError(
                f"{where}.attr is {values['attribute']!r}; it must be the name of a field of the rows"
            )
        values["attribute"] = column_of(values["attribute"])
    policy: Policy = declared(**values)
    return policy


def _partition_eviction(window: Mapping[str, Any]) -> Policy | None:
    found, where = window.get("partition_eviction"), "window.partition_eviction"
    if found is None:
        return None
    if isinstance(found, list):
        raise DeclarationError(f"{where} is {found!r}; a window has at most one such policy, as an object")
    return _policy(found, where)
