"""The hint in an error about a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Return `; did you mean 'x'?` with the name that is most alike, empty if none is.

    Args:
        name: the name that does not exist.
        names: those that do.

    >>> did_you_mean("cariier", ["carrier", "delay"])
    "; did you mean 'carrier'?"
    >>> did_you_mean("x", ["carrier", "delay"])
    ''
    """
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
