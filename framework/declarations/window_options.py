"""An option that a window does not have is refused where it is written, in the same words for every window.

Which window has which option follows from the parameters of their constructors, so there is no list of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from panekeeper.framework.declarations.calls import is_of_another_system, meant_by
from panekeeper.framework.declarations.errors import DeclarationError

_WINDOWS: list[type[WindowOptions]] = []


class WindowOptions:
    """Base of all windows, which refuses an option that the window does not have.

    Attributes:
        refused: option -> why this window does not have it, and what to do instead; where more is to be said than which
            windows have it.
    """

    refused: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith(__package__):  # not one of a user's
            _WINDOWS.append(cls)

    def __new__(cls, *_: Any, **options: Any) -> Self:
        """Raise `DeclarationError` for an option that the window does not have."""
        for name, value in options.items():
            if name in cls.refused or name not in options_of(cls):
                raise DeclarationError(_refusal(cls, name, value))
        return super().__new__(cls)


def options_of(window: type[WindowOptions]) -> frozenset[str]:
    """Return the names of what a window takes; of one that passes options on, also those of its base."""
    found = set[str]()
    for base in window.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = [*inspect.signature(vars(base)["__init__"]).parameters.values()][1:]
        found |= {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
        if all(one.kind is not one.VAR_KEYWORD for one in parameters):
            break
    return frozenset(found - window.refused.keys())


def _refusal(window: type[WindowOptions], name: str, value: Any) -> str:
    if name in window.refused:
        return f"{name} is {value!r}; {window.refused[name]}"
    known = sorted(options_of(window))
    having = [one.__name__ for one in _WINDOWS if name in options_of(one)]
    if having:
        *others, last = having
        of = f"{', '.join(others)} and {last}" if others else last
        advice = meant_by(name, known) if is_of_another_system(name) else "; leave it out"
        return f"{name} is {value!r}, an option of {of} that {window.__name__} does not have{advice}"
    return f"{window.__name__}() has no option {name!r}{meant_by(name, known)}"
