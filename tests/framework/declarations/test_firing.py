"""What a declaration of firings takes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper import DeclarationError, TimeInterval

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown emit": ({"emit": "always"}, "emit is 'always'; it must be 'on_complete', 'on_close' or 'on_update'"),
    "an emit that is no text": ({"emit": None}, "emit is None; it must be"),
}


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    """The error names the option, and what to write."""
    with pytest.raises(DeclarationError) as raised:
        TimeInterval("1 hour", discard_age="1 hour", **options)
    assert str(raised.value).startswith(message)


def test_a_declaration_names_only_what_is_not_the_default() -> None:
    """A checkpoint of a window without rules is the same as ever."""
    plain = TimeInterval("1 hour").declaration()
    assert TimeInterval("1 hour", emit="on_complete").declaration() == plain
    assert TimeInterval("1 hour", emit="on_close").declaration() == plain | {"emit": "on_close"}
