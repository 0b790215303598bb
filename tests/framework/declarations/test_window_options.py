"""An option that a window does not have is refused where it is written, in the same way by every window."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

from panekeeper import (
    Batched,
    Calendar,
    Count,
    Cumulate,
    DeclarationError,
    Every,
    PartitionAge,
    Session,
    Sliding,
    SlidingByRow,
    TimeInterval,
    Tumbling,
)
from panekeeper.framework.declarations.calls import options_of

MADE: dict[Any, dict[str, Any]] = {
    TimeInterval: {"interval_duration": 10},
    Cumulate: {"step": 5, "size": 10},
    Calendar: {"unit": "day", "zone": "UTC"},
    Session: {"gap": 10},
    SlidingByRow: {"difference": 10},
    Tumbling: {"evict": Count(1)},
    Sliding: {"evict": Count(1)},
    Batched: {"every": 1, "retain": 1},
}
"""Every window, with what it needs."""

OPTIONS = sorted({name for window in MADE for name in options_of(window)})


def given_by_keyword(window: Any) -> set[str]:
    """Return the parameters of a window, by its signature."""
    return {one.name for one in inspect.signature(window).parameters.values()}


def test_every_option_of_another_window_is_refused() -> None:
    """With its name and value, and what to do; no combination ends in an error of Python's."""
    refused = {(window, name) for window in MADE for name in OPTIONS if name not in options_of(window)}
    assert {(Session, "late"), (SlidingByRow, "early"), (Tumbling, "discard_age"), (Cumulate, "gap")} < refused
    for window, name in refused:
        with pytest.raises(
            DeclarationError,
            match=rf"^{name} is 'x'[,;] .*(leave it out|instead|say it with|Sliding|did you mean|is for)",
        ):
            window(**MADE[window], **{name: "x"})


@pytest.mark.parametrize("window", MADE, ids=lambda one: one.__name__)
def test_every_option_of_its_own_is_taken(window: Any) -> None:
    """All of its signature; of Cumulate and Calendar also those of TimeInterval, but for what they say otherwise."""
    assert set(MADE[window]) <= options_of(window)
    if window in (Cumulate, Calendar):
        assert given_by_keyword(TimeInterval) - options_of(window) == set(window.refused) & given_by_keyword(
            TimeInterval
        )
    else:
        assert options_of(window) == given_by_keyword(window)
    made = window(**MADE[window])
    assert pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)  # noqa: S301 -- our own bytes


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: Session(10, late="tuple"),  # type: ignore[call-arg]
            "late is 'tuple'; a session takes any row that touches it while it is open, so leave it out",
        ),
        (
            lambda: SlidingByRow(10, early=Every(rows=2)),  # type: ignore[call-arg]
            "early is Every(rows=2), an option of TimeInterval, Cumulate, Session and Calendar that SlidingByRow does",
        ),
        (
            lambda: TimeInterval(30, partition_eviction=PartitionAge(5)),  # type: ignore[call-arg]
            "partition_eviction is PartitionAge(5); a time interval has none, because its panes close when the",
        ),
        (
            lambda: SlidingByRow(10, partition_eviction=PartitionAge(3)),  # type: ignore[call-arg]
            "partition_eviction is PartitionAge(3); windows by row have none, because they close when the",
        ),
        (
            lambda: Tumbling(Count(1), trigger=Count(2)),  # type: ignore[call-arg]
            "trigger is Count(2); a tumbling window fires when it is full, by evict; Sliding has a trigger",
        ),
        (
            lambda: Session(10, discard_aeg=5),  # type: ignore[call-arg]
            "Session() has no option 'discard_aeg'; did you mean 'discard_age'?",
        ),
        (
            lambda: Calendar("day", zone="UTC", max_duration=5),
            "max_duration is 5, an option of Session that Calendar does",
        ),
    ],
    ids=["late", "early", "eviction", "eviction by row", "trigger", "typing error", "passed on"],
)
def test_a_refusal_says_why_or_which_windows_have_it(make: Any, said: str) -> None:
    """And of a name that no window has, which one may be meant."""
    with pytest.raises(DeclarationError, match=f"^{re.escape(said)}"):
        make()
