"""Any history: rows in disorder, late, at one time, before 1970, with nulls and NaN; watermarks, clocks, restarts.

A history is drawn as small numbers, so that what fails is made small. What they are follows from the declaration: its
scale of event time, its ports, whether a watermark moves anything.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from hypothesis import strategies as st

from panekeeper.framework.testing.every_cut import _Case, _End, _Row
from panekeeper.framework.testing.script import Clock, Flush, Restart, Watermark
from tests.laws.declarations import ARRIVAL, Declaration

NAN, INFINITE = float("nan"), float("inf")
KEYS: Sequence[Mapping[str, Any]] = (
    {"k": "a", "j": 1, "f": 1.0},
    {"k": "b", "j": 2, "f": -0.0},
    {"k": None, "j": None, "f": None},
    {"k": "a", "j": 2, "f": 0.0},
    {"k": "é", "j": 1, "f": NAN},
)
WHOLE = (1, 2, 3, 0, -4, None, 7, 5, 1, 2, 6, -1, None, 2**62, 2**62, -(2**62))
REAL = (1.5, 0.1, 2.0, -0.0, None, 3.0, 0.1, -2.5, 4.0, None, 0.0, 1e300, NAN, INFINITE, -1e300, 0.7)
EXACT = ("1.50", "0.10", None, "-2.00", "3.25", "0.10", "12345678.99", "1.00")
DAYS = (date(1970, 1, 2), date(1969, 12, 31), date(2024, 2, 29), None)
GAPS = (2.0, 1.0, 5.0, 0.5, 3.0, None, 0.0, NAN)
CLOCKS = (1.0, 2.0, 0.5, 3.0, 5.0, 8.0, 0.25, 30.0)
OUTAGES = (1.0, 5.0, 40.0, 4000.0)


class Drawn(NamedTuple):
    """An item of a history as it is drawn."""

    kind: int
    key: int
    tick: int
    seed: int


ROWS_UP_TO, WATERMARKS_UP_TO, CLOCKS_UP_TO, RESTARTS_UP_TO = 9, 12, 14, 15

OFTEN = (0, 0, 0, 1, 1, 2, 3, 4)
"""Numbers of keys: rows of one partition are worth more than many partitions."""

item = st.builds(Drawn, st.integers(0, 15), st.integers(0, 7), st.integers(0, 40), st.integers(0, 15))


OPEN, CLOSED, FLUSHED = "", "closed", "flushed"


@dataclass(frozen=True)
class History:
    """What happens to a declaration.

    Attributes:
        items: as they are drawn.
        end: what follows: nothing, a watermark that completes all panes, or a flush.
        seed: by which micro-batches are cut.
    """

    items: tuple[Drawn, ...]
    end: str
    seed: int

    def case(self, declaration: Declaration) -> _Case:
        """Return what happens, in one micro-batch, or in as few as there can be."""
        found = list[Any]()
        reached: Any = None
        for number, one in enumerate(self.items):
            what = _item(declaration, one, number)
            if isinstance(what, Watermark):
                if not declaration.has_event_time or declaration.follows:
                    continue
                reached = what.to if reached is None else max(reached, what.to)
                what = Watermark(reached)
            found += [Clock(OUTAGES[one.tick % 4]), Restart()] if what == "outage" else [what]
        if declaration.has_event_time and not declaration.follows:
            if self.end == CLOSED:
                found.append(Watermark("9999-12-31"))
            elif not any(isinstance(one, Watermark) for one in found):  # without any it would follow the rows
                found.insert(0, Watermark(declaration.begin - 1000 * declaration.unit))
        if self.end == FLUSHED:
            found.append(Flush())
        return _Case(items=tuple(found), ends=(_End.NONE,) * len(found), ports=declaration.ports)

    def chance(self, what: str) -> random.Random:
        """Return what makes choices for a law; the same for the same history."""
        return random.Random(f"{self.seed} {what}")


def _item(declaration: Declaration, one: Drawn, number: int) -> Any:
    """Return an item: a row, a step, or "outage"."""
    if one.kind <= ROWS_UP_TO:
        port = one.kind % len(declaration.ports)
        return _Row(port, row_of(declaration, one, number))
    if one.kind <= WATERMARKS_UP_TO and declaration.kind != ARRIVAL:
        return Watermark(time_of(declaration, one.tick))
    if one.kind <= CLOCKS_UP_TO:
        return Clock(CLOCKS[one.tick % 8])
    return Restart() if one.seed % 2 else "outage"


def time_of(declaration: Declaration, tick: int) -> float:
    """Return an event time, in seconds since the epoch: in halves of the unit of the declaration."""
    half = tick * declaration.unit
    return declaration.begin + (half // 2 if half % 2 == 0 else half / 2)


def row_of(declaration: Declaration, one: Drawn, number: int) -> dict[str, Any]:
    """Return a row; what it is null in is left out."""
    seed = one.seed
    row = {
        **KEYS[OFTEN[one.key]],
        "t": None if seed == 14 else time_of(declaration, one.tick),
        "at": None if seed == 13 else number * 0.75 + seed % 5,
        "v": WHOLE[seed],
        "w": REAL[(seed + one.tick % 2) % 16],
        "d": EXACT[seed % 8],
        "b": (True, False, None)[seed % 3],
        "s": ("x", "y", None, "é")[(seed + one.key) % 4],
        "day": DAYS[seed % 4],
        "id": seed % 4,
        "gap": GAPS[one.tick % 8 if seed > 8 else seed % 5],
        "n": number,
        "m": "end" if seed % 5 == 4 else None,
        "xs": ([1, None], [], None, [seed])[seed % 4],
        "r": ({"x": seed, "y": "z"}, None, {"x": None, "y": None})[seed % 3],
        "ts": 100 + seed / 2 if seed % 7 else None,
    }
    return {name: value for name, value in row.items() if value is not None}


some_items = st.one_of(st.lists(item, min_size=1, max_size=6), *(2 * [st.lists(item, min_size=7, max_size=12)]))
ends = st.sampled_from((OPEN, CLOSED, CLOSED, FLUSHED))
histories = st.builds(History, some_items.map(tuple), ends, st.integers(0, 2**16))
