"""A window is built again from what a checkpoint records of it, and is asked what the job would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from panekeeper import (
    AllOf,
    AnyOf,
    Batched,
    Count,
    Delta,
    Every,
    PartitionAge,
    PartitionCount,
    Punctuation,
    Session,
    Sliding,
    SlidingByRow,
    Time,
    Tumbling,
    UserPolicy,
)
from panekeeper.framework.core.inspection.recorded_windows import window_of
from panekeeper.framework.declarations.joins import Within
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.compatibility import fingerprint


@dataclass(frozen=True)
class Jump(UserPolicy):
    """A policy of the user's, whose class a reader of the checkpoint need not have."""

    attribute: str

    def fire(self, state: float | None, value: float) -> tuple[bool, float | None]:
        """Fire at each greater value."""
        return state is not None and value > state, value


def recorded(window: Window | Within) -> dict[str, Any]:
    """The fields of a window as a checkpoint has them."""
    flat = fingerprint({"window": window.declaration()})
    return {name.removeprefix("window."): value for name, value in flat.items()}


@pytest.mark.parametrize(
    "window",
    [
        Session("10 minutes", max_duration="1 hour", discard_age=60, early=Every(rows=3), refire=Every(30)),
        Session("gap", results="retracting", discard_age=5),
        Session(60, emit="on_close"),
        SlidingByRow(60, discard_age=5, right=False, emit="on_close"),
        SlidingByRow("2 minutes", emit="on_update"),
        Within("1 minute", -5, discard_age=9),
        Tumbling(Count(4), partition_eviction=PartitionAge(100)),
        Tumbling(AnyOf(Count(4), Time(30))),
        Sliding(evict=AllOf(Time(60), Count(9)), trigger=Time(5), when_full=True),
        Sliding(evict=Count(9), trigger=Count(2)),
        Batched(retain=4, every=3),
        Batched(within=4, every=3, retain=2, partition_eviction=PartitionAge(9)),
    ],
    ids=str,
)
def test_a_window_is_built_again_from_what_is_recorded(window: Window | Within) -> None:
    """Whatever its options are, the built one records the same."""
    assert window_of(recorded(window)).declaration() == window.declaration()
    assert window_of(window.declaration()).declaration() == window.declaration()


@pytest.mark.parametrize(
    "window",
    [
        Tumbling(Delta("v", 3)),
        Tumbling(Punctuation()),
        Sliding(evict=Count(5), trigger=Jump("v")),
        Sliding(evict=Delta("v", 3), trigger=Count(2), partition_eviction=PartitionCount(3)),
    ],
    ids=str,
)
def test_a_policy_by_what_rows_say_is_not_needed(window: Window) -> None:
    """Its class, and its column, may be anywhere: no row is shown to it, and the other policies are there."""
    built = window_of(recorded(window))
    assert type(built) is type(window)
    for role in ("evict", "trigger"):
        one = getattr(window, role, None)
        assert getattr(built, role, None) == one or not isinstance(one, Count)
