"""Every kind of window through every way to stop and come back, in memory."""

from __future__ import annotations

from typing import Any

import pytest

from integration_tests.engine.restart_stories import KINDS, STOP_AT, WAYS, kinds_of, vector
from panekeeper.testing import difference, play

CUTS: list[tuple[Any, Any]] = [("each", "each"), (2, [1])]


@pytest.mark.parametrize("data", [True, False], ids=["data after", "nothing after"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_process_after_every_batch_changes_no_event(kind: str, way: str, data: bool) -> None:  # noqa: FBT001
    """Whatever the stop is, what is not stored does not count."""
    story = vector(kind, WAYS[way], data=data)
    expected = play(story)
    for cut, restart in CUTS:
        assert difference(expected, play(story, cut=cut, restart_after=restart)) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_without_an_outage_changes_no_event(kind: str) -> None:
    """The events are those of a run that never stops."""
    story = vector(kind, WAYS["clean-stop"], data=True)
    undisturbed = [item for item in story["input"] if not {"checkpoint", "reset"} & item.keys()]
    assert len(undisturbed) == len(story["input"]) - 2
    assert WAYS["clean-stop"].back_at == STOP_AT
    assert difference(play(story | {"input": undisturbed}), play(story)) is None


def test_every_kind_is_in_one_half_of_each_way() -> None:
    """Those of continuous integration and of a release are all."""
    for way in WAYS:
        assert sorted([*kinds_of(way, 0), *kinds_of(way, 1)]) == sorted(KINDS)
    assert {kind for way in WAYS if WAYS[way].stop == "kill" for kind in kinds_of(way, 0)} == set(KINDS)
