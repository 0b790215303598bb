"""Calls as a program writes them: a declaration can be made, changed by an option, and printed to be run again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import panekeeper
from tests.laws import user_code


@dataclass(frozen=True)
class Call:
    """A call of a public name, of an aggregate (`agg.sum`), or of a class of `user_code`."""

    name: str
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def made(self) -> Any:
        """Return what the call returns."""
        first, *rest = self.name.split(".")
        function = getattr(user_code if first in user_code.__all__ else panekeeper, first)
        for part in rest:
            function = getattr(function, part)
        return function(*map(made, self.args), **{name: made(one) for name, one in self.options.items()})

    def but(self, **options: Any) -> Call:
        """Return the call with other options; without those that are None."""
        changed = {name: one for name, one in {**self.options, **options}.items() if one is not None}
        return Call(self.name, self.args, changed)

    def get(self, option: str) -> Any:
        """Return an option; None if it is not given."""
        return self.options.get(option)

    def names(self) -> set[str]:
        """Return the names that a program has to import for it."""
        own = {self.name.partition(".")[0]}
        return own.union(*(names(one) for one in (*self.args, *self.options.values())))

    def __repr__(self) -> str:
        named = (f"{name}={source(one)}" for name, one in self.options.items())
        return f"{self.name}({', '.join([*map(source, self.args), *named])})"


def call(name: str, *args: Any, **options: Any) -> Call:
    """Return a call; options that are None are left out."""
    return Call(name, args).but(**options)


def made(value: Any) -> Any:
    """Return a value with what its calls return in their place."""
    if isinstance(value, Call):
        return value.made()
    if isinstance(value, Mapping):
        return {name: made(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [made(one) for one in value]
    return value


def names(value: Any) -> set[str]:
    """Return the names that a program has to import for a value."""
    if isinstance(value, Call):
        return value.names()
    if isinstance(value, Mapping):
        return set().union(*map(names, value.values()))
    return set().union(*map(names, value)) if isinstance(value, list | tuple) else set()


def source(value: Any) -> str:
    """Return a value as a program writes it, also where its `repr` is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {source(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return "[" + ", ".join(map(source, value)) + "]"
    return repr(value)
