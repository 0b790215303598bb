"""Declarations of joins: what is refused, with the values and what to write."""

from __future__ import annotations

import pytest

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.firing import Every
from panekeeper.framework.declarations.joins import Within, require_equal_panes, require_kind
from panekeeper.framework.declarations.policies import Count
from panekeeper.framework.declarations.windows import Session, TimeInterval, Tumbling


def test_bounds_without_a_time_between_them_are_refused() -> None:
    """By the values, in words."""
    with pytest.raises(DeclarationError, match="before is 1m and after -2m, so no time is in"):
        Within("1 minute", "-2 minutes")
    with pytest.raises(DeclarationError, match="discard_age is -1; it must not be negative"):
        Within(1, 1, discard_age=-1)
    for how in ("semi", None, ["left"]):
        with pytest.raises(DeclarationError, match="must be 'inner', 'left', 'right' or 'full'"):
            require_kind(how, of_panes=False)


def test_windows_that_are_not_the_same_panes_are_refused() -> None:
    """And those that fire while one of the streams may still bring rows."""
    panes = TimeInterval(10)
    require_equal_panes([panes, TimeInterval("10 seconds")])
    refused: list[tuple[list[object], str]] = [
        ([panes, TimeInterval(20)], r"equal panes, and port 0 has TimeInterval\(.*10.*, port 1 TimeInterval\(.*20"),
        ([panes, TimeInterval(10, discard_age=1)], "equal panes"),
        ([panes, Tumbling(Count(2))], "the window of port 1 is Tumbling"),
        ([Session(10), panes], "the window of port 0 is Session"),
        ([TimeInterval(10, early=Every(rows=2))] * 2, "leave out early, refire, results, fires_when, fill and"),
        ([TimeInterval(10, fires_when="n > 9")] * 2, "leave out early, refire, results, fires_when, fill and"),
        ([TimeInterval(10, fill="zero", fill_for=20)] * 2, "leave out early, refire, results, fires_when, fill and"),
        ([TimeInterval(10, results="discarding")] * 2, "leave out early, refire, results, fires_when, fill and"),
        ([TimeInterval(10, emit="on_update")] * 2, "leave out early, refire, results, fires_when, fill and"),
    ]
    for windows, said in refused:
        with pytest.raises(DeclarationError, match=said):
            require_equal_panes(windows)
