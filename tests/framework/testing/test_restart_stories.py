"""Every kind of window through every way to stop and come back, in memory."""

from __future__ import annotations

from typing import Any

import pytest

from integration_tests.engine.restart_stories import (
    KINDS,
    STOP_AT,
    WAYS,
    events_in_memory,
    kinds_of,
    story,
    undisturbed,
)
from panekeeper.testing import difference

CUTS: list[tuple[Any, Any]] = [("each", "each"), (2, [1])]


@pytest.mark.parametrize("data", [True, False], ids=["data after", "nothing after"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_process_after_every_batch_changes_no_event(kind: str, way: str, data: bool) -> None:  # noqa: FBT001
    """Whatever the stop is, what is not stored does not count."""
    told = story(kind, WAYS[way], data=data)
    expected = events_in_memory(told)
    for cut, restart in CUTS:
        assert difference(expected, events_in_memory(told, cut, restart)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_without_an_outage_changes_no_event(kind: str) -> None:
    """The events are those of a run that never stops."""
    told = story(kind, WAYS["clean-stop"], data=True)
    assert len(undisturbed(told).items) == len(told.items) - 2
    assert WAYS["clean-stop"].back_at == STOP_AT
    assert difference(events_in_memory(undisturbed(told)), events_in_memory(told)) is None


def test_every_kind_is_in_one_half_of_each_way() -> None:
    """Those of continuous integration and of a release are all."""
    for way in WAYS:
        assert sorted([*kinds_of(way, 0), *kinds_of(way, 1)]) == sorted(KINDS)
    assert {kind for way in WAYS if WAYS[way].stop == "kill" for kind in kinds_of(way, 0)} == set(KINDS)


def test_a_story_of_sessions_has_one_that_takes_back_results_from_before_the_stop() -> None:
    """A session that fired before the stop becomes one with another after it, and fires again."""
    events = events_in_memory(story("session", WAYS["clean-stop"], data=True))
    merged = [event for event in events if event["event"] == "merge"]
    assert [[row["v"] for row in event["tuples"]] for event in merged if event["key"] == "a"] == [[1, 4]]
