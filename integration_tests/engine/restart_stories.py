"""The stories of the restart matrix: each kind of window, through each way to stop and come back. No Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from panekeeper.framework.declarations.calendar import Calendar
from panekeeper.framework.declarations.durations import days
from panekeeper.framework.declarations.windows import Cumulate, Session, Window
from panekeeper.framework.testing.play_vector import MemoryRun
from panekeeper.framework.testing.steps import BatchSplit, Restart, split_into_batches
from panekeeper.framework.testing.vector import Vector, parse

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
    **{
        kind: {"kind": "timeInterval", "intervalDuration": 1, "event_time": "ts"}
        for kind in ("session", "cumulate", "calendar")
    },
}
_WINDOWS: Mapping[str, Window] = {
    "session": Session(2, discard_age=20),
    "cumulate": Cumulate(5, 10, discard_age=20),
    "calendar": Calendar("day", zone="America/New_York", discard_age=days(2)),
}
"""Windows that vectors do not have, in place of the one of their kind."""
_UNITS: Mapping[str, int] = {"calendar": 8640}
"""How long in seconds of event time a second of a story is, where it is not one: ten of them are a pane."""


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
    if has_panes(kind):
        unit = _UNITS.get(kind, 1)
        items: list[dict[str, Any]] = [{"value": {"ts": at * unit, "v": v}, "key": key} for at, key, v in tuples]
        return [*items[:3], {"watermark": 3 * unit}, *items[3:]]
    items = [{"at": at, "value": {"v": v}, "key": key} for at, key, v in tuples]
    marks = [{"at": 3, "punct": "window"}] if kind == "tumbling-punctuation" else []
    return [*items[:2], *marks, *items[2:]]


def after(kind: str, way: Way, *, data: bool) -> list[dict[str, Any]]:
    """What comes in after the run is back: tuples, and time enough for what is due next; or nothing at all.

    Where there are panes, two tuples are late: one of them joins two sessions, of which the first has fired.
    """
    if not data:
        return []
    back = way.back_at
    tuples = [(back + 1, "b", 9), (back + 2, "a", 11), (back + 2, "c", 1)]
    if has_panes(kind):
        unit = _UNITS.get(kind, 1)
        late = [(6, "b", 7), (3, "a", 6)]
        rows: list[dict[str, Any]] = [{"value": {"ts": at * unit, "v": v}, "key": k} for at, k, v in [*late, *tuples]]
        return [*rows, {"watermark": (back + 90) * unit}]
    items: list[dict[str, Any]] = [{"at": at, "value": {"v": v}, "key": key} for at, key, v in tuples]
    marks = [{"at": back + 3, "punct": "window"}] if kind == "tumbling-punctuation" else []
    return [*items, *marks, {"advance_clock": back + 41}]


def has_panes(kind: str) -> bool:
    """Whether windows of a kind go by event time."""
    return "event_time" in KINDS[kind]


def story(kind: str, way: Way, *, data: bool) -> Vector:
    """The whole story as a vector: the memory engine says what should happen."""
    clock = {} if has_panes(kind) else {"at": way.back_at}
    if way.stop == "initial":
        stop: list[dict[str, Any]] = [clock | {"reset_to_initial": True}]
    else:
        stop = [({"at": STOP_AT} if clock else {}) | {"checkpoint": "c"}, clock | {"reset": "c"}]
    window = KINDS[kind] | {"partitioned": True}
    parsed = parse({"window": window, "input": [*before(kind), *stop, *after(kind, way, data=data)]})
    return replace(parsed, window=_WINDOWS.get(kind, parsed.window))


def undisturbed(told: Vector) -> Vector:
    """The same story without the stop."""
    return replace(told, items=tuple(item for item in told.items if not item.is_between_batches))


def events_in_memory(told: Vector, cut: BatchSplit = "whole", restart: Restart = "none") -> list[dict[str, Any]]:
    """The events of a story in memory, cut into micro-batches, with a restart after some items."""
    return MemoryRun(told).play(split_into_batches(told.items, cut, restart))


def with_data(kind: str, way: str) -> bool:
    """Whether data comes after the stop where a kind is played in one of the two: kinds and ways take turns."""
    return (list(KINDS).index(kind) // 2 + list(WAYS).index(way)) % 2 == 0


def kinds_of(way: str, half: int) -> list[str]:
    """One half of the kinds, in turn; those that vectors do not have are in the first one of one kill each."""
    of_vectors, place = [kind for kind in KINDS if kind not in _WINDOWS], list(WAYS).index(way)
    in_turn = [kind for number, kind in enumerate(of_vectors) if (number + place) % 2 == half]
    kills = [name for name, one in WAYS.items() if one.stop == "kill"]
    first = [kind for number, kind in enumerate(_WINDOWS) if kills[number % len(kills)] == way]
    return in_turn + [kind for kind in _WINDOWS if (kind in first) == (half == 0)]
