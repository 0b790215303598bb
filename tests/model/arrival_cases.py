"""Random scripts for windows in arrival order: small windows, few keys, a coarse clock, so that edges meet often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.model.interval_cases import CODES, UNITS, DigitReader, duration_of

KEYS = [None, "a", "a", "b", 7]
MILLISECONDS = [unit for unit in UNITS if unit >= 0.001] + [0.001]
"""Seconds of one step of the clock: rows leave by age on a millisecond (docs/semantics.md section 3.5)."""

Pools = Mapping[str, Sequence[Any]]
"""What the values of a row are picked from, by name; `age` is what delta policies read."""

POOLS: Pools = {"age": [0, 0, 1, 1, 2, 3, 4, 6, 2.5, -1], "n": range(4)}

Kind = tuple[str, str, str | None]
"""Kind of window, its eviction (what is kept, if batched), its trigger."""

TUMBLING = [("tumbling", evict, None) for evict in ("count", "time", "delta", "punct")]
SLIDING = [
    ("sliding", evict, trigger) for evict in ("count", "time", "delta") for trigger in ("count", "time", "delta")
]
BATCHED = [("batched", content, None) for content in ("within", "retain", "within retain")]
BOTH = [
    ("tumbling", "anyOf", None),
    *(("sliding", "allOf", trigger) for trigger in ("count", "time", "delta", "anyOf")),
    *(("sliding", evict, "anyOf") for evict in ("count", "time", "delta")),
]
EVERY_KIND: list[Kind] = [*TUMBLING, *SLIDING, *BATCHED, *BOTH]
"""Every kind of window with every policy, and every pair of policies of a sliding one."""


def policy(name: str, size: int, unit: float) -> dict[str, Any]:
    """A policy of that name; times in units."""
    if name == "punct":
        return {"policy": name}
    if name in ("anyOf", "allOf"):
        return {"policy": name, "of": [policy("count", size, unit), policy("time", 1 + size * 3 % 5, unit)]}
    if name == "delta":
        return {"policy": name, "attr": "age", "size": [1, 2, 0.5, 3][size % 4]}
    return {"policy": name, "size": duration_of(size, unit) if name in ("time", "partitionAge") else size}


def window_of(kind: Kind, digits: DigitReader, unit: float) -> dict[str, Any]:
    """A window of that kind: sizes small, with or without partitions, which may go."""
    named, evict, trigger = kind
    window: dict[str, Any] = {"kind": named, "partitioned": digits.pick([True, True, False])}
    if named == "batched":
        for field in evict.split():
            size = digits.pick([1, 2, 3, 5, 8])
            window[field] = duration_of(size, unit) if field == "within" else size
        every = digits.pick([1, 2, 3, 5])
        window["every"] = duration_of(every, unit) if "within" in window else every
    else:
        window["eviction"] = policy(evict, digits.pick([1, 2, 3, 4, 5]), unit)
    if trigger == "delta" and digits.pick([True, False]):
        window["trigger"] = {"policy": "delta", "attr": "age", "size": 0}
    elif trigger:
        window["trigger"] = policy(trigger, digits.pick([1, 2, 3, 4]), unit)
    if (trigger or evict) in ("time", "anyOf") or "within" in evict:
        window["aligned"] = digits.pick([False, False, True])
    if named == "sliding" and evict != "time":
        window["when_full"] = digits.pick([False, False, True])
    limit = digits.pick([None, "partitionAge", "partitionCount", "tupleCount"])
    if window["partitioned"] and limit:
        window["partition_eviction"] = policy(limit, digits.pick([1, 2, 3, 5]), unit)
    return window


class CaseWriter:
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
        digits = DigitReader(code)
        self.now += digits.pick([0, 0, 1, 0, 1, 2, 1, 3, 7])
        if self.closed:  # the instant was said to be over
            self.now, self.closed = self.now + 1, False
        moves = [*[self.tuple] * 17, *[self.clock] * 4, *[self.mark] * 2]
        moves += [self.checkpoint, self.evict, self.outage, self.reset, self.initial, self.final]
        if self.ended:  # after the final mark only the time advances, until the process goes back
            moves = [self.clock, self.reset, self.initial]
        digits.pick(moves)(digits)

    def at(self, **item: Any) -> None:
        self.items.append({"at": duration_of(self.now, self.unit)} | item)

    def tuple(self, digits: DigitReader) -> None:
        self.at(key=digits.pick(KEYS), value={name: digits.pick(pool) for name, pool in self.pools.items()})

    def clock(self, digits: DigitReader) -> None:
        self.closed = True
        self.items.append({"advance_clock": duration_of(self.now, self.unit)})

    def mark(self, digits: DigitReader) -> None:
        self.at(punct="window")

    def checkpoint(self, digits: DigitReader) -> None:
        self.saved += 1
        self.at(checkpoint=str(self.saved))

    def evict(self, digits: DigitReader) -> None:
        if self.window["partitioned"]:
            self.at(evict_partition=digits.pick(KEYS))

    def outage(self, digits: DigitReader) -> None:
        """An outage: down right after a checkpoint, up again later."""
        self.checkpoint(digits)
        self.now = max(0, self.now + digits.pick([0, 1, 2, 5, 20, 1, 2, 5, 20, -1, -4]))
        self.at(reset=str(self.saved))

    def reset(self, digits: DigitReader) -> None:
        """Back to some checkpoint; the clock itself may be behind."""
        if self.saved:
            self.now = max(0, self.now - digits.pick([0, 0, 0, 0, 2]))
            self.at(reset=str(1 + digits.pick(range(self.saved))))
            self.ended = False

    def initial(self, digits: DigitReader) -> None:
        """Back to the beginning."""
        self.at(reset_to_initial=True)
        self.ended = False

    def final(self, digits: DigitReader) -> None:
        """The final mark."""
        self.at(punct="final")
        self.ended = True


@st.composite
def scripts(draw: st.DrawFn, kind: Kind | None = None, pools: Pools | None = None) -> dict[str, Any]:
    """A whole vector without `expect`, of a kind of window if given."""
    unit = draw(st.sampled_from(MILLISECONDS))
    digits = DigitReader(draw(CODES))
    window = window_of(kind or digits.pick(EVERY_KIND), digits, unit)
    script = CaseWriter(window, unit, pools or POOLS)
    for code in draw(st.lists(CODES, max_size=6) | st.lists(CODES, min_size=20, max_size=40)):
        script.write(code)
    return {"window": window, "input": script.items}
