"""The naive time-interval window: every pane keeps its own lists of whole rows.

Decides which panes a row joins, what each watermark fires and in which order. A row that is in five panes is kept five
times.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Event = dict[str, Any]


def exact(seconds: float) -> int:
    """Microseconds of a JSON number of seconds, by its decimal text: 1.1 is 1100000, never 1100000.0000000001."""
    micros = Decimal(str(seconds)) * 1_000_000
    if micros != micros.to_integral_value():
        raise ValueError(f"{seconds} s is not a whole number of microseconds")
    return int(micros)


def seconds(micros: int) -> int | float:
    """The JSON number for a time: an int when it is whole seconds."""
    return micros // 1_000_000 if micros % 1_000_000 == 0 else micros / 1_000_000


@dataclass
class Pane:
    """One open pane. `pending` holds the keys updated since their last trigger, `fired` how often each has fired."""

    start: int
    end: int
    complete: bool = False
    fired: dict[str, int] = field(default_factory=dict)
    content: dict[str, list[Any]] = field(default_factory=dict)
    pending: list[str] = field(default_factory=list)


Saved = tuple[int | None, dict[tuple[int, int], Pane]]


class NaiveTimeInterval:
    """Plays one vector's time-interval window, item by item; `events` grows in the shape of a vector's `expect`."""

    def __init__(self, window: dict[str, Any]) -> None:
        self.duration = exact(window["intervalDuration"])
        self.period = exact(window.get("creationPeriod", window["intervalDuration"]))
        self.age = exact(window.get("discardAge", 0))
        self.offset = exact(window.get("intervalOffset", 0))
        self.cumulates = window.get("cumulates", False)
        self.attribute = window["event_time"]
        self.per_tuple = window.get("late", "pane") == "tuple"
        self.partitioned = window.get("partitioned", False)
        self.watermark: int | None = None
        self.panes: dict[tuple[int, int], Pane] = {}
        self.events: list[Event] = []
        self.saved: dict[str, Saved] = {}

    def play(self, items: list[dict[str, Any]]) -> list[Event]:
        for item in items:
            if "value" in item:
                self.on_tuple(item.get("key") if self.partitioned else None, item["value"])
            elif "watermark" in item:
                self.on_watermark(exact(item["watermark"]))
            elif "checkpoint" in item:
                self.saved[item["checkpoint"]] = copy.deepcopy((self.watermark, self.panes))
            elif "reset" in item:
                self.watermark, self.panes = copy.deepcopy(self.saved[item["reset"]])
            elif "reset_to_initial" in item:
                self.watermark, self.panes = None, {}
            elif "punct" not in item and "advance_clock" not in item:  # neither means anything to a time interval
                raise ValueError(f"the model has no {item}")
        return self.events

    def panes_for(self, time: int) -> list[tuple[int, int]]:
        """Bounds of the panes that hold `time`, newest first; panes have no lower bound."""
        if self.cumulates:
            start = (time - self.offset) // self.duration * self.duration + self.offset
            ends = range(start + self.duration, start, -self.period)
            return [(start, end) for end in ends if time < end]
        return [(start, start + self.duration) for start in self.starts_for(time)]

    def starts_for(self, time: int) -> list[int]:
        """Starts of the panes of equal length that hold `time`, newest first."""
        newest = (time - self.offset) // self.period * self.period + self.offset
        starts = []
        while newest > time - self.duration:
            starts.append(newest)
            newest -= self.period
        return starts

    def is_closed(self, end: int) -> bool:
        """Whether the pane that ends there takes no more rows."""
        return self.watermark is not None and end + self.age <= self.watermark

    def on_tuple(self, key: Any, value: Any) -> None:
        time = exact(value[self.attribute])
        late_limit = None if self.watermark is None else self.watermark - self.age
        if self.per_tuple and late_limit is not None and time < late_limit:
            self.events.append({"event": "drop", "key": key, "tuples": [value]})
            return
        panes = self.panes_for(time)
        alive = [bounds for bounds in panes if not self.is_closed(bounds[1])]
        if panes and not alive:
            self.events.append({"event": "drop", "key": key, "tuples": [value]})
        for bounds in alive:
            pane = self.panes.setdefault(bounds, Pane(*bounds))
            text = json.dumps(key, sort_keys=True)
            pane.content.setdefault(text, []).append(value)
            if text not in pane.pending:
                pane.pending.append(text)
            self.emit(pane, "insertion", text, tuples=[value])

    def on_watermark(self, watermark: int) -> None:
        if self.watermark is not None and watermark <= self.watermark:
            return
        self.watermark = watermark
        for pane in sorted(self.panes.values(), key=lambda p: (p.end, p.start)):
            pane.complete |= watermark >= pane.end
            if pane.complete and pane.pending:
                firing = [text for text in pane.content if text in pane.pending]
                for text in firing:
                    if text not in pane.fired:
                        self.emit(pane, "initial_full", text)
                for text in firing:
                    before = pane.fired.get(text, 0)
                    self.emit(pane, "trigger", text, timing="late" if before else "onComplete", index=before)
                    pane.fired[text] = before + 1
                pane.pending.clear()
            if self.is_closed(pane.end):
                for text in pane.content:
                    self.emit(pane, "close", text)
                del self.panes[pane.start, pane.end]

    def emit(self, pane: Pane, event: str, text: str, **more: Any) -> None:
        content = {"tuples": list(pane.content[text])} | more
        bounds = [seconds(pane.start), seconds(pane.end)]
        self.events.append({"event": event, "key": json.loads(text), **content, "pane": bounds})
