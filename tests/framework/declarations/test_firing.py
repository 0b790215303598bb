"""What a declaration of firings takes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper import DeclarationError, Every, TimeInterval
from panekeeper.state.compatibility import Compatibility, compare_declarations, fingerprint

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown emit": ({"emit": "always"}, "emit is 'always'; it must be 'on_complete', 'on_close' or 'on_update'"),
    "an early that is no Every": ({"early": "10 seconds"}, "early is '10 seconds'; write early=Every('10 seconds')"),
    "an early that is a number": ({"early": 100}, "early is 100; write early=Every('10 seconds') or Every(rows=100)"),
    "early, but once on close": (
        {"early": Every(rows=2), "emit": "on_close"},
        "early is Every(rows=2), but by emit='on_close' a pane fires once, when it closes; leave out one of them",
    ),
    "early, but after each batch": (
        {"early": Every("1 minute"), "emit": "on_update"},
        "early is Every('1 minute'), but by emit='on_update' a pane fires after each micro-batch anyway; leave out one",
    ),
    "a refire that is no Every": ({"refire": 2}, "refire is 2; write refire=Every('10 seconds') or Every(rows=100)"),
    "a refire by event time": (
        {"refire": Every(event_time=60)},
        "refire is Every(event_time=60); late rows fire by rows or the wall clock, as by Every(rows=2)",
    ),
    "a refire, but once on close": (
        {"refire": Every(rows=2), "emit": "on_close"},
        "refire is Every(rows=2), but by emit='on_close' a pane fires once, when it closes; leave out one of them",
    ),
    "a refire of panes without late rows": (
        {"refire": Every(rows=2), "discard_age": 0},
        "refire is Every(rows=2), but a pane without discard_age takes no late rows; give discard_age",
    ),
    "unknown results": (
        {"results": "all"},
        "results is 'all'; it must be 'accumulating', 'discarding' or 'retracting'",
    ),
    "a condition that is no expression": (
        {"fires_when": "sum >="},
        "fires_when: agg.expr('sum >=') is no expression; write one",
    ),
    "a condition that is no text": ({"fires_when": 9}, "fires_when: agg.expr is of 9; write an expression"),
    "a condition that reads nothing": ({"fires_when": "1 < 2"}, "fires_when: agg.expr('1 < 2') has no aggregate"),
    "a condition that is a number": (
        {"fires_when": "sum + 1"},
        "fires_when is 'sum + 1', which is no condition; write one, as 'sum >= 9'",
    ),
    "a condition of columns": (
        {"fires_when": "total(v) > 1"},
        "fires_when: agg.expr('total(v) > 1'): there is",
    ),
    "a condition beside early": (
        {"fires_when": "n > 1", "early": Every(rows=2)},
        "fires_when is 'n > 1', a rule for all rows of a pane; leave out early",
    ),
    "a condition beside emit and results": (
        {"fires_when": "n > 1", "emit": "on_close", "results": "retracting"},
        "fires_when is 'n > 1', a rule for all rows of a pane; leave out emit and results",
    ),
    "then, after nothing": ({"then": "begin_anew"}, "then is 'begin_anew', but there is no fires_when; give that"),
    "then, something else": ({"fires_when": "n > 1", "then": "stop"}, "then is 'stop'; it must be"),
    "an emit that is no text": ({"emit": None}, "emit is None; it must be"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    """The error names the option, and what to write."""
    with pytest.raises(DeclarationError) as raised:
        TimeInterval("1 hour", **({"discard_age": "1 hour"} | options))
    assert str(raised.value).startswith(message)


RULES: list[dict[str, Any]] = [
    {"emit": "on_close"},
    {"early": Every(rows=2)},
    {"refire": Every("1 minute")},
    {"results": "retracting"},
    {"fires_when": "n > 2"},
]
NO_EVERY: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "Every() has none of a duration, rows= and event_time=; give one of them"),
    "two": ({"rows": 2, "event_time": 3}, "Every() has 2 of a duration, rows= and event_time=; give one of them"),
    "no time": ({"period": 0}, "the duration of Every() is 0; it must be greater than 0"),
    "a time ago": ({"period": "-1 second"}, "the duration of Every()"),
    "no row": ({"rows": 0}, "rows of Every() is 0; it must be a whole number greater than 0"),
    "half a row": ({"rows": 0.5}, "rows of Every() is 0.5; it must be a whole number greater than 0"),
    "no event time": ({"event_time": 0}, "event_time of Every() is 0; it must be greater than 0"),
    "a negative event time": ({"event_time": -1}, "event_time of Every() is -1; it must be greater than 0"),
    "what is no duration": ({"period": "often"}, "the duration of Every()"),
}


@pytest.mark.parametrize(("given", "message"), NO_EVERY.values(), ids=NO_EVERY)
def test_every_is_one_thing_greater_than_nothing(given: dict[str, Any], message: str) -> None:
    """The error says which of them it was."""
    with pytest.raises(DeclarationError) as raised:
        Every(**given)
    assert str(raised.value).startswith(message)


def test_every_is_the_same_from_text_as_from_numbers() -> None:
    """A duration and its text are one declaration."""
    assert Every("1 minute").declaration() == Every(60).declaration() == {"period_us": 60_000_000}
    assert repr(Every(event_time="1 minute")) == "Every(event_time='1 minute')"


def test_another_rule_needs_a_flush() -> None:
    """What is stored of firings was stored for the rule that was declared."""
    plain = fingerprint({"window": TimeInterval("1 hour", discard_age=60).declaration()})
    for options in RULES:
        ruled = fingerprint({"window": TimeInterval("1 hour", discard_age=60, **options).declaration()})
        for old, new in ((plain, ruled), (ruled, plain)):
            (change,) = compare_declarations(old, new)
            assert (change.item, change.compatibility) == ("window", Compatibility.NEEDS_FLUSH)


def test_a_declaration_names_only_what_is_not_the_default() -> None:
    """A checkpoint of a window without rules is the same as ever."""
    plain = TimeInterval("1 hour").declaration()
    assert TimeInterval("1 hour", emit="on_complete").declaration() == plain
    assert TimeInterval("1 hour", early=Every(rows=3)).declaration() == plain | {"early": {"rows": 3}}
    condition = {"fires_when": "n >= 3", "then": "begin_anew"}
    assert TimeInterval("1 hour", fires_when="n >= 3", then="begin_anew").declaration() == plain | condition
    assert TimeInterval("1 hour", emit="on_close").declaration() == plain | {"emit": "on_close"}
