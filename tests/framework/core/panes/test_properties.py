"""Time intervals against the naive model: random windows, tuples and watermarks, however cut and restarted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from framework.declarations.events import Event, EventType
from framework.declarations.operator import Emit, Operator
from framework.testing.batching import runs_of
from framework.testing.memory_run import MemoryRun
from framework.testing.recorder import described
from framework.testing.vector import parse
from panekeeper.testing import difference, play
from tests.model.interval_cases import CUTS, restarts, vectors
from tests.model.time_intervals import NaiveInterval


class Heard(Operator):
    """Keeps the drops it hears of, and emits nothing."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.DROP})

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Keep one event."""
        self.told.append(described(event))


def spread(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events with one tuple each."""
    return [event | {"tuples": [one]} for event in events for one in event["tuples"]]


END = {"watermark": 100_000}
"""Later than the end of every pane of a random case, and of its age."""


@given(vector=vectors(), cut=CUTS, data=st.data())
def test_the_core_tells_what_the_model_tells(vector: dict[str, Any], cut: Any, data: st.DataObject) -> None:
    """Every event, in order for each key and pane, whatever the cut and wherever the process restarts."""
    restart = data.draw(restarts(vector))
    expected = NaiveInterval(vector["window"]).play(vector["input"])
    got = play(vector, cut=cut, restart_after=restart)
    assert difference(expected, got) is None
    assert difference(got, expected) is None


@given(vector=vectors(), cut=CUTS)
def test_nothing_is_left_behind(vector: dict[str, Any], cut: Any) -> None:
    """Once the last pane has closed, the store holds no entry, and every row was counted once."""
    parsed = parse(vector | {"input": [*vector["input"], END]})
    run = MemoryRun(parsed)
    run.play(runs_of(parsed.items, cut, "each"))
    assert run.store.entries == {}
    rows = sum("value" in item for item in vector["input"])
    assert run.counts.get("rows_in", 0) == rows
    assert sum(run.counts.values()) == 2 * rows


@given(vector=vectors(), cut=CUTS)
def test_an_operator_hears_of_every_drop(vector: dict[str, Any], cut: Any) -> None:
    """DROP events, for an operator that asks for them, are the tuples that the model drops, and nothing else comes."""
    expected = [event for event in NaiveInterval(vector["window"]).play(vector["input"]) if event["event"] == "drop"]
    parsed = parse(vector)
    run = MemoryRun(parsed)
    heard = Heard()
    run.spec = replace(run.spec, operator=heard)
    run.play(runs_of(parsed.items, cut, "none"))
    assert difference(expected, spread(heard.told)) is None


@given(vector=vectors(), first=CUTS, second=CUTS)
def test_two_cuts_leave_the_same_future(vector: dict[str, Any], first: Any, second: Any) -> None:
    """What follows a history does not depend on how the history was cut: the same tuples come after both."""
    cut_here = len(vector["input"]) // 2
    parsed = parse(vector)
    futures = []
    for cut in (first, second):
        run = MemoryRun(parsed)
        run.play(runs_of(parsed.items[:cut_here], cut, "none"))
        futures.append(
            run.play(runs_of([*parsed.items[cut_here:], *parse(vector | {"input": [END]}).items], "whole", "none"))
        )
    assert difference(*futures) is None
