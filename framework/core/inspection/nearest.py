"""What is there in the place of a pane, or a partition, that is not there?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from panekeeper.state.checkpoint.clock import format_time

Values = tuple[Any, ...]
"""The values of a partition, column by column."""
_MOST = 3


def nearest_panes(known: Mapping[tuple[int, int], str], start: int) -> list[str]:
    """Return a line with the panes that are nearest to one that starts then: (start, end) in us -> what it is."""
    near = sorted(sorted(known), key=lambda pane: abs(pane[0] - start))[:_MOST]
    if not near:
        return []
    listed = ", ".join(f"{pane_text(*pane)} ({known[pane]})" for pane in near)
    return [f"panes of this partition that are nearest: {listed}"]


def alike(own: Values, known: Iterable[Values]) -> list[Values]:
    """Return which keys are most like one: those first that differ in upper and lower case, or spaces, alone.

    >>> alike(("Hooli",), [("hooli",), ("Hooli",), ("Holly",), ("acme",)])
    [('hooli',), ('Holly',)]
    """
    by_text: dict[str, list[Values]] = {}
    for key in known:
        if key != own:
            by_text.setdefault(_folded(key), []).append(key)
    near = get_close_matches(_folded(own), by_text, n=_MOST, cutoff=0.5)
    return [key for text in near for key in by_text[text]][:_MOST]


def alike_but_for_case(own: Values, known: Iterable[Values]) -> list[Values]:
    """Return which keys differ from one in upper and lower case, or spaces, alone."""
    return [key for key in known if key != own and _folded(key) == _folded(own)][:_MOST]


NULL_TEXTS = frozenset({"null", "none", "-", ""})
"""What a null looks like where it is printed, in lower case: a value that is asked for by it may be meant as one."""


def as_null(own: Values) -> Values:
    """Return a key with a null in place of each text that may be meant as one.

    >>> as_null(("null", "acme", "-")), as_null(("acme", 0))
    ((None, 'acme', None), ('acme', 0))
    """
    return tuple(None if isinstance(value, str) and value.casefold() in NULL_TEXTS else value for value in own)


def pane_text(start: int, end: int) -> str:
    """Return the bounds of a pane, us, as they can be given."""
    return f"{format_time(start)}/{format_time(end)}"


def _folded(values: Values) -> str:
    return " ".join(" ".join(map(str, values)).casefold().split())
