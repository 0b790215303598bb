"""The stories of the restart matrix: each kind of window, through each way to stop and come back. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STOP_AT = 8
"""The wall clock, in seconds, when the run stops; it has taken in everything until 7."""

KINDS: Mapping[str, dict[str, Any]] = {
    "tumbling-count": {"kind": "tumbling", "eviction": {"policy": "count", "size": 3}},
    "tumbling-time": {"kind": "tumbling", "eviction": {"policy": "time", "size": 30}},
    "tumbling-delta": {"kind": "tumbling", "eviction": {"policy": "delta", "attr": "v", "size": 3}},
    "tumbling-punctuation": {"kind": "tumbling", "eviction": {"policy": "punct"}},
    "sliding-count-by-time": {
        "kind": "sliding",
        "eviction": {"policy": "count", "size": 3},
        "trigger": {"policy": "time", "size": 20},
    },
    "sliding-time-by-count": {
        "kind": "sliding",
        "eviction": {"policy": "time", "size": 25},
        "trigger": {"policy": "count", "size": 2},
    },
    "sliding-delta-by-delta": {
        "kind": "sliding",
        "eviction": {"policy": "delta", "attr": "v", "size": 4},
        "trigger": {"policy": "delta", "attr": "v", "size": 2},
    },
    "batched": {"kind": "batched", "within": 25, "every": 10, "retain": 3},
    "partition-age": {
        "kind": "tumbling",
        "eviction": {"policy": "count", "size": 9},
        "partition_eviction": {"policy": "partitionAge", "size": 30},
    },
    "time-interval": {"kind": "timeInterval", "intervalDuration": 10, "discardAge": 20, "event_time": "ts"},
}


@dataclass(frozen=True)
class Way:
    """How a run stops and comes back: what ends it, and when, in seconds, the next one begins.

    It is killed after the batch's state is stored: before it is recorded what the batch writes, or after that.
    """

    stop: str
    back_at: int = STOP_AT
    is_recorded: bool = False


WAYS: Mapping[str, Way] = {
    "clean-stop": Way("end"),
    "kill-9": Way("kill"),
    "kill-9-recorded": Way("kill", is_recorded=True),
    "drain": Way("drain"),
    "reset-to-initial": Way("initial"),
    "outage-shorter": Way("end", STOP_AT + 4),
    "outage-longer": Way("end", STOP_AT + 67),
}


def before(kind: str) -> list[dict[str, Any]]:
    """What comes in before the stop; the last item is in flight when a run is killed."""
    tuples = [(1, "a", 1), (2, "b", 2), (4, "a", 4), (5, "b", 5), (7, "a", 8)]
    if kind == "time-interval":
        items: list[dict[str, Any]] = [{"value": {"ts": at, "v": v}, "key": key} for at, key, v in tuples]
        return [*items[:3], {"watermark": 3}, *items[3:]]
    items = [{"at": at, "value": {"v": v}, "key": key} for at, key, v in tuples]
    marks = [{"at": 3, "punct": "window"}] if kind == "tumbling-punctuation" else []
    return [*items[:2], *marks, *items[2:]]


def after(kind: str, way: Way, *, data: bool) -> list[dict[str, Any]]:
    """What comes in after the run is back: tuples, and time enough for what is due next; or nothing at all."""
    if not data:
        return []
    back = way.back_at
    tuples = [(back + 1, "b", 9), (back + 2, "a", 11), (back + 2, "c", 1)]
    if kind == "time-interval":
        late = {"value": {"ts": 6, "v": 7}, "key": "b"}
        return [late, *[{"value": {"ts": at, "v": v}, "key": key} for at, key, v in tuples], {"watermark": back + 90}]
    items: list[dict[str, Any]] = [{"at": at, "value": {"v": v}, "key": key} for at, key, v in tuples]
    marks = [{"at": back + 3, "punct": "window"}] if kind == "tumbling-punctuation" else []
    return [*items, *marks, {"advance_clock": back + 41}]


def vector(kind: str, way: Way, *, data: bool) -> dict[str, Any]:
    """The whole story as a vector: the memory engine says what should happen."""
    clock = {} if kind == "time-interval" else {"at": way.back_at}
    if way.stop == "initial":
        stop: list[dict[str, Any]] = [clock | {"reset_to_initial": True}]
    else:
        stop = [({"at": STOP_AT} if clock else {}) | {"checkpoint": "c"}, clock | {"reset": "c"}]
    window = KINDS[kind] | {"partitioned": True}
    return {"window": window, "input": [*before(kind), *stop, *after(kind, way, data=data)]}


def with_data(kind: str, way: str) -> bool:
    """Whether data comes after the stop where a kind is played in one of the two: kinds and ways take turns."""
    return (list(KINDS).index(kind) // 2 + list(WAYS).index(way)) % 2 == 0


def kinds_of(way: str, half: int) -> list[str]:
    """One half of the kinds, in turn."""
    return [kind for number, kind in enumerate(KINDS) if (number + list(WAYS).index(way)) % 2 == half]
