"""Which attributes of a user's object belong to the declaration of a job, and how is it shown?"""

from __future__ import annotations

import reprlib
from dataclasses import fields, is_dataclass
from typing import Any


def declared_parameters(instance: object) -> dict[str, Any]:
    """Return the attributes of an object that are plain values (numbers, texts, None, lists of them), by name.

    The fields of a dataclass are among them even if they are slots.
    """
    slots = {field.name: getattr(instance, field.name) for field in fields(instance)} if is_dataclass(instance) else {}
    return {name: value for name, value in (slots | vars(instance)).items() if _is_plain(value)}


def shown_object(instance: object) -> str:
    """Return an object of the user's as text: its class with its plain attributes, and no address.

    >>> class Limit:
    ...     def __init__(self):
    ...         self.most, self.seen = 3, {}
    >>> shown_object(Limit())
    'Limit(most=3)'
    """
    plain = {name: value for name, value in getattr(instance, "__dict__", {}).items() if _is_plain(value)}
    return f"{type(instance).__name__}({', '.join(f'{name}={reprlib.repr(value)}' for name, value in plain.items())})"


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_is_plain(inner) for inner in value)
    return value is None or isinstance(value, bool | int | float | str)
