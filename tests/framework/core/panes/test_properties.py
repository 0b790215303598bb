"""Time intervals against the naive model: random windows, rows and watermarks, however batched and restarted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from panekeeper.framework.declarations.events import Event, EventType
from panekeeper.framework.declarations.operator import Emit, Operator
from panekeeper.framework.testing.play_vector import MemoryRun
from panekeeper.framework.testing.steps import describe_event, split_into_batches
from panekeeper.framework.testing.vector import parse
from panekeeper.testing import difference, play
from tests.model.interval_cases import BATCH_SPLITS, restarts, vectors
from tests.model.time_intervals import NaiveTimeInterval


class DropRecorder(Operator):
    """Keeps the drops it handles, and emits nothing."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.DROP})

    def __init__(self) -> None:
        self.drops: list[dict[str, Any]] = []

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Keep one event."""
        self.drops.append(describe_event(event))


def spread(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events with one row each."""
    return [event | {"tuples": [one]} for event in events for one in event["tuples"]]


END = {"watermark": 100_000}
"""Later than the end of every pane of a random case, and of its age."""


@given(vector=vectors(), cut=BATCH_SPLITS, data=st.data())
def test_the_core_has_the_events_of_the_model(vector: dict[str, Any], cut: Any, data: st.DataObject) -> None:
    """Every event, in order for each key and pane, whatever the batches and wherever the process restarts."""
    restart = data.draw(restarts(vector))
    expected = NaiveTimeInterval(vector["window"]).play(vector["input"])
    got = play(vector, cut=cut, restart_after=restart)
    assert difference(expected, got) is None
    assert difference(got, expected) is None


@given(vector=vectors(), cut=BATCH_SPLITS)
def test_nothing_is_left_behind(vector: dict[str, Any], cut: Any) -> None:
    """Once the last pane has closed, the store holds no entry, and every row was counted once."""
    parsed = parse(vector | {"input": [*vector["input"], END]})
    run = MemoryRun(parsed)
    run.play(split_into_batches(parsed.items, cut, "each"))
    assert run.store.entries == {}
    rows = sum("value" in item for item in vector["input"])
    assert run.counts.get("rows_in", 0) == rows
    assert sum(run.counts.values()) == 2 * rows


@given(vector=vectors(), cut=BATCH_SPLITS)
def test_an_operator_gets_every_drop(vector: dict[str, Any], cut: Any) -> None:
    """DROP events, for an operator that subscribes to them, are one for each row that the model drops."""
    expected = [
        event for event in NaiveTimeInterval(vector["window"]).play(vector["input"]) if event["event"] == "drop"
    ]
    parsed = parse(vector)
    run = MemoryRun(parsed)
    recorder = DropRecorder()
    run.spec = replace(run.spec, operator=recorder)
    run.play(split_into_batches(parsed.items, cut, "none"))
    assert difference(spread(expected), recorder.drops) is None


@given(vector=vectors(), first=BATCH_SPLITS, second=BATCH_SPLITS)
def test_two_splits_leave_the_same_future(vector: dict[str, Any], first: Any, second: Any) -> None:
    """What follows a history does not depend on how the history was batched: the same rows come after both."""
    cut_here = len(vector["input"]) // 2
    parsed = parse(vector)
    futures = []
    for cut in (first, second):
        run = MemoryRun(parsed)
        run.play(split_into_batches(parsed.items[:cut_here], cut, "none"))
        futures.append(
            run.play(
                split_into_batches([*parsed.items[cut_here:], *parse(vector | {"input": [END]}).items], "whole", "none")
            )
        )
    assert difference(*futures) is None
