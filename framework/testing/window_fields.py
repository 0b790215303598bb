"""Which window a vector declares: the fields of each kind, and what they mean.

Refuses what cannot be, by way of the declarations themselves, and what only a vector can get wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from framework.declarations.errors import DeclarationError
from framework.declarations.policies import (
    Count,
    Delta,
    PartitionAge,
    PartitionCount,
    PartitionEviction,
    Punctuation,
    Time,
    TupleCount,
)
from framework.declarations.windows import Batched, Sliding, TimeInterval, Tumbling, Window
from framework.testing.fields import instant, known, need, truth

_COMMON = {"kind", "partitioned"}
_IN_ORDER = _COMMON | {"partition_eviction", "ready_at"}
_INTERVAL = _COMMON | {"intervalDuration", "creationPeriod", "discardAge", "intervalOffset", "event_time", "late"}
_PARTITION_POLICIES: dict[str, Callable[[Any], PartitionEviction]] = {
    "partitionAge": PartitionAge,
    "partitionCount": PartitionCount,
    "tupleCount": TupleCount,
}


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a vector's `window` says.

    Attributes:
        window: the declared window.
        partitioned: whether keys tell partitions apart; else every tuple's key is None.
        event_time: the field of a tuple that is its event time, for a time interval.
        attributes: the fields that delta policies read, each once.
        ready_us: when all inputs are ready: the clock starts there. None for a time interval, which knows no clock.
    """

    window: Window
    partitioned: bool
    event_time: str | None = None
    attributes: tuple[str, ...] = ()
    ready_us: int | None = None


def column_of(attribute: str) -> str:
    """The column that carries a field of the tuples for delta policies.

    >>> column_of("age")
    'value_age'
    """
    return f"value_{attribute}"


def declared_by(window: Any) -> Declared:
    """Check the `window` of a vector. Raises `DeclarationError` naming the field or the rule."""
    kind = need(window, "kind", "window")
    if kind not in _KINDS:
        raise DeclarationError(f"window.kind is {kind!r}; known: {', '.join(_KINDS)}, lifecycle")
    partitioned = truth(window.get("partitioned", False), "window.partitioned")
    if window.get("partition_eviction") is not None and kind != "timeInterval" and not partitioned:
        raise DeclarationError(
            f"window.partition_eviction is {window['partition_eviction']!r}, but the window is not partitioned: "
            f"there is no partition to evict [semantics 0.8]"
        )
    return _KINDS[kind](window, partitioned)


def _interval(window: Mapping[str, Any], partitioned: bool) -> Declared:  # noqa: FBT001 -- one caller, by table
    if "partition_eviction" in window:
        raise DeclarationError("window.partition_eviction: a time interval has no partition eviction [S0]")
    known(window, _INTERVAL, "window")
    event_time = need(window, "event_time", "window")
    interval = TimeInterval(
        need(window, "intervalDuration", "window"),
        creation_period=window.get("creationPeriod"),
        discard_age=window.get("discardAge", 0),
        interval_offset=window.get("intervalOffset", 0),
        late=window.get("late", "pane"),
    )
    return Declared(window=interval, partitioned=partitioned, event_time=event_time)


def _tumbling(window: Mapping[str, Any], partitioned: bool) -> Declared:  # noqa: FBT001 -- as above
    known(window, _IN_ORDER | {"eviction"}, "window")
    evict = _policy(need(window, "eviction", "window"), "window.eviction")
    return _in_order(Tumbling(evict, partition_eviction=_partition_eviction(window)), window, partitioned)


def _sliding(window: Mapping[str, Any], partitioned: bool) -> Declared:  # noqa: FBT001 -- as above
    known(window, _IN_ORDER | {"eviction", "trigger"}, "window")
    evict = _policy(need(window, "eviction", "window"), "window.eviction")
    trigger = _policy(window["trigger"], "window.trigger") if "trigger" in window else Count(1)
    sliding = Sliding(evict=evict, trigger=trigger, partition_eviction=_partition_eviction(window))
    return _in_order(sliding, window, partitioned)


def _batched(window: Mapping[str, Any], partitioned: bool) -> Declared:  # noqa: FBT001 -- as above
    known(window, _IN_ORDER | {"within", "every", "retain", "created_at"}, "window")
    if "created_at" in window and "ready_at" in window:
        raise DeclarationError("window has both created_at and ready_at; they name the same instant")
    batched = Batched(
        within=window.get("within"),
        every=need(window, "every", "window"),
        retain=window.get("retain"),
        partition_eviction=_partition_eviction(window),
    )
    return _in_order(batched, window, partitioned)


_KINDS: dict[str, Callable[[Mapping[str, Any], bool], Declared]] = {
    "timeInterval": _interval,
    "tumbling": _tumbling,
    "sliding": _sliding,
    "batched": _batched,
}


def _in_order(window: Window, said: Mapping[str, Any], partitioned: bool) -> Declared:  # noqa: FBT001 -- as above
    policies = [said.get("eviction"), said.get("trigger")]
    attributes = dict.fromkeys(policy["attr"] for policy in policies if policy and policy["policy"] == "delta")
    ready = instant(said, "window", "created_at") or instant(said, "window", "ready_at") or 0
    return Declared(window=window, partitioned=partitioned, attributes=tuple(attributes), ready_us=ready)


def _policy(found: Any, where: str) -> Any:
    """A policy of tuples; that it fits its place is the declaration's business."""
    name = need(found, "policy", where)
    if name == "punct":
        known(found, {"policy"}, where)
        return Punctuation()
    if name == "delta":
        known(found, {"policy", "attr", "size"}, where)
        attribute = need(found, "attr", where)
        if not isinstance(attribute, str) or not attribute:
            raise DeclarationError(f"{where}.attr is {attribute!r}; it must be the name of a field of the tuples")
        return Delta(column_of(attribute), need(found, "size", where))
    if name not in ("count", "time"):
        raise DeclarationError(f"{where}.policy is {name!r}; known: count, time, delta, punct")
    known(found, {"policy", "size"}, where)
    size = need(found, "size", where)
    return Count(size) if name == "count" else Time(size)


def _partition_eviction(window: Mapping[str, Any]) -> PartitionEviction | None:
    found, where = window.get("partition_eviction"), "window.partition_eviction"
    if found is None:
        return None
    if isinstance(found, list):
        raise DeclarationError(
            f"{where} is {found!r}; a window has at most one such policy, as an object [semantics 0.8]"
        )
    known(found, {"policy", "size"}, where)
    name = need(found, "policy", where)
    if name not in _PARTITION_POLICIES:
        raise DeclarationError(f"{where}.policy is {name!r}; known: {', '.join(_PARTITION_POLICIES)}")
    return _PARTITION_POLICIES[name](need(found, "size", where))
