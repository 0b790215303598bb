"""Refuses fields of a vector that are unknown, missing, or have a value of the wrong type.

A misspelt field must never mean "the default".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from panekeeper.framework.declarations.durations import seconds_to_us
from panekeeper.framework.declarations.errors import DeclarationError


def require_known_fields(found: Any, names: set[str], where: str) -> None:
    """Raise `DeclarationError` unless `found` is an object without other fields."""
    if not isinstance(found, Mapping):
        raise DeclarationError(f"{where} is {found!r}; it must be an object")
    unknown = sorted(map(str, found.keys() - names))
    if unknown:
        raise DeclarationError(f"{where} has the unknown field {', '.join(unknown)}; known: {', '.join(sorted(names))}")


def require_field(found: Any, field: str, where: str) -> Any:
    """Return a field. Raises `DeclarationError` if it is missing."""
    if not isinstance(found, Mapping) or field not in found:
        raise DeclarationError(f"{where} needs the field {field!r}")
    return found[field]


def require_list(found: Any, where: str) -> list[Any]:
    """Return a list. Raises `DeclarationError` for anything else."""
    if not isinstance(found, list):
        raise DeclarationError(f"{where} is {found!r}; it must be a list")
    return found


def require_bool(found: Any, where: str) -> bool:
    """Return a truth value. Raises `DeclarationError` for anything else."""
    if not isinstance(found, bool):
        raise DeclarationError(f"{where} is {found!r}; it must be true or false")
    return found


def require_no_text(found: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Raise `DeclarationError` if one of these fields is text: durations of a vector are numbers of seconds."""
    for name in names:
        if isinstance(found.get(name), str):
            raise DeclarationError(f"{where}.{name} is {found[name]!r}; in a vector it must be a number")


def optional_time_us(found: Mapping[str, Any], where: str, field: str = "at") -> int | None:
    """Return the time in a field in us, None if it is absent."""
    return seconds_to_us(found[field], f"{where}.{field}") if field in found else None
