"""Code that a message prints is run as it is printed, and what was refused is taken then."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest

from panekeeper import Count, DeclarationError, EventType, Operator, Sliding, TimeInterval, Tumbling, agg
from panekeeper.framework.declarations.operator import require_possible_event
from panekeeper.framework.declarations.windows import Window


class OnNothing(Operator):
    events: ClassVar[frozenset[EventType]] = frozenset()

    def handle_event(self, event: Any, emit: Any) -> None: ...


@pytest.mark.parametrize("window", [TimeInterval(60), Tumbling(Count(2)), Sliding(evict=Count(2))], ids=str)
def test_an_operator_that_is_never_called_is_called_by_the_events_that_the_message_has(window: Window) -> None:
    """The line is one of the class."""
    with pytest.raises(DeclarationError, match="In the class write") as caught:
        require_possible_event(OnNothing(), [window], has_handlers=False)
    line = str(caught.value).split("for example, ")[1]
    names: dict[str, Any] = {}
    exec(line, {"EventType": EventType}, names)  # noqa: S102 -- our own text
    require_possible_event(type("Called", (OnNothing,), names)(), [window], has_handlers=False)


def test_a_mergeable_aggregate_is_taken_with_the_state_that_the_message_has() -> None:
    """The line is one of the class, too."""

    class Unstored(agg.UserAggregate):
        def zero(self) -> float:
            return 0.0

        def add(self, state: float, value: float) -> float:
            return state + value

        def merge(self, a: float, b: float) -> float:
            return a + b

        def result(self, state: float) -> float:
            return state

    with pytest.raises(DeclarationError, match="must say what is stored") as caught:
        agg.user(Unstored(), "x")
    (line,) = re.findall(r"`(state = \w+)`", str(caught.value))
    names: dict[str, Any] = {}
    exec(line, {}, names)  # noqa: S102 -- our own text
    assert not agg.user(type("Stored", (Unstored,), names)(), "x").needs_content
