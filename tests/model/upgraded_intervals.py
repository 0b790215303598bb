"""The naive time interval of a job whose declaration changes between two rows: its discard age, its aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.model.aggregates import NAIVE
from tests.model.time_intervals import NaiveTimeInterval, exact


@dataclass(frozen=True)
class Declared:
    """One declaration, and the input until the next: the discard age in seconds, result columns, items."""

    age: float
    columns: Sequence[str]
    items: Sequence[dict[str, Any]]


class ChangingAge(NaiveTimeInterval):
    """A new discard age is in force from the next greater watermark on; what was closed stays closed."""

    def __init__(self, window: dict[str, Any]) -> None:
        super().__init__(window)
        self.next_age = self.age
        self.closed_until: int | None = None

    def is_closed(self, end: int) -> bool:
        return self.closed_until is not None and end <= self.closed_until

    def on_watermark(self, watermark: int) -> None:
        if self.watermark is None or watermark > self.watermark:
            self.age = self.next_age
            closed = watermark - self.age
            self.closed_until = closed if self.closed_until is None else max(closed, self.closed_until)
        super().on_watermark(watermark)


def results(window: dict[str, Any], declared: Sequence[Declared], *, keeps_rows: bool) -> list[dict[str, Any]]:
    """The rows of the log, each with a value or None for every result column of any declaration.

    Where rows are kept, a column that is added has its value at once. Else it begins with the first pane after all that
    have rows by then. A column that was removed is None.
    """
    model = ChangingAge(window)
    begins: dict[str, int | None] = dict.fromkeys(declared[0].columns)
    every = {name for one in declared for name in one.columns}
    fired: dict[str, int] = {}
    rows = []
    for number, one in enumerate(declared):
        model.next_age = exact(one.age)
        if number == 0:
            model.age = model.next_age
        period = model.duration if model.cumulates else model.period
        after = max(model.panes)[0] + period if model.panes and not keeps_rows else None
        begins = {name: begins.get(name, after) for name in one.columns}
        seen = len(model.events)
        model.play(list(one.items))
        for event in model.events[seen:]:
            if event["event"] != "trigger":
                continue
            start = exact(event["pane"][0])
            place = repr((event["key"], event["pane"]))
            fired[place] = fired.get(place, -1) + 1
            has = {name for name, begin in begins.items() if begin is None or start >= begin}
            values = {name: NAIVE[name](event["tuples"]) if name in has else None for name in sorted(every)}
            rows.append({"key": event["key"], "pane": start, "refinement": fired[place]} | values)
    return rows
