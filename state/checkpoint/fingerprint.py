"""The fields of a declaration, flattened to dotted names, and in which of them two declarations differ.

A window that changed across a restart gives silently wrong results, so a difference is an error that shows the
differing fields, not a sentence in the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One field that is not what the checkpoint was written with. `None` means the field is absent on that side."""

    field: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.field}: {_show(self.old)} in the checkpoint, {_show(self.new)} now"


def fingerprint(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a nested declaration into JSON-able dotted fields.

    >>> fingerprint({"window": {"kind": "timeInterval", "size": 5}, "keys": ["a"]})
    {'window.kind': 'timeInterval', 'window.size': 5, 'keys': ['a']}
    """
    flat: dict[str, Any] = {}
    for name, value in declaration.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": v for inner, v in fingerprint(value).items()}
        else:
            flat[name] = value
    return flat


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """List the fields in which two fingerprints differ, in the order of the new one.

    >>> [str(d) for d in compare({"a": 1, "b": 2}, {"a": 1, "b": 3})]
    ['b: 2 in the checkpoint, 3 now']
    """
    names = list(new) + [name for name in old if name not in new]
    found = [Difference(field=name, old=old.get(name), new=new.get(name)) for name in names]
    return [one for one in found if one.old != one.new and repr(one.old) != repr(one.new)]  # NaN is not equal to itself


def _show(value: Any) -> str:
    return "absent" if value is None else repr(value)
