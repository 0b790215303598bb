"""Random scripts for windows in arrival order: small windows, few keys, a coarse clock, so that edges meet often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.model.cases import CODES, UNITS, Digits, stretch

KEYS = [None, "a", "a", "b", 7]
MILLISECONDS = [unit for unit in UNITS if unit >= 0.001] + [0.001]
"""Seconds of one step of the clock: tuples leave by age on a millisecond [semantics 1]."""

Pools = Mapping[str, Sequence[Any]]
"""What the values of a tuple are picked from, by name; `x` is what delta policies read."""

POOLS: Pools = {"x": [0, 0, 1, 1, 2, 3, 4, 6, 2.5, -1], "n": range(4)}


def policy(kind: str, size: int, unit: float) -> dict[str, Any]:
    """A policy of that kind; times in units."""
    if kind == "punct":
        return {"policy": kind}
    if kind == "delta":
        return {"policy": kind, "attr": "x", "size": [1, 2, 0.5, 3][size % 4]}
    return {"policy": kind, "size": stretch(size, unit) if kind in ("time", "partitionAge") else size}


@st.composite
def windows(draw: st.DrawFn, unit: float) -> dict[str, Any]:
    """A window of any kind, every pair of policies of a sliding one, with or without partitions that go."""
    digits = Digits(draw(CODES))
    window: dict[str, Any]
    kind = digits.pick(["tumbling", "sliding", "sliding", "sliding", "batched"])
    if kind == "tumbling":
        named = digits.pick(["count", "time", "delta", "punct"])
        window = {"eviction": policy(named, digits.pick([1, 2, 3, 5]), unit)}
    elif kind == "sliding":
        window = {"eviction": policy(digits.pick(["count", "time", "delta"]), digits.pick([1, 2, 3, 4, 5]), unit)}
        trigger = digits.pick(["count", "time", "delta", "zero", None])
        if trigger == "zero":
            window["trigger"] = {"policy": "delta", "attr": "x", "size": 0}
        elif trigger:
            window["trigger"] = policy(trigger, digits.pick([1, 2, 3, 4]), unit)
    else:
        window = batched(digits, unit)
    window |= {"kind": kind, "partitioned": digits.pick([True, True, False])}
    limit = digits.pick([None, "partitionAge", "partitionCount", "tupleCount"])
    if window["partitioned"] and limit:
        window["partition_eviction"] = policy(limit, digits.pick([1, 2, 3, 5]), unit)
    return window


def batched(digits: Digits, unit: float) -> dict[str, Any]:
    """What a batched window keeps and how often it changes."""
    if digits.pick([True, False, False]):
        return {"retain": digits.pick([1, 2, 3, 5]), "every": digits.pick([1, 2, 3, 4])}
    retain: dict[str, Any] = digits.pick([{}, {"retain": 1}, {"retain": 2}, {"retain": 4}])
    within, every = digits.pick([1, 2, 3, 5, 8]), digits.pick([1, 2, 3, 5])
    return {"within": stretch(within, unit), "every": stretch(every, unit)} | retain


class Script:
    """Writes input items; holds the clock and what was saved."""

    def __init__(self, window: dict[str, Any], unit: float, pools: Pools) -> None:
        self.window = window
        self.unit = unit
        self.pools = pools
        self.now = 0
        self.saved = 0
        self.ended = False
        self.closed = False
        self.items: list[dict[str, Any]] = []

    def write(self, code: int) -> None:
        """One item, or two, read off one number."""
        digits = Digits(code)
        self.now += digits.pick([0, 0, 1, 0, 1, 2, 1, 3, 7])
        if self.closed:  # the instant was said to be over
            self.now, self.closed = self.now + 1, False
        moves = [*[self.tuple] * 17, *[self.clock] * 4, *[self.mark] * 2]
        moves += [self.checkpoint, self.evict, self.outage, self.reset, self.initial, self.final]
        if self.ended:  # after the final mark nothing is told but the time, until the process goes back
            moves = [self.clock, self.reset, self.initial]
        digits.pick(moves)(digits)

    def at(self, **item: Any) -> None:
        self.items.append({"at": stretch(self.now, self.unit)} | item)

    def tuple(self, digits: Digits) -> None:
        self.at(key=digits.pick(KEYS), value={name: digits.pick(pool) for name, pool in self.pools.items()})

    def clock(self, digits: Digits) -> None:
        self.closed = True
        self.items.append({"advance_clock": stretch(self.now, self.unit)})

    def mark(self, digits: Digits) -> None:
        self.at(punct="window")

    def checkpoint(self, digits: Digits) -> None:
        self.saved += 1
        self.at(checkpoint=str(self.saved))

    def evict(self, digits: Digits) -> None:
        if self.window["partitioned"]:
            self.at(evict_partition=digits.pick(KEYS))

    def outage(self, digits: Digits) -> None:
        """An outage: down right after a checkpoint, up again later."""
        self.checkpoint(digits)
        self.now = max(0, self.now + digits.pick([0, 1, 2, 5, 20, 1, 2, 5, 20, -1, -4]))
        self.at(reset=str(self.saved))

    def reset(self, digits: Digits) -> None:
        """Back to some checkpoint; the clock itself may be behind."""
        if self.saved:
            self.now = max(0, self.now - digits.pick([0, 0, 0, 0, 2]))
            self.at(reset=str(1 + digits.pick(range(self.saved))))
            self.ended = False

    def initial(self, digits: Digits) -> None:
        """Back to the beginning."""
        self.at(reset_to_initial=True)
        self.ended = False

    def final(self, digits: Digits) -> None:
        """The final mark."""
        self.at(punct="final")
        self.ended = True


@st.composite
def scripts(draw: st.DrawFn, pools: Pools | None = None) -> dict[str, Any]:
    """A whole vector without `expect`."""
    unit = draw(st.sampled_from(MILLISECONDS))
    window = draw(windows(unit))
    script = Script(window, unit, pools or POOLS)
    for code in draw(st.lists(CODES, max_size=6) | st.lists(CODES, min_size=20, max_size=40)):
        script.write(code)
    return {"window": window, "input": script.items}
