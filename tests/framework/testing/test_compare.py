"""The comparison decides whether tests pass, so here it must fail: every small error in an expectation is found."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from panekeeper.testing import difference

PANE = [100, 110]
EVENTS: list[dict[str, Any]] = [
    {"event": "insertion", "key": "a", "tuples": [{"ts": 101}], "pane": PANE},
    {"event": "insertion", "key": "a", "tuples": [{"ts": 102}], "pane": PANE},
    {"event": "insertion", "key": "b", "tuples": [{"ts": 103}], "pane": PANE},
    {"event": "trigger", "key": "a", "tuples": [{"ts": 101}, {"ts": 102}], "pane": PANE, "timing": "late", "index": 1},
    {"event": "eviction", "key": "a", "tuples": [{"ts": 101}], "at": 5.001},
    {"event": "drop", "key": "a", "tuples": [{"ts": 7}]},
]

DIFFERENCES: dict[str, Any] = {
    "a row is missing": lambda e: e[3]["tuples"].pop(),
    "a row is doubled": lambda e: e[3]["tuples"].append({"ts": 102}),
    "two rows changed places": lambda e: e[3]["tuples"].reverse(),
    "an insertion is missing": lambda e: e.pop(1),
    "insertions of one key changed places": lambda e: e.insert(0, e.pop(1)),
    "a time is another": lambda e: e[4].update(at=5.002),
    "an index is another": lambda e: e[3].update(index=0),
    "a timing is another": lambda e: e[3].update(timing="onComplete"),
    "a pane is another": lambda e: e[0].update(pane=[100, 111]),
    "a key is another": lambda e: e[2].update(key="c"),
    "7 became 7.0": lambda e: e[5].update(tuples=[{"ts": 7.0}]),
    "a drop became an insertion": lambda e: e[5].update(event="insertion"),
    "the last event is missing": lambda e: e.pop(),
    "an event is added": lambda e: e.append({"event": "close", "key": "b", "tuples": [{"ts": 103}], "pane": PANE}),
    "nothing came at all": lambda e: e.clear(),
}


@pytest.mark.parametrize("change", DIFFERENCES)
def test_one_difference_is_found_from_either_side(change: str) -> None:
    """Whether it is in the expectation or in the result."""
    broken = copy.deepcopy(EVENTS)
    DIFFERENCES[change](broken)
    assert difference(EVENTS, broken) is not None
    assert difference(broken, EVENTS) is not None


def test_order_between_keys_and_merged_insertions_mean_nothing() -> None:
    """What no one promises is not compared: order between keys, and how insertions are grouped."""
    merged = [EVENTS[2], EVENTS[0] | {"tuples": [{"ts": 101}, {"ts": 102}]}, *EVENTS[3:]]
    assert difference(EVENTS, merged) is None


def test_a_field_left_out_of_the_expectation_matches_anything() -> None:
    """An expectation without an index accepts every index; a result without one does not."""
    short = [{k: v for k, v in event.items() if k != "index"} for event in EVENTS]
    assert difference(short, EVENTS) is None
    assert difference(EVENTS, short) is not None
