"""Reads transcripts: windows, what happens to them step by step, and the events expected of each step.

A transcript in `tests/transcripts/` has a `rule` in words, a `window`, and `steps` or an `error` or both. A window has
the fields of a vector; its policies are written `count 2`, `time 5`, `delta v 2`, `punct`, `partitionAge 5`. Times are
in seconds. Each step has one of

    row: 1              a row with this value: of the column `ts` (event time) in a time interval, else of `v`;
                        `a 1` for the partition a, where the window is partitioned
    watermark: 110      the watermark advances
    clock: 9            the wall clock advances
    mark: final         a final mark, or a window mark (`window`)
    checkpoint: here    a checkpoint of this name, and `reset: here` to it
    reset_to_initial: true
    evict: a            the operator evicts a partition

with its arrival time `at`, where the window is not a time interval, and with the events to `expect` of it: no more and
no fewer than happen after the step before it, up to its end. An event is a line

    [partition] event [values of its rows] [in its pane] [timing and index] [@time]
    b trigger 102 103 in [100, 110) late 1
    eviction 1 2 @5.001

Its time is that of the step, unless it is given; events of a pane have none. A transcript with a `difference` expects
something wrong; the difference must be reported.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

Transcript = dict[str, Any]
Vector = dict[str, Any]

FIELDS = {"rule", "window", "steps", "error", "difference"}
POLICIES = ("eviction", "trigger", "partition_eviction")
ITEMS = {
    "row": "value",
    "watermark": "watermark",
    "clock": "advance_clock",
    "mark": "punct",
    "checkpoint": "checkpoint",
    "reset": "reset",
    "reset_to_initial": "reset_to_initial",
    "evict": "evict_partition",
}
"""What a step may be -> the field of a vector's item."""

EVENTS = "insertion|eviction|initial_full|trigger|final|close|drop|partition_eviction"
NUMBER = r"-?\d+(?:\.\d+)?"
EVENT = re.compile(
    rf"(?:(?P<key>\w+) )?(?P<event>{EVENTS})(?P<values>(?: {NUMBER})*)"
    rf"(?: in \[(?P<start>{NUMBER}), (?P<end>{NUMBER})\))?(?: (?P<timing>onComplete|late) (?P<index>\d+))?"
    rf"(?: @(?P<at>{NUMBER}))?"
)


def read_transcripts(folder: Path) -> dict[str, Transcript]:
    """Return all transcripts of a folder, by file and rule."""
    files = [(path.stem, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.yaml"))]
    found = [(f"{file}: {transcript['rule']}", transcript) for file, listed in files for transcript in listed]
    if len(dict(found)) < len(found):
        raise ValueError("two transcripts of one file have the same rule")
    return dict(found)


def vector_of(transcript: Transcript) -> Vector:
    """Return the vector that a transcript means.

    Raises:
        ValueError: a line cannot be read; none is left out.
    """
    refuse_other_fields(transcript, FIELDS)
    window = window_of(transcript["window"])
    steps = transcript.get("steps", [])
    items = [item_of(step, window) for step in steps]
    return {"window": window, "input": items, "expect": [e for step in steps for e in expected_of(step, window)]}


def expected_of(step: dict[str, Any], window: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a vector that are expected of a step."""
    return [event_of(str(line), step.get("at", step.get("clock")), window) for line in step.get("expect", [])]


def window_of(written: dict[str, Any]) -> dict[str, Any]:
    """Return the window of a vector; which fields it may have is for `play` to check."""
    window = {name: policy_of(value) if name in POLICIES else value for name, value in written.items()}
    return {"event_time": "ts"} | window if written["kind"] == "timeInterval" else window


def policy_of(text: str) -> dict[str, Any]:
    """Return a policy of a vector, from `delta v 2`."""
    name, *rest = text.split()
    fields = {"attr": rest[0]} if len(rest) == 2 else {}
    return {"policy": name} | fields | ({"size": number(rest[-1])} if rest else {})


def item_of(step: dict[str, Any], window: dict[str, Any]) -> dict[str, Any]:
    """Return a step as an item of a vector's input."""
    kinds = step.keys() & ITEMS.keys()
    if len(kinds) != 1:
        raise ValueError(f"the step {step} must be one of {', '.join(ITEMS)}")
    (kind,) = kinds
    refuse_other_fields(step, {kind, "at", "expect"})
    untimed = window["kind"] == "timeInterval" and kind in ("checkpoint", "reset", "reset_to_initial")
    time = {"at": step["at"]} if "at" in step else {"at": 0} if untimed else {}
    return time | (row_of(step["row"], window) if kind == "row" else {ITEMS[kind]: step[kind]})


def row_of(written: Any, window: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a vector, from `a 1` or `1`."""
    *key, value = str(written).split()
    if len(key) != window.get("partitioned", False):
        raise ValueError(f"the row {written!r} must have {'no' if key else 'a'} key, as the window's partitions do")
    return {"value": {column_of(window): number(value)}} | ({"key": key[0]} if key else {})


def event_of(line: str, at: float | None, window: dict[str, Any]) -> dict[str, Any]:
    """Return an event of a vector; `at` is the time of its step."""
    read = EVENT.fullmatch(line)
    if read is None or (read["key"] is not None) != window.get("partitioned", False):
        raise ValueError(f"the event {line!r} cannot be read")
    rows = [{column_of(window): number(value)} for value in read["values"].split()]
    event: dict[str, Any] = {"event": read["event"], "key": read["key"], "tuples": rows}
    if read["start"] is not None:
        event["pane"] = [number(read["start"]), number(read["end"])]
    if read["timing"] is not None:
        event |= {"timing": read["timing"], "index": int(read["index"])}
    time = at if read["at"] is None else number(read["at"])
    return event if time is None else event | {"at": time}


def column_of(window: dict[str, Any]) -> str:
    """Return the name of the only column of a window's rows."""
    return "ts" if window["kind"] == "timeInterval" else "v"


def number(text: str) -> float:
    """Return a number as it is written: 7 stays an int."""
    return float(text) if "." in text else int(text)


def refuse_other_fields(written: dict[str, Any], fields: set[str]) -> None:
    """Raise ValueError for a field that means nothing: it is misspelt."""
    if unknown := written.keys() - fields:
        raise ValueError(f"{written} has the unknown field {', '.join(sorted(unknown))}")
