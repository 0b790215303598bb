"""Decides whether two lists of events say the same, for every window and engine.

The order between keys at one instant and between panes of one watermark is open (docs/semantics.md section 1.3), so
events are compared one key and pane at a time, in order; neighbouring insertions, and neighbouring evictions, of one
key are merged. A field that the expectation leaves out is not compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Entry = tuple[Any, ...]


def difference(expected: Iterable[Mapping[str, Any]], got: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the first difference between two lists of events, in words; None if they say the same.

    Args:
        expected: events of the `expect` shape of a vector; an absent `at`, `timing` or `index` matches anything.
        got: events as `play` returns them.
    """
    expected_groups, got_groups = grouped(expected), grouped(got)
    missing = sorted(expected_groups.keys() - got_groups.keys())
    extra = sorted(got_groups.keys() - expected_groups.keys())
    if missing or extra:
        return f"keys and panes differ: only expected {missing[:3]}, only got {extra[:3]}"
    for place, wanted in expected_groups.items():
        got_entries = got_groups[place]
        for number, (a, b) in enumerate(zip(wanted, got_entries, strict=False)):
            if len(a) != len(b) or any(x is not None and x != y for x, y in zip(a, b, strict=True)):
                return f"{place} entry {number}: expected {a}, got {b}"
        if len(wanted) != len(got_entries):
            longer = (wanted if len(wanted) > len(got_entries) else got_entries)[min(len(wanted), len(got_entries))]
            return f"{place}: {len(wanted)} entries expected, {len(got_entries)} got; the first over: {longer}"
    return None


def grouped(events: Iterable[Mapping[str, Any]]) -> dict[str, list[Entry]]:
    """Return events by key and pane (and handler), with insertions and evictions flattened to one entry a row."""
    groups: dict[str, list[Entry]] = {}
    for event in events:
        place = json.dumps([event.get("key"), event.get("pane"), event.get("on")], sort_keys=True)
        groups.setdefault(place, []).extend(_entries(event))
    return groups


def _entries(event: Mapping[str, Any]) -> list[Entry]:
    kind, tuples = event["event"], event.get("tuples") or []
    at = None if event.get("at") is None else round(float(event["at"]), 4)
    if kind == "insertion":
        return [(kind, json.dumps(t, sort_keys=True)) for t in tuples]
    if kind == "eviction" and tuples:
        return [(kind, at, json.dumps(t, sort_keys=True)) for t in tuples]
    if kind == "call":
        return [(kind, event.get("on"), event.get("method"), event.get("id"))]
    return [(kind, at, event.get("timing"), event.get("index"), json.dumps(tuples, sort_keys=True))]
